// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_verbs_cm.c - tests which connections of rdma_cm are accepted, and with what. The device is
 * the test's (verbs_device.h), and so is rdma_cm.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "dev.h"
#include "rail.h"
#include "verbs_device.h"

enum {
	RING = RSK_SEG_MIN_RING,
	REQUESTS = 1000
};

static struct rsk_verbs verbs;
static uint64_t counts[RSK_STATS_VERBS_COUNT];
static struct rsk_vdev dev;
static struct rsk_verbs_rail *rail; /* that is offered to the next request; NULL: none */

/* ---- rdma_cm ---- */

static struct rdma_cm_event requested; /* what each request is like */
static int requests, refused;
static struct rdma_conn_param accepted;
static int bind_error, listen_error; /* of an IPv6 address */
static sa_family_t bound;

static void fail(int err)
{
	errno = err;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct rdma_cm_event *ev;

	if (!requests) {
		fail(EAGAIN);
		return -1;
	}
	requests--;
	ev = malloc(sizeof(*ev));
	*ev = requested;
	ev->event = RDMA_CM_EVENT_CONNECT_REQUEST;
	ev->id = calloc(1, sizeof(*ev->id));
	ev->id->verbs = &device_context;
	ev->id->port_num = 1;
	*event = ev;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	accepted = *param;
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	refused++;
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t len)
{
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	*id = calloc(1, sizeof(**id));
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	fail(addr->sa_family == AF_INET6 ? bind_error : 0);
	bound = addr->sa_family;
	return errno ? -1 : 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	fail(bound == AF_INET6 ? listen_error : 0);
	return errno ? -1 : 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htons(7);
}

/* ---- a device that is asked what it can ---- */

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){ .max_srq = 64,
					  .max_srq_wr = 1024,
					  .max_cqe = DEVICE_CQES,
					  .max_qp_wr = 1024,
					  .max_qp_rd_atom = 4,
					  .max_qp_init_rd_atom = 2 };
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	channel->fd = eventfd(0, EFD_NONBLOCK);
	return channel;
}

/* ---- the module ---- */

static struct rsk_verbs_rail *incoming(void *ctx, const struct rsk_verbs_addr *from,
				       const struct rsk_verbs_addr *to, const void *data,
				       size_t bytes)
{
	return rail;
}

static int own_fd(void *ctx, int fd)
{
	return fd;
}

static void begin(void)
{
	static struct rsk_seg seg;
	static struct rsk_rail ours;
	int kernel[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, kernel), 0);
	verbs.host =
		(struct rsk_verbs_host){ .counts = counts, .incoming = incoming, .own_fd = own_fd };
	verbs.kernel_fd = kernel[0];
	device_context.async_fd = eventfd(0, EFD_NONBLOCK);
	device_context.cmd_fd = eventfd(0, EFD_NONBLOCK);
	dev = (struct rsk_vdev){ .v = &verbs,
				 .ctx = &device_context,
				 .recvs = RSK_VERBS_RECVS,
				 .cq_rails = RSK_VERBS_CQ_RAILS,
				 .depth = RSK_VERBS_DEPTH,
				 .responder_resources = 16,
				 .initiator_depth = 8 };
	pthread_mutex_init(&dev.lock, NULL);
	atomic_store(&verbs.devs, &dev);
	seg.own = (struct rsk_seg_geometry){ .ring_bytes = RING, .streams = 1 };
	seg.peer = seg.own;
	seg.window_streams = 1;
	atomic_store(&seg.reach, 1);
	seg.rail.segment = calloc(1, rsk_seg_ring_off(&seg.own, 1));
	seg.rail.window = calloc(1, rsk_seg_ring_off(&seg.own, 1));
	rail = rsk_rail_new(&verbs, &seg, &ours, NULL);
}

/* An event says how many READs the peer has in flight, and how many it allows (rdma_accept(3)). */
static void request(uint8_t responder_resources, uint8_t initiator_depth)
{
	requested.param.conn.responder_resources = responder_resources;
	requested.param.conn.initiator_depth = initiator_depth;
	requests = 1;
	rsk_cm_events(&verbs);
	cr_assert_eq(refused, 0);
}

Test(verbs_cm, less_than_the_device_can)
{
	begin();
	request(3, 5);
	cr_assert_eq(accepted.responder_resources, 3);
	cr_assert_eq(accepted.initiator_depth, 5);
}

Test(verbs_cm, all_that_the_device_can)
{
	begin();
	request(200, 200);
	cr_assert_eq(accepted.responder_resources, 16);
	cr_assert_eq(accepted.initiator_depth, 8);
}

/* The two limits of a device are two attributes. */
Test(verbs_cm, what_a_new_device_can)
{
	begin();
	atomic_store(&verbs.devs, NULL);
	verbs.work_fd = epoll_create1(EPOLL_CLOEXEC);
	verbs.news_fd = epoll_create1(EPOLL_CLOEXEC);
	request(200, 200);
	cr_assert_eq(accepted.responder_resources, 4);
	cr_assert_eq(accepted.initiator_depth, 2);
}

Test(verbs_cm, requests_do_not_keep_the_thread)
{
	begin();
	rail = NULL;
	requests = REQUESTS;
	rsk_cm_events(&verbs);
	cr_assert(refused > 0 && refused < REQUESTS / 2, "%d refused", refused);
	while (requests)
		rsk_cm_events(&verbs);
	cr_assert_eq(refused, REQUESTS);
}

Test(verbs_cm, listens_for_both_families)
{
	begin();
	cr_assert_eq(rsk_cm_listen(&verbs, 7), 7);
	cr_assert(verbs.listener[0] && !verbs.listener[1]);
	cr_assert_eq(rsk_cm_listen(&verbs, 7), -EALREADY);
}

Test(verbs_cm, listens_without_ipv6)
{
	begin();
	listen_error = EAFNOSUPPORT;
	cr_assert_eq(rsk_cm_listen(&verbs, 7), 7);
	cr_assert(verbs.listener[0] && !verbs.listener[1] && bound == AF_INET6);
}

/* What the kernel returns if another process has the port: not a listener for IPv4 alone. */
Test(verbs_cm, the_port_is_taken)
{
	begin();
	bind_error = EADDRNOTAVAIL;
	cr_assert_eq(rsk_cm_listen(&verbs, 7), -EADDRINUSE);
	cr_assert(!verbs.listener[0] && !verbs.listener[1]);
	bind_error = ENOMEM;
	cr_assert_eq(rsk_cm_listen(&verbs, 7), -ENOMEM);
	cr_assert(!verbs.listener[0] && !verbs.listener[1]);
}
