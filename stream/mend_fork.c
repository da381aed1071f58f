// SPDX-License-Identifier: BSD-2-Clause
/*
 * mend_fork.c - before a fork, streams between hosts go back to their companions: a child has no rails, and the program
 * that it may execute sees the kernel alone. So bytes that lie unread in a ring are asked for once more, by the keeper,
 * which must not be at rest for the fork yet.
 */
#include <errno.h>

#include <rsock/sys.h>

#include "join.h"
#include "links.h"
#include "mend.h"
#include "stream.h"

#define FORK_WAIT_NS 200000000ull /* for a peer that has not seen yet what is wanted of it */

static void stay_off(struct rsk_stream *s, void *arg)
{
	bool asked;

	rsk_lock(&s->tx_lock);
	rsk_tx_stay_off(&s->tx, RSK_TX_STAY_FORK, true);
	rsk_lock(&s->rx_lock);
	asked = rsk_rx_rest(&s->rx) == -EAGAIN;
	rsk_rx_stay_off(&s->rx, true);
	rsk_unlock(&s->rx_lock);
	rsk_unlock(&s->tx_lock);
	if (asked)
		rsk_mend_call(s);
}

static void is_off(struct rsk_stream *s, void *arg)
{
	struct rsk_kernel_companion k;
	bool *all = arg;
	int fd = rsk_stream_find_fd(s);

	if (fd < 0)
		return;
	rsk_companion_init(&k, s, fd);
	rsk_lock(&s->tx_lock);
	if (rsk_tx_serve(&s->tx, &k.c) == -EPROTO)
		rsk_stream_fail(s, fd);
	rsk_stream_note(s, true, RSK_REASON_SHARED_HOLDER);
	*all &= s->tx.state != RSK_TX_ONRING && s->tx.state != RSK_TX_PROPOSED;
	rsk_unlock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	if (rsk_rx_serve(&s->rx, &k.c) == -EPROTO)
		rsk_stream_fail(s, fd);
	rsk_stream_note(s, false, RSK_REASON_SHARED_HOLDER);
	*all &= !s->rx.rest;
	rsk_unlock(&s->rx_lock);
	rsk_stream_notify(s, RSK_WAKE_RX | RSK_WAKE_TX);
}

/* The join lock is held. */
static void each_stream(void (*each)(struct rsk_stream *s, void *arg), void *arg)
{
	for (uint32_t i = 0; i < rsk_links.n; i++) {
		struct rsk_link *l = rsk_links.at[i].l;

		if (l->remote && l->maker == rsk_pid && atomic_load(&l->streams))
			rsk_mend_each(l, each, arg);
	}
}

void rsk_mend_fork(void)
{
	uint64_t until = rsk_now_ns() + FORK_WAIT_NS;
	bool all;

	rsk_join_take();
	each_stream(stay_off, NULL);
	for (;;) {
		all = true;
		each_stream(is_off, &all);
		rsk_join_give();
		if (all || rsk_now_ns() >= until)
			return;
		rsk_sys_ppoll(NULL, 0, &(struct timespec){ .tv_nsec = 1000000 }, NULL);
		rsk_join_take();
	}
}

/* Also what was joined meanwhile. */
void rsk_mend_forks(void)
{
	each_stream(stay_off, NULL);
}

void rsk_mend_unforked(struct rsk_stream *s)
{
	rsk_tx_stay_off(&s->tx, RSK_TX_STAY_FORK, false);
	rsk_lock(&s->rx_lock);
	rsk_rx_stay_off(&s->rx, atomic_load(&s->off));
	rsk_unlock(&s->rx_lock);
}
