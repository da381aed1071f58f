/* SPDX-License-Identifier: BSD-2-Clause */
/* pmsp_kit.h - a PMSP whose policy agent and network are played by the test. */
#ifndef PMSP_KIT_H
#define PMSP_KIT_H

#include <stdlib.h>

#include "pm_kit.h"
#include "pmsp.h"

/* One AP: it answers as the test has set it, and records what it was told. */
struct ap {
	struct rsk_pmsp p;
	enum rsk_pmsp_verdict verdict;
	struct rsk_pmsp_grant grant;
	uint64_t next_id, released, used, handed_in;
	int sent, decided;
	struct rsk_pm_msg out;
	struct rsk_pm_addr out_to;
};

static inline enum rsk_pmsp_verdict decide(void *ctx, const struct rsk_pm_msg *req,
					   const struct rsk_pm_addr *from,
					   struct rsk_pmsp_grant *grant)
{
	struct ap *a = ctx;

	a->decided++;
	a->handed_in = grant->id;
	if (a->verdict != RSK_PMSP_ACCEPT)
		return a->verdict;
	a->grant.id = grant->id ? grant->id : ++a->next_id;
	*grant = a->grant;
	return RSK_PMSP_ACCEPT;
}

static inline void used(void *ctx, const struct rsk_pmsp_grant *grant)
{
	((struct ap *)ctx)->used = grant->id;
}

static inline void release(void *ctx, const struct rsk_pmsp_grant *grant)
{
	((struct ap *)ctx)->released = grant->id;
}

static inline void keep(void *ctx, const struct rsk_pm_addr *to, const void *datagram, size_t bytes)
{
	struct ap *a = ctx;

	a->sent++;
	a->out_to = *to;
	cr_assert_eq(rsk_pm_msg_decode(datagram, bytes, &a->out), 0);
}

static const struct rsk_pmsp_ops ops = { .decide = decide,
					 .used = used,
					 .release = release,
					 .send = keep };
static const struct rsk_pmsp_config normal = RSK_PMSP_DEFAULT;
static const struct rsk_pm_addr cp = { .ip = { 10, 0, 0, 1 }, .port = 777, .ipv = 4 };

/* Returns an AP that accepts at pm_rdma. The caller owns it and frees it with ap_free(). */
static inline struct ap *ap_new(const struct rsk_pmsp_config *config)
{
	struct ap *a = calloc(1, sizeof(*a));

	cr_assert_eq(rsk_pmsp_init(&a->p, config, &ops, a), 0);
	memcpy(a->grant.ip, pm_rdma.ip, 16);
	a->grant.port = pm_rdma.port;
	return a;
}

static inline void ap_free(struct ap *a)
{
	cr_assert(rsk_pmsp_validate(&a->p));
	rsk_pmsp_fini(&a->p);
	free(a);
}

/* Delivers @m to the PMSP, with @cp as its source. */
static inline void give(struct ap *a, const struct rsk_pm_msg *m, uint64_t now)
{
	uint8_t wire[64];
	size_t n = pm_wire(m, wire);

	cr_assert_eq(rsk_pmsp_receive(&a->p, &cp, wire, n, now), 0);
	cr_assert(rsk_pmsp_validate(&a->p));
}

/* Delivers the PMAck to what was sent last. */
static inline void acknowledge(struct ap *a, uint64_t now)
{
	struct rsk_pm_msg ack;

	cr_assert_eq(rsk_pm_msg_ack(&a->out, &ack), 0);
	give(a, &ack, now);
}

#endif
