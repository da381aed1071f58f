// SPDX-License-Identifier: BSD-2-Clause
/*
 * domain.c - what each rail has for itself on its device, since its peer can name it or use it up: a protection
 * domain, a receive queue, places for the completions of its receives.
 *
 * A remote key is good for queue pairs of the domain in which it was registered. All that is registered for a peer
 * lies in its rail's domain, so that whoever learns another one's key and address gets as far as with a wrong one: the
 * device refuses it, and its own rail ends. A device that has no domain left has no rail left: none is ever shared.
 *
 * Who sends faster than is taken uses up its own receives, and then the device lets it wait.
 *
 * Keeper.
 */
#include <errno.h>
#include <stdlib.h>

#include "dev.h"

int rsk_domain_open(struct rsk_verbs_rail *r)
{
	if (r->pd)
		return 0;
	errno = 0;
	r->pd = ibv_alloc_pd(r->dev->ctx);
	return r->pd ? 0 : errno ? -errno : -ENOMEM;
}

void rsk_domain_close(struct rsk_verbs_rail *r)
{
	if (r->pd)
		ibv_dealloc_pd(r->pd);
	r->pd = NULL;
}

/* One with a place for another rail's, or a new one. */
static int cq_get(struct rsk_verbs_rail *r)
{
	struct rsk_vdev *d = r->dev;
	struct rsk_vcq *q = d->cqs;

	while (q && q->rails == d->cq_rails)
		q = q->next;
	if (!q) {
		q = calloc(1, sizeof(*q));
		if (!q)
			return -ENOMEM;
		errno = 0;
		q->cq = ibv_create_cq(d->ctx, (int)(d->cq_rails * d->recvs), q, d->recv_channel, 0);
		if (!q->cq || ibv_req_notify_cq(q->cq, 0)) {
			if (q->cq)
				ibv_destroy_cq(q->cq);
			free(q);
			return errno ? -errno : -ENOMEM;
		}
		pthread_mutex_lock(&d->lock);
		q->next = d->cqs;
		d->cqs = q;
		d->cqs_n++;
		pthread_mutex_unlock(&d->lock);
	}
	q->rails++;
	r->recv_cq = q;
	return 0;
}

void rsk_recvs_drop_cqs(struct rsk_vdev *d)
{
	while (d->cqs) {
		struct rsk_vcq *q = d->cqs;

		d->cqs = q->next;
		ibv_destroy_cq(q->cq);
		free(q);
	}
	d->turn = NULL;
	d->cqs_n = 0;
}

static void arm_limit(struct rsk_verbs_rail *r)
{
	struct ibv_srq_attr attr = { .srq_limit = r->dev->recvs / 2 };

	ibv_modify_srq(r->srq, &attr, IBV_SRQ_LIMIT);
}

/*
 * Shared by nobody: what makes it one of the shared kind is that it says when it is half empty. So a program that makes
 * no call for long does not keep its peers waiting: the keeper takes what has come.
 */
int rsk_recvs_open(struct rsk_verbs_rail *r)
{
	struct ibv_srq_init_attr attr = { .srq_context = r,
					  .attr = { .max_wr = r->dev->recvs, .max_sge = 1 } };
	int rc = cq_get(r);

	if (rc < 0)
		return rc;
	errno = 0;
	r->recv_owed = 0;
	r->srq = ibv_create_srq(r->pd, &attr);
	if (!r->srq)
		return errno ? -errno : -ENOMEM;
	rc = rsk_recvs_post(r, r->dev->recvs);
	if (rc == 0)
		arm_limit(r);
	return rc;
}

void rsk_recvs_close(struct rsk_verbs_rail *r)
{
	if (r->srq)
		ibv_destroy_srq(r->srq);
	r->srq = NULL;
	if (!r->recv_cq)
		return;
	/* What its queue pair has left there takes no place that is another one's from here on. */
	rsk_vdev_drain(r->dev);
	r->recv_cq->rails--;
	r->recv_cq = NULL;
}

void rsk_recvs_low(struct rsk_verbs_rail *r)
{
	rsk_vdev_poll(r->dev, true);
	/* One that sends what no peer of ours does has ended by that. */
	if (r->srq && !atomic_load(&r->err))
		arm_limit(r);
}
