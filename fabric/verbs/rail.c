// SPDX-License-Identifier: BSD-2-Clause
/*
 * rail.c - creation, setup and teardown of rails: queue pair, exchange of keys, break. Called by
 * cm.c, events.c and through the module's table, on the progress thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rsock/clock.h>
#include <rsock/sys.h>

#include <sys/mman.h>

#include "dev.h"
#include "ops.h"
#include "post.h"
#include "rail.h"

#define RNR_TIMER 18 /* 5.12 ms */

struct rsk_verbs_rail *rsk_rail_new(struct rsk_verbs *v, struct rsk_seg *seg, struct rsk_rail *rail,
				    void *ctx)
{
	uint32_t streams = seg->own.streams > seg->peer.streams ? seg->own.streams :
								  seg->peer.streams;
	uint32_t groups = (streams + RSK_VERBS_GROUP - 1) / RSK_VERBS_GROUP;
	struct rsk_verbs_rail *r = calloc(1, sizeof(*r) + groups * sizeof(r->group[0]));
	void *buf = rsk_sys_mmap(NULL, sizeof(*r->buf), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!r || rsk_sys_is_err(buf)) {
		free(r);
		if (!rsk_sys_is_err(buf))
			rsk_sys_munmap(buf, sizeof(*r->buf));
		return NULL;
	}
	r->buf = buf;
	r->v = v;
	r->seg = seg;
	r->ctx = ctx;
	r->groups = groups;
	pthread_mutex_init(&r->lock, NULL);
	pthread_mutex_init(&r->in_lock, NULL);
	r->rail = rail;
	rail->window = seg->rail.window;
	rail->window_bytes = seg->rail.window_bytes;
	rail->segment = seg->rail.segment;
	rail->segment_bytes = seg->rail.segment_bytes;
	rail->ops = &rsk_verbs_ops;
	rail->priv = r;
	r->next = v->rails;
	if (r->next)
		r->next->prev = r;
	v->rails = r;
	return r;
}

void rsk_rail_free(struct rsk_verbs_rail *r)
{
	rsk_rail_break(r);
	rsk_mr_drop_all(r);
	if (r->prev)
		r->prev->next = r->next;
	else
		r->v->rails = r->next;
	if (r->next)
		r->next->prev = r->prev;
	for (uint32_t i = 0; i < r->groups; i++)
		free(atomic_load(&r->group[i]));
	rsk_control_msgs_free(&r->said);
	rsk_sys_munmap(r->buf, sizeof(*r->buf));
	pthread_mutex_destroy(&r->lock);
	pthread_mutex_destroy(&r->in_lock);
	free(r);
}

static int create_qp(struct rsk_verbs_rail *r)
{
	static const uint32_t inlines[] = { RSK_VERBS_INLINE, 96, RSK_VERBS_INLINE_LEAST };
	struct rsk_vdev *d = r->dev;

	for (size_t i = 0; i < sizeof(inlines) / sizeof(*inlines); i++) {
		struct ibv_qp_init_attr attr = {
			.qp_context = r,
			.send_cq = r->cq,
			.recv_cq = r->recv_cq->cq,
			.srq = r->srq,
			.cap = { .max_send_wr = d->depth,
				 .max_send_sge = 1,
				 .max_inline_data = inlines[i] },
			.qp_type = IBV_QPT_RC,
		};

		if (rsk_cm->create_qp(r->id, r->pd, &attr) == 0) {
			r->qp = r->id->qp;
			r->max_inline = attr.cap.max_inline_data;
			return 0;
		}
	}
	return errno ? -errno : -EIO;
}

static void describe(struct rsk_verbs_rail *r)
{
	struct ibv_port_attr port;

	snprintf(r->device, sizeof(r->device), "%s/%u", ibv_get_device_name(r->dev->ctx->device),
		 r->id->port_num);
	r->mtu_bytes = 0;
	if (ibv_query_port(r->dev->ctx, r->id->port_num, &port) == 0)
		r->mtu_bytes = 128u << port.active_mtu;
}

