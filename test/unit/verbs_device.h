/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs_device.h - an RDMA device in memory, for unit tests: libibverbs and librdmacm as far as a
 * rail needs them. They follow the InfiniBand specification for domains, shared receive queues and
 * completion queues.
 */
#ifndef VERBS_DEVICE_H
#define VERBS_DEVICE_H

#include "inner.h"

enum {
	DEVICE_OBJECTS = 256,
	DEVICE_CQES = 8192
};

struct device_cq {
	struct ibv_cq cq;
	struct ibv_wc wc[DEVICE_CQES];
	int n, room;
	bool armed, event;
};
struct device_srq {
	struct ibv_srq srq;
	struct ibv_pd *pd;
	uint32_t n, max, limit;
};

extern struct ibv_context device_context;
/* All objects of the device; NULL: a free place. */
extern struct ibv_mr *device_mrs[DEVICE_OBJECTS];
extern struct device_cq *device_cqs[DEVICE_OBJECTS];
extern uint32_t device_pds, device_pds_most, device_qps, device_srqs;
/* Called when receives were posted: a sender that waits for that may go on. NULL: not called. */
extern void (*device_refill)(struct device_srq *q);

/* May the peer of the queue pair write there? */
bool device_may_write(const struct ibv_qp *qp, uint64_t at, uint64_t bytes, uint32_t rkey);
/*
 * Delivers a write with immediate. Returns false if there is no receive for it: the sender has to
 * wait.
 */
bool device_notice(const struct ibv_qp *qp, uint32_t imm);

static inline struct device_srq *device_srq_of(const struct ibv_qp *qp)
{
	return (struct device_srq *)(void *)qp->srq;
}

static inline struct device_cq *device_cq_of(const struct ibv_qp *qp)
{
	return (struct device_cq *)(void *)qp->recv_cq;
}

#endif
