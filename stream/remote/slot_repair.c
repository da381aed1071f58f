// SPDX-License-Identifier: BSD-2-Clause
/*
 * slot_repair.c - the progress thread checks slots that readers, asleep by now, have found not
 * whole, and sees to it that the sender hears of a request: see slot_repair.h. Only the progress
 * thread runs this, except where a comment says otherwise.
 */
#include "slot_repair.h"

#include <errno.h>

#include "log.h"
#include "progress.h"
#include "recovery.h"
#include "remote_parts.h"
#include "stream.h"

/*
 * To the first check, and between checks. A slot that is landing is whole long before, unless
 * packets are lost; then it costs a request.
 */
#define LOOK_NS 10000000ull
/*
 * A sender that has closed its socket, and its end of the stream, answers no more. One that was
 * asked to retransmit by TCP a slot that stays damaged is not waited for without end.
 */
#define ANSWER_NS 5000000000ull
/*
 * A sender that was asked to retransmit by TCP answers in the ring and by control word, which may
 * both be damaged, as the request may: it is asked again after this time, then after twice that,
 * and so on. It may be stopped.
 */
#define ASK_AGAIN_NS 200000000ull
#define ASK_AGAIN_MOST 9

void rsk_slot_repair_want(struct rsk_stream *s)
{
	if (!s->link->remote || atomic_load_explicit(&s->repair.due, memory_order_relaxed))
		return;
	/* In this order, seq_cst: the progress thread reads the two flags in the reverse order. */
	atomic_store(&s->repair.due, true);
	if (!atomic_exchange(&s->link->repair_due, true))
		rsk_progress_call();
}

/* Has the peer shut the socket down? This end's own shutdown looks the same to poll(). */
static bool is_shut(int fd)
{
	uint64_t pos;

	return fd >= 0 && rsk_kernel_received(fd, &pos) > 0;
}

/* Will the request of @s have no answer? rx_lock is held. */
static bool is_unheard(const struct rsk_stream *s, uint64_t now_ns, int fd)
{
	uint64_t asked_ns = s->repair.called_ns;

	if (rsk_rx_is_quiesced(&s->rx))
		asked_ns = s->quiesced.since_ns;
	else if (!rsk_rx_repair_open(&s->rx) || s->repair.called != rsk_rx_repair(&s->rx))
		return false;
	return now_ns - asked_ns > ANSWER_NS && (s->rx.repair.gave_up || is_shut(fd));
}

/* If @s is quiesced, and has been for long, asks for the answer. rx_lock is held. */
static void ask_again(struct rsk_stream *s, uint64_t now_ns)
{
	if (!rsk_rx_is_quiesced(&s->rx)) {
		s->quiesced.since_ns = 0;
	} else if (!s->quiesced.since_ns || s->quiesced.gen != s->rx.gen) {
		s->quiesced.since_ns = now_ns;
		s->quiesced.gen = s->rx.gen;
		s->quiesced.times = 0;
		s->quiesced.again_ns = now_ns + ASK_AGAIN_NS;
	} else if (now_ns >= s->quiesced.again_ns && rsk_rx_ask_answer(&s->rx)) {
		if (s->quiesced.times < ASK_AGAIN_MOST)
			s->quiesced.times++;
		s->quiesced.again_ns = now_ns + (ASK_AGAIN_NS << s->quiesced.times);
	}
}

struct round {
	uint64_t now_ns;
	bool more;
};

static void look(struct rsk_stream *s, void *arg)
{
	struct round *round = arg;
	uint64_t retries;
	int fd, rc;
	bool call, answer, was_quiesced;

	if (!atomic_load(&s->repair.due))
		return;
	fd = rsk_stream_find_fd(s);
	rsk_lock(&s->rx_lock);
	retries = s->rx.ring.retries;
	was_quiesced = rsk_rx_is_quiesced(&s->rx);
	rc = rsk_rx_recheck(&s->rx);
	rsk_stats_add(&s->rec->hash_retries, s->rx.ring.retries - retries);
	rsk_stream_note(s, false, RSK_REASON_PEER_FELL_BACK);
	ask_again(s, round->now_ns);
	if (rc > 0 && is_unheard(s, round->now_ns, fd))
		rc = -EPROTO;
	if (rc <= 0)
		atomic_store(&s->repair.due, false);
	call = rc > 0 && rsk_rx_repair_open(&s->rx) && s->repair.called != rsk_rx_repair(&s->rx);
	answer = rsk_rx_is_quiesced(&s->rx);
	if (call) {
		s->repair.called = rsk_rx_repair(&s->rx);
		s->repair.called_ns = round->now_ns;
	}
	rsk_unlock(&s->rx_lock);
	round->more |= rc > 0;
	if (call) {
		rsk_log(RSK_LOG_INFO, "link %u: stream %u misses %s: request %u", s->link->number,
			s->sid, answer ? "an answer" : "a slot, which is damaged",
			s->repair.called);
		/* The control word is posted, and the sender's progress thread told of it. */
		rsk_stream_notify(s, RSK_WAKE_TX);
		rsk_recovery_call(s);
	}
	if (rc < 0)
		rsk_stream_fail(s, fd);
	if (rc < 0 || (was_quiesced && !answer))
		rsk_recovery_stir(s);
}

void rsk_slot_repair_work(struct rsk_remote *r, uint64_t now_ns)
{
	struct round round = { .now_ns = now_ns };

	if (!r->listed || r->state == RSK_REMOTE_DEAD)
		return;
	if (atomic_exchange(&r->l->repair_due, false) && !r->repair_ns)
		r->repair_ns = now_ns + LOOK_NS;
	if (!r->repair_ns || now_ns < r->repair_ns)
		return;
	rsk_recovery_each(r->l, look, &round);
	r->repair_ns = round.more ? now_ns + LOOK_NS : 0;
}

uint64_t rsk_slot_repair_next_ns(const struct rsk_remote *r)
{
	return r->repair_ns ? r->repair_ns : UINT64_MAX;
}
