/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * streams.h - the statistics segments (rsock/stats.h) that processes have handed over: streams that are open, by mode
 * and reason, what all of them have done so far, and what those carried that ended. A segment is another user's file:
 * its figures may be wrong, nothing else. It is read, never mapped: a look at a mapped hole would have the kernel make
 * a page of it, on our account. How much is read at a time is bounded, for each user and for all. One thread.
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

/*
 * A stream that ended: whose process said so, the ports that are known of it (0: not), and its bytes of both ways: not
 * more than the memory of a host could have carried while it was open.
 */
typedef void rsk_streams_ended_fn(void *ctx, uint32_t uid, uint16_t local_port, uint16_t peer_port,
				  uint64_t bytes);

struct rsk_streams_segment;
struct rsk_streams_user;

/* All zero but max, ended and ctx is an empty one. Owns a descriptor for each segment. */
struct rsk_streams {
	size_t max; /* segments at once, half of them of one user at the most */
	rsk_streams_ended_fn *ended;
	void *ctx;
	struct rsk_streams_segment
		*segments; /* by the file's identity: a family of processes hands over one */
	struct rsk_streams_segment *held;	/* list: the one read longest ago is first */
	struct rsk_streams_segment *remembered; /* list, by age: those that nobody holds */
	struct rsk_streams_user *users;
	size_t n, n_remembered;
	uint64_t read_ns, cost_ns; /* of the last rsk_streams_read() */
	uint64_t refused;	   /* segments that there was no room for, or that are none */
	uint64_t put_off;	   /* times that one was to be read later: its user had his share */
	uint64_t implausible;	   /* streams that said more than they can have carried */
	struct rsk_streams_counters gone; /* of segments that are forgotten */
};

/*
 * @fd stays the caller's; @uid: of the process that handed it over. NULL: it is no such segment, or there is no room or
 * memory.
 */
struct rsk_streams_segment *rsk_streams_take(struct rsk_streams *all, int fd, uint32_t uid,
					     uint64_t now_ns);
void rsk_streams_put(struct rsk_streams *all, struct rsk_streams_segment *s, uint64_t now_ns);
void rsk_streams_fini(struct rsk_streams *all);

/*
 * Reads them once more, and tells ended() of streams that did since. Each user's share is a whole segment and what
 * remains of it by then; who has had it waits for the next time. It takes some microseconds a segment, and one for each
 * ten streams that a process ever had at once.
 */
void rsk_streams_read(struct rsk_streams *all, uint64_t now_ns);
/* The same for who asks at any time: not if most of the time would go into it. */
void rsk_streams_read_anew(struct rsk_streams *all, uint64_t now_ns);

/* All of it, as it was read last. */
void rsk_streams_figures(struct rsk_streams *all, struct rsk_streams_figures *out);

#endif
