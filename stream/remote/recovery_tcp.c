// SPDX-License-Identifier: BSD-2-Clause
/*
 * recovery_tcp.c - all streams between hosts fall back to their TCP sockets: before a fork, since a
 * child has no rails and the program that it may execute sees only the kernel; and in exit(), where
 * other threads go on. So the bytes that lie unread in a ring are requested again by the progress
 * thread, which must not be stopped for the fork yet. See recovery.h.
 */
#include <errno.h>

#include <rsock/sys.h>

#include "pairing.h"
#include "progress.h"
#include "links.h"
#include "recovery.h"
#include "rdma.h"
#include "slot_repair.h"
#include "stream.h"

/*
 * For a peer that has not seen the request yet. Before a fork longer, as long as a rail that loses
 * packets may take: what is in flight by then is lost to the child.
 */
#define OFF_WAIT_NS 200000000ull
#define OFF_WAIT_FORK_NS 2000000000ull

static void stay_off(struct rsk_stream *s, void *arg)
{
	const uint8_t *why = arg;
	bool asked;

	rsk_lock(&s->tx_lock);
	rsk_tx_stay_off(&s->tx, *why, true);
	rsk_lock(&s->rx_lock);
	asked = rsk_rx_quiesce(&s->rx) == -EAGAIN || s->rx.state == RSK_RX_WATCH ||
		(s->tx.state == RSK_TX_ONRING && s->tx.answered != RSK_ANSWERED_SWITCHED);
	rsk_rx_stay_off(&s->rx, true);
	if (rsk_rx_is_quiesced(&s->rx))
		rsk_slot_repair_want(s);
	rsk_unlock(&s->rx_lock);
	rsk_unlock(&s->tx_lock);
	/* Before a fork, too: the child could not post the control words that are deferred here. */
	rsk_stream_notify(s, RSK_WAKE_RX | RSK_WAKE_TX);
	if (asked)
		rsk_recovery_call(s);
}

static void is_off(struct rsk_stream *s, void *arg)
{
	struct rsk_kernel_tcp k;
	enum rsk_reason why;
	bool *all = arg;
	int fd = rsk_stream_find_fd(s);

	if (fd < 0)
		return;
	rsk_kernel_tcp_init(&k, s, fd);
	rsk_lock(&s->tx_lock);
	if (rsk_tx_serve(&s->tx, &k.c) == -EPROTO)
		rsk_stream_fail(s, fd);
	why = s->tx.stay_off & RSK_TX_STAY_END ? RSK_REASON_PEER_FELL_BACK :
						 RSK_REASON_SHARED_HOLDER;
	rsk_stream_note(s, true, why);
	*all &= rsk_tx_secure(&s->tx) || rsk_tx_retransmits(&s->tx);
	rsk_unlock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	if (rsk_rx_serve(&s->rx, &k.c) == -EPROTO)
		rsk_stream_fail(s, fd);
	rsk_stream_note(s, false, why);
	*all &= !rsk_rx_is_quiesced(&s->rx) && s->rx.state != RSK_RX_WATCH &&
		!rsk_rx_awaits_report(&s->rx);
	rsk_unlock(&s->rx_lock);
	rsk_stream_notify(s, RSK_WAKE_RX | RSK_WAKE_TX);
}

/* The pairing lock is held. */
static void each_stream(void (*each)(struct rsk_stream *s, void *arg), void *arg)
{
	for (uint32_t i = 0; i < rsk_links.n; i++) {
		struct rsk_link *l = rsk_links.at[i].l;

		if (l->remote && l->maker == rsk_pid && atomic_load(&l->streams))
			rsk_recovery_each(l, each, arg);
	}
}

/*
 * Returns when all streams are off the ring and what they have put has arrived at the peers, or
 * after the time for it. No lock is held.
 */
static void go_off(uint8_t why)
{
	uint64_t until = rsk_now_ns() + (why == RSK_TX_STAY_FORK ? OFF_WAIT_FORK_NS : OFF_WAIT_NS);
	bool all;

	rsk_pairing_take();
	each_stream(stay_off, &why);
	for (;;) {
		all = true;
		each_stream(is_off, &all);
		rsk_pairing_give();
		if (all || rsk_now_ns() >= until)
			return;
		rsk_sys_ppoll(NULL, 0, &(struct timespec){ .tv_nsec = 1000000 }, NULL);
		rsk_rdma_poll(true);
		rsk_pairing_take();
	}
}

/* A child waits for this stream and cannot see the rail: the progress thread checks it. */
static void off_later(struct rsk_stream *s, void *arg)
{
	int fd = rsk_stream_find_fd(s);
	bool off;

	rsk_lock(&s->tx_lock);
	off = rsk_tx_secure(&s->tx);
	rsk_unlock(&s->tx_lock);
	if (!off && fd >= 0)
		rsk_recovery_linger_add(s, fd);
}

/*
 * Set once by the thread in exit(), before it goes through the streams under their locks; read by
 * each sender that proposes, under its stream's lock. So the thread in exit() finds the stream, or
 * the stream, if it was paired later, sees this flag. A child clears it, since it goes on.
 */
static _Atomic(bool) exiting;

void rsk_recovery_fork(void)
{
	if (!rsk_progress_runs())
		return; /* there are no rails */
	go_off(RSK_TX_STAY_FORK);
	rsk_pairing_take();
	each_stream(off_later, NULL);
	rsk_pairing_give();
}

void rsk_recovery_fork_over(bool child)
{
	if (child)
		atomic_store(&exiting, false);
}

/* Includes streams that were paired since rsk_recovery_fork(). */
void rsk_recovery_forks(void)
{
	uint8_t why = RSK_TX_STAY_FORK;

	each_stream(stay_off, &why);
}

static void call(struct rsk_stream *s, void *arg)
{
	rsk_recovery_call(s);
}

bool rsk_recovery_exiting(void)
{
	return atomic_load(&exiting);
}

void rsk_recovery_exit(void)
{
	atomic_store(&exiting, true);
	go_off(RSK_TX_STAY_END);
	rsk_pairing_take();
	each_stream(call, NULL);
	rsk_pairing_give();
}
