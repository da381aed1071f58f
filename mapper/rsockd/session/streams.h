/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * streams.h - the statistics segments (rsock/stats.h) that processes have handed over: the number
 * of open streams by mode and reason, the sums of their counters, and how much each ended stream
 * carried. A segment is a file of another user: its figures may be wrong, but they can do no other
 * harm. It is read and never mapped, since access to a hole in a mapping would make the kernel
 * allocate a page on our account. The amount that is read at a time is limited, for each user and
 * in total. local.c and metrics.c call this. One thread.
 */
#ifndef RSK_STREAMS_H
#define RSK_STREAMS_H

#include <rsock/stats.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rsk_stream_mode {
	RSK_STREAM_TCP,
	RSK_STREAM_HALF, /* one direction is on the ring */
	RSK_STREAM_DIRECT,
	RSK_STREAM_MODES
};
const char *rsk_stream_mode_name(enum rsk_stream_mode mode);

#define RSK_STREAMS_COUNTERS(X)                                                                    \
	X(ended, "streams that ended")                                                             \
	X(promotions, "changes of a direction from TCP to the ring")                               \
	X(demotions, "changes of a direction from the ring to TCP")                                \
	X(repairs, "slots that were written again")                                                \
	X(retries, "slots whose hash was wrong at the first check")

struct rsk_streams_counters {
#define X(name, text) uint64_t name;
	RSK_STREAMS_COUNTERS(X)
#undef X
	uint64_t ring_bytes, tcp_bytes; /* sent and received */
	uint64_t registrations[RSK_STATS_REG_COUNT];
	uint64_t verbs[RSK_STATS_VERBS_COUNT];
};

struct rsk_streams_figures {
	uint64_t open[RSK_STREAM_MODES][RSK_REASON_COUNT];
	struct rsk_streams_counters count;
};

/*
 * A stream has ended. @uid: the user of the process that reported it; @service_port: at which its
 * accepting end has listened, 0 if unknown; @connecting: the report is of the other end; @bytes:
 * sent and received, at most what the memory of a host could have transferred while it was open.
 */
typedef void rsk_streams_ended_fn(void *ctx, uint32_t uid, bool connecting, uint16_t service_port,
				  uint64_t bytes);

/*
 * A stream has carried so many more transactions (rsk_stats_transactions()) since the last reading;
 * at most one in 100 ns.
 */
typedef void rsk_streams_carried_fn(void *ctx, uint32_t uid, bool connecting, uint16_t service_port,
				    uint64_t transactions, uint64_t now_ns);

struct rsk_streams_segment;
struct rsk_streams_user;

/*
 * All zero, except for max, ended, carried and ctx, is an empty one. Owns a descriptor for each
 * segment.
 */
struct rsk_streams {
	size_t max; /* limit of segments; one user may have half of them */
	rsk_streams_ended_fn *ended;
	rsk_streams_carried_fn *carried;
	void *ctx;
	/* hash table by the file's identity: a family of processes hands over one */
	struct rsk_streams_segment *segments;
	/* list: the one that was read longest ago is first */
	struct rsk_streams_segment *held;
	/* list, oldest first: those that no process holds any more */
	struct rsk_streams_segment *remembered;
	struct rsk_streams_user *users;
	size_t n, n_remembered;
	uint64_t read_ns, cost_ns; /* time and duration of the last rsk_streams_read() */
	/* segments that were refused: there was no room, or they were invalid */
	uint64_t refused;
	/* times that one was not read, since its user's share was used up */
	uint64_t put_off;
	uint64_t implausible;		  /* reports of more than a stream can have carried */
	struct rsk_streams_counters gone; /* sums of forgotten segments */
};

/*
 * Takes a segment. @fd stays the caller's; @uid: the user of the process that handed it over. NULL:
 * it is not a segment, or there is no room or memory.
 */
struct rsk_streams_segment *rsk_streams_take(struct rsk_streams *all, int fd, uint32_t uid,
					     uint64_t now_ns);
void rsk_streams_put(struct rsk_streams *all, struct rsk_streams_segment *s, uint64_t now_ns);
void rsk_streams_fini(struct rsk_streams *all);

/*
 * Reads the segments again, and calls ended() for streams that have ended since. A user's share is
 * the records of one full segment; the segment in which it is used up is still read to its end, and
 * the others wait for the next time. It takes some microseconds for each segment, and one for each
 * ten streams that a process ever had at once.
 */
void rsk_streams_read(struct rsk_streams *all, uint64_t now_ns);
/* The same on request, at any time; does nothing if reading would take up too much of the time. */
void rsk_streams_read_anew(struct rsk_streams *all, uint64_t now_ns);

/* The sums, as they were read last. */
void rsk_streams_figures(struct rsk_streams *all, struct rsk_streams_figures *out);

#endif
