// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_verbs_domain.c - tests that all that a peer can name or use up on a device belongs to its
 * own rail: memory by its remote keys, receives. The device is the test's (verbs_device.h).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "verbs_rail_kit.h"

enum {
	RAILS = 9, /* more than fit two completion queues */
	RING = RAIL_RING_BYTES,
	FLOOD = 100000,
};

/* ---- rails on that device ---- */
static struct kit_rail rails[RAILS];

static void begin(void)
{
	kit_device();
	for (int i = 0; i < RAILS; i++)
		kit_rail(&rails[i], 1, 1);
}

static void bring_all_up(void)
{
	begin();
	for (int i = 0; i < RAILS; i++)
		cr_assert_eq(kit_rail_connect(&rails[i]), 0);
}

static void nothing_is_left(void)
{
	for (int i = 0; i < RAILS; i++)
		rsk_rail_free(rails[i].r);
	rsk_recvs_drop_cqs(&dev);
	cr_expect_eq(device_pds + device_qps + device_srqs, 0,
		     "%u domains, %u queue pairs, %u receive queues", device_pds, device_qps,
		     device_srqs);
	for (int i = 0; i < DEVICE_OBJECTS; i++)
		cr_expect(!device_mrs[i] && !device_cqs[i]);
}

/* The keys of everything that a peer is told: those of its rail. */
static void keys_of(struct kit_rail *o, struct ibv_mr *key[static 3])
{
	struct rsk_verbs_end end;
	uint32_t ctl, ring;

	cr_assert_eq(rsk_rail_end(o->r, &end), 0);
	cr_assert_eq(rsk_mr_ctl(o->r, 0, &ctl), 0);
	cr_assert_eq(rsk_mr_ring(o->r, 0, o->r->seg->own.ring_bytes, &ring), 0);
	memset(key, 0, 3 * sizeof(*key)); /* NOLINT(bugprone-sizeof-expression): pointers */
	for (int i = 0; i < DEVICE_OBJECTS; i++) {
		if (device_mrs[i] && device_mrs[i]->rkey == end.indirect_rkey)
			key[0] = device_mrs[i];
		if (device_mrs[i] && device_mrs[i]->rkey == ctl)
			key[1] = device_mrs[i];
		if (device_mrs[i] && device_mrs[i]->rkey == ring)
			key[2] = device_mrs[i];
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
				cr_expect_eq(device_may_write(rails[by].r->qp,
							      (uintptr_t)key[i]->addr, 64,
							      key[i]->rkey),
					     by == whose, "key %d of rail %d, by rail %d", i, whose,
					     by);
	}
	nothing_is_left();
}

/* Registrations are kept: the next queue pair is of the same domain. */
Test(verbs_domain, made_anew)
{
	struct ibv_mr *key[3];
	uint32_t rkey;

	bring_all_up();
	keys_of(&rails[0], key);
	rkey = key[2]->rkey;
	rsk_rail_break(rails[0].r);
	cr_assert_eq(kit_rail_connect(&rails[0]), 0);
	cr_expect(device_may_write(rails[0].r->qp, (uintptr_t)key[2]->addr, RING, rkey));
	cr_expect_not(device_may_write(rails[1].r->qp, (uintptr_t)key[2]->addr, RING, rkey));
	nothing_is_left();
}

/*
 * The device has no more domains: that rail cannot come up. None is shared, and the others do not
 * notice.
 */
Test(verbs_domain, there_are_few)
{
	begin();
	device_pds_most = 2;
	for (int i = 0; i < RAILS; i++)
		cr_expect_eq(kit_rail_connect(&rails[i]), i < 2 ? 0 : -ENOMEM);
	cr_expect_eq(device_qps, 2);
	cr_expect_neq(rails[0].r->qp->pd, rails[1].r->qp->pd);
	cr_expect(device_notice(rails[1].r->qp, 1u << 28));
	/* What one rail gives back another one may have. */
	rsk_rail_free(rails[0].r);
	cr_expect_eq(kit_rail_connect(&rails[2]), 0);
	rails[0].r = rsk_rail_new(&verbs, &rails[0].seg, &rails[0].ours, &rails[0]);
	nothing_is_left();
}

