// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_tx_repair.c - tests which slots the sending machine puts again, how often, and when,
 * whatever the receiver's control word asks for. What comes of it at both ends: test_rx_repair.c.
 */
#include "rails.h"
#include "tx_parts.h"
#include "way_kit.h"

#define ROUNDS 100 /* more than any repair takes */

/* ---- what no honest receiver asks ---- */

static void ask(uint32_t repair, uint32_t gen, uint64_t cells)
{
	struct rsk_control_word m = {
		.what = RSK_RX_SWITCHED, .gen = gen, .cells = cells, .repair = repair
	};

	m.hash = rsk_hash_control_word(&w.tx.key, &m, RSK_CONTROL_WORD_RX);
	memcpy(w.segment[0] + WORD_RX, &m, sizeof(m));
}

Test(tx_repair, requests_that_mean_nothing)
{
	on_ring(&far, 7);
	cr_assert_eq(send_some(5), 5);
	ask(1, w.tx.gen + 1, w.tx.ring.told);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	ask(2, w.tx.gen - 1, w.tx.ring.told);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.repair.times, 0, "of another promotion");
	cr_assert_eq(w.tx.repair.answered, 0);
	ask(3, w.tx.gen, w.tx.ring.told - 1);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.repair.times, 0, "of what was taken");
	cr_assert_eq(w.tx.repair.answered, 3);
	ask(4, w.tx.gen, w.tx.ring.next);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.repair.times, 0, "of what was not put");
	cr_assert_eq(w.tx.ring.twice_from, UINT64_MAX);
}

/* No slot is put without end, and one that would begin inside another one is the end. */
Test(tx_repair, requests_without_end)
{
	uint64_t first;

	on_ring(&far, 7);
	first = w.tx.ring.next;
	cr_assert_eq(send_some(500), 500);
	ask(1, w.tx.gen, first + 1);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), -EPROTO);
	cr_assert_eq(w.tx.ring.twice_from, UINT64_MAX, "put from the middle of a slot");
	on_ring(&far, 7);
	cr_assert_eq(send_some(500), 500);
	for (uint32_t i = 1; i < 1000; i++) {
		ask(i, w.tx.gen, first);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		cr_assert(rsk_tx_validate(&w.tx));
	}
	cr_assert_lt(w.tx.repair.times, 100);
	cr_assert_eq(w.tx.repair.answered, 999);
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
}

/* ---- what several rails say of a slot ---- */

static uint32_t agains;		   /* puts so far */
static uint64_t lost_at;	   /* offset of a slot that a lost rail has carried; 0: none */
static struct rsk_fabric_ops some; /* far, with several rails */

static int again(struct rsk_rail *rail, uint64_t off, size_t len, uint32_t lost)
{
	cr_assert_eq(lost, RSK_RAILS_ASKED);
	if (off == lost_at)
		return -EAGAIN;
	agains++;
	return rail->ops->put(rail, off, len);
}

/* Three slots wait on that fabric. Returns the index of the first. */
static uint64_t three_slots(void)
{
	uint64_t first;

	some = far;
	some.again = again;
	agains = 0;
	lost_at = 0;
	on_ring(&some, 7);
	first = w.rx.ring.next;
	for (int i = 0; i < 3; i++)
		cr_assert_eq(send_some(100), 100);
	return first;
}

static uint64_t offset_of(uint64_t index)
{
	return RING + (index & (CELLS - 1)) * RSK_CELL_BYTES;
}

/*
 * Asked again, the sender puts the slot and the next one: one was taken in part, or is damaged. Of
 * those behind them a copy may still wait at the receiver, and land after what is put there later.
 */
Test(tx_repair, puts_no_slot_that_was_not_asked_for)
{
	uint64_t first = three_slots();

	ask(1, w.tx.gen, first);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(agains, 1);
	for (uint32_t i = 2; i < 5; i++) {
		ask(i, w.tx.gen, first);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		cr_assert_eq(agains, 1 + 2 * (i - 1));
		cr_assert_eq(w.tx.repair.times, i);
		cr_assert_eq(w.tx.repair.answered, i);
	}
}

/* While the failure of the slot's rail is not settled, nothing is put, and nothing is counted. */
Test(tx_repair, waits_for_a_lost_rail)
{
	uint64_t first = three_slots();

	lost_at = offset_of(first);
	ask(1, w.tx.gen, first);
	for (int i = 0; i < ROUNDS; i++)
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.repair.times, 0);
	cr_assert(rsk_tx_repair_due(&w.tx));
	lost_at = 0;
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.repair.times, 1);
	cr_assert_eq(agains, 1);
	cr_assert_eq(w.tx.repair.answered, 1);
}

/* The next slot's rail is lost: its failure brings it, and the slot before is not put for ever. */
Test(tx_repair, the_next_slot_is_of_a_lost_rail)
{
	uint64_t first = three_slots();

	lost_at = offset_of(first + rsk_slot_cells(100));
	ask(1, w.tx.gen, first);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	ask(2, w.tx.gen, first);
	for (int i = 0; i < ROUNDS; i++)
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(agains, 2);
	cr_assert_eq(w.tx.repair.answered, 2);
}

/* Within a host nothing is put again, whoever asks: there is one copy. */
Test(tx_repair, within_a_host)
{
	static struct rsk_fabric_ops sync_ops;

	sync_ops = at_once;
	sync_ops.caps |= RSK_FABRIC_SYNC;
	on_ring(&sync_ops, 7);
	cr_assert_eq(send_some(5), 5);
	ask(1, w.tx.gen, w.tx.ring.told);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.ring.twice_from, UINT64_MAX);
	cr_assert_eq(w.tx.repair.answered, 0);
	ask(1, w.tx.gen, w.tx.ring.next);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.ring.credit, w.tx.ring.next);
}
