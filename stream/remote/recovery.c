// SPDX-License-Identifier: BSD-2-Clause
/*
 * recovery.c - recovery of streams between hosts: all streams of a link, the linger list, and
 * control words that cannot wait. See recovery.h.
 */
#include "recovery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#include <rsock/sys.h>

#include "arena.h"
#include "progress.h"
#include "links.h"
#include "log.h"
#include "rdma.h"
#include "resets.h"
#include "stream.h"
#include "upcall.h"

/*
 * delay until the next check of what a slow TCP socket, or a slow peer, still has to take; doubles
 */
#define LOOK_AGAIN_NS 1000000ull
#define LOOK_AGAIN_MOST 7

/* ---- all streams of a link ---- */

struct rsk_stream *rsk_recovery_paired(const struct rsk_link *l, uint32_t sid)
{
	struct rsk_stream *s = sid < RSK_SEG_STREAMS ? rsk_link_stream(l, sid) : NULL;

	if (!s || !rsk_stream_pin(s))
		return NULL;
	if (rsk_link_stream(l, sid) == s && rsk_stream_phase(s) >= RSK_PHASE_PAIRING)
		return s;
	rsk_stream_unpin(s);
	return NULL;
}

void rsk_recovery_each(struct rsk_link *l, void (*each)(struct rsk_stream *s, void *arg), void *arg)
{
	uint32_t reach = atomic_load(&l->seg.reach);

	for (uint32_t sid = 0; sid < reach; sid++) {
		struct rsk_stream *s = rsk_recovery_paired(l, sid);

		if (!s)
			continue;
		each(s, arg);
		rsk_stream_unpin(s);
	}
}

/* ---- the linger list: streams that repeat bytes, were closed, or are also a child's ---- */

struct debtor {
	struct rsk_stream *s; /* pinned */
	int fd;	     /* our copy of the descriptor; -1: closed, its ring waits for late writes */
	bool closed; /* no other holder is left: say goodbye once all is delivered */
	struct debtor *prev, *next;
};

/* Private to the process; this lock comes before a stream's. */
static struct {
	struct rsk_lock lock;
	struct debtor *all;
	_Atomic(uint32_t) n;
	/* checks in vain since an entry was added or removed; progress thread */
	uint32_t looks;
	uint32_t seen;
} linger_list;

/* Adds the stream to the linger list. False: no memory or descriptor. */
static bool owes(struct rsk_stream *s, int fd, bool closed)
{
	struct debtor *d = rsk_arena_alloc(sizeof(*d)), *same;

	if (!d)
		return false;
	d->fd = fd < 0 ? -1 : rsk_own_fd_copy(fd);
	if ((d->fd < 0 && fd >= 0) || !rsk_stream_pin(s)) {
		rsk_own_close(d->fd);
		rsk_arena_free(d);
		return false;
	}
	d->s = s;
	d->closed = closed;
	rsk_lock(&linger_list.lock);
	DL_FOREACH(linger_list.all, same)
		if (same->s == s && same->closed == closed)
			break;
	if (!same)
		DL_APPEND(linger_list.all, d);
	rsk_unlock(&linger_list.lock);
	if (same) { /* a peer may ask for the same any number of times */
		rsk_own_close(d->fd);
		rsk_stream_unpin(s);
		rsk_arena_free(d);
		return true;
	}
	atomic_fetch_add(&linger_list.n, 1);
	rsk_progress_call();
	return true;
}

bool rsk_recovery_linger_add(struct rsk_stream *s, int fd)
{
	return owes(s, fd, false);
}

bool rsk_recovery_undrained(const struct rsk_tx *tx)
{
	return tx->reader == RSK_READER_THERE && !(tx->ring.rail->ops->caps & RSK_FABRIC_DURABLE) &&
	       !rsk_tx_arrived(tx);
}

/*
 * Over several rails, which keep no order between them, writes to the ring may still be in flight,
 * and could land in the ring of the next stream with this id. Over one rail they land before all
 * that is put later. tx_lock held.
 */
static bool in_flight(const struct rsk_tx *tx)
{
	const struct rsk_rail *rail = tx->ring.rail;

	return rail->ops->several && rail->ops->several(rail) &&
	       !rail->ops->arrived(tx->ring.rail, tx->ring.off);
}

/* True if the connection has ended: the peer takes nothing any more. */
static bool is_over(int fd)
{
	struct pollfd p = { .fd = fd };

	return rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0;
}

