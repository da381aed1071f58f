// SPDX-License-Identifier: BSD-2-Clause
/*
 * cm.c - connections by rdma_cm, all of them in the background. Called by module.c, on the progress
 * thread.
 *
 * An event is copied and acknowledged before it is handled: handling it may destroy its identifier,
 * and destroying an identifier waits until its events are acknowledged. Once destroyed, an
 * identifier has no queued events, so an event read here always names a live one.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "dev.h"
#include "rail.h"

#define STEP_MS 2000 /* for an address, for a route */
/* 4.096 us * 2^14 = 67 ms until a packet is retransmitted */
#define ACK_TIMEOUT 14
#define RETRIES 6     /* 7 means forever on some devices (rxe) */
#define RNR_RETRIES 7 /* forever: a receiver without receives is late, not gone */
#define BACKLOG 128
#define EVENTS_AT_ONCE 64

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static int address_of(const struct rsk_verbs_addr *a, union address *out)
{
	memset(out, 0, sizeof(*out));
	if (a->family == AF_INET) {
		out->in.sin_family = AF_INET;
		out->in.sin_port = htons(a->port);
		memcpy(&out->in.sin_addr, a->ip, 4);
	} else if (a->family == AF_INET6) {
		out->in6.sin6_family = AF_INET6;
		out->in6.sin6_port = htons(a->port);
		out->in6.sin6_scope_id = a->scope;
		memcpy(&out->in6.sin6_addr, a->ip, 16);
	} else {
		return -EAFNOSUPPORT;
	}
	return 0;
}

static void address_from(const struct sockaddr *sa, struct rsk_verbs_addr *a)
{
	const union address *from = (const void *)sa;

	*a = (struct rsk_verbs_addr){ .family = sa->sa_family };
	if (sa->sa_family == AF_INET) {
		a->port = ntohs(from->in.sin_port);
		memcpy(a->ip, &from->in.sin_addr, 4);
	} else if (sa->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&from->in6.sin6_addr)) {
		a->family = AF_INET;
		a->port = ntohs(from->in6.sin6_port);
		memcpy(a->ip, from->in6.sin6_addr.s6_addr + 12, 4);
	} else if (sa->sa_family == AF_INET6) {
		a->port = ntohs(from->in6.sin6_port);
		a->scope = from->in6.sin6_scope_id;
		memcpy(a->ip, &from->in6.sin6_addr, 16);
	}
}

/* After rsk_rail_make_qp(). */
static struct rdma_conn_param conn_param(const struct rsk_verbs_rail *r)
{
	return (struct rdma_conn_param){ .private_data = r->hello_bytes ? r->hello : NULL,
					 .private_data_len = r->hello_bytes,
					 .responder_resources =
						 (uint8_t)r->dev->responder_resources,
					 .initiator_depth = (uint8_t)r->dev->initiator_depth,
					 .retry_count = RETRIES,
					 .rnr_retry_count = RNR_RETRIES };
}

/* The option is a hint that not every kernel accepts. */
static void set_timeout(const struct rsk_verbs *v, struct rdma_cm_id *id)
{
	uint8_t timeout = v->ack_timeout ? v->ack_timeout : ACK_TIMEOUT;

	rsk_cm->set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			   sizeof(timeout));
}

/* The traffic class of the packets; the kernel also tells the accepting end. */
static void set_dscp(struct rdma_cm_id *id, uint8_t dscp)
{
	uint8_t tos = (uint8_t)(dscp << 2);

	if (dscp)
		rsk_cm->set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos));
}

int rsk_cm_connect(struct rsk_verbs_rail *r, const struct rsk_verbs_addr *from,
		   const struct rsk_verbs_addr *to, const void *data, size_t bytes)
{
	union address src, dst;
	int rc = address_of(to, &dst);

	if (rc == 0 && from && from->family)
		rc = address_of(from, &src);
	if (rc < 0)
		return rc;
	if (bytes > sizeof(r->hello))
		return -EMSGSIZE;
	if (r->state != RSK_RAIL_IDLE)
		return -EALREADY;
	if (rsk_cm->create_id(r->v->channel, &r->id, r, RDMA_PS_TCP))
		return -errno;
	r->hello_bytes = (uint8_t)bytes;
	if (bytes)
		memcpy(r->hello, data, bytes);
	set_timeout(r->v, r->id);
	set_dscp(r->id, r->dscp);
	if (rsk_cm->resolve_addr(r->id, from && from->family ? &src.sa : NULL, &dst.sa, STEP_MS)) {
		rc = -errno;
		rsk_cm->destroy_id(r->id);
		r->id = NULL;
		return rc;
	}
	atomic_store(&r->err, 0);
	r->state = RSK_RAIL_CONNECTING;
	return 0;
}