/* The receives that a peer has; the others are used up, and not posted again yet. */
static uint32_t receives(const struct kit_rail *o)
{
	cr_assert_lt(o->r->recv_owed, RSK_VERBS_RECVS / 8);
	return RSK_VERBS_RECVS - o->r->recv_owed;
}

static uint32_t flood(const struct kit_rail *o)
{
	uint32_t sent = 0;

	while (sent < FLOOD && device_notice(o->r->qp, 1u << 28))
		sent++;
	return sent;
}

static void take_all(void)
{
	for (int i = 0; i < RAILS; i++)
		rsk_verbs_poll(&verbs, i == 0);
}

/* Each peer uses up its own receives only; after its messages were taken it may go on. */
Test(verbs_domain, floods)
{
	bring_all_up();
	for (int flooder = 0; flooder < RAILS; flooder++) {
		uint32_t has = receives(&rails[flooder]);

		cr_assert_eq(flood(&rails[flooder]), has);
		for (int i = 0; i < RAILS; i++)
			cr_assert_eq(device_notice(rails[i].r->qp, 1u << 28), i != flooder,
				     "rail %d, when rail %d has used up what it had", i, flooder);
		take_all();
		for (int i = 0; i < RAILS; i++) {
			cr_assert_eq(rails[i].news, i == flooder ? has : 1);
			rails[i].news = 0;
		}
	}
	nothing_is_left();
}

/* There is room for the completions of all of them, also when some were used and returned. */
Test(verbs_domain, all_flood)
{
	uint32_t has[RAILS];

	bring_all_up();
	for (int round = 0; round < RAILS; round++) {
		for (int i = 0; i < RAILS; i++)
			has[i] = flood(&rails[i]);
		rsk_rail_break(rails[round].r);
		cr_assert_eq(kit_rail_connect(&rails[round]), 0);
		for (int i = 0; i < RAILS; i++) {
			uint32_t more = receives(&rails[i]);

			cr_assert_eq(flood(&rails[i]), more);
			has[i] += more;
		}
		take_all();
		for (int i = 0; i < RAILS; i++) {
			cr_assert_eq(rails[i].news, has[i]);
			cr_assert_geq(has[i], 2 * (RSK_VERBS_RECVS - RSK_VERBS_RECVS / 8));
			rails[i].news = 0;
		}
	}
	cr_expect_leq(dev.cqs_n, (RAILS + RSK_VERBS_CQ_RAILS - 1) / RSK_VERBS_CQ_RAILS);
	nothing_is_left();
}

/*
 * Half of the receives are used up: the device reports it, and the messages are taken without a
 * call of the program.
 */
Test(verbs_domain, half_is_gone)
{
	struct device_srq *q;

	bring_all_up();
	q = device_srq_of(rails[3].r->qp);
	cr_assert_eq(q->limit, RSK_VERBS_RECVS / 2);
	q->limit = 0;
	for (uint32_t i = 0; i < RSK_VERBS_RECVS / 2 + 1; i++)
		cr_assert(device_notice(rails[3].r->qp, 1u << 28));
	rsk_recvs_low(rails[3].r);
	cr_expect_eq(q->n, receives(&rails[3]));
	cr_expect_eq(q->limit, RSK_VERBS_RECVS / 2, "it is told no more");
	cr_expect_eq(rails[3].news, RSK_VERBS_RECVS / 2 + 1);
	nothing_is_left();
}

/* A peer that has sent nonsense has no receive left to send more. */
Test(verbs_domain, nonsense)
{
	uint32_t sent = 0;

	bring_all_up();
	for (; device_notice(rails[0].r->qp, 3u << 24); sent++)
		rsk_verbs_poll(&verbs, true);
	cr_expect_leq(sent, RSK_VERBS_RECVS);
	cr_expect_eq(atomic_load(&rails[0].r->err), -EPROTO);
	cr_expect(device_notice(rails[1].r->qp, 1u << 28));
	rsk_verbs_poll(&verbs, true);
	cr_expect_eq(rails[1].news, 1);
	cr_expect_eq(atomic_load(&rails[1].r->err), 0);
	nothing_is_left();
}

