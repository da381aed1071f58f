// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_remote_gets.c - tests what a progress thread fetches on its own, and what it repeats: the
 * credit of full rings (stream/remote/credit.c), the status of its rails that the other end
 * publishes (stream/remote/remote_status.c), and a ring registration that failed
 * (stream/remote/remote_rings.c).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "credit.h"
#include "mailbox.h"
#include "remote_kit.h"

#define SECOND_NS 1000000000ull

static struct kit k;
static struct kit_stream at;
static uint64_t now_ns;

static void set(void)
{
	kit_link_two(&k);
	now_ns = rsk_now_ns();
}

/* A get delivers the contents of the other end's mailbox, once. */
static void land(const struct rsk_key *key, enum rsk_mailbox_kind kind, const void *is,
		 uint32_t bytes)
{
	uint64_t memory[16] = { 0 };
	struct rsk_mailbox box;

	cr_assert_leq(kit_fabric.len, sizeof(memory));
	rsk_mailbox_init(&box, memory, (uint32_t)kit_fabric.len, key);
	cr_assert_eq(rsk_mailbox_publish(&box, kind, is, bytes), 0);
	memcpy(kit_fabric.dst, memory, kit_fabric.len);
	kit_fabric.landed = true;
}

/* ---- credit ---- */

/*
 * The ring of its stream is full, as far as its sender knows, and the sender has asked for credit.
 */
static void fill_ring(void)
{
	set();
	at = kit_stream(&k, true);
	at.s->tx.ring.next = at.s->tx.ring.credit + at.s->tx.ring.cells;
	k.r->listed = true; /* links.c would set this */
	cr_assert_not(rsk_tx_writable(&at.s->tx));
	rsk_credit_want(at.s);
}

static void look(void)
{
	now_ns += SECOND_NS;
	rsk_credit_work(k.r, now_ns); /* starts the waiting time */
	now_ns += SECOND_NS;
	rsk_credit_work(k.r, now_ns);
}

Test(remote_gets, no_credit_is_asked_for_while_puts_are_under_way)
{
	kit_fabric.gets = true;
	fill_ring();
	look();
	cr_assert_eq(kit_fabric.begun, 0, "what is not there yet nobody can have read");
	kit_fabric.arrived = true;
	look();
	cr_assert_eq(kit_fabric.begun, 1);
	cr_assert_eq(kit_fabric.off,
		     rsk_seg_ctl_off(at.s->sid) + offsetof(struct rsk_seg_ctl, credit));
}

Test(remote_gets, no_credit_is_asked_for_while_an_answer_is_under_way)
{
	struct kit_stream more;

	kit_fabric.gets = kit_fabric.arrived = true;
	fill_ring();
	look();
	cr_assert_eq(kit_fabric.begun, 1);
	more = kit_stream(&k, true);
	more.s->tx.ring.next = more.s->tx.ring.credit + more.s->tx.ring.cells;
	rsk_credit_want(more.s);
	look();
	cr_assert_eq(kit_fabric.begun, 1, "the rail has not answered for a round");
}

Test(remote_gets, credit_is_believed_when_it_comes)
{
	struct rsk_mailbox_credit is;

	kit_fabric.gets = kit_fabric.arrived = true;
	fill_ring();
	at.s->tx.pos += 100;
	look();
	is = (struct rsk_mailbox_credit){ .pos = at.s->tx.pos,
					  .cells = at.s->tx.ring.next,
					  .gen = at.s->tx.gen };
	land(&at.s->tx.key, RSK_MAILBOX_CREDIT, &is, sizeof(is));
	look();
	cr_assert_eq(at.s->tx.ring.credit, at.s->tx.ring.next);
	cr_assert(rsk_tx_writable(&at.s->tx));
}

/* ---- how the other end sees the link ---- */

/*
 * Rail 0 delivers what the other end publishes: its rails are closed up to these generations, in
 * this epoch.
 */
static void published(uint32_t epoch, uint32_t first, uint32_t second)
{
	struct rsk_mailbox_link is = { .epoch = epoch, .closed = { first, second } };
	uint32_t begun = kit_fabric.begun;

	kit_fabric.gets = true;
	rsk_remote_status_work(k.r);
	rsk_remote_ask(&k.r->rail[0]);
	cr_assert_eq(kit_fabric.begun, begun + 1);
	land(&k.r->status_key[1], RSK_MAILBOX_LINK, &is, sizeof(is));
	rsk_remote_status_work(k.r);
	cr_assert_not(kit_fabric.landed, "nobody polled");
}