/* The fields of an event that are kept after it was acknowledged. */
struct event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	struct rsk_verbs_addr peer, here;
	/* Seen from here: the peer's initiator depth, and its responder resources. */
	uint8_t responder_resources, initiator_depth;
	uint8_t bytes;
	uint8_t data[RSK_VERBS_PRIVATE_BYTES];
};

static void refuse(struct rdma_cm_id *id)
{
	rsk_cm->reject(id, NULL, 0);
	rsk_cm->destroy_id(id);
}

static void on_connect_request(struct rsk_verbs *v, const struct event *e)
{
	struct rsk_verbs_rail *r = NULL;
	struct rdma_conn_param param;
	int rc = rsk_context_own(v, e->id->verbs);

	if (rc == 0)
		r = v->host.incoming(v->host.ctx, &e->peer, &e->here, e->data, e->bytes);
	if (!r || r->state != RSK_RAIL_IDLE) {
		refuse(e->id);
		return;
	}
	r->id = e->id;
	r->id->context = r;
	r->hello_bytes = 0; /* an accept carries no private data */
	atomic_store(&r->err, 0);
	r->state = RSK_RAIL_CONNECTING;
	set_timeout(v, r->id);
	rc = rsk_rail_make_qp(r);
	if (rc == 0) {
		param = conn_param(r);
		if (param.responder_resources > e->responder_resources)
			param.responder_resources = e->responder_resources;
		if (param.initiator_depth > e->initiator_depth)
			param.initiator_depth = e->initiator_depth;
		rc = rsk_cm->accept(r->id, &param) ? -errno : 0;
	} else {
		rsk_cm->reject(r->id, NULL, 0);
	}
	if (rc < 0)
		rsk_rail_down(r, rc);
}

static int status_err(const struct event *e, int otherwise)
{
	return e->status < 0 && e->status > -4096 ? e->status : otherwise;
}

/*
 * Performs the next step of the connection. Returns 0, or the -errno by which it ends. The removal
 * of a device does not come here; it ends everything that is on the device (on_device_removal()).
 */
static int on_connection_event(struct rsk_verbs_rail *r, const struct event *e)
{
	struct rdma_conn_param param;
	int rc;

	switch (e->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		rc = rsk_context_own(r->v, r->id->verbs);
		if (rc < 0)
			return rc;
		return rsk_cm->resolve_route(r->id, STEP_MS) ? -errno : 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		rc = rsk_rail_make_qp(r);
		if (rc < 0)
			return rc;
		param = conn_param(r);
		return rsk_cm->connect(r->id, &param) ? -errno : 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		atomic_store_explicit(&r->rail->broken, 0, memory_order_relaxed);
		rsk_rail_up(r);
		return 0;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return status_err(e, -EHOSTUNREACH);
	case RDMA_CM_EVENT_UNREACHABLE:
		return status_err(e, -ETIMEDOUT);
	case RDMA_CM_EVENT_REJECTED:
		return -ECONNREFUSED;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return status_err(e, -EIO);
	case RDMA_CM_EVENT_DISCONNECTED:
		return -EPIPE;
	default: /* ADDR_CHANGE, TIMEWAIT_EXIT, multicast */
		return 0;
	}
}

static void unlisten_on(struct rsk_verbs *v, const struct rdma_cm_id *id)
{
	for (int i = 0; i < 2; i++)
		if (v->listener[i] && v->listener[i] == id) {
			rsk_cm->destroy_id(v->listener[i]);
			v->listener[i] = NULL;
		}
}

static void on_device_removal(struct rsk_verbs *v, struct rdma_cm_id *id)
{
	struct rsk_vdev *d = rsk_vdev_of(v, id->verbs);

	if (d)
		rsk_vdev_gone(d);
	else if (id->context)
		rsk_rail_down(id->context, -ENODEV);
	else
		unlisten_on(v, id);
}