int rsk_rail_make_qp(struct rsk_verbs_rail *r)
{
	struct rsk_vdev *d;
	int rc;

	d = rsk_vdev_get(r->v, r->id->verbs, &rc);
	if (!d)
		return rc;
	if (r->dev != d)
		rsk_mr_drop_all(r);
	r->dev = d;
	rc = rsk_domain_open(r);
	if (rc == 0)
		rc = rsk_mr_buffers(r);
	if (rc < 0)
		return rc;
	describe(r);
	/*
	 * Each rail has its own CQ, so that it cannot overflow even when the whole send queue is
	 * flushed.
	 */
	r->cq = ibv_create_cq(d->ctx, (int)d->depth, r, d->send_channel, 0);
	if (!r->cq)
		return errno ? -errno : -ENOMEM;
	rc = rsk_recvs_open(r);
	if (rc == 0)
		rc = create_qp(r);
	if (rc < 0) {
		rsk_recvs_close(r);
		ibv_destroy_cq(r->cq);
		r->cq = NULL;
		return rc;
	}
	/* Normally only errors cause events. */
	ibv_req_notify_cq(r->cq, 1);
	r->depth = d->depth;
	r->posted = r->done = r->signalled = 0;
	rsk_rate_estimator_reset(r);
	r->armed_all = false;
	r->in_at = r->out_at = r->out_taken = 0;
	r->in_owed = r->give_back = 0;
	r->heard.n = r->heard.bytes = 0;
	atomic_store(&r->in_avail, 0);
	r->qp_num = r->qp->qp_num;
	rsk_vdev_add(d, r);
	return 0;
}

void rsk_rail_up(struct rsk_verbs_rail *r)
{
	const struct rsk_verbs_host *host = &r->v->host;

	/*
	 * The peer repeats a message after this time if it finds no receive; rdma_cm's default is
	 * 655 ms. Not every device can change it.
	 */
	struct ibv_qp_attr attr = { .min_rnr_timer = RNR_TIMER };

	ibv_modify_qp(r->qp, &attr, IBV_QP_MIN_RNR_TIMER);
	pthread_mutex_lock(&r->lock);
	r->live = true;
	pthread_mutex_unlock(&r->lock);
	r->state = RSK_RAIL_UP;
	host->up(host->ctx, r->ctx);
}

/*
 * Drops what could not be moved and control messages that were not passed on. No thread will take
 * them.
 */
static void forget_heard(struct rsk_verbs_rail *r)
{
	pthread_mutex_lock(&r->in_lock);
	r->heard.n = r->heard.bytes = 0;
	atomic_store(&r->in_avail, 0);
	pthread_mutex_unlock(&r->in_lock);
}

/* Stops sending: drops pending writes, and the keys that the peer has sent. */
static void forget(struct rsk_verbs_rail *r)
{
	pthread_mutex_lock(&r->lock);
	r->live = false;
	r->peer_known = false;
	r->ask_back = false;
	rsk_control_msgs_free(&r->said);
	memset(r->list, 0, sizeof(r->list));
	atomic_store(&r->fresh_n, 0);
	r->arrivals = 0;
	for (uint32_t i = 0; i < RSK_VERBS_READS; i++)
		if (r->read[i].state == RSK_READ_POSTED) {
			r->read[i].state = RSK_READ_DONE;
			r->read[i].status = -EPIPE;
		}
	for (uint32_t i = 0; i < r->groups; i++) {
		struct rsk_vgroup *g = rsk_rail_has_group(r, i);

		if (!g)
			continue;
		g->ctl_known = false;
		for (uint32_t n = 0; n < RSK_VERBS_GROUP; n++) {
			struct rsk_vstream *s = &g->stream[n];

			s->pending_writes = (struct rsk_pending_writes){ .ranges = 0 };
			atomic_store(&s->way, RSK_VERBS_CLOSED);
			s->due = 0;
			s->pending = false;
			s->listed = 0;
			s->fresh = s->arrival = false;
			s->last = 0;
			s->indirect_to = 0;
		}
	}
	pthread_mutex_unlock(&r->lock);
}

void rsk_rail_break(struct rsk_verbs_rail *r)
{
	if (r->state == RSK_RAIL_IDLE)
		return;
	r->state = RSK_RAIL_IDLE;
	forget(r);
	if (r->qp) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

		/* This tells the peer, if it can be reached. */
		rsk_cm->disconnect(r->id);
		ibv_modify_qp(r->qp, &attr, IBV_QP_STATE);
		rsk_vdev_remove(r->dev, r);
		forget_heard(r);
		rsk_cm->destroy_qp(r->id);
		r->qp = NULL;
		rsk_recvs_close(r);
		ibv_destroy_cq(r->cq);
		r->cq = NULL;
		/*
		 * Nobody says any more that they are not used, and their pages may be dropped while
		 * other rails carry the stream.
		 */
		rsk_mr_narrow_all(r);
	}
	if (r->id)
		rsk_cm->destroy_id(r->id);
	r->id = NULL;
}

