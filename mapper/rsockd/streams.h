/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * streams.h - the statistics segments (rsock/stats.h) that processes have handed over, for the metrics: streams that
 * are open, by mode and reason, and what all of them have done so far. A segment is another's memory: its figures may
 * be wrong, nothing else; it is sealed against shrinking, so that reading it cannot fault.
 */
#ifndef RSK_STREAMS_H
#define RSK_STREAMS_H

#include <rsock/stats.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rsk_stream_mode {
	RSK_STREAM_TCP,
	RSK_STREAM_HALF, /* one direction is accelerated */
	RSK_STREAM_DIRECT,
	RSK_STREAM_MODES
};
const char *rsk_stream_mode_name(enum rsk_stream_mode mode);

#define RSK_STREAMS_COUNTERS(X)                                                                    \
	X(ended, "streams that ended")                                                             \
	X(promotions, "changes of a direction from TCP to the ring")                               \
	X(demotions, "changes of a direction from the ring to TCP")                                \
	X(repairs, "slots that were written again")                                                \
	X(retries, "slots whose hash was not right at the first look")

struct rsk_streams_counters {
#define X(name, text) uint64_t name;
	RSK_STREAMS_COUNTERS(X)
#undef X
	uint64_t ring_bytes, tcp_bytes; /* both ways */
};

struct rsk_streams_figures {
	uint64_t open[RSK_STREAM_MODES][RSK_REASON_COUNT];
	struct rsk_streams_counters count;
};

struct rsk_streams_segment;

/* All zero is an empty one. Owns its mappings. */
struct rsk_streams {
	uint64_t ended_ns; /* asked last */
	struct rsk_streams_segment
		*segments; /* by the file's identity: a family of processes hands over one */
	struct rsk_streams_segment *remembered; /* those that nobody holds; the oldest goes */
	size_t n_remembered;
	struct rsk_streams_counters gone; /* of segments that are forgotten */
};

/* @fd stays the caller's. NULL: it is no such segment, or there is no memory. */
struct rsk_streams_segment *rsk_streams_take(struct rsk_streams *all, int fd);
void rsk_streams_put(struct rsk_streams *all, struct rsk_streams_segment *s);
void rsk_streams_fini(struct rsk_streams *all);

/* All of it, as it is now. Takes some microseconds, and one for each ten streams that a process ever had at once. */
void rsk_streams_read(struct rsk_streams *all, struct rsk_streams_figures *out);

/* A stream that ended: the ports that are known of it (0: not), and its bytes of both ways. */
typedef void rsk_streams_ended_fn(void *ctx, uint16_t local_port, uint16_t peer_port,
				  uint64_t bytes);

/* Tells of those that ended since it was asked last, as far as their records are still there. */
void rsk_streams_ended(struct rsk_streams *all, uint64_t now_ns, rsk_streams_ended_fn *ended,
		       void *ctx);

/* The same of one that is about to be given back, if nobody else holds it. NULL: nothing. */
void rsk_streams_ended_last(const struct rsk_streams *all, const struct rsk_streams_segment *s,
			    uint64_t now_ns, rsk_streams_ended_fn *ended, void *ctx);

#endif