static void handle(struct rsk_verbs *v, const struct event *e)
{
	struct rsk_verbs_rail *r;
	int rc, err;

	if (e->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		on_connect_request(v, e);
		return;
	}
	if (e->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		on_device_removal(v, e->id);
		return;
	}
	r = e->id->context;
	if (!r)
		return;
	rc = on_connection_event(r, e);
	if (rc == 0)
		return;
	/* If the queue pair has reported an error, that is the better reason. */
	err = atomic_load(&r->err);
	rsk_rail_down(r, err ? err : rc);
}

void rsk_cm_events(struct rsk_verbs *v)
{
	struct rdma_cm_event *ev;

	/* Limited, so that no host keeps the thread here; the channel stays readable. */
	for (int i = 0; i < EVENTS_AT_ONCE; i++) {
		struct event e;

		/*
		 * Handle uevents first: a device may have been removed and another one may have
		 * come with its name. Not after an event was read: handling a uevent may destroy
		 * the identifier which that event names.
		 */
		rsk_verbs_hear_kernel(v);
		if (rsk_cm->get_cm_event(v->channel, &ev))
			return;
		e = (struct event){ .type = ev->event, .status = ev->status, .id = ev->id };

		if (e.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			size_t n = ev->param.conn.private_data_len;

			e.bytes = (uint8_t)(n < sizeof(e.data) ? n : sizeof(e.data));
			if (e.bytes)
				memcpy(e.data, ev->param.conn.private_data, e.bytes);
			e.responder_resources = ev->param.conn.responder_resources;
			e.initiator_depth = ev->param.conn.initiator_depth;
			address_from(rdma_get_peer_addr(ev->id), &e.peer);
			address_from(rdma_get_local_addr(ev->id), &e.here);
			e.here.port = 0;
		}
		rsk_cm->ack_cm_event(ev);
		handle(v, &e);
	}
}

/* Creates one listener. Returns its port, or -errno. */
static int listen_at(struct rsk_verbs *v, int which, union address *at, int both)
{
	struct rdma_cm_id *id;
	int rc;

	if (rsk_cm->create_id(v->channel, &id, NULL, RDMA_PS_TCP))
		return -errno;
	if (at->sa.sa_family == AF_INET6) {
		int only = !both;

		rsk_cm->set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof(only));
	}
	rc = rsk_cm->bind_addr(id, &at->sa) ? -errno : 0;
	/* Of all addresses: the kernel says so where another listener has the port. */
	if (rc == -EADDRNOTAVAIL)
		rc = -EADDRINUSE;
	if (rc == 0)
		rc = rsk_cm->listen(id, BACKLOG) ? -errno : 0;
	if (rc < 0) {
		rsk_cm->destroy_id(id);
		return rc;
	}
	v->listener[which] = id;
	return ntohs(rsk_cm->get_src_port(id));
}

int rsk_cm_listen(struct rsk_verbs *v, uint16_t port)
{
	union address six = { .in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) } };
	union address four = { .in = { .sin_family = AF_INET, .sin_port = htons(port) } };
	int rc;

	if (v->listener[0] || v->listener[1])
		return -EALREADY;
	rc = listen_at(v, 0, &six, true);
	if (rc > 0 || rc == -EADDRINUSE || rc == -ENOMEM)
		return rc;
	/* There is no IPv6, or the device does not listen for both address families. */
	rc = listen_at(v, 0, &four, false);
	if (rc < 0)
		return rc;
	six.in6.sin6_port = htons((uint16_t)rc);
	listen_at(v, 1, &six, false);
	return rc;
}

void rsk_cm_local_addr(const struct rsk_verbs_rail *r, struct rsk_verbs_addr *from)
{
	*from = (struct rsk_verbs_addr){ .family = 0 };
	if (r->state == RSK_RAIL_UP)
		address_from(rdma_get_local_addr(r->id), from);
	from->port = 0;
}

void rsk_cm_unlisten(struct rsk_verbs *v)
{
	for (int i = 0; i < 2; i++)
		unlisten_on(v, v->listener[i]);
}
