/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.h - a blocking call on one stream: spin, announce, look again, sleep. Internal to stream/.
 *
 *	struct rsk_wait w __attribute__((cleanup(rsk_wait_end))) = { 0 };
 *	loop { try; if (!w.active) rsk_wait_begin(&w, ...); rsk_wait_more(&w); }
 *
 * The cleanup also runs when the thread is cancelled in its sleep. rsk_wait_end() is idempotent.
 *
 * rsk_wait_more() returns when a try is worth while again: 0 (the ring stirred), 1 (the companion stirred),
 * -EAGAIN (SO_RCVTIMEO/SO_SNDTIMEO), -EINTR, -ERESTART (an SA_RESTART handler ran: what was moved so far is
 * returned, else the call goes on), or -errno. Between the announcement and the sleep it returns once so
 * that the caller looks again; only then does it sleep, and every return from sleep is a reason to try.
 */
#ifndef RSK_WAIT_H
#define RSK_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "link.h"

struct rsk_stream;

struct rsk_wait {
	struct rsk_stream *s;
	int fd; /* of the companion, to use from here on: survives a close() by another thread */
	bool own_fd;   /* ... since it is a copy of ours */
	uint32_t what; /* RSK_WAKE_RX or RSK_WAKE_TX */
	struct rsk_bell bell;
	bool active; /* between begin and end; zeroed by the declarer */
	bool announced;
	bool have_deadline;
	bool timed; /* SO_RCVTIMEO / SO_SNDTIMEO is set: EINTR, never restarted */
	bool spun;
	uint64_t begin_ns, deadline_ns; /* UINT64_MAX: for ever */
};

void rsk_wait_begin(struct rsk_wait *w, struct rsk_stream *s, int fd, uint32_t what);
int rsk_wait_more(struct rsk_wait *w);
int rsk_wait_companion(
	struct rsk_wait *w); /* the same where there is no ring yet: for the kernel alone */
void rsk_wait_end(struct rsk_wait *w);

/* May we spin for this stream's peer, i.e. does it run on another processor? */
bool rsk_spin_pays(struct rsk_stream *s);

/* On which processor we run, for the peer's rsk_spin_pays(). */
void rsk_stream_publish_cpu(struct rsk_stream *s);

/* A non-blocking send found no room: epolls that watch the stream are to be told when there is. */
void rsk_stream_want_room(struct rsk_stream *s);

/* Is there anything to do for @what (lock-free for the ring's first word; takes the lock to look)? */
bool rsk_stream_stirs(struct rsk_stream *s, uint32_t what);

struct tcp_info;
void rsk_tcp_info_add(struct tcp_info *ti, unsigned int len, struct rsk_stream *s);

#endif
