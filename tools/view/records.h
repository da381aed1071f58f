/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * records.h - index of the stream records in the segments: finds the other end of a connection,
 * and the same stream in an earlier scan.
 */
#ifndef RSK_TOOLS_RECORDS_H
#define RSK_TOOLS_RECORDS_H

#include "scan.h"

#include <rsock/tuple.h>
#include <stddef.h>
#include <stdint.h>

/* One stream's record. Both pointers are borrowed from the list of segments. */
struct record {
	const struct segment *seg;
	const struct rsk_stats_stream *stream;
};

/* All records that have addresses, sorted by tuple_compare(). Owned: records_free(). */
struct records {
	struct record *at;
	size_t count;
};

/* 0 or -ENOMEM. */
int records_index(const struct segment *list, struct records *out);
void records_free(struct records *all);

struct rsk_tuple record_tuple(const struct rsk_stats_stream *stream);

/*
 * The open stream whose end is @tuple. Several processes may have one (other network namespaces,
 * forked processes that share the socket): the one of process @pid is preferred, then one in the
 * network namespace of process @like, then the first; 0: no preference.
 */
const struct record *records_find(const struct records *all, const struct rsk_tuple *tuple,
				  pid_t pid, pid_t like);

/* The record of the other end of @stream; NULL: none. */
const struct record *records_other_end(const struct records *all,
				       const struct rsk_stats_stream *stream);

/* Bytes per second of a stream between two scans. */
struct rates {
	uint64_t tx_ring;
	uint64_t tx_tcp;
	uint64_t rx_ring;
	uint64_t rx_tcp;
};

/*
 * The record of the same stream in an earlier list, @before; *taken_ns gets the time of that copy.
 * NULL: the stream is not in it.
 */
const struct rsk_stats_stream *record_before(const struct segment *before,
					     const struct segment *seg,
					     const struct rsk_stats_stream *stream,
					     uint64_t *taken_ns);

/* The rates since the earlier list @before; all zero if the stream is not in it. */
struct rates record_rates(const struct segment *before, const struct segment *seg,
			  const struct rsk_stats_stream *stream);

/* The stream is accelerated: at least one direction is on the ring path. */
static inline bool stream_is_direct(const struct rsk_stats_stream *s)
{
	return s->reason == RSK_REASON_DIRECT && (s->tx == RSK_PATH_RING || s->rx == RSK_PATH_RING);
}

#endif /* RSK_TOOLS_RECORDS_H */
