/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * streams_parts.h - declarations that streams.c, streams_read.c and streams_transactions.c share.
 * No other file includes it.
 */
#ifndef RSK_STREAMS_PARTS_H
#define RSK_STREAMS_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pm_hash.h"
#include "streams.h"

/*
 * Limit of records of a user in one reading, after which no other segment of that user is begun.
 */
#define RSK_STREAMS_RECORDS_OF_USER RSK_STATS_STREAMS

/*
 * Limit of records of a user whose transactions are followed, in all segments; those of further
 * segments are not counted.
 */
#define RSK_STREAMS_FOLLOWED_OF_USER (4 * RSK_STATS_STREAMS)

struct rsk_streams_identity {
	uint64_t dev, ino;
};

struct rsk_streams_user {
	uint32_t uid;
	uint32_t left; /* records that may still be read in this reading */
	size_t segments, remembered;
	size_t followed; /* records, of all segments */
	UT_hash_handle hh;
};

/* What a stream's record said when it was read last. */
struct rsk_streams_followed {
	uint64_t opened_ns; /* of another stream: the record has been used again */
	uint64_t transactions;
};

/*
 * A segment that no process holds is remembered for a while: another process of its family may
 * come, or one of them may connect again.
 */
struct rsk_streams_segment {
	struct rsk_streams_identity id;
	int fd; /* -1: it is only remembered */
	uint32_t refs;
	struct rsk_streams_user *user; /* of the first process */
	uint64_t created_ns, taken_ns, read_ns;
	struct rsk_streams_followed *followed; /* by number of the record */
	size_t n_followed;
	struct rsk_streams_counters last; /* reported so far: a counter never decreases */
	uint16_t open[RSK_STREAM_MODES][RSK_REASON_COUNT];
	bool of_many; /* processes of several users have it, and each can write anything into it */
	struct rsk_streams_segment *prev, *next; /* in one of the lists held and remembered */
	UT_hash_handle hh;
};

/* ---- streams_read.c ---- */

/* False: fewer than @bytes could be read at @at. */
bool rsk_streams_read_all(int fd, void *buf, size_t bytes, off_t at);

/*
 * A stream that ends during the reading is counted twice or not at all this time, and a stream of a
 * killed process is dropped by the other processes of its family: counters that never decrease hide
 * both. Returns the number of records that were read.
 */
uint32_t rsk_streams_read_segment(struct rsk_streams *all, struct rsk_streams_segment *s,
				  uint64_t now_ns);

/* Takes the records that were read from what the user has left. */
void rsk_streams_charge(struct rsk_streams_user *u, uint32_t read);

/* ---- streams_transactions.c ---- */

/*
 * Reports what the stream of record @number has carried since the last reading. @at_ns: the end of
 * the stream, or now.
 */
void rsk_streams_follow(struct rsk_streams *all, struct rsk_streams_segment *s, size_t number,
			const struct rsk_stats_stream *r, uint64_t at_ns);
void rsk_streams_unfollow(struct rsk_streams_segment *s);

#endif