static const struct kit_rail *quiet;

static void flood_on(struct device_srq *q)
{
	for (int i = 0; i < RAILS; i++)
		if (&rails[i] != quiet && rails[i].r->qp && rails[i].r->qp->srq == &q->srq)
			flood(&rails[i]);
}

/*
 * Floods without a pause: each poll is bounded, and the rail that does not flood is served within a
 * few of them.
 */
Test(verbs_domain, no_quiesce, .timeout = 20)
{
	bring_all_up();
	for (quiet = rails; quiet < rails + RAILS; quiet++) {
		uint64_t before = quiet->news;

		device_refill = flood_on;
		for (int i = 0; i < RAILS; i++)
			flood_on(device_srq_of(rails[i].r->qp));
		cr_assert(device_notice(quiet->r->qp, 1u << 28));
		for (int look = 0; look < 8 && quiet->news == before; look++)
			rsk_verbs_poll(&verbs, look & 1);
		cr_expect_eq(quiet->news, before + 1, "rail %d", (int)(quiet - rails));
		device_refill = NULL;
		for (int look = 0; look < RAILS; look++)
			rsk_verbs_poll(&verbs, true);
	}
	nothing_is_left();
}

/* ---- a completion queue that the device has given up ---- */

static struct ibv_async_event async_event;
static bool async_due;

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	if (!async_due)
		return -1;
	async_due = false;
	*ev = async_event;
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *ev)
{
}

static void cq_fails(struct ibv_cq *cq)
{
	async_event = (struct ibv_async_event){ .event_type = IBV_EVENT_CQ_ERR, .element.cq = cq };
	async_due = true;
	rsk_vdev_async(&dev);
}

Test(verbs_domain, a_send_queue_fails)
{
	bring_all_up();
	cq_fails(rails[1].r->cq);
	for (int i = 0; i < RAILS; i++)
		cr_expect_eq(atomic_load(&rails[i].r->err), i == 1 ? -EIO : 0, "rail %d", i);
	nothing_is_left();
}

/* Rails whose receives complete there fail, and no later rail gets that queue. */
Test(verbs_domain, a_receive_queue_fails)
{
	struct ibv_cq *cq;

	bring_all_up();
	cq = rails[1].r->recv_cq->cq;
	cq_fails(cq);
	for (int i = 0; i < RAILS; i++) {
		bool its = rails[i].r->recv_cq->cq == cq;

		cr_expect_eq(atomic_load(&rails[i].r->err), its ? -EIO : 0, "rail %d", i);
		if (!its)
			continue;
		rsk_rail_break(rails[i].r);
		cr_assert_eq(kit_rail_connect(&rails[i]), 0);
		cr_expect_neq(rails[i].r->recv_cq->cq, cq, "rail %d", i);
	}
	nothing_is_left();
}

/*
 * All events of the channel are read at once: a thread that waits for the next edge would miss the
 * rest.
 */
Test(verbs_domain, events)
{
	bring_all_up();
	for (uint64_t round = 0; round < 3; round++) {
		for (int i = 0; i < RAILS; i++)
			cr_assert(device_notice(rails[i].r->qp, 1u << 28));
		rsk_verbs_poll(&verbs, true);
		for (int i = 0; i < DEVICE_OBJECTS; i++)
			cr_expect(!device_cqs[i] || !device_cqs[i]->event, "an event is left");
		for (int i = 0; i < RAILS; i++) {
			const struct device_cq *c = device_cq_of(rails[i].r->qp);

			cr_expect_eq(rails[i].news, round + 1);
			cr_expect(c->armed);
		}
	}
	nothing_is_left();
}
