// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_tx_credit.c - tests the read position that a receiver publishes, and what its sender accepts
 * of it.
 */
#include "way_kit.h"

#define BOX (RSK_MAILBOX_FRAME_BYTES + (uint32_t)sizeof(struct rsk_mailbox_credit))
#define KEY 0x300000007ull
#define SLOT 100u /* bytes of a send */
#define SLOTS 5u

static void promote(void)
{
	for (int i = 0; i < 3; i++) {
		rsk_tx_propose(&w.tx);
		cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
	}
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
	cr_assert_eq(w.rx.state, RSK_RX_ONRING);
}

static void begin(void)
{
	world_init(&far, KEY);
	rsk_rx_publish_at(&w.rx, w.segment[1] + CREDIT, BOX);
	promote();
}

static void send_slots(uint32_t n)
{
	for (; n; n--)
		cr_assert_eq(send_some(SLOT), SLOT);
	cr_assert_eq(w.wire.in, 0, "all of it by the ring");
}

static void read_bytes(size_t n)
{
	uint8_t in[SLOT * SLOTS];
	struct iovec iov = { in, n };
	struct rsk_iovcur cur;

	rsk_iovcur_init(&cur, &iov, 1);
	cr_assert_eq(rsk_rx_recv(&w.rx, &w.wire.c, &cur, false, false), (ssize_t)n);
}

/* As read by a get that is not torn. */
static struct rsk_mailbox_credit looked_up(void)
{
	struct rsk_mailbox_credit is;
	struct rsk_mailbox_view view;

	cr_assert_eq(rsk_mailbox_check(w.segment[1] + CREDIT, BOX, &w.tx.key, &view),
		     RSK_MAILBOX_WHOLE);
	cr_assert_eq(rsk_mailbox_credit(&view, &is), 0);
	return is;
}

static enum rsk_mailbox_check looks(void)
{
	struct rsk_mailbox_view view;

	return rsk_mailbox_check(w.segment[1] + CREDIT, BOX, &w.rx.key, &view);
}

/*
 * A part of a slot moves the position, and a whole one the cells, long before a control word
 * reports it.
 */
Test(tx_credit, parts_of_slots_show)
{
	struct rsk_mailbox_credit is;
	uint64_t first, answer;

	begin();
	first = w.tx.start.cell;
	send_slots(SLOTS);
	answer = w.tx.answer.at->hash;
	read_bytes(SLOT / 2);
	is = looked_up();
	cr_assert(is.pos == SLOT / 2 && is.cells == first && is.gen == w.tx.gen);
	cr_assert_eq(rsk_tx_credit(&w.tx, &is), 1);
	cr_assert_eq(w.tx.ring.credit, first, "it has no slot as a whole");
	cr_assert_eq(rsk_tx_credit(&w.tx, &is), 0, "it stands");
	read_bytes(SLOT);
	is = looked_up();
	cr_assert(is.pos == SLOT * 3 / 2 && is.cells == first + rsk_slot_cells(SLOT));
	cr_assert_eq(rsk_tx_credit(&w.tx, &is), 1);
	cr_assert_eq(w.tx.ring.credit, first + rsk_slot_cells(SLOT));
	cr_assert_eq(w.tx.answer.at->hash, answer, "no word was needed");
	cr_assert(rsk_tx_validate(&w.tx) && rsk_rx_validate(&w.rx));
}

/* A peer that has the key publishes any value: an impossible one changes nothing. */
Test(tx_credit, what_cannot_be)
{
	struct rsk_mailbox_credit is, wrong[6];
	struct rsk_tx was;

	begin();
	send_slots(SLOTS);
	read_bytes(SLOT * 2);
	rsk_tx_fall_back(&w.tx, &w.wire.c);
	read_bytes(SLOT * (SLOTS - 2));
	cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
	rsk_rx_ready(&w.rx);
	promote();
	send_slots(SLOTS);
	read_bytes(SLOT);
	is = looked_up();
	cr_assert(w.tx.start.pos == SLOT * SLOTS && is.gen == 2);
	for (int i = 0; i < 6; i++)
		wrong[i] = is;
	wrong[0].pos = w.tx.pos + 1;
	wrong[1].pos = UINT64_MAX;
	wrong[2].pos = w.tx.start.pos - 1;
	wrong[3].cells = w.tx.ring.next + 1;
	wrong[4].cells = UINT64_MAX;
	wrong[5].cells = w.tx.start.cell - 1;
	for (int i = 0; i < 6; i++) {
		was = w.tx;
		cr_assert_eq(rsk_tx_credit(&w.tx, &wrong[i]), -EPROTO, "%d", i);
		cr_assert(was.state == w.tx.state && was.read_pos == w.tx.read_pos &&
				  was.ring.credit == w.tx.ring.credit,
			  "%d", i);
	}
	/* Of the former promotion, or of a future one: it does not concern this ring. */
	for (uint32_t gen = 1; gen < 5; gen += 2) {
		wrong[0] = (struct rsk_mailbox_credit){ .pos = UINT64_MAX, .gen = gen };
		cr_assert_eq(rsk_tx_credit(&w.tx, &wrong[0]), 0);
	}
	cr_assert_eq(rsk_tx_credit(&w.tx, &is), 1);
	rsk_tx_break(&w.tx);
	is.pos = UINT64_MAX;
	cr_assert_eq(rsk_tx_credit(&w.tx, &is), 0, "off the ring");
}

/*
 * Nothing is published off the ring, and the mailbox of another epoch starts empty, under its key.
 */
Test(tx_credit, of_this_ring_alone)
{
	uint64_t pos, cell;
	uint64_t sequence;

	begin();
	cr_assert_eq(looks(), RSK_MAILBOX_EMPTY);
	send_slots(SLOTS);
	read_bytes(SLOT);
	cr_assert_eq(looks(), RSK_MAILBOX_WHOLE);
	rsk_tx_break(&w.tx);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
	read_bytes(SLOT * (SLOTS - 1));
	sequence = w.rx.credit.mailbox.sequence;
	rsk_rx_close(&w.rx);
	cr_assert_eq(w.rx.credit.mailbox.sequence, sequence);
	begin();
	send_slots(SLOTS);
	read_bytes(SLOT * SLOTS);
	rsk_tx_break(&w.tx);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
	rsk_rx_renew(&w.rx, KEY + 1);
	rsk_tx_renew(&w.tx, KEY + 1);
	cr_assert_eq(looks(), RSK_MAILBOX_EMPTY);
	promote();
	send_slots(1);
	read_bytes(SLOT);
	cr_assert_eq(looks(), RSK_MAILBOX_WHOLE);
}
