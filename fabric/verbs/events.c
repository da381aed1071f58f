// SPDX-License-Identifier: BSD-2-Clause
/*
 * events.c - asynchronous events of devices (libibverbs) and the kernel's uevents about them:
 * devices that have come or gone, and rails that have failed. Called by module.c and cm.c, on the
 * progress thread.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>

#include <rsock/sys.h>

#include "dev.h"
#include "post.h"
#include "rail.h"

/* The device has given up @cq: the rails whose sends or receives complete there fail. */
static void cq_error(struct rsk_vdev *d, const struct ibv_cq *cq)
{
	for (struct rsk_vcq *q = d->cqs; q; q = q->next)
		q->broken |= q->cq == cq;
	for (struct rsk_verbs_rail *r = d->v->rails; r; r = r->next)
		if (r->dev == d && r->state != RSK_RAIL_IDLE &&
		    (r->cq == cq || (r->recv_cq && r->recv_cq->cq == cq)))
			rsk_rail_fail(r, -EIO);
}

void rsk_vdev_gone(struct rsk_vdev *d)
{
	const struct rsk_verbs_host *host = &d->v->host;

	if (atomic_load(&d->dead))
		return;
	rsk_rails_leave(d);
	rsk_vdev_drop(d);
	host->devices(host->ctx);
}

static void removed(struct rsk_verbs *v, const char *name)
{
	for (struct rsk_vdev *d = atomic_load(&v->devs); d; d = d->next)
		if (d->ctx && !strcmp(d->ctx->device->dev_name, name))
			rsk_vdev_gone(d);
	rsk_contexts_removed(v, name); /* devices without rails */
}

/* Handles a queue pair in error. If its sends have failed, their status is the better reason. */
static void qp_error(struct rsk_verbs_rail *r)
{
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	if (r->live)
		rsk_post_reap(r);
	pthread_mutex_unlock(&r->lock);
	rsk_rail_fail(r, -EPIPE);
}

/*
 * The event is acknowledged before it is handled: handling it may destroy the object that it is
 * about, and destroying the object waits for the acknowledgement.
 */
static void one_event(struct rsk_vdev *d, struct ibv_async_event *ev)
{
	const struct rsk_verbs_host *host = &d->v->host;
	struct rsk_verbs_rail *r = NULL;
	const struct ibv_cq *cq = NULL;

	switch (ev->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
		r = ev->element.qp->qp_context;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		r = ev->element.srq->srq_context;
		break;
	case IBV_EVENT_CQ_ERR:
		cq = ev->element.cq;
		break;
	default:
		break;
	}
	ibv_ack_async_event(ev);
	switch (ev->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		qp_error(r);
		break;
	case IBV_EVENT_COMM_EST:
		if (r)
			rsk_cm->notify(r->id, IBV_EVENT_COMM_EST);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		rsk_recvs_low(r);
		break;
	case IBV_EVENT_SRQ_ERR:
		rsk_rail_fail(r, -EIO);
		break;
	case IBV_EVENT_CQ_ERR:
		cq_error(d, cq);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		rsk_vdev_gone(d);
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_GID_CHANGE:
		host->devices(host->ctx);
		break;
	default:
		break;
	}
}

void rsk_vdev_async(struct rsk_vdev *d)
{
	struct ibv_async_event ev;

	while (!atomic_load(&d->dead) && ibv_get_async_event(d->ctx, &ev) == 0)
		one_event(d, &ev);
}

/* Uevents say when a device comes. Without them the library has to try again by itself. */
void rsk_verbs_watch_kernel(struct rsk_verbs *v)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = rsk_sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
				NETLINK_KOBJECT_UEVENT);

	if (rsk_verbs_own_fd(v, fd, &v->kernel_fd) < 0)
		return;
	v->kernel.kind = RSK_SOURCE_KERNEL;
	if (rsk_sys_bind(v->kernel_fd, &addr, sizeof(addr)) == 0)
		rsk_verbs_watch(v, v->kernel_fd, &v->kernel);
}

/*
 * Returns the value of @key in a uevent, a list of zero-terminated strings; NULL: it is not there.
 */
static const char *value_of(const char *text, size_t bytes, const char *key)
{
	const char *end = text + bytes;
	size_t len = strlen(key);

	for (; text < end; text += strlen(text) + 1)
		if (!strncmp(text, key, len))
			return text + len;
	return NULL;
}

static bool is_word(const char *value, const char *word)
{
	return value && !strcmp(value, word);
}

void rsk_verbs_hear_kernel(struct rsk_verbs *v)
{
	static const char folder[] = "infiniband/";
	char text[4096];
	bool any = false;
	ssize_t n;

	while ((n = rsk_sys_recvfrom(v->kernel_fd, text, sizeof(text) - 1, 0, NULL, NULL)) > 0) {
		const char *of, *name;

		text[n] = 0;
		of = value_of(text, (size_t)n, "SUBSYSTEM=");
		name = value_of(text, (size_t)n, "DEVNAME=");
		any |= is_word(of, "infiniband");
		/* The kernel waits for those who have the device open, so it is closed here. */
		if (is_word(of, "infiniband_verbs") && name &&
		    !strncmp(name, folder, sizeof(folder) - 1) &&
		    is_word(value_of(text, (size_t)n, "ACTION="), "remove"))
			removed(v, name + sizeof(folder) - 1);
	}
	if (any)
		v->host.devices(v->host.ctx);
}
