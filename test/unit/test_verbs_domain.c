// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a peer can name or use up on a device is its own rail's: memory by its remote keys, receives. The device is the
 * test's, and holds to what the InfiniBand specification says of domains, shared receive queues and completion queues.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "inner.h"

enum {
	RAILS = 9, /* more than two completion queues have places for */
	RING = RSK_SEG_MIN_RING,
	OBJECTS = 256,
	CQES = 8192,
	FLOOD = 100000,
};

/* ---- the device ---- */
struct pd {
	struct ibv_pd pd;
	int used; /* registrations and queues */
};
struct cq {
	struct ibv_cq cq;
	struct ibv_wc wc[CQES];
	int n, room;
	bool armed, event;
};
struct srq {
	struct ibv_srq srq;
	struct ibv_pd *pd;
	uint32_t n, max, limit;
};

static struct ibv_mr *mrs[OBJECTS];
static struct cq *cqs[OBJECTS];
static uint32_t next_key = 100, next_qp = 7, pds, pds_most = UINT32_MAX, qps, srqs;
static struct rsk_verbs verbs;
static struct rsk_vdev dev;
static void (*refill)(struct srq *q); /* who waits for receives sends at once */

static int poll_cq(struct ibv_cq *ibcq, int max, struct ibv_wc *wc)
{
	struct cq *q = (struct cq *)(void *)ibcq;
	int n = q->n < max ? q->n : max;

	memcpy(wc, q->wc, (size_t)n * sizeof(*wc));
	memmove(q->wc, q->wc + n, (size_t)(q->n - n) * sizeof(*wc));
	q->n -= n;
	return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	((struct cq *)(void *)cq)->armed = true;
	return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct srq *q = (struct srq *)(void *)srq;

	for (; wr; wr = wr->next)
		q->n++;
	cr_assert_leq(q->n, q->max, "more receives than the queue has places for");
	if (refill)
		refill(q);
	return 0;
}

static struct ibv_device device = { .name = "test0" };
static struct ibv_context context = { .device = &device,
				      .ops = { .poll_cq = poll_cq,
					       .req_notify_cq = req_notify_cq,
					       .post_srq_recv = post_srq_recv } };

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct pd *pd;

	if (pds == pds_most) {
		errno = ENOMEM;
		return NULL;
	}
	pds++;
	pd = calloc(1, sizeof(*pd));
	pd->pd.context = ctx;
	return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	cr_assert_eq(((struct pd *)(void *)pd)->used, 0, "a domain that is in use");
	pds--;
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

	while (mrs[i])
		cr_assert_lt(++i, OBJECTS);
	next_key++;
	*mr = (struct ibv_mr){
		.pd = pd, .addr = addr, .length = length, .rkey = next_key, .lkey = next_key
	};
	use(pd, 1);
	return mrs[i] = mr;
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
	for (int i = 0; i < OBJECTS; i++)
		if (mrs[i] == mr)
			mrs[i] = NULL;
	use(mr->pd, -1);
	free(mr);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct cq *q = calloc(1, sizeof(*q));
	int i = 0;

	cr_assert_leq(cqe, CQES);
	while (cqs[i])
		cr_assert_lt(++i, OBJECTS);
	q->cq.context = ctx;
	q->cq.cq_context = cq_context;
	q->room = cqe;
	cqs[i] = q;
	return &q->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	for (int i = 0; i < OBJECTS; i++)
		if (cqs[i] && &cqs[i]->cq == cq)
			cqs[i] = NULL;
	free(cq);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **ctx)
{
	for (int i = 0; i < OBJECTS; i++)
		if (cqs[i] && cqs[i]->event) {
			cqs[i]->event = false;
			*cq = &cqs[i]->cq;
			*ctx = cqs[i]->cq.cq_context;
			return 0;
		}
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct srq *q = calloc(1, sizeof(*q));

	q->srq.context = pd->context;
	q->srq.srq_context = attr->srq_context;
	q->pd = pd;
	q->max = attr->attr.max_wr;
	use(pd, 1);
	srqs++;
	return &q->srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	((struct srq *)(void *)srq)->limit = attr->srq_limit;
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	use(((struct srq *)(void *)srq)->pd, -1);
	srqs--;
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
	qps++;
	id->qp = qp;
	return 0;
}