void rsk_rail_down(struct rsk_verbs_rail *r, int err)
{
	const struct rsk_verbs_host *host = &r->v->host;

	atomic_store_explicit(&r->rail->broken, err, memory_order_relaxed);
	rsk_rail_break(r);
	host->down(host->ctx, r->ctx, err);
}

void rsk_rails_leave(struct rsk_vdev *d)
{
	struct rsk_verbs_rail *r = d->v->rails;

	/* down() may free rails, or connect them again by another device: start again. */
	while (r) {
		bool up = r->id && r->id->verbs == d->ctx;

		if (!up && r->dev != d) {
			r = r->next;
			continue;
		}
		if (up) {
			atomic_store(&r->rail->broken, -ENODEV);
			rsk_rail_break(r);
		}
		if (r->dev == d) {
			rsk_mr_drop_all(r);
			r->dev = NULL;
		}
		if (up)
			rsk_rail_down(r, -ENODEV);
		r = d->v->rails;
	}
}

int rsk_rail_end(struct rsk_verbs_rail *r, struct rsk_verbs_end *out)
{
	if (r->state != RSK_RAIL_UP)
		return -ENOTCONN;
	*out = (struct rsk_verbs_end){ .segment = (uintptr_t)r->seg->rail.segment,
				       .indirect = (uintptr_t)r->buf->in,
				       .indirect_rkey = r->in_mr->rkey };
	return 0;
}

int rsk_rail_set_peer(struct rsk_verbs_rail *r, const struct rsk_verbs_end *peer)
{
	if (r->state != RSK_RAIL_UP)
		return -ENOTCONN;
	if (peer->pad || peer->segment > UINT64_MAX - r->seg->peer.bytes ||
	    peer->indirect > UINT64_MAX - RSK_INDIRECT_BYTES)
		return -EPROTO;
	pthread_mutex_lock(&r->lock);
	r->peer = *peer;
	r->peer_known = true;
	pthread_mutex_unlock(&r->lock);
	return 0;
}

/* Called with the lock held: posts what has waited for a key. */
static void kick(struct rsk_verbs_rail *r, uint32_t sid)
{
	struct rsk_vstream *s = rsk_rail_stream(r, sid);

	if (s->pending && s->listed != RSK_LIST_QUEUE + 1)
		rsk_flush_stream(r, sid, s);
}

int rsk_rail_set_ctl(struct rsk_verbs_rail *r, uint32_t group, uint32_t rkey)
{
	struct rsk_vgroup *g;

	if (r->state != RSK_RAIL_UP)
		return -ENOTCONN;
	g = rsk_rail_group(r, group);
	if (!g)
		return group < r->groups ? -ENOMEM : -EINVAL;
	pthread_mutex_lock(&r->lock);
	g->ctl_rkey = rkey;
	g->ctl_known = true;
	for (uint32_t i = 0; i < RSK_VERBS_GROUP; i++)
		kick(r, group * RSK_VERBS_GROUP + i);
	pthread_mutex_unlock(&r->lock);
	return 0;
}

int rsk_rail_set_ring(struct rsk_verbs_rail *r, uint32_t sid, enum rsk_verbs_way way, uint32_t rkey,
		      uint32_t bytes)
{
	struct rsk_vstream *s;
	struct ibv_mr *mr = NULL;
	int rc = 0;

	if (r->state != RSK_RAIL_UP)
		return -ENOTCONN;
	if (sid >= rsk_seg_streams(r->seg) || bytes > r->seg->peer.ring_bytes)
		return -EINVAL;
	if (!rsk_rail_group(r, sid / RSK_VERBS_GROUP))
		return -ENOMEM;
	s = rsk_rail_stream(r, sid);
	if (way == RSK_VERBS_DIRECT) {
		mr = rsk_mr_width(r, &s->window,
				  r->seg->rail.window + rsk_seg_ring_off(&r->seg->peer, sid), bytes,
				  IBV_ACCESS_LOCAL_WRITE, &rc);
		/* What is reached directly already, by a narrower ring, stays so. */
		if (!mr && atomic_load(&s->way) == RSK_VERBS_DIRECT)
			return rc;
		if (!mr)
			way = RSK_VERBS_INDIRECT;
	}
	pthread_mutex_lock(&r->lock);
	s->rkey = rkey;
	s->lkey = mr ? mr->lkey : 0;
	atomic_store_explicit(&s->way, (uint8_t)way, memory_order_relaxed);
	if (way == RSK_VERBS_DIRECT && s->indirect_to > r->out_taken) {
		r->ask_back = true;
		rsk_flush_lists(r);
	}
	kick(r, sid);
	pthread_mutex_unlock(&r->lock);
	return way;
}

