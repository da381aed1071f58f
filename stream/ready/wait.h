/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.h - a blocking call on one stream: spin, announce, check again, sleep. Internal to stream/;
 * the receive and send calls use it.
 *
 *	struct rsk_wait w __attribute__((cleanup(rsk_wait_end)));
 *	w.active = false;
 *	loop { try; if (!w.active) rsk_wait_begin(&w, ...); rsk_wait_more(&w); }
 *
 * The cleanup also runs when the thread is cancelled in its sleep. rsk_wait_end() is idempotent.
 *
 * rsk_wait_more() returns when another try is worthwhile: 0 (the ring changed), 1 (the TCP socket
 * changed), -EAGAIN (SO_RCVTIMEO/SO_SNDTIMEO), -EINTR, -ERESTART (an SA_RESTART handler ran: the
 * call returns what was moved so far, or else continues), -RSK_EKERNEL (the number is another
 * file's), or -errno. Between the announcement and the sleep it returns once so that the caller
 * checks again, unless it has found itself that there is nothing; after every return from sleep the
 * caller tries again.
 * No lack of descriptors is an error: the wait then goes on by time (by_time.h).
 */
#ifndef RSK_WAIT_H
#define RSK_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "by_time.h"
#include "link.h"
#include "stream.h"

struct rsk_wait {
	struct rsk_stream *s;
	/*
	 * The fd of the TCP socket to use after each wait. It survives a close() by another thread,
	 * since it is our own copy (own_fd), or since the closing thread makes a copy (fd_wait.h).
	 */
	int fd;
	bool own_fd, kept; /* kept: as in rsk_wait_keep() */
	int outer_kept;
	struct rsk_fd_wait *fd_wait;
	uint32_t what; /* RSK_WAKE_RX or RSK_WAKE_TX */
	struct rsk_doorbell doorbell;
	enum rsk_news news;	    /* in the sleep, of a stream to another host */
	struct rsk_by_time by_time; /* without a doorbell, to the end of the call */
	/*
	 * An epoll set of our own, which reports each arrival of bytes where earlier ones lie
	 * unread; 0: none.
	 */
	int edge;
	int set; /* sleep_set.h; -1: not this time */
	/* Between begin and end. False at the declaration; no other field need be set. */
	bool active;
	bool announced;
	bool have_deadline;
	bool timed;	/* SO_RCVTIMEO / SO_SNDTIMEO is set: EINTR, never restarted */
	uint32_t spins; /* since the last sleep, or since bytes were moved */
	bool in_time;	/* the last spin succeeded */
	/* rsk_sigdefer_handled and _cut: handlers that have run since interrupt the wait. */
	uint32_t handled, cut;
	uint64_t peeked;      /* bytes that are there but do not satisfy the call */
	uint64_t begin_ns;    /* 0: clock not read yet */
	uint64_t news_ns;     /* when the doorbell that woke us was rung; 0: none did */
	uint64_t deadline_ns; /* UINT64_MAX: for ever */
};

/*
 * rsk_wait_asleep - True: this thread sleeps in a call of the library, and runs a signal handler
 * meanwhile. A fork there returns into that call in the child, too.
 *
 * rsk_wait_keeps - True: @fd is the copy of a descriptor that this thread's call goes on with,
 * asleep or not: a fork in a signal handler leaves it open in the child.
 */
bool rsk_wait_asleep(void);
bool rsk_wait_keeps(int fd);

void rsk_wait_begin(struct rsk_wait *w, struct rsk_stream *s, int fd, uint32_t what);
/*
 * rsk_wait_keep - The same with our own @copy of the descriptor, from the first try on; the wait
 * closes it in the end. False, and nothing begun: it is gone.
 */
bool rsk_wait_keep(struct rsk_wait *w, struct rsk_stream *s, int copy, uint32_t what);
int rsk_wait_more(struct rsk_wait *w);
/* The same for a stream that has no ring yet: waits for the kernel alone. */
int rsk_wait_tcp(struct rsk_wait *w);
void rsk_wait_end(struct rsk_wait *w);

/*
 * wait_spin.c: rsk_wait_spin - spins, if that may be worthwhile; true: another try is.
 * rsk_wait_learn - adjusts the budget, in the end.
 */
bool rsk_wait_spin(struct rsk_wait *w);
void rsk_wait_learn(struct rsk_wait *w);

/* The receiver of what this end sends has said something that was not looked at yet. */
static inline bool rsk_wait_heard_receiver(const struct rsk_stream *s)
{
	return rsk_control_word_fresh(s->tx.answer.at, rsk_tx_answer_seen(&s->tx));
}

/*
 * A non-blocking send found no room: epoll sets that watch the stream are to be notified when there
 * is.
 */
void rsk_stream_want_room(struct rsk_stream *s);

/*
 * What a spin polls on a stream: four loads, no lock. Another thread may move on meanwhile, so a
 * peek only says when to stop spinning. The memory stays mapped as long as the stream is pinned, or
 * the thread uses links (rsk_links_use()).
 */
struct rsk_stream_peek {
	const struct rsk_control_word *answer, *word;
	uint64_t answer_seen, word_seen; /* written under the direction's lock, relaxed */
	const uint64_t *slot, *other_slot;
	uint64_t index, other_index;
};

static inline void rsk_stream_peek_at(struct rsk_stream_peek *g, const struct rsk_stream *s)
{
	g->answer = s->tx.answer.at;
	g->answer_seen = rsk_tx_answer_seen(&s->tx);
	g->word = s->rx.word.at;
	g->word_seen = __atomic_load_n(&s->rx.word.seen, __ATOMIC_RELAXED);
	g->index = rsk_ring_index(&s->rx.ring);
	g->slot = rsk_ring_place(&s->rx.ring, g->index);
	g->other_index = rsk_ring_other(&s->rx.ring, g->index);
	g->other_slot = rsk_ring_place(&s->rx.ring, g->other_index);
}

/* Whether another try for @what is worthwhile. */
static inline bool rsk_stream_peek_stirs(const struct rsk_stream_peek *g, uint32_t what)
{
	if (rsk_control_word_fresh(g->answer, g->answer_seen))
		return true;
	return what != RSK_WAKE_TX &&
	       (__atomic_load_n(g->slot, __ATOMIC_RELAXED) == g->index ||
		__atomic_load_n(g->other_slot, __ATOMIC_RELAXED) == g->other_index ||
		rsk_control_word_fresh(g->word, g->word_seen));
}

static inline bool rsk_stream_stirs(const struct rsk_stream *s, uint32_t what)
{
	struct rsk_stream_peek g;

	rsk_stream_peek_at(&g, s);
	return rsk_stream_peek_stirs(&g, what);
}

#endif
