// SPDX-License-Identifier: BSD-2-Clause
/*
 * recovery_break.c - the streams of a link whose last rail breaks: each end reports what it has
 * consumed, and the other end repeats the rest. Afterwards there is another rail, or the peer ends,
 * or it is lost. See recovery.h. Only the progress thread runs this.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "links.h"
#include "recovery.h"
#include "stream.h"

/* ---- a rail breaks ---- */

struct say {
	rsk_recovery_say_fn *say;
	void *arg;
};

static void break_one(struct rsk_stream *s, void *arg)
{
	const struct say *say = arg;
	uint64_t pos, cell, owed, ring_end;

	rsk_lock(&s->tx_lock);
	rsk_tx_break(&s->tx);
	owed = rsk_tx_owed_to(&s->tx);
	ring_end = rsk_tx_ring_end(&s->tx);
	rsk_stream_note(s, true, RSK_REASON_LINK_BROKEN);
	rsk_unlock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	rsk_rx_break(&s->rx, &pos, &cell);
	/* this end has shut reading: its end of stream waits for no repeated bytes */
	if (atomic_load(&s->rd_shut))
		rsk_rx_owe_is_moot(&s->rx);
	rsk_stream_note(s, false, RSK_REASON_LINK_BROKEN);
	rsk_unlock(&s->rx_lock);
	rsk_stats_set_reason(s->rec, RSK_REASON_LINK_BROKEN);
	say->say(say->arg, s->sid, pos, cell, owed, ring_end);
	rsk_recovery_stir(s);
}

void rsk_recovery_break(struct rsk_link *l, rsk_recovery_say_fn *say, void *arg)
{
	struct say each = { say, arg };

	rsk_recovery_each(l, break_one, &each);
}

void rsk_recovery_resume(struct rsk_link *l, uint32_t sid, uint64_t pos, uint64_t cell,
			 uint64_t owed, uint64_t ring_end)
{
	struct rsk_stream *s = rsk_recovery_paired(l, sid);
	struct rsk_kernel_tcp k;
	bool repeats;
	int fd, rc, short_of;

	if (!s)
		return;
	rsk_lock(&s->rx_lock);
	short_of = rsk_rx_owe(&s->rx, owed, ring_end);
	rsk_unlock(&s->rx_lock);
	fd = rsk_stream_find_fd(s);
	rsk_kernel_tcp_init(&k, s, fd);
	rsk_lock(&s->tx_lock);
	rc = rsk_tx_resume(&s->tx, &k.c, pos, cell);
	repeats = rsk_tx_retransmits(&s->tx);
	rsk_unlock(&s->tx_lock);
	if (rc == -EPROTO || short_of < 0)
		rsk_stream_fail(s, fd);
	else if (repeats && fd >= 0)
		rsk_recovery_linger_add(s, fd);
	rsk_stats_event(s->rec, rsk_now_ns(), RSK_EVENT_RESUMED, RSK_REASON_LINK_BROKEN);
	rsk_recovery_stir(s);
	rsk_stream_unpin(s);
}

static void resumed_one(struct rsk_stream *s, void *arg)
{
	int rc = 0;

	rsk_lock(&s->rx_lock);
	if (s->rx.rail_loss.owed == RSK_RX_OWED_UNKNOWN)
		rc = rsk_rx_owe(&s->rx, 0, RSK_RX_NO_REPORT);
	rsk_unlock(&s->rx_lock);
	if (rc < 0)
		rsk_stream_fail(s, rsk_stream_find_fd(s));
	rsk_lock(&s->tx_lock);
	rsk_tx_forgotten(&s->tx);
	rsk_unlock(&s->tx_lock);
	rsk_recovery_stir(s);
}

void rsk_recovery_resumed(struct rsk_link *l)
{
	rsk_recovery_each(l, resumed_one, NULL);
}

static void broken_one(struct rsk_stream *s, void *arg)
{
	bool *broken = arg;

	rsk_lock(&s->tx_lock);
	*broken |= s->tx.state == RSK_TX_BROKEN;
	rsk_unlock(&s->tx_lock);
}

bool rsk_recovery_is_broken(struct rsk_link *l)
{
	bool broken = false;

	rsk_recovery_each(l, broken_one, &broken);
	return broken;
}

/* ---- another rail ---- */

struct renewal {
	void (*each)(void *arg, uint32_t sid);
	void *arg;
};

