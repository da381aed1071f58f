// SPDX-License-Identifier: BSD-2-Clause
/* verbs_device.c - see verbs_device.h. */
#include "verbs_device.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct pd {
	struct ibv_pd pd;
	int used; /* number of registrations and queues */
};
struct ibv_mr *device_mrs[DEVICE_OBJECTS];
struct device_cq *device_cqs[DEVICE_OBJECTS];
uint32_t device_pds, device_pds_most = UINT32_MAX, device_qps, device_srqs;
void (*device_refill)(struct device_srq *q);

static uint32_t next_key = 100, next_qp = 7;

static int poll_cq(struct ibv_cq *ibcq, int max, struct ibv_wc *wc)
{
	struct device_cq *q = (struct device_cq *)(void *)ibcq;
	int n = q->n < max ? q->n : max;

	memcpy(wc, q->wc, (size_t)n * sizeof(*wc));
	memmove(q->wc, q->wc + n, (size_t)(q->n - n) * sizeof(*wc));
	q->n -= n;
	return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	((struct device_cq *)(void *)cq)->armed = true;
	return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct device_srq *q = (struct device_srq *)(void *)srq;

	for (; wr; wr = wr->next)
		q->n++;
	cr_assert_leq(q->n, q->max, "more receives than the queue has places for");
	if (device_refill)
		device_refill(q);
	return 0;
}

static struct ibv_device device = { .name = "test0" };
struct ibv_context device_context = { .device = &device,
				      .ops = { .poll_cq = poll_cq,
					       .req_notify_cq = req_notify_cq,
					       .post_srq_recv = post_srq_recv } };

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct pd *pd;

	if (device_pds == device_pds_most) {
		errno = ENOMEM;
		return NULL;
	}
	device_pds++;
	pd = calloc(1, sizeof(*pd));
	pd->pd.context = ctx;
	return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	cr_assert_eq(((struct pd *)(void *)pd)->used, 0, "a domain that is in use");
	device_pds--;
	free(pd);
	return 0;
}

static void use(struct ibv_pd *pd, int n)
{
	((struct pd *)(void *)pd)->used += n;
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));
	int i = 0;

	while (device_mrs[i])
		cr_assert_lt(++i, DEVICE_OBJECTS);
	next_key++;
	*mr = (struct ibv_mr){
		.pd = pd, .addr = addr, .length = length, .rkey = next_key, .lkey = next_key
	};
	use(pd, 1);
	return device_mrs[i] = mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg(pd, addr, length);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return reg(pd, addr, length);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	for (int i = 0; i < DEVICE_OBJECTS; i++)
		if (device_mrs[i] == mr)
			device_mrs[i] = NULL;
	use(mr->pd, -1);
	free(mr);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct device_cq *q = calloc(1, sizeof(*q));
	int i = 0;

	cr_assert_leq(cqe, DEVICE_CQES);
	while (device_cqs[i])
		cr_assert_lt(++i, DEVICE_OBJECTS);
	q->cq.context = ctx;
	q->cq.cq_context = cq_context;
	q->room = cqe;
	device_cqs[i] = q;
	return &q->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	for (int i = 0; i < DEVICE_OBJECTS; i++)
		if (device_cqs[i] && &device_cqs[i]->cq == cq)
			device_cqs[i] = NULL;
	free(cq);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **ctx)
{
	for (int i = 0; i < DEVICE_OBJECTS; i++)
		if (device_cqs[i] && device_cqs[i]->event) {
			device_cqs[i]->event = false;
			*cq = &device_cqs[i]->cq;
			*ctx = device_cqs[i]->cq.cq_context;
			return 0;
		}
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct device_srq *q = calloc(1, sizeof(*q));

	q->srq.context = pd->context;
	q->srq.srq_context = attr->srq_context;
	q->pd = pd;
	q->max = attr->attr.max_wr;
	use(pd, 1);
	device_srqs++;
	return &q->srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	((struct device_srq *)(void *)srq)->limit = attr->srq_limit;
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	use(((struct device_srq *)(void *)srq)->pd, -1);
	device_srqs--;
	free(srq);
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return EINVAL;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	*qp = (struct ibv_qp){ .qp_context = attr->qp_context,
			       .context = pd->context,
			       .pd = pd,
			       .srq = attr->srq,
			       .recv_cq = attr->recv_cq,
			       .qp_num = next_qp++ };
	use(pd, 1);
	device_qps++;
	id->qp = qp;
	return 0;
}

/* A write with immediate. Returns false if there is no receive for it: the sender has to wait. */
bool device_notice(const struct ibv_qp *qp, uint32_t imm)
{
	struct device_srq *q = device_srq_of(qp);
	struct device_cq *c = device_cq_of(qp);

	if (!q->n)
		return false;
	q->n--;
	cr_assert_lt(c->n, c->room, "a completion queue has overflown");
	c->wc[c->n++] = (struct ibv_wc){ .status = IBV_WC_SUCCESS,
					 .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
					 .qp_num = qp->qp_num,
					 .imm_data = htonl(imm) };
	if (c->armed) {
		c->armed = false;
		c->event = true;
	}
	return true;
}

/* Until the queue pair is gone, messages may arrive. */
void rdma_destroy_qp(struct rdma_cm_id *id)
{
	while (device_notice(id->qp, 1u << 28))
		;
	use(id->qp->pd, -1);
	device_qps--;
	free(id->qp);
	id->qp = NULL;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	return 0;
}

/* Checks a write that arrives by that queue pair. */
bool device_may_write(const struct ibv_qp *qp, uint64_t at, uint64_t bytes, uint32_t rkey)
{
	for (int i = 0; i < DEVICE_OBJECTS; i++) {
		const struct ibv_mr *mr = device_mrs[i];

		if (mr && mr->rkey == rkey)
			return mr->pd == qp->pd && at >= (uintptr_t)mr->addr &&
			       at + bytes <= (uintptr_t)mr->addr + mr->length;
	}
	return false;
}
