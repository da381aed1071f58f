/* SPDX-License-Identifier: BSD-2-Clause */
/* records.h - the streams in the segments: the two ends of one connection, one stream at two times. */
#ifndef RSK_TOOLS_RECORDS_H
#define RSK_TOOLS_RECORDS_H

#include "scan.h"

#include <rsock/tuple.h>
#include <stddef.h>
#include <stdint.h>

/* One stream's record. Both borrowed from the list of segments. */
struct record {
	const struct segment *seg;
	const struct rsk_stats_stream *stream;
};

/* All records that have addresses, in the order of these. Owned: records_free(). */
struct records {
	struct record *at;
	size_t count;
};

/* 0 or -ENOMEM. */
int records_index(const struct segment *list, struct records *out);
void records_free(struct records *all);

struct rsk_tuple record_tuple(const struct rsk_stats_stream *stream);

/*
 * The open stream of this name, as its process sees it. Where several processes show one (network namespaces, a family
 * that shares the socket) the one of process @pid, else of the namespace that @like is in, else the first; 0: any.
 */
const struct record *records_find(const struct records *all, const struct rsk_tuple *tuple,
				  pid_t pid, pid_t like);

/* What the other end's process says, unless it is gone. @pid: whose stream it is. */
const struct record *records_other_end(const struct records *all,
				       const struct rsk_stats_stream *stream);

/* Bytes a second of a stream between two looks. */
struct rates {
	uint64_t tx_ring;
	uint64_t tx_tcp;
	uint64_t rx_ring;
	uint64_t rx_tcp;
};

/* The same stream in an earlier list; NULL: it was not there. */
const struct rsk_stats_stream *record_before(const struct segment *before,
					     const struct segment *seg,
					     const struct rsk_stats_stream *stream,
					     uint64_t *taken_ns);

/* All zero where there is no earlier look. */
struct rates record_rates(const struct segment *before, const struct segment *seg,
			  const struct rsk_stats_stream *stream);

/* Both ways have one path for good: bytes go, or would go, through the ring in at least one of them. */
static inline bool stream_is_direct(const struct rsk_stats_stream *s)
{
	return s->reason == RSK_REASON_DIRECT && (s->tx == RSK_PATH_RING || s->rx == RSK_PATH_RING);
}

#endif /* RSK_TOOLS_RECORDS_H */