static void renew_one(struct rsk_stream *s, void *arg)
{
	const struct renewal *n = arg;
	uint64_t up = rsk_link_key(s->link, s->pairing.key_up),
		 down = rsk_link_key(s->link, s->pairing.key_down);

	rsk_lock(&s->rx_lock);
	rsk_rx_renew(&s->rx, s->connecting_side ? down : up);
	s->repair.called = 0; /* requests are counted from 1 on again */
	s->repair.called_ns = s->quiesced.since_ns = 0;
	rsk_unlock(&s->rx_lock);
	rsk_lock(&s->tx_lock);
	rsk_tx_renew(&s->tx, s->connecting_side ? up : down);
	s->full.repropose_work = 0;
	rsk_unlock(&s->tx_lock);
	n->each(n->arg, s->sid);
}

void rsk_recovery_renew(struct rsk_link *l, void (*each)(void *arg, uint32_t sid), void *arg)
{
	struct renewal n = { each, arg };

	rsk_recovery_each(l, renew_one, &n);
}

/* ---- a peer dies, or ends ---- */

static void lose_one(struct rsk_stream *s, void *arg)
{
	struct rsk_kernel_tcp k;
	bool owed, repeats;
	int fd = rsk_stream_find_fd(s);

	rsk_kernel_tcp_init(&k, s, fd);
	rsk_lock(&s->rx_lock);
	rsk_rx_lose(&s->rx);
	rsk_unlock(&s->rx_lock);
	rsk_lock(&s->tx_lock);
	/* the peer's last control word: what it has consumed, or that it has closed */
	rsk_tx_serve(&s->tx, &k.c);
	owed = rsk_recovery_undrained(&s->tx) && s->tx.ring.data_end > s->tx.ring.told;
	if (s->tx.state == RSK_TX_HELD && s->tx.resend.pos == s->tx.pos)
		rsk_tx_unhold(&s->tx);
	/*
	 * What the peer has asked to have repeated is read by its next program, or by a process
	 * that got the socket.
	 */
	repeats = s->tx.state == RSK_TX_RESEND;
	if (!repeats)
		rsk_tx_to_tcp(&s->tx);
	rsk_tx_reader_gone(&s->tx, RSK_READER_LOST);
	s->tx.peer_fell_back = true;
	rsk_tx_fin_now(&s->tx, &k.c);
	rsk_stream_note(s, true, RSK_REASON_PEER_DEAD);
	/*
	 * What the peer has not consumed cannot be repeated now, and nothing newer may be sent
	 * without it: another process may hold the peer's socket. Under the lock, so that no send
	 * comes before.
	 */
	if (owed && !repeats && fd >= 0)
		rsk_sys_shutdown(fd, SHUT_WR);
	rsk_unlock(&s->tx_lock);
	if (repeats && fd >= 0)
		rsk_recovery_linger_add(s, fd);
	else if (owed)
		rsk_stream_lose(s, fd);
	rsk_recovery_stir(s);
}

void rsk_recovery_lost(struct rsk_link *l)
{
	rsk_recovery_each(l, lose_one, NULL);
}

void rsk_recovery_ending(struct rsk_link *l, uint32_t sid, uint64_t cell)
{
	struct rsk_stream *s = rsk_recovery_paired(l, sid);

	if (!s)
		return;
	rsk_lock(&s->rx_lock);
	rsk_rx_ending(&s->rx, cell);
	rsk_unlock(&s->rx_lock);
	rsk_stream_unpin(s);
}

static void say_one(struct rsk_stream *s, void *arg)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_ENDING, .sid = s->sid };
	bool watched;

	rsk_lock(&s->tx_lock);
	watched = s->tx.state == RSK_TX_PROPOSED;
	if (watched)
		rsk_tx_fall_back(&s->tx, NULL);
	m.cell = s->tx.state == RSK_TX_ONRING ? s->tx.ring.next : 0;
	rsk_unlock(&s->tx_lock);
	if (m.cell || watched)
		rsk_control_conn_send(arg, &m);
}

static void consumed_one(struct rsk_stream *s, void *arg)
{
	rsk_lock(&s->rx_lock);
	rsk_rx_give_credit(&s->rx, true);
	rsk_unlock(&s->rx_lock);
	rsk_stream_notify(s, RSK_WAKE_TX);
}

void rsk_recovery_say_consumed(struct rsk_link *l)
{
	rsk_recovery_each(l, consumed_one, NULL);
}

void rsk_recovery_say_ending(struct rsk_link *l, struct rsk_control_conn *c)
{
	rsk_recovery_each(l, say_one, c);
}
