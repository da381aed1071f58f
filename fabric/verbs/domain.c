// SPDX-License-Identifier: BSD-2-Clause
/*
 * domain.c - what each rail owns on its device because its peer can name it or use it up: a
 * protection domain, a receive queue, space for the completions of its receives. Called by rail.c,
 * mr.c, dev.c and events.c, on the progress thread.
 *
 * A remote key is valid for queue pairs of the protection domain in which it was registered.
 * Everything that is registered for a peer is in its rail's domain, so a peer that learns the key
 * and address of another peer's memory gains nothing: the device refuses the access, and the peer's
 * own rail ends. If the device has no domain left, the rail is not made; domains are never shared.
 *
 * A peer that sends faster than we take uses up only its own receives; then the device makes it
 * wait.
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

/* Takes a completion queue with space for another rail, or creates one. */
static int cq_get(struct rsk_verbs_rail *r)
{
	struct rsk_vdev *d = r->dev;
	struct rsk_vcq *q = d->cqs;

	while (q && (q->broken || q->rails == d->cq_rails))
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
		if (q->unacked)
			ibv_ack_cq_events(q->cq, q->unacked);
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
 * No other rail shares the receive queue. It is an SRQ because an SRQ reports when it is half
 * empty; the progress thread then takes what has come, so a program that makes no call for long
 * does not keep its peers waiting.
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
	/*
	 * Take the completions that its queue pair has left, so that they use no space of the next
	 * rail's.
	 */
	rsk_vdev_drain(r->dev);
	r->recv_cq->rails--;
	r->recv_cq = NULL;
}

void rsk_recvs_low(struct rsk_verbs_rail *r)
{
	rsk_vdev_poll(r->dev, true);
	/* A rail whose peer broke the protocol has failed by now. */
	if (r->srq && !atomic_load(&r->err))
		arm_limit(r);
}