/* A write with immediate; false: there is no receive for it, and whoever has sent it is to wait. */
static bool notice(const struct ibv_qp *qp, uint32_t imm)
{
	struct srq *q = (struct srq *)(void *)qp->srq;
	struct cq *c = (struct cq *)(void *)qp->recv_cq;

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

/* Until it is no more something may come. */
void rdma_destroy_qp(struct rdma_cm_id *id)
{
	while (notice(id->qp, 1u << 28))
		;
	use(id->qp->pd, -1);
	qps--;
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

/* What comes by that queue pair. */
static bool may_write(const struct ibv_qp *qp, uint64_t at, uint64_t bytes, uint32_t rkey)
{
	for (int i = 0; i < OBJECTS; i++) {
		const struct ibv_mr *mr = mrs[i];

		if (mr && mr->rkey == rkey)
			return mr->pd == qp->pd && at >= (uintptr_t)mr->addr &&
			       at + bytes <= (uintptr_t)mr->addr + mr->length;
	}
	return false;
}

/* ---- rails on it ---- */
static struct one {
	struct rsk_seg seg;
	struct rsk_rail ours;
	struct rdma_cm_id id;
	struct rsk_verbs_rail *r;
	uint64_t news;
} rails[RAILS];

static void news(void *ctx, void *rail, uint32_t sid, uint32_t what)
{
	((struct one *)rail)->news++;
}

static void call(void *ctx)
{
}

static void begin(void)
{
	verbs.host = (struct rsk_verbs_host){ .news = news, .call = call };
	verbs.more_fd = eventfd(0, EFD_NONBLOCK);
	dev = (struct rsk_vdev){ .v = &verbs,
				 .ctx = &context,
				 .recvs = RSK_VERBS_RECVS,
				 .cq_rails = RSK_VERBS_CQ_RAILS,
				 .depth = RSK_VERBS_DEPTH };
	pthread_mutex_init(&dev.lock, NULL);
	atomic_store(&verbs.devs, &dev);
	for (struct one *o = rails; o < rails + RAILS; o++) {
		o->seg.own = (struct rsk_seg_geometry){ .ring_bytes = RING, .streams = 1 };
		o->seg.peer = o->seg.own;
		o->seg.window_streams = 1;
		atomic_store(&o->seg.reach, 1);
		o->seg.rail.segment = calloc(1, rsk_seg_ring_off(&o->seg.own, 1));
		o->seg.rail.window = calloc(1, rsk_seg_ring_off(&o->seg.own, 1));
		o->r = rsk_rail_new(&verbs, &o->seg, &o->ours, o);
	}
}

static int bring_up(struct one *o)
{
	int rc;

	o->id = (struct rdma_cm_id){ .verbs = &context, .port_num = 1 };
	o->r->id = &o->id;
	o->r->state = RSK_RAIL_CONNECTING;
	rc = rsk_rail_make_qp(o->r);
	if (rc < 0) {
		rsk_rail_break(o->r);
		return rc;
	}
	o->r->live = true;
	o->r->state = RSK_RAIL_UP;
	return 0;
}

static void bring_all_up(void)
{
	begin();
	for (int i = 0; i < RAILS; i++)
		cr_assert_eq(bring_up(&rails[i]), 0);
}

static void nothing_is_left(void)
{
	for (int i = 0; i < RAILS; i++)
		rsk_rail_free(rails[i].r);
	rsk_recvs_drop_cqs(&dev);
	cr_expect_eq(pds + qps + srqs, 0, "%u domains, %u queue pairs, %u receive queues", pds, qps,
		     srqs);
	for (int i = 0; i < OBJECTS; i++)
		cr_expect(!mrs[i] && !cqs[i]);
}

/* Keys of all that a peer is ever told: its rail's. */
static void keys_of(struct one *o, struct ibv_mr *key[static 3])
{
	struct rsk_verbs_end end;
	uint32_t ctl, ring;

	cr_assert_eq(rsk_rail_end(o->r, &end), 0);
	cr_assert_eq(rsk_mr_ctl(o->r, 0, &ctl), 0);
	cr_assert_eq(rsk_mr_ring(o->r, 0, &ring), 0);
	memset(key, 0, 3 * sizeof(*key));
	for (int i = 0; i < OBJECTS; i++) {
		if (mrs[i] && mrs[i]->rkey == end.indirect_rkey)
			key[0] = mrs[i];
		if (mrs[i] && mrs[i]->rkey == ctl)
			key[1] = mrs[i];
		if (mrs[i] && mrs[i]->rkey == ring)
			key[2] = mrs[i];
	}
}

/* ---- the tests ---- */

Test(verbs_domain, another_ones_keys)
{
	struct ibv_mr *key[3];

	bring_all_up();
	for (int whose = 0; whose < RAILS; whose++) {
		keys_of(&rails[whose], key);
		for (int i = 0; i < 3; i++)
			for (int by = 0; by < RAILS; by++)
				cr_expect_eq(may_write(rails[by].r->qp, (uintptr_t)key[i]->addr, 64,
						       key[i]->rkey),
					     by == whose, "key %d of rail %d, by rail %d", i, whose,
					     by);
	}
	nothing_is_left();
}

/* Registrations stay, as they did: the next queue pair is of the same domain. */
Test(verbs_domain, made_anew)
{
	struct ibv_mr *key[3];
	uint32_t rkey;

	bring_all_up();
	keys_of(&rails[0], key);
	rkey = key[2]->rkey;
	rsk_rail_break(rails[0].r);
	cr_assert_eq(bring_up(&rails[0]), 0);
	cr_expect(may_write(rails[0].r->qp, (uintptr_t)key[2]->addr, RING, rkey));
	cr_expect_not(may_write(rails[1].r->qp, (uintptr_t)key[2]->addr, RING, rkey));
	nothing_is_left();
}

/* A device that has no more: that rail cannot be had. None is shared, and the others do not notice. */
Test(verbs_domain, there_are_few)
{
	begin();
	pds_most = 2;
	for (int i = 0; i < RAILS; i++)
		cr_expect_eq(bring_up(&rails[i]), i < 2 ? 0 : -ENOMEM);
	cr_expect_eq(qps, 2);
	cr_expect_neq(rails[0].r->qp->pd, rails[1].r->qp->pd);
	cr_expect(notice(rails[1].r->qp, 1u << 28));
	/* What one gives back another one may have. */
	rsk_rail_free(rails[0].r);
	cr_expect_eq(bring_up(&rails[2]), 0);
	rails[0].r = rsk_rail_new(&verbs, &rails[0].seg, &rails[0].ours, &rails[0]);
	nothing_is_left();
}

static uint32_t flood(const struct one *o)
{
	uint32_t sent = 0;

	while (sent < FLOOD && notice(o->r->qp, 1u << 28))
		sent++;
	return sent;
}

static void take_all(void)
{
	for (int i = 0; i < RAILS; i++)
		rsk_verbs_poll(&verbs, i == 0);
}

/* Each uses up its own receives, and no others; what has come is taken, and it may go on. */
Test(verbs_domain, floods)
{
	bring_all_up();
	for (int flooder = 0; flooder < RAILS; flooder++) {
		cr_assert_eq(flood(&rails[flooder]), RSK_VERBS_RECVS);
		for (int i = 0; i < RAILS; i++)
			cr_assert_eq(notice(rails[i].r->qp, 1u << 28), i != flooder,
				     "rail %d, when rail %d has used up what it had", i, flooder);
		take_all();
		for (int i = 0; i < RAILS; i++) {
			cr_assert_eq(rails[i].news, i == flooder ? RSK_VERBS_RECVS : 1);
			rails[i].news = 0;
		}
	}
	nothing_is_left();
}

/* There is room for the completions of all of them; also when some have come and gone. */
Test(verbs_domain, all_flood)
{
	bring_all_up();
	for (int round = 0; round < RAILS; round++) {
		for (int i = 0; i < RAILS; i++)
			cr_assert_eq(flood(&rails[i]), RSK_VERBS_RECVS);
		rsk_rail_break(rails[round].r);
		cr_assert_eq(bring_up(&rails[round]), 0);
		for (int i = 0; i < RAILS; i++)
			cr_assert_eq(flood(&rails[i]), RSK_VERBS_RECVS);
		take_all();
		for (int i = 0; i < RAILS; i++) {
			cr_assert_eq(rails[i].news, 2 * RSK_VERBS_RECVS);
			rails[i].news = 0;
		}
	}
	cr_expect_leq(dev.cqs_n, (RAILS + RSK_VERBS_CQ_RAILS - 1) / RSK_VERBS_CQ_RAILS);
	nothing_is_left();
}

/* Half used up: the device says so, and what has come is taken though the program makes no call. */
Test(verbs_domain, half_is_gone)
{
	struct srq *q;

	bring_all_up();
	q = (struct srq *)(void *)rails[3].r->srq;
	cr_assert_eq(q->limit, RSK_VERBS_RECVS / 2);
	q->limit = 0;
	for (uint32_t i = 0; i < RSK_VERBS_RECVS / 2 + 1; i++)
		cr_assert(notice(rails[3].r->qp, 1u << 28));
	rsk_recvs_low(rails[3].r);
	cr_expect_eq(q->n, RSK_VERBS_RECVS);
	cr_expect_eq(q->limit, RSK_VERBS_RECVS / 2, "it is told no more");
	cr_expect_eq(rails[3].news, RSK_VERBS_RECVS / 2 + 1);
	nothing_is_left();
}

/* Who has sent nonsense has no receive more to send any. */
Test(verbs_domain, nonsense)
{
	uint32_t sent = 0;

	bring_all_up();
	for (; notice(rails[0].r->qp, 3u << 24); sent++)
		rsk_verbs_poll(&verbs, true);
	cr_expect_leq(sent, RSK_VERBS_RECVS);
	cr_expect_eq(atomic_load(&rails[0].r->err), -EPROTO);
	cr_expect(notice(rails[1].r->qp, 1u << 28));
	rsk_verbs_poll(&verbs, true);
	cr_expect_eq(rails[1].news, 1);
	cr_expect_eq(atomic_load(&rails[1].r->err), 0);
	nothing_is_left();
}

static const struct one *quiet;

static void flood_on(struct srq *q)
{
	for (int i = 0; i < RAILS; i++)
		if (&rails[i] != quiet && rails[i].r->qp && rails[i].r->qp->srq == &q->srq)
			flood(&rails[i]);
}

/* Floods that do not rest: each look is bounded, and the one that does not flood is told in a few of them. */
Test(verbs_domain, no_rest, .timeout = 20)
{
	bring_all_up();
	for (quiet = rails; quiet < rails + RAILS; quiet++) {
		uint64_t before = quiet->news;

		refill = flood_on;
		for (int i = 0; i < RAILS; i++)
			flood_on((struct srq *)(void *)rails[i].r->srq);
		cr_assert(notice(quiet->r->qp, 1u << 28));
		for (int look = 0; look < 8 && quiet->news == before; look++)
			rsk_verbs_poll(&verbs, look & 1);
		cr_expect_eq(quiet->news, before + 1, "rail %d", (int)(quiet - rails));
		refill = NULL;
		for (int look = 0; look < RAILS; look++)
			rsk_verbs_poll(&verbs, true);
	}
	nothing_is_left();
}

/* All that the channel has to say is heard at once: who waits for its edge would not hear of the rest. */
Test(verbs_domain, events)
{
	bring_all_up();
	for (uint64_t round = 0; round < 3; round++) {
		for (int i = 0; i < RAILS; i++)
			cr_assert(notice(rails[i].r->qp, 1u << 28));
		rsk_verbs_poll(&verbs, true);
		for (int i = 0; i < OBJECTS; i++)
			cr_expect(!cqs[i] || !cqs[i]->event, "an event is left");
		for (int i = 0; i < RAILS; i++) {
			const struct cq *c = (struct cq *)(void *)rails[i].r->qp->recv_cq;

			cr_expect_eq(rails[i].news, round + 1);
			cr_expect(c->armed);
		}
	}
	nothing_is_left();
}
