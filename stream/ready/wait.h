/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.h - a blocking call on one stream: spin, announce, look again, sleep. Internal to stream/.
 *
 *	struct rsk_wait w __attribute__((cleanup(rsk_wait_end)));
 *	w.active = false;
 *	loop { try; if (!w.active) rsk_wait_begin(&w, ...); rsk_wait_more(&w); }
 *
 * The cleanup also runs when the thread is cancelled in its sleep. rsk_wait_end() is idempotent.
 *
 * rsk_wait_more() returns when a try is worth while again: 0 (the ring stirred), 1 (the companion stirred),
 * -EAGAIN (SO_RCVTIMEO/SO_SNDTIMEO), -EINTR, -ERESTART (an SA_RESTART handler ran: what was moved so far is
 * returned, else the call goes on), -RSK_EKERNEL (the number is another file's), or -errno. Between
 * the announcement and the sleep it returns once so that the caller looks again; only then does it
 * sleep, and every return from sleep is a reason to try.
 */
#ifndef RSK_WAIT_H
#define RSK_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "link.h"
#include "stream.h"

struct rsk_wait {
	struct rsk_stream *s;
	int fd; /* of the companion, to use after each wait: survives a close() by another thread */
	bool own_fd;		     /* ... since it is a copy of ours */
	struct rsk_fd_wait *fd_wait; /* ... or whoever closes it makes one: fd_wait.h */
	uint32_t what;		     /* RSK_WAKE_RX or RSK_WAKE_TX */
	struct rsk_doorbell doorbell;
	int edge; /* a set of our own, which tells each arrival of bytes where earlier ones lie; 0: none */
	bool active; /* between begin and end; false at the declaration, nothing else need be set */
	bool announced;
	bool have_deadline;
	bool timed;	      /* SO_RCVTIMEO / SO_SNDTIMEO is set: EINTR, never restarted */
	bool spun;	      /* since the last sleep, or since bytes were moved */
	bool in_time;	      /* the last spin saw what it waited for */
	uint64_t peeked;      /* bytes that lie there, and are not what it waits for */
	uint64_t begin_ns;    /* 0: not read yet */
	uint64_t news_ns;     /* when the bell that woke us was rung; 0: none did */
	uint64_t deadline_ns; /* UINT64_MAX: for ever */
};

/*
 * Does this thread sleep in a call of ours, and run a signal handler meanwhile? A fork there returns into that call, in
 * the child, too. Is @fd its copy of a descriptor?
 */
bool rsk_wait_asleep(void);
bool rsk_wait_keeps(int fd);

void rsk_wait_begin(struct rsk_wait *w, struct rsk_stream *s, int fd, uint32_t what);
int rsk_wait_more(struct rsk_wait *w);
int rsk_wait_tcp(struct rsk_wait *w); /* the same where there is no ring yet: for the kernel alone */
void rsk_wait_end(struct rsk_wait *w);

/* SO_RCVTIMEO (@recv) or SO_SNDTIMEO of @fd was set: as the kernel has it now. */
void rsk_stream_timeout_set(struct rsk_stream *s, int fd, bool recv);

/* A non-blocking send found no room: epolls that watch the stream are to be told when there is. */
void rsk_stream_want_room(struct rsk_stream *s);

/*
 * What a spin looks at on a stream: four loads, no lock. Another thread may move on meanwhile, so a glance only says
 * when to stop spinning. Its places stay mapped as long as the stream is pinned, or rsk_link_users counts us.
 */
struct rsk_stream_peek {
	const struct rsk_control_word *answer, *word;
	uint64_t answer_seen, word_seen; /* written under the direction's lock, relaxed */
	const uint64_t *slot, *other_slot;
	uint64_t index, other_index;
};

static inline void rsk_stream_peek_at(struct rsk_stream_peek *g, const struct rsk_stream *s)
{
	g->answer = s->tx.answer;
	g->answer_seen = rsk_tx_answer_seen(&s->tx);
	g->word = s->rx.word;
	g->word_seen = __atomic_load_n(&s->rx.word_seen, __ATOMIC_RELAXED);
	g->index = rsk_ring_index(&s->rx.ring);
	g->slot = rsk_ring_place(&s->rx.ring, g->index);
	g->other_index = rsk_ring_other(&s->rx.ring, g->index);
	g->other_slot = rsk_ring_place(&s->rx.ring, g->other_index);
}

/* Worth another try for @what? */
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
