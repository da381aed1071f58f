// SPDX-License-Identifier: BSD-2-Clause
/* What a receiver publishes of how far it has read, and what its sender believes of that. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "rx.h"
#include "tx.h"

#define CELLS 64u
#define MAIL_TX 0u
#define MAIL_RX 64u
#define CREDIT 128u
#define RING 192u
#define BYTES (RING + CELLS * RSK_CELL_BYTES)
#define BOX (RSK_MAILBOX_FRAME_BYTES + (uint32_t)sizeof(struct rsk_mailbox_credit))
#define KEY 0x300000007ull
#define SLOT 100u /* bytes of a send */
#define SLOTS 5u

struct world {
	uint8_t segment[2][BYTES] __attribute__((aligned(64)));
	uint8_t window[2][BYTES] __attribute__((aligned(64)));
	struct rsk_rail rail[2]; /* the sender's, the receiver's */
	struct rsk_companion wire;
	struct rsk_tx tx;
	struct rsk_rx rx;
};

static struct world w;

static ssize_t wire_send(struct rsk_companion *c, const struct iovec *iov, int n, size_t cap,
			 int flags)
{
	return -EAGAIN;
}

static ssize_t wire_recv(struct rsk_companion *c, const struct iovec *iov, int n, size_t cap,
			 int flags)
{
	return -EAGAIN;
}

static int wire_pos(struct rsk_companion *c, uint64_t *pos)
{
	*pos = 0;
	return 0;
}

static const struct rsk_companion_ops wire_ops = { .send = wire_send,
						   .recv = wire_recv,
						   .tx_pos = wire_pos,
						   .rx_pos = wire_pos };

static int put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	memcpy(w.segment[rail == &w.rail[0]] + off, rail->window + off, len);
	return 0;
}

static bool arrived(struct rsk_rail *rail, uint64_t off)
{
	return true;
}

static const struct rsk_fabric_ops late_ops = { .name = "late",
						.caps = RSK_FABRIC_RELIABLE,
						.put = put,
						.arrived = arrived };

static void promote(void)
{
	for (int i = 0; i < 3; i++) {
		rsk_tx_propose(&w.tx);
		cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire), 0);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire), 0);
		cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire), 0);
	}
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
	cr_assert_eq(w.rx.state, RSK_RX_ONRING);
}

static void world_init(void)
{
	memset(&w, 0, sizeof(w));
	for (int i = 0; i < 2; i++)
		w.rail[i] = (struct rsk_rail){ .ops = &late_ops,
					       .window = w.window[i],
					       .window_bytes = BYTES,
					       .segment = w.segment[i],
					       .segment_bytes = BYTES };
	w.wire = (struct rsk_companion){ &wire_ops, -1 };
	rsk_tx_init(&w.tx, &w.rail[0], RING, CELLS, MAIL_TX,
		    (const struct rsk_mail *)(const void *)(w.segment[0] + MAIL_RX), KEY);
	rsk_rx_init(&w.rx, &w.rail[1], w.segment[1] + RING, CELLS, MAIL_RX,
		    (const struct rsk_mail *)(const void *)(w.segment[1] + MAIL_TX), KEY);
	rsk_rx_publish_at(&w.rx, w.segment[1] + CREDIT, BOX);
	promote();
}

static void send_slots(uint32_t n)
{
	uint8_t out[SLOT] = { 0 };
	struct iovec iov = { out, sizeof(out) };
	struct rsk_iovcur cur;

	for (; n; n--) {
		rsk_iovcur_init(&cur, &iov, 1);
		cr_assert_eq(rsk_tx_send(&w.tx, &w.wire, &cur, 0), SLOT);
	}
}

static void read_bytes(size_t n)
{
	uint8_t in[SLOT * SLOTS];
	struct iovec iov = { in, n };
	struct rsk_iovcur cur;

	rsk_iovcur_init(&cur, &iov, 1);
	cr_assert_eq(rsk_rx_recv(&w.rx, &w.wire, &cur, false, false), (ssize_t)n);
}

/* As a get that is not torn has it. */
static struct rsk_mailbox_credit looked_up(void)
{
	struct rsk_mailbox_credit is;
	struct rsk_mailbox_view view;

