// SPDX-License-Identifier: BSD-2-Clause
/*
 * poll.c - takes the completions of receives, which the peers' messages cause. Called by any
 * thread, also by several at once.
 *
 * A thread that reads the channel's event arms the queue before it takes any completion (model:
 * test/model/completions.pml), and then takes completions until there are none, or signals through
 * news_fd that some are left. It calls host->news() for them without holding a lock.
 *
 * A completion names a queue pair. The thread looks up its rail under dev->lock and counts itself
 * in rail->in_poll as long as it uses the rail. rsk_vdev_remove() takes the rail out of the table,
 * so that no thread can enter any more, and waits until the count is 0. So a rail is never used
 * after it was broken, and a completion of a queue pair that no longer exists finds no rail.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>

#include <rsock/sys.h>

#include "dev.h"
#include "post.h"

#define TAKE 32
#define POST 32
#define ACKS 64	  /* events that are acknowledged at once */
#define ROUNDS 32 /* of TAKE completions, before the thread returns to its other work */
#define OWED_UNITS (RSK_INDIRECT_UNITS / 4)

struct taken {
	struct rsk_verbs_rail *rail;
	uint32_t imm;
	int err;
};

/*
 * Reads all events of the channel and arms their queues. It reads all of them because an
 * edge-triggered waiter is not told about events that were left. A queue has at most one event
 * there, because it is armed again only after that was read: after as many as there are queues no
 * read has to find that there is none.
 */
static void rearm(struct rsk_vdev *d)
{
	uint32_t left = d->cqs_n;
	struct ibv_cq *cq;
	bool any = false;
	void *ctx;

	for (; left && ibv_get_cq_event(d->recv_channel, &cq, &ctx) == 0; left--) {
		struct rsk_vcq *q = ctx;

		q->disarmed = any = true;
		if (++q->unacked == ACKS) {
			ibv_ack_cq_events(cq, ACKS);
			q->unacked = 0;
		}
		RSK_COUNT(d->v, EVENTS, 1);
	}
	for (struct rsk_vcq *q = any ? d->cqs : NULL; q; q = q->next)
		if (q->disarmed) {
			q->disarmed = false;
			ibv_req_notify_cq(q->cq, 0);
		}
}

/*
 * Takes as many completions as fit. Each call starts with another queue, so that none is starved.
 */
static int poll_cqs(struct rsk_vdev *d, struct ibv_wc wc[static TAKE])
{
	struct rsk_vcq *q = d->turn ? d->turn : d->cqs;
	int n = 0;

	if (!q)
		return 0;
	d->turn = q->next;
	for (uint32_t i = 0; i < d->cqs_n && n < TAKE; i++) {
		int got = ibv_poll_cq(q->cq, TAKE - n, wc + n);

		n += got > 0 ? got : 0;
		q = q->next ? q->next : d->cqs;
	}
	return n;
}

int rsk_recvs_post(struct rsk_verbs_rail *r, uint32_t n)
{
	struct ibv_recv_wr wr[POST], *bad;

	while (n) {
		uint32_t now = n < POST ? n : POST;

		/* No buffer: a message consists of its immediate only. */
		for (uint32_t i = 0; i < now; i++)
			wr[i] = (struct ibv_recv_wr){ .next = i + 1 < now ? &wr[i + 1] : NULL };
		if (ibv_post_srq_recv(r->srq, wr, &bad))
			return -EIO;
		n -= now;
	}
	return 0;
}

/*
 * Posts the receives that a peer has used up again, to the same queue, an eighth of them at once; a
 * peer that sends faster than we take waits for its own receives only. A rail that has failed or
 * ended gets none.
 */
static void post_again(const struct rsk_vdev *d, const struct taken *t, int n)
{
	for (int i = 0; i < n; i++)
		if (t[i].rail)
			t[i].rail->recv_owed++;
	for (int i = 0; i < n; i++) {
		struct rsk_verbs_rail *r = t[i].rail;

		if (!r || !r->recv_owed || r->recv_owed < d->recvs / 8 || t[i].err ||
		    atomic_load(&r->err))
			continue;
		if (rsk_recvs_post(r, r->recv_owed))
			rsk_rail_fail(r, -EIO);
		r->recv_owed = 0;
	}
}