int rsk_rail_narrow_window(struct rsk_verbs_rail *r, uint32_t sid, uint32_t rkey, uint32_t bytes)
{
	struct rsk_vstream *s = rsk_rail_stream(r, sid);
	int rc = -ENOTCONN;

	pthread_mutex_lock(&r->lock);
	if (s && r->live && !atomic_load(&r->err))
		rc = rsk_flush_is_there(r, s) ? 0 : -EAGAIN;
	if (rc == 0 && atomic_load(&s->way) == RSK_VERBS_DIRECT && s->window.mr[0]) {
		s->rkey = rkey;
		s->lkey = s->window.mr[0]->lkey;
	}
	pthread_mutex_unlock(&r->lock);
	if (rc == 0)
		rsk_mr_narrow(r->v, &s->window, bytes);
	return rc;
}

int rsk_rail_ring_way(const struct rsk_verbs_rail *r, uint32_t sid)
{
	const struct rsk_vstream *s = rsk_rail_stream(r, sid);

	return s ? atomic_load_explicit(&s->way, memory_order_relaxed) : RSK_VERBS_CLOSED;
}

void rsk_rail_probe(struct rsk_verbs_rail *r)
{
	pthread_mutex_lock(&r->lock);
	if (r->live && !atomic_load(&r->err)) {
		rsk_post_reap(r);
		/* A signalled work request in flight serves as the probe. */
		if (r->signalled <= r->done)
			rsk_post_fence(r);
		rsk_post_arm(r);
	}
	pthread_mutex_unlock(&r->lock);
}

int rsk_rail_say(struct rsk_verbs_rail *r, const void *word, size_t bytes)
{
	int rc = -ENOTCONN;

	pthread_mutex_lock(&r->lock);
	if (r->live && r->peer_known && !atomic_load(&r->err))
		rc = rsk_control_msgs_say(&r->said, word, bytes);
	if (rc == 0)
		rsk_flush_lists(r);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

/*
 * Checks whether everything has arrived. *fence: 0, or the index of the work request whose
 * completion says so.
 */
static int settled(struct rsk_verbs_rail *r, uint64_t *fence)
{
	int rc = -EAGAIN;

	pthread_mutex_lock(&r->lock);
	if (!r->live || atomic_load(&r->err)) {
		rc = -EIO;
	} else {
		rsk_post_reap(r);
		rsk_flush_lists(r);
		if (!*fence && !r->list[RSK_LIST_QUEUE].count && !r->list[RSK_LIST_ROOM].count) {
			rsk_post_fence(r);
			*fence = r->posted;
		}
		rsk_post_arm(r);
		rc = *fence && r->done >= *fence ? 0 : -EAGAIN;
		if (atomic_load(&r->err))
			rc = -EIO;
	}
	pthread_mutex_unlock(&r->lock);
	return rc;
}

/*
 * Sleeps on both channels: for a completion of our sends, or for room in the peer's buffer. Another
 * thread may read the event that this one waits for, so each sleep is short.
 */
int rsk_rail_settle(struct rsk_verbs_rail *r, uint64_t timeout_ns)
{
	uint64_t until = rsk_monotonic_ns() + timeout_ns, fence = 0;
	int rc;

	if (r->state != RSK_RAIL_UP)
		return -EIO;
	while ((rc = settled(r, &fence)) == -EAGAIN) {
		struct pollfd fds[] = { { .fd = r->dev->send_channel->fd, .events = POLLIN },
					{ .fd = r->v->news_fd, .events = POLLIN } };
		struct timespec wait = { .tv_nsec = 1000000 };
		uint64_t now = rsk_monotonic_ns();

		if (now >= until)
			return -ETIMEDOUT;
		if (until - now < 1000000)
			wait.tv_nsec = (long)(until - now);
		if (rsk_sys_ppoll(fds, 2, &wait, NULL) <= 0)
			continue;
		if (fds[0].revents)
			rsk_vdev_sends(r->dev);
		if (fds[1].revents)
			rsk_verbs_poll(r->v, true);
	}
	return rc;
}
