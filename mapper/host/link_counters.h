/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link_counters.h - the octets that network links have sent and received, from /proc/net/dev. Used
 * by rsockd. Source: proc_pid_net(5).
 *
 * It is this file and not /sys/class/net, because a mount of sysfs belongs to the network namespace
 * that it was made in: in a container that has the host's /sys it names the host's links.
 */
#ifndef RSK_LINK_COUNTERS_H
#define RSK_LINK_COUNTERS_H

#include <stdio.h>

#include "port_rate.h"

/* An open file stays with the network namespace of the process that opened it. */
#define RSK_LINK_COUNTERS "/proc/self/net/dev"

/*
 * Reads the file from its beginning, and calls @each for each link with its name and octets. A line
 * that is not understood is left out. Returns 0 or -errno.
 */
int rsk_link_counters_read(FILE *f,
			   void (*each)(void *ctx, const char *link,
					const struct rsk_counted *octets),
			   void *ctx);

#endif