static void look_up(struct rsk_vdev *d, const struct ibv_wc *wc, struct taken *t)
{
	uint32_t units;

	*t = (struct taken){ .rail = d->found };
	if (!t->rail || t->rail->qp_num != wc->qp_num)
		HASH_FIND(hh, d->rails, &wc->qp_num, sizeof(wc->qp_num), t->rail);
	if (!t->rail)
		return;
	d->found = t->rail;
	atomic_fetch_add(&t->rail->in_poll, 1);
	if (wc->status != IBV_WC_SUCCESS) {
		t->err = -EIO;
		return;
	}
	/* Our peers send nothing but writes with immediate. */
	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
		t->err = -EPROTO;
		return;
	}
	t->imm = ntohl(wc->imm_data);
	units = RSK_IMM_UNITS(t->imm);
	if (RSK_IMM_REST(t->imm) || RSK_IMM_SID(t->imm) >= rsk_seg_streams(t->rail->seg) ||
	    units > RSK_INDIRECT_UNITS || RSK_IMM_KIND(t->imm) > RSK_IMM_FLUSH)
		t->err = -EPROTO;
	else if (RSK_IMM_KIND(t->imm) == RSK_IMM_DATA && units &&
		 atomic_fetch_add(&t->rail->in_avail, units) + units > RSK_INDIRECT_UNITS)
		t->err = -EPROTO;
}

static int take(struct rsk_vdev *d, struct taken *t, bool events)
{
	struct ibv_wc wc[TAKE];
	int n;

	pthread_mutex_lock(&d->lock);
	if (atomic_load(&d->dead)) {
		pthread_mutex_unlock(&d->lock);
		return 0;
	}
	if (events)
		rearm(d);
	n = poll_cqs(d, wc);
	for (int i = 0; i < n; i++)
		look_up(d, &wc[i], &t[i]);
	post_again(d, t, n);
	pthread_mutex_unlock(&d->lock);
	return n;
}

static int place_entry(struct rsk_verbs_rail *r, const struct rsk_indirect_entry *e)
{
	const uint8_t *cells = r->buf->in + rsk_indirect_place(r->in_at + 1);

	if (e->sid == RSK_INDIRECT_WORDS)
		return rsk_control_msgs_put(&r->heard, e->off, cells, e->bytes);
	memcpy(r->seg->rail.segment + rsk_seg_ring_off(&r->seg->own, e->sid) + e->off, cells,
	       e->bytes);
	return 0;
}

/*
 * Moves one entry of the indirect buffer to its place. Returns its stream, or RSK_INDIRECT_WORDS;
 * -1: there is none, or it has to wait until the progress thread has taken control messages from
 * their full queue; or -errno - 1.
 */
static int64_t move_entry(struct rsk_verbs_rail *r)
{
	uint32_t streams = rsk_seg_streams(r->seg), reach = atomic_load(&r->seg->reach);
	struct rsk_indirect_entry e;
	int64_t sid = -1;
	uint32_t avail;

	pthread_mutex_lock(&r->in_lock);
	avail = atomic_load(&r->in_avail);
	if (avail) {
		int units = rsk_indirect_take(r->buf->in, r->in_at, avail,
					      reach < streams ? reach : streams,
					      r->seg->own.ring_bytes, &e);

		int rc = units < 0 ? units : place_entry(r, &e);

		if (rc < 0 && rc != -ENOBUFS) {
			sid = rc - 1;
		} else if (rc == 0) {
			r->in_at += (uint32_t)units;
			r->in_owed += (uint32_t)units;
			atomic_fetch_sub(&r->in_avail, (uint32_t)units);
			sid = e.sid;
		}
	}
	pthread_mutex_unlock(&r->in_lock);
	return sid;
}

/*
 * Moves everything that has arrived, whichever thread received it, in order and before this thread
 * goes on. Returns false if nothing could be moved or the peer broke the protocol.
 */
static bool move_entries(struct rsk_verbs_rail *r, bool all_back)
{
	const struct rsk_verbs_host *host = &r->v->host;
	uint32_t owed = 0;
	bool any = false;
	int64_t sid;

	for (; (sid = move_entry(r)) >= 0; any = true)
		if (sid == RSK_INDIRECT_WORDS)
			host->call(host->ctx);
		else
			host->news(host->ctx, r->ctx, (uint32_t)sid, RSK_WAKE_RX);
	if (sid < -1) {
		rsk_rail_fail(r, (int)(sid + 1));
		return false;
	}
	pthread_mutex_lock(&r->in_lock);
	if (r->in_owed >= OWED_UNITS || all_back) {
		owed = r->in_owed;
		r->in_owed = 0;
	}
	pthread_mutex_unlock(&r->in_lock);
	if (!owed)
		return any;
	pthread_mutex_lock(&r->lock);
	r->give_back += owed;
	rsk_flush_lists(r);
	pthread_mutex_unlock(&r->lock);
	return any;
}