Test(remote_gets, a_rail_that_is_closed_there_is_closed_here)
{
	set();
	published(k.r->epoch, 0, k.r->rail[1].generation);
	cr_assert_neq(k.r->rail[1].state, RSK_REMOTE_RAIL_UP,
		      "what the mailbox says is not believed");
	cr_assert_eq(k.r->rail[0].state, RSK_REMOTE_RAIL_UP);
	cr_assert_eq(k.r->state, RSK_REMOTE_UP);
}

Test(remote_gets, of_another_epoch_or_life_nothing_is_believed)
{
	set();
	published(k.r->epoch + 1, 0, k.r->rail[1].generation);
	cr_assert_eq(k.r->rail[1].state, RSK_REMOTE_RAIL_UP);
}

Test(remote_gets, of_another_life_nothing_is_believed)
{
	set();
	published(k.r->epoch, 0, k.r->rail[1].generation + 1);
	cr_assert_eq(k.r->rail[1].state, RSK_REMOTE_RAIL_UP);
}

/* ---- registration ---- */

/* The next message about the ring of @sid over rail 0; RSK_VERBS_CLOSED: there is none. */
static uint8_t said_of_ring(uint32_t sid)
{
	struct rsk_remote_msg m;

	while (kit_hear(&k, &m))
		if (m.type == RSK_REMOTE_RING && m.sid == sid && m.rail == 0)
			return m.way;
	return RSK_VERBS_CLOSED;
}

static void rings_work(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		k.r->rail[i].probe_ns = UINT64_MAX;
		rsk_remote_rings_work(&k.r->rail[i], now_ns);
	}
}

/* How many requests for the ring of @sid were sent over rail 0 since. */
static int requests_for(uint32_t sid)
{
	struct rsk_remote_msg m;
	int n = 0;

	while (kit_hear(&k, &m))
		n += m.type == RSK_REMOTE_RING_REQ && m.sid == sid && m.rail == 0;
	return n;
}

Test(remote_gets, a_ring_is_asked_for_again_while_it_is_indirect)
{
	struct rsk_remote_msg invalid = { .type = RSK_REMOTE_RING,
					  .way = RSK_VERBS_INDIRECT,
					  .ring_bytes = RSK_SEG_FIRST_RING };

	set();
	at = kit_stream(&k, false);
	invalid.sid = at.s->sid;
	rsk_remote_want_ring(k.r, at.s->sid);
	rsk_remote_on_ring(k.r, &invalid);
	cr_assert_eq(requests_for(at.s->sid), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_leq(rsk_remote_rings_next(&k.r->rail[0]), now_ns + 7 * SECOND_NS,
			      "nobody wakes for it");
		now_ns += 7 * SECOND_NS;
		rings_work();
		cr_assert_eq(requests_for(at.s->sid), 1, "round %d", i);
	}
	invalid.way = RSK_VERBS_DIRECT;
	rsk_remote_on_ring(k.r, &invalid);
	now_ns += 7 * SECOND_NS;
	rings_work();
	cr_assert_eq(requests_for(at.s->sid), 0, "it is registered");
}

Test(remote_gets, a_ring_that_could_not_be_registered_is_tried_again)
{
	set();
	at = kit_stream(&k, false);
	kit_fabric.registers = -ENOMEM;
	rsk_remote_want_ring(k.r, at.s->sid);
	cr_assert_eq(said_of_ring(at.s->sid), RSK_VERBS_INDIRECT);
	/* The registration fails for a while: it is retried at intervals, and reported once. */
	for (int i = 0; i < 3; i++) {
		uint32_t tried = kit_fabric.rings;

		now_ns += SECOND_NS;
		cr_assert_leq(rsk_remote_rings_next(&k.r->rail[0]), now_ns, "nobody wakes for it");
		rings_work();
		cr_assert_gt(kit_fabric.rings, tried, "round %d", i);
		cr_assert_eq(said_of_ring(at.s->sid), RSK_VERBS_CLOSED);
	}
	kit_fabric.registers = 0;
	now_ns += SECOND_NS;
	rings_work();
	cr_assert_eq(said_of_ring(at.s->sid), RSK_VERBS_DIRECT);
	/* No more retries follow. */
	now_ns += SECOND_NS;
	rings_work();
	cr_assert_eq(said_of_ring(at.s->sid), RSK_VERBS_CLOSED);
}
