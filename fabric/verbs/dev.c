// SPDX-License-Identifier: BSD-2-Clause
/*
 * dev.c - RDMA devices: what all rails of a device share. Called on the progress thread. Events
 * that devices report are handled in events.c.
 */
#include <errno.h>
#include <stdlib.h>

#include <rsock/sys.h>

#include "dev.h"
#include "post.h"

static int watch(struct rsk_verbs *v, struct rsk_vdev *d)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int rc;

	d->async = (struct rsk_source){ .kind = RSK_SOURCE_ASYNC, .dev = d };
	d->send = (struct rsk_source){ .kind = RSK_SOURCE_SEND, .dev = d };
	rc = rsk_verbs_watch(v, d->ctx->async_fd, &d->async);
	if (rc == 0)
		rc = rsk_verbs_watch(v, d->send_channel->fd, &d->send);
	if (rc == 0)
		rc = rsk_sys_epoll_ctl(v->news_fd, EPOLL_CTL_ADD, d->recv_channel->fd, &ev);
	return rc;
}

/*
 * Removes the channel's descriptor from @epfd before closing it: another process (a fork) may have
 * a copy of the descriptor, which would keep it in the set.
 */
static void close_channel(struct rsk_verbs *v, int epfd, struct ibv_comp_channel **ch)
{
	int fd;

	if (!*ch)
		return;
	/* Only the host closes this descriptor. */
	fd = (*ch)->fd;
	(*ch)->fd = -1;
	if (fd >= 0)
		rsk_sys_epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL);
	ibv_destroy_comp_channel(*ch);
	*ch = NULL;
	if (fd >= 0)
		v->host.own_close(v->host.ctx, fd);
}

/* Destroys all objects of the device. No rail is on it, and no other thread uses it. */
static void drop_objects(struct rsk_vdev *d)
{
	if (d->ctx && d->ctx->async_fd >= 0)
		rsk_sys_epoll_ctl(d->v->work_fd, EPOLL_CTL_DEL, d->ctx->async_fd, NULL);
	rsk_recvs_drop_cqs(d);
	close_channel(d->v, d->v->news_fd, &d->recv_channel);
	close_channel(d->v, d->v->work_fd, &d->send_channel);
}

static void dev_free(struct rsk_vdev *d)
{
	drop_objects(d);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static uint32_t at_most(int device, uint32_t want)
{
	return device > 0 && (uint32_t)device < want ? (uint32_t)device : want;
}

static int make(struct rsk_verbs *v, struct rsk_vdev *d)
{
	struct ibv_device_attr can;
	int rc = ibv_query_device(d->ctx, &can);

	if (rc)
		return -rc;
	if (can.max_srq <= 0)
		return -EOPNOTSUPP;
	d->recvs = at_most(can.max_srq_wr, at_most(can.max_cqe, RSK_VERBS_RECVS));
	d->cq_rails = at_most(can.max_cqe / (int)d->recvs, RSK_VERBS_CQ_RAILS);
	d->depth = at_most(can.max_qp_wr, at_most(can.max_cqe, RSK_VERBS_DEPTH));
	d->responder_resources = at_most(can.max_qp_rd_atom, RSK_VERBS_READS);
	d->initiator_depth = at_most(can.max_qp_init_rd_atom, RSK_VERBS_READS);
	d->recv_channel = ibv_create_comp_channel(d->ctx);
	d->send_channel = ibv_create_comp_channel(d->ctx);
	if (!d->recv_channel || !d->send_channel)
		return errno ? -errno : -ENOMEM;
	rc = rsk_verbs_move_fd(v, &d->recv_channel->fd);
	if (rc == 0)
		rc = rsk_verbs_move_fd(v, &d->send_channel->fd);
	return rc < 0 ? rc : watch(v, d);
}

struct rsk_vdev *rsk_vdev_get(struct rsk_verbs *v, struct ibv_context *ctx, int *rc)
{
	struct rsk_vdev *d;

	*rc = -ENODEV;
	if (!ctx)
		return NULL;
	for (d = atomic_load(&v->devs); d; d = d->next)
		if (d->ctx == ctx)
			return d;
	*rc = rsk_context_own(v, ctx);
	if (*rc < 0)
		return NULL;
	d = calloc(1, sizeof(*d));
	*rc = -ENOMEM;
	if (!d)
		return NULL;
	d->v = v;
	d->ctx = ctx;
	pthread_mutex_init(&d->lock, NULL);
	errno = 0;
	*rc = make(v, d);
	if (*rc < 0) {
		dev_free(d);
		return NULL;
	}
	d->next = atomic_load(&v->devs);
	atomic_store(&v->devs, d);
	return d;
}

void rsk_vdev_free_all(struct rsk_verbs *v)
{
	struct rsk_vdev *d = atomic_exchange(&v->devs, NULL);

	while (d) {
		struct rsk_vdev *next = d->next;

		dev_free(d);
		d = next;
	}
}

void rsk_vdev_drop(struct rsk_vdev *d)
{
	/*
	 * Path threads walk the list, so the entry stays; they check @dead under the lock before
	 * they use it.
	 */
	pthread_mutex_lock(&d->lock);
	atomic_store(&d->dead, true);
	pthread_mutex_unlock(&d->lock);
	drop_objects(d);
	rsk_context_leave(d->v, d->ctx);
	d->ctx = NULL;
}

struct rsk_vdev *rsk_vdev_of(const struct rsk_verbs *v, const struct ibv_context *ctx)
{
	struct rsk_vdev *d = ctx ? atomic_load(&v->devs) : NULL;

	while (d && d->ctx != ctx)
		d = d->next;
	return d;
}

void rsk_vdev_sends(struct rsk_vdev *d)
{
	struct ibv_cq *cq;
	void *ctx;

	while (!atomic_load(&d->dead) && ibv_get_cq_event(d->send_channel, &cq, &ctx) == 0) {
		struct rsk_verbs_rail *r = ctx;
		uint32_t sid[RSK_VERBS_TOLD], told = 0;

		ibv_ack_cq_events(cq, 1);
		RSK_COUNT(d->v, EVENTS, 1);
		pthread_mutex_lock(&r->lock);
		r->armed_all = false;
		if (r->live) {
			ibv_req_notify_cq(r->cq, 1);
			rsk_post_reap(r);
			rsk_flush_lists(r);
			if (r->arrivals)
				told = rsk_flush_arrivals(r, sid);
		}
		pthread_mutex_unlock(&r->lock);
		for (uint32_t i = 0; i < told; i++)
			r->v->host.news(r->v->host.ctx, r->ctx, sid[i], RSK_WAKE_TX);
	}
}
