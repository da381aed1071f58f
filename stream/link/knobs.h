/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * knobs.h - settings from the environment, private to the process and read once at its start. All
 * of stream/ reads them.
 */
#ifndef RSK_KNOBS_H
#define RSK_KNOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "order.h"
#include "policy.h"

struct rsk_knobs {
	bool disabled;
	uint32_t spin_ns;
	/* The user has set spin_ns: no spin is longer. */
	bool spin_set;
	uint32_t ring_bytes;
	uint32_t rdma_rails; /* maximum per link: 1 to RSK_RAILS_MOST */
	/* The form of the transaction tags that are written where a link has several rails. */
	struct rsk_order_form order;
	uint32_t rdma_ring_bytes; /* for streams to other hosts: registered memory */
	/*
	 * Memory is not shared with other processes of this host: they are reached by rails, as
	 * those of other hosts.
	 */
	bool no_shm;
	struct rsk_policy policy;
	const char *stat_file;
	/* Path of rsockd's socket for processes; "": rsockd is not used. */
	const char *daemon;
};
extern struct rsk_knobs rsk_knobs;

void rsk_knobs_read(void);

#endif
