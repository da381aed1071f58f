/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * version.h - the versions of what two separately installed parts exchange: libraries of two
 * processes, a library and rsockd, a tool and a running process. docs/adr/versions.md says for
 * each who compares it, what happens where it differs, and when a change needs another number.
 *
 * A magic number is six letters and two digits, which are the version. The letters never change,
 * so each end can tell another version from something that is not rsock at all.
 */
#ifndef RSOCK_VERSION_H
#define RSOCK_VERSION_H

#include <stdint.h>

/*
 * Added to each version. 0; test/skew builds library, rsockd and tool with 1 as well, to have an
 * older and a newer one.
 */
#ifndef RSK_VERSION_SKEW
#define RSK_VERSION_SKEW 0
#endif

/* Messages, doorbells, segment and slots of two processes on one host: stream/pair/handshake.h. */
#define RSK_LINK_VERSION (4 + RSK_VERSION_SKEW)
/* The same between hosts, with the data of an rdma_cm request: stream/remote/remote_msg.h. */
#define RSK_REMOTE_VERSION (6 + RSK_VERSION_SKEW)
/* Messages between a process and rsockd, and the list of targets beside its socket: local.h. */
#define RSK_LOCAL_VERSION (6 + RSK_VERSION_SKEW)
/* Statistics segment, which tools and rsockd read: stats.h. */
#define RSK_STATS_VERSION (8 + RSK_VERSION_SKEW)
/* Between librsock.so and the librsock-verbs.so beside it: fabric/verbs.h. */
#define RSK_VERBS_VERSION (10u + RSK_VERSION_SKEW)
/* The port table that rsockd shares with processes: port_table.h. */
#define RSK_PORT_TABLE_VERSION (1 + RSK_VERSION_SKEW)
/* The file in which rsockd leaves its listeners to the next rsockd: listener_watches.c. */
#define RSK_LISTENERS_VERSION (1 + RSK_VERSION_SKEW)

/* The digits in the last two bytes, as they are in memory, or in the first two. */
#define RSK_MAGIC(letters, version)                                                                \
	(UINT64_C(letters) | (uint64_t)('0' + (version) % 10) << 56 |                              \
	 (uint64_t)('0' + (version) / 10) << 48)
#define RSK_MAGIC_LOW(letters, version)                                                            \
	(UINT64_C(letters) << 16 | (uint64_t)('0' + (version) / 10) << 8 |                         \
	 (uint64_t)('0' + (version) % 10))

static inline uint32_t rsk_version_of_digits(uint32_t tens, uint32_t ones)
{
	return tens - '0' < 10u && ones - '0' < 10u ? (tens - '0') * 10 + (ones - '0') : 0;
}

/* The version in a magic number of these letters; 0: it is none, or has others. */
static inline uint32_t rsk_magic_version(uint64_t magic, uint64_t letters)
{
	return (magic & UINT64_C(0xffffffffffff)) == letters ?
		       rsk_version_of_digits((uint32_t)(magic >> 48) & 0xff,
					     (uint32_t)(magic >> 56)) :
		       0;
}

static inline uint32_t rsk_magic_low_version(uint64_t magic, uint64_t letters)
{
	return magic >> 16 == letters ? rsk_version_of_digits((uint32_t)(magic >> 8) & 0xff,
							      (uint32_t)magic & 0xff) :
					0;
}

#endif