/* True if nothing more is to be done for this entry. */
static bool paid(struct debtor *d)
{
	struct rsk_stream *s = d->s;
	struct rsk_kernel_tcp k;
	bool done;

	if (d->fd < 0) {
		rsk_lock(&s->tx_lock);
		done = !in_flight(&s->tx);
		rsk_unlock(&s->tx_lock);
		return done;
	}
	rsk_kernel_tcp_init(&k, s, d->fd);
	rsk_lock(&s->tx_lock);
	if (rsk_tx_serve(&s->tx, &k.c) == -EPROTO)
		rsk_stream_fail(s, d->fd);
	if (d->closed)
		rsk_tx_fall_back(&s->tx, &k.c);
	rsk_stream_note(s, true, RSK_REASON_PEER_FELL_BACK);
	if (rsk_tx_retransmits(&s->tx) && is_over(d->fd))
		s->tx.state = RSK_TX_TCP;
	if (d->closed)
		done = !rsk_recovery_undrained(&s->tx);
	else if (s->tx.stay_off & RSK_TX_STAY_FORK)
		done = rsk_tx_secure(&s->tx);
	else
		done = !rsk_tx_retransmits(&s->tx) && s->tx.fin != RSK_FIN_DUE &&
		       !rsk_tx_repair_due(&s->tx);
	rsk_unlock(&s->tx_lock);
	return done || rsk_stream_failed(s);
}

void rsk_recovery_work(void)
{
	struct debtor *d, *next, *free_these = NULL;

	if (!atomic_load(&linger_list.n))
		return;
	rsk_rdma_poll(true);
	linger_list.looks =
		atomic_load(&linger_list.n) == linger_list.seen ? linger_list.looks + 1 : 0;
	linger_list.seen = atomic_load(&linger_list.n);
	rsk_lock(&linger_list.lock);
	DL_FOREACH_SAFE(linger_list.all, d, next) {
		if (!paid(d))
			continue;
		DL_DELETE(linger_list.all, d);
		LL_PREPEND(free_these, d);
	}
	rsk_unlock(&linger_list.lock);
	LL_FOREACH_SAFE(free_these, d, next) {
		if (!d->closed)
			rsk_recovery_stir(d->s);
		rsk_upcalls->last_goodbye(d->s, d->fd); /* if it was closed meanwhile */
		rsk_own_close(d->fd);
		rsk_stream_unpin(d->s);
		rsk_arena_free(d);
		atomic_fetch_sub(&linger_list.n, 1);
	}
}

/*
 * TCP had no room in time: another process repeats the rest, or the peer gets a reset, which shows
 * it that bytes are missing.
 */