bool rsk_rail_hear(struct rsk_verbs_rail *r)
{
	const struct rsk_verbs_host *host = &r->v->host;
	uint8_t word[RSK_VERBS_MSG_BYTES];
	bool any;

	if (!r->hears)
		return false;
	pthread_mutex_lock(&r->in_lock);
	any = rsk_control_msgs_take(&r->heard, word);
	pthread_mutex_unlock(&r->in_lock);
	if (!any)
		return false;
	r->hears--;
	/*
	 * Move what had to wait for this place; and the peer may have asked meanwhile for a report
	 * of all that was moved.
	 */
	move_entries(r, true);
	host->heard(host->ctx, r->ctx, word);
	return true;
}

static void room(struct rsk_verbs_rail *r, uint32_t units)
{
	bool bad;

	pthread_mutex_lock(&r->lock);
	bad = units > r->out_at - r->out_taken;
	if (!bad) {
		r->out_taken += units;
		rsk_flush_lists(r);
	}
	pthread_mutex_unlock(&r->lock);
	if (bad)
		rsk_rail_fail(r, -EPROTO);
}

static void tell(struct rsk_verbs_rail *r, const struct taken *t)
{
	const struct rsk_verbs_host *host = &r->v->host;

	if (t->err || atomic_load(&r->err)) {
		if (t->err)
			rsk_rail_fail(r, t->err);
		return;
	}
	switch (RSK_IMM_KIND(t->imm)) {
	case RSK_IMM_ROOM:
		room(r, RSK_IMM_UNITS(t->imm));
		return;
	case RSK_IMM_FLUSH:
		move_entries(r, true);
		return;
	default:
		if (RSK_IMM_UNITS(t->imm))
			move_entries(r, false);
		if (RSK_IMM_WHAT(t->imm))
			host->news(host->ctx, r->ctx, RSK_IMM_SID(t->imm), RSK_IMM_WHAT(t->imm));
	}
}

int rsk_vdev_poll(struct rsk_vdev *d, bool events)
{
	static const uint64_t one = 1;
	struct taken t[TAKE];
	int n, all = 0;

	for (int round = 0; round < ROUNDS; round++) {
		n = take(d, t, events);
		for (int i = 0; i < n; i++) {
			if (!t[i].rail)
				continue;
			tell(t[i].rail, &t[i]);
			atomic_fetch_sub(&t[i].rail->in_poll, 1);
		}
		all += n;
		if (n < TAKE) {
			if (all)
				RSK_COUNT(d->v, COMPLETIONS, (uint64_t)all);
			return all;
		}
	}
	RSK_COUNT(d->v, COMPLETIONS, (uint64_t)all);
	/* More completions may be there, for which no event will come. */
	atomic_store(&d->v->more, true);
	rsk_sys_write(d->v->more_fd, &one, sizeof(one));
	return all;
}

int rsk_verbs_poll(struct rsk_verbs *v, bool events)
{
	struct rsk_quiet q = rsk_quiet_begin();
	uint64_t count;
	int n = 0;

	if (atomic_exchange(&v->more, false))
		rsk_sys_read(v->more_fd, &count, sizeof(count));
	for (struct rsk_vdev *d = atomic_load(&v->devs); d; d = d->next)
		n += rsk_vdev_poll(d, events);
	rsk_quiet_end(&q);
	return n;
}

void rsk_vdev_add(struct rsk_vdev *d, struct rsk_verbs_rail *r)
{
	pthread_mutex_lock(&d->lock);
	HASH_ADD(hh, d->rails, qp_num, sizeof(r->qp_num), r);
	pthread_mutex_unlock(&d->lock);
}

void rsk_vdev_drain(struct rsk_vdev *d)
{
	uint32_t most = d->cqs_n * d->cq_rails * d->recvs;

	/*
	 * At most as many as the queues hold, so that the peers of other rails cannot prolong this.
	 */
	for (uint32_t left = most / (TAKE * ROUNDS) + 1; left; left--)
		if (rsk_vdev_poll(d, true) < TAKE * ROUNDS)
			return;
}

void rsk_vdev_remove(struct rsk_vdev *d, struct rsk_verbs_rail *r)
{
	/* Take the completions that its peer's messages have left in the queue. */
	rsk_vdev_drain(d);
	pthread_mutex_lock(&d->lock);
	HASH_DELETE(hh, d->rails, r);
	d->found = NULL;
	pthread_mutex_unlock(&d->lock);
	/*
	 * Now the queue pair is in error. None of its completions may be left in the queue when the
	 * device gives its number to another one.
	 */
	rsk_vdev_drain(d);
	while (atomic_load(&r->in_poll))
		sched_yield();
	/*
	 * The data was acknowledged, so the peer counts it as arrived (rsk_flush_arrived()): it is
	 * moved to its place, whatever has happened to the rail since. Control messages have come
	 * by the control connection as well, or will.
	 */
	do {
		pthread_mutex_lock(&r->in_lock);
		r->heard.n = 0;
		pthread_mutex_unlock(&r->in_lock);
	} while (move_entries(r, false));
}
