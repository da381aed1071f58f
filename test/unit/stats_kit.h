/* SPDX-License-Identifier: BSD-2-Clause */
/* stats_kit.h - a statistics segment with streams in it, for tests of what is said about them. */
#ifndef RSK_STATS_KIT_H
#define RSK_STATS_KIT_H

#include <criterion/criterion.h>
#include <sys/socket.h>

#include "stats.h"

static void setup(void)
{
	cr_assert_eq(rsk_stats_init(NULL), 0);
}

static struct rsk_stats_stream *stream(unsigned int port, uint64_t now_ns)
{
	struct rsk_tuple t = {
		.local = { 127, 0, 0, 1 },
		.peer = { 127, 0, 0, 2 },
		.local_port = (uint16_t)port,
		.peer_port = 5201,
		.family = AF_INET,
	};

	return rsk_stats_stream_get(&t, now_ns);
}

#endif
