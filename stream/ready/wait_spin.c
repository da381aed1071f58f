// SPDX-License-Identifier: BSD-2-Clause
/*
 * wait_spin.c - the spins of a blocking call, and what it learns of them for the next. See wait.h.
 */
#include "sleep.h"
#include "spin.h"
#include "stream.h"
#include "wait.h"

static _Atomic(uint32_t) *budget_of(struct rsk_wait *w)
{
	return w->what == RSK_WAKE_RX ? &w->s->spin.rx_ns : &w->s->spin.tx_ns;
}

static bool wait_stirs(void *arg)
{
	const struct rsk_wait *w = arg;

	return rsk_stream_stirs(w->s, w->what);
}

/* The ring's next slot was peeked at and is still there: true if there are more bytes than that. */
static bool grows(void *arg)
{
	const struct rsk_wait *w = arg;
	uint64_t n;

	rsk_lock(&w->s->rx_lock);
	n = rsk_rx_pending(&w->s->rx, NULL);
	rsk_unlock(&w->s->rx_lock);
	return n > w->peeked;
}

static bool spin(struct rsk_wait *w)
{
	uint32_t budget = atomic_load_explicit(budget_of(w), memory_order_relaxed);
	bool same_cpu = !rsk_spin_peer_elsewhere(w->s, rsk_stream_publish_cpu(w->s));

	if (w->peeked)
		w->in_time = rsk_spin(budget, same_cpu, grows, w);
	else
		w->in_time = rsk_spin(budget, same_cpu, wait_stirs, w);
	/* Only a thread that has to sleep reads the clock. */
	if (!w->in_time && !w->begin_ns)
		w->begin_ns = rsk_now_ns() - rsk_spin_spent_ns;
	return w->in_time;
}

bool rsk_wait_spin(struct rsk_wait *w)
{
	int outer_fd;
	bool found;

	if (w->spins >= RSK_SPINS_OF_A_WAIT)
		return false;
	if (w->spins++ && !w->begin_ns)
		w->begin_ns = rsk_now_ns(); /* no timeout begins anew with each spin */
	/* A handler that runs in the spin may fork, as in the sleep. */
	outer_fd = rsk_sleep_begin(w->fd);
	found = spin(w);
	rsk_sleep_end(outer_fd);
	if (!found) {
		w->spins = RSK_SPINS_OF_A_WAIT;
		return false;
	}
	/* The receiver's credit would end each spin for bytes at once. */
	if (rsk_wait_heard_receiver(w->s))
		rsk_stream_serve(w->s, w->fd);
	return true;
}

void rsk_wait_learn(struct rsk_wait *w)
{
	uint32_t budget = atomic_load_explicit(budget_of(w), memory_order_relaxed), next;

	if (!rsk_knobs.spin_ns || (!w->in_time && !w->begin_ns))
		return; /* or there was no wait */
	if (w->in_time)
		next = rsk_spin_longest();
	else
		next = rsk_spin_learn(budget,
				      (w->news_ns ? w->news_ns : rsk_now_ns()) - w->begin_ns);
	if (next != budget)
		atomic_store_explicit(budget_of(w), next, memory_order_relaxed);
}