static void give(struct debtor *d)
{
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	int rc;

	if (d->fd < 0)
		return;
	rsk_lock(&d->s->tx_lock);
	rc = rsk_upcalls->give_owed(d->s, d->fd);
	rsk_unlock(&d->s->tx_lock);
	if (rc < 0)
		rsk_sys_setsockopt(d->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

void rsk_recovery_end(void)
{
	struct debtor *all, *d, *next;

	rsk_lock(&linger_list.lock);
	all = linger_list.all;
	linger_list.all = NULL;
	rsk_unlock(&linger_list.lock);
	DL_FOREACH_SAFE(all, d, next) {
		give(d);
		rsk_own_close(d->fd);
		rsk_stream_unpin(d->s);
		rsk_arena_free(d);
		atomic_fetch_sub(&linger_list.n, 1);
	}
}

uint64_t rsk_recovery_next_ns(void)
{
	uint32_t shift = linger_list.looks < LOOK_AGAIN_MOST ? linger_list.looks : LOOK_AGAIN_MOST;

	return atomic_load(&linger_list.n) ? rsk_now_ns() + (LOOK_AGAIN_NS << shift) : UINT64_MAX;
}

bool rsk_recovery_idle(void)
{
	struct debtor *d;
	bool idle = true;

	rsk_lock(&linger_list.lock);
	DL_FOREACH(linger_list.all, d) {
		rsk_lock(&d->s->tx_lock);
		idle &= d->s->tx.state == RSK_TX_TCP || rsk_stream_failed(d->s);
		rsk_unlock(&d->s->tx_lock);
	}
	rsk_unlock(&linger_list.lock);
	return idle;
}

/*
 * close() is to reset the connection, whatever is in flight: at once, since its addresses may be
 * wanted again.
 */
static bool is_aborted(struct rsk_stream *s, int fd)
{
	struct linger l;

	rsk_resets_linger(s, fd, &l);
	return l.l_onoff && !l.l_linger;
}

void rsk_recovery_linger(struct rsk_stream *s, int fd)
{
	bool due, flying;

	if (!s->link || !s->link->remote || fd < 0 || rsk_stream_phase(s) != RSK_PHASE_PAIRED ||
	    rsk_stream_failed(s))
		return;
	rsk_lock(&s->tx_lock);
	due = rsk_recovery_undrained(&s->tx);
	flying = in_flight(&s->tx);
	rsk_unlock(&s->tx_lock);
	if (due && !is_aborted(s, fd))
		owes(s, fd, true);
	else if (flying)
		owes(s, -1, true);
}

void rsk_recovery_forked(void)
{
	struct debtor *d;

	/*
	 * Only the descriptors are closed: the pins, and the memory of the entries, are copies of
	 * the parent's.
	 */
	DL_FOREACH(linger_list.all, d)
		rsk_own_close(d->fd);
	memset(&linger_list, 0, sizeof(linger_list));
}

/* ---- control words that cannot wait ---- */

void rsk_recovery_call(struct rsk_stream *s)
{
	/* In this order, seq_cst: the progress thread reads the two flags in the reverse order. */
	atomic_store(&s->apply_due, true);
	atomic_store(&s->link->apply_due, true);
	rsk_progress_call();
}

struct applies {
	struct rsk_control_conn *c;
	bool all;
};

/*
 * The control word goes by RDMA and APPLY by TCP: APPLY is sent only after the control word has
 * arrived.
 */
static void say_apply_one(struct rsk_stream *s, void *arg)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_APPLY, .sid = s->sid };
	const struct rsk_rail *rail = &s->link->seg.rail;
	struct applies *h = arg;
	bool arrived;

	if (!atomic_exchange(&s->apply_due, false))
		return;
	rsk_lock(&s->tx_lock);
	arrived = rail->ops->arrived(&s->link->seg.rail, s->tx.ring.off);
	rsk_unlock(&s->tx_lock);
	if (arrived) {
		rsk_control_conn_send(h->c, &m);
	} else if (!atomic_load(&rail->broken)) { /* else BREAK and RESUME say more */
		atomic_store(&s->apply_due, true);
		h->all = false;
	}
}

bool rsk_recovery_say_apply(struct rsk_link *l, struct rsk_control_conn *c)
{
	struct applies h = { c, true };

	if (!atomic_exchange(&l->apply_due, false))
		return true;
	rsk_recovery_each(l, say_apply_one, &h);
	if (!h.all)
		atomic_store(&l->apply_due, true);
	return h.all;
}

void rsk_recovery_apply(struct rsk_link *l, uint32_t sid)
{
	struct rsk_stream *s = rsk_recovery_paired(l, sid);
	struct rsk_kernel_tcp k;
	bool repeats;
	int fd, rc;

	if (!s)
		return;
	fd = rsk_stream_find_fd(s);
	if (fd >= 0) {
		rsk_kernel_tcp_init(&k, s, fd);
		rsk_lock(&s->tx_lock);
		rc = rsk_tx_serve(&s->tx, &k.c);
		rsk_stream_note(s, true, RSK_REASON_PEER_FELL_BACK);
		repeats = rsk_tx_retransmits(&s->tx) || rsk_tx_repair_due(&s->tx);
		rsk_unlock(&s->tx_lock);
		rsk_lock(&s->rx_lock);
		if (rc != -EPROTO)
			rc = rsk_rx_serve(&s->rx, &k.c);
		/* The sender may rest, and wait for that (ring_width.h). */
		if (rc == 0)
			rc = rsk_rx_catch_up(&s->rx);
		rsk_stream_note(s, false, RSK_REASON_PEER_FELL_BACK);
		rsk_unlock(&s->rx_lock);
		if (rc == -EPROTO)
			rsk_stream_fail(s, fd);
		else if (repeats)
			owes(s, fd, false);
		rsk_stream_notify(s, RSK_WAKE_RX | RSK_WAKE_TX);
	}
	rsk_recovery_stir(s);
	rsk_stream_unpin(s);
}