	cr_assert_eq(rsk_mailbox_look(w.segment[1] + CREDIT, BOX, &w.tx.key, &view),
		     RSK_MAILBOX_WHOLE);
	cr_assert_eq(rsk_mailbox_credit(&view, &is), 0);
	return is;
}

static enum rsk_mailbox_look looks(void)
{
	struct rsk_mailbox_view view;

	return rsk_mailbox_look(w.segment[1] + CREDIT, BOX, &w.rx.key, &view);
}

/* A part of a slot moves the position, a whole one the cells, long before any word of it. */
Test(tx_credit, parts_of_slots_show)
{
	struct rsk_mailbox_credit is;
	uint64_t first, answer;

	world_init();
	first = w.tx.start_cell;
	send_slots(SLOTS);
	answer = w.tx.answer->hash;
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
	cr_assert_eq(w.tx.answer->hash, answer, "no word was needed");
	cr_assert(rsk_tx_validate(&w.tx) && rsk_rx_validate(&w.rx));
}

/* Whoever has the key says what he likes: what cannot be moves nothing. */
Test(tx_credit, what_cannot_be)
{
	struct rsk_mailbox_credit is, wrong[6];
	struct rsk_tx was;

	world_init();
	send_slots(SLOTS);
	read_bytes(SLOT * 2);
	rsk_tx_move(&w.tx, &w.wire);
	read_bytes(SLOT * (SLOTS - 2));
	cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire), 0);
	rsk_rx_ready(&w.rx);
	promote();
	send_slots(SLOTS);
	read_bytes(SLOT);
	is = looked_up();
	cr_assert(w.tx.start_pos == SLOT * SLOTS && is.gen == 2);
	for (int i = 0; i < 6; i++)
		wrong[i] = is;
	wrong[0].pos = w.tx.pos + 1;
	wrong[1].pos = UINT64_MAX;
	wrong[2].pos = w.tx.start_pos - 1;
	wrong[3].cells = w.tx.ring.next + 1;
	wrong[4].cells = UINT64_MAX;
	wrong[5].cells = w.tx.start_cell - 1;
	for (int i = 0; i < 6; i++) {
		was = w.tx;
		cr_assert_eq(rsk_tx_credit(&w.tx, &wrong[i]), -EPROTO, "%d", i);
		cr_assert(was.state == w.tx.state && was.read_pos == w.tx.read_pos &&
				  was.ring.credit == w.tx.ring.credit,
			  "%d", i);
	}
	/* Of the promotion before, or one to come: nothing to do with this ring. */
	for (uint32_t gen = 1; gen < 5; gen += 2) {
		wrong[0] = (struct rsk_mailbox_credit){ .pos = UINT64_MAX, .gen = gen };
		cr_assert_eq(rsk_tx_credit(&w.tx, &wrong[0]), 0);
	}
	cr_assert_eq(rsk_tx_credit(&w.tx, &is), 1);
	rsk_tx_break(&w.tx);
	is.pos = UINT64_MAX;
	cr_assert_eq(rsk_tx_credit(&w.tx, &is), 0, "off the ring");
}

/* Nothing is published off the ring, and another epoch's mailbox begins empty, under its key. */
Test(tx_credit, of_this_ring_alone)
{
	uint64_t pos, cell;
	uint64_t sequence;

	world_init();
	cr_assert_eq(looks(), RSK_MAILBOX_EMPTY);
	send_slots(SLOTS);
	read_bytes(SLOT);
	cr_assert_eq(looks(), RSK_MAILBOX_WHOLE);
	rsk_tx_break(&w.tx);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire, pos, cell), 0);
	read_bytes(SLOT * (SLOTS - 1));
	sequence = w.rx.credit.sequence;
	rsk_rx_close(&w.rx);
	cr_assert_eq(w.rx.credit.sequence, sequence);
	world_init();
	send_slots(SLOTS);
	read_bytes(SLOT * SLOTS);
	rsk_tx_break(&w.tx);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire, pos, cell), 0);
	rsk_rx_renew(&w.rx, KEY + 1);
	rsk_tx_renew(&w.tx, KEY + 1);
	cr_assert_eq(looks(), RSK_MAILBOX_EMPTY);
	promote();
	send_slots(1);
	read_bytes(SLOT);
	cr_assert_eq(looks(), RSK_MAILBOX_WHOLE);
}
