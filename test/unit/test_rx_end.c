// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a receiver on the ring says when its sender is gone, on a fabric whose puts are on the way for a while: bytes
 * first, then a clean end if nothing can be missing, else ECONNRESET. Of a sender that lives it says nothing until its
 * last word is there. And what one that rests has to read, or leaves to the companion; what a sender knows that left.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "rx.h"
#include "tx.h"

#define CELLS 64u
#define MAIL_TX 0u
#define MAIL_RX 64u
#define RING 128u
#define BYTES (RING + CELLS * RSK_CELL_BYTES)

/* The companion: bytes that are all the same, an end, an error. */
struct wire {
	struct rsk_companion c; /* first */
	uint64_t in, out;
	bool end;
	int err;
};

struct world {
	uint8_t segment[2][BYTES] __attribute__((aligned(64)));
	uint8_t window[2][BYTES] __attribute__((aligned(64)));
	struct rsk_rail rail[2]; /* the sender's, the receiver's */
	bool dark;		 /* puts are lost */
	bool unheard;		 /* nothing is acknowledged */
	bool mute;		 /* the process is a child: nothing is put */
	struct wire wire;
	struct rsk_tx tx;
	struct rsk_rx rx;
};

static struct world w;

static ssize_t wire_send(struct rsk_companion *c, const struct iovec *iov, int n, size_t cap,
			 int flags)
{
	w.wire.in += cap;
	return (ssize_t)cap;
}

static ssize_t wire_recv(struct rsk_companion *c, const struct iovec *iov, int n, size_t cap,
			 int flags)
{
	uint64_t there = w.wire.in - w.wire.out;

	if (!there && w.wire.err)
		return w.wire.err;
	if (!there)
		return w.wire.end ? 0 : -EAGAIN;
	cap = cap < there ? cap : there;
	memset(iov[0].iov_base, 'c', cap < iov[0].iov_len ? cap : iov[0].iov_len);
	if (!(flags & MSG_PEEK))
		w.wire.out += cap;
	return (ssize_t)cap;
}

static int wire_tx_pos(struct rsk_companion *c, uint64_t *pos)
{
	*pos = w.wire.in;
	return 0;
}

static int wire_rx_pos(struct rsk_companion *c, uint64_t *pos)
{
	*pos = w.wire.out;
	return 0;
}

static int put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	int peer = rail == &w.rail[0];

	if (w.mute)
		return RSK_RAIL_MUTE;
	if (!w.dark)
		memcpy(w.segment[peer] + off, rail->window + off, len);
	return 0;
}

static const struct rsk_companion_ops wire_ops = {
	.send = wire_send,
	.recv = wire_recv,
	.tx_pos = wire_tx_pos,
	.rx_pos = wire_rx_pos,
};

static const struct rsk_fabric_ops fabric = {
	.name = "at once",
	.caps = RSK_FABRIC_RELIABLE,
	.put = put,
};

static bool arrived(struct rsk_rail *rail, uint64_t off)
{
	return !w.dark && !w.unheard;
}

static const struct rsk_fabric_ops far = {
	.name = "far",
	.caps = RSK_FABRIC_RELIABLE,
	.put = put,
	.arrived = arrived,
};

static const struct rsk_fabric_ops *ops = &fabric;

static ssize_t send_some(size_t len)
{
	static uint8_t out[4096];
	struct iovec iov = { out, len };
	struct rsk_iovcur cur;

	memset(out, 'r', len);
	rsk_iovcur_init(&cur, &iov, 1);
	return rsk_tx_send(&w.tx, &w.wire.c, &cur, 0);
}

static ssize_t recv_some(size_t len)
{
	static uint8_t in[4096];
	struct iovec iov = { in, len };
	struct rsk_iovcur cur;
	ssize_t n;

	rsk_iovcur_init(&cur, &iov, 1);
	n = rsk_rx_recv(&w.rx, &w.wire.c, &cur, false, true);
	cr_assert(rsk_rx_validate(&w.rx));
	return n;
}

/* Both ends on the ring, behind @before bytes of the companion. */
static void on_ring(uint64_t before)
{
	memset(&w, 0, sizeof(w));
	w.wire.c.ops = &wire_ops;
	for (int i = 0; i < 2; i++)
		w.rail[i] = (struct rsk_rail){ .ops = ops,
					       .window = w.window[i],
					       .window_bytes = BYTES,
					       .segment = w.segment[i],
					       .segment_bytes = BYTES };
	rsk_tx_init(&w.tx, &w.rail[0], RING, CELLS, MAIL_TX,
		    (const struct rsk_mail *)(const void *)(w.segment[0] + MAIL_RX), 5);
	rsk_rx_init(&w.rx, &w.rail[1], w.segment[1] + RING, CELLS, MAIL_RX,
		    (const struct rsk_mail *)(const void *)(w.segment[1] + MAIL_TX), 5);
	if (before) {
		cr_assert_eq(send_some(before), (ssize_t)before);
		cr_assert_eq(recv_some(4096), (ssize_t)before);
	}
	cr_assert_eq(rsk_tx_propose(&w.tx), 0);
	cr_assert_eq(recv_some(1), -EAGAIN);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
	cr_assert_eq(recv_some(1), -EAGAIN);
	cr_assert_eq(w.rx.state, RSK_RX_ONRING);
}

Test(rx_end, who_lives_may_still_have_put_something)
{
	on_ring(10);
	cr_assert_eq(send_some(100), 100);
	w.wire.end = true;
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	cr_assert_not(rsk_rx_ready(&w.rx));
	cr_assert_eq(send_some(50), 50);
	cr_assert_eq(recv_some(4096), 50);
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	cr_assert(rsk_rx_ready(&w.rx));
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_end, a_dead_sender_is_a_reset_behind_what_came)
{
	on_ring(0);
	cr_assert_eq(send_some(100), 100);
	w.dark = true;
	cr_assert_eq(send_some(100), 100);
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(40), 40);
	cr_assert_eq(recv_some(4096), 60);
	rsk_rx_look(&w.rx, &w.wire.c);
	cr_assert(rsk_rx_ready(&w.rx));
	cr_assert_eq(recv_some(4096), -ECONNRESET);
	/* Once, as the kernel says it. */
	cr_assert_eq(recv_some(4096), 0);
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_end, lost_is_not_said_before_the_companion_ends)
{
	on_ring(0);
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(1), -EAGAIN);
	cr_assert_not(rsk_rx_ready(&w.rx));
	w.wire.end = true;
	cr_assert_eq(recv_some(1), -ECONNRESET);
}

Test(rx_end, who_ended_in_order_is_believed_when_all_is_here)
{
	on_ring(3);
	cr_assert_eq(send_some(100), 100);
	w.rx.last_cell = w.tx.ring.next; /* ENDING */
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), 0);
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_end, who_ended_in_order_but_something_is_missing)
{
	on_ring(3);
	cr_assert_eq(send_some(100), 100);
	w.dark = true;
	cr_assert_eq(send_some(1), 1);
	w.rx.last_cell = w.tx.ring.next;
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), -ECONNRESET);
}

Test(rx_end, a_last_word_is_an_end_whoever_is_dead)
{
	on_ring(3);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0); /* it hears that the ring is known */
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_tx_move(&w.tx, &w.wire.c), 0);
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), 0);

	on_ring(3);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_end, the_companions_own_error_comes_behind_what_came)
{
	on_ring(3);
	cr_assert_eq(send_some(100), 100);
	w.wire.err = -ETIMEDOUT;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), -ETIMEDOUT);
	cr_assert_neq(recv_some(4096), -ETIMEDOUT);
}

Test(rx_end, on_tcp_a_dead_peer_is_what_the_kernel_says)
{
	on_ring(3);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_tx_move(&w.tx, &w.wire.c), 0);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(20), 20);
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 20);
	cr_assert_eq(recv_some(4096), 0);
}

/* ---- does the companion's end count: rsk_rx_end() ---- */

Test(rx_end, the_end_is_behind_what_is_on_its_way)
{
	on_ring(3);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND, "there are bytes, and no last word");
	w.dark = true; /* a slot that has not come, with the end behind it */
	cr_assert_eq(send_some(100), 100);
	w.dark = false;
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
	memcpy(w.segment[1], w.window[0], BYTES); /* there it is */
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_HERE);
	cr_assert_eq(rsk_rx_pending(&w.rx, NULL), 200);
	cr_assert_eq(recv_some(150), 150);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_HERE, "a part of a slot is unread");
	cr_assert_eq(recv_some(4096), 50);
	cr_assert_eq(recv_some(4096), 0);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_HERE);
}

Test(rx_end, a_last_word_that_is_not_whole_is_none)
{
	struct rsk_slot_view v;

	on_ring(3);
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	cr_assert(rsk_ring_peek(&w.rx.ring, &v));
	w.segment[1]
		 [RING + w.rx.ring.next % CELLS * RSK_CELL_BYTES + sizeof(struct rsk_slot_head)]++;
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
}

Test(rx_end, who_moved_on_ends_by_the_companion)
{
	on_ring(3);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_tx_move(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_COMPANION);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_COMPANION);
}

Test(rx_end, nothing_more_comes_from_the_dead_or_by_a_broken_rail)
{
	uint64_t pos, cell;

	on_ring(3);
	cr_assert_eq(send_some(100), 100);
	rsk_rx_lose(&w.rx);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_COMPANION);
	on_ring(3);
	cr_assert_eq(send_some(100), 100);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_COMPANION);
}

Test(rx_end, who_rests_waits_for_the_answer)
{
	ops = &far;
	on_ring(10);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_rx_rest(&w.rx), -EAGAIN);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
}

/* ---- one that rests: rx_rest.c ---- */

/* So much by the ring, of which so much is read; then it rests. */
static void resting(size_t put_len, size_t read_len)
{
	ops = &far;
	on_ring(10);
	cr_assert_eq(send_some(put_len), (ssize_t)put_len);
	cr_assert_eq(recv_some(read_len), (ssize_t)read_len);
	cr_assert_eq(rsk_rx_rest(&w.rx), -EAGAIN);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	cr_assert_not(rsk_rx_ready(&w.rx));
}

static void answer(void)
{
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert(rsk_tx_validate(&w.tx));
}

Test(rx_end, one_that_rests_has_all_that_is_unread_from_the_companion)
{
	resting(100, 30);
	w.unheard = true;
	answer();
	cr_assert_eq(w.tx.state, RSK_TX_RESEND);
	cr_assert_eq(w.wire.in, 10, "repeated before the answer was known to be there");
	cr_assert_eq(send_some(5), -EAGAIN, "newer bytes before it");
	cr_assert_eq(rsk_rx_rest(&w.rx), 0);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	cr_assert(w.rx.repeated);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	w.unheard = false;
	cr_assert_eq(send_some(5), 5);
	cr_assert_eq(w.wire.in, 10 + 70 + 5);
	cr_assert_eq(recv_some(4096), 75);
	/* And back to the ring, behind a word of both that it may. */
	cr_assert_eq(rsk_tx_propose(&w.tx), 0);
	cr_assert_eq(recv_some(1), -EAGAIN);
	answer();
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
	cr_assert_eq(send_some(40), 40);
	cr_assert_eq(recv_some(4096), 40);
	cr_assert_eq(w.wire.in, 85);
}

Test(rx_end, nothing_unread_is_nothing_repeated)
{
	resting(100, 100);
	answer();
	cr_assert_eq(rsk_rx_rest(&w.rx), 0);
	cr_assert_not(w.rx.repeated);
	cr_assert_eq(w.tx.state, RSK_TX_TCP);
	cr_assert_eq(w.wire.in, 10);
}

Test(rx_end, whose_sender_had_moved_is_read_here)
{
	ops = &far;
	on_ring(10);
	cr_assert_eq(send_some(100), 100);
	w.dark = true; /* it is on its way */
	cr_assert_eq(rsk_rx_rest(&w.rx), -EAGAIN);
	w.dark = false;
	w.tx.acked = true;
	cr_assert_eq(rsk_tx_move(&w.tx, &w.wire.c), 0);
	answer();
	cr_assert_eq(send_some(7), 7);
	cr_assert_eq(rsk_rx_rest(&w.rx), -EBUSY);
	cr_assert_eq(recv_some(4096), 107);
}

Test(rx_end, a_rail_that_breaks_is_an_answer)
{
	uint64_t pos, cell;

	resting(100, 30);
	w.dark = true;
	answer();
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(pos, 40);
	cr_assert_not(w.rx.rest);
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
	answer();
	cr_assert_eq(w.tx.state, RSK_TX_TCP);
	cr_assert_eq(recv_some(4096), 70);
}

Test(rx_end, who_rests_reads_on_when_its_sender_is_dead)
{
	resting(100, 30);
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 70);
	cr_assert_eq(recv_some(4096), -EAGAIN);

	resting(100, 30);
	answer();
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 70, "it had answered, and that lay here");
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_end, an_answer_that_was_not_asked_for_is_refused)
{
	struct rsk_slot_command again = { .pos = 10, .what = RSK_COMMAND_AGAIN, .gen = 1 };

	ops = &far;
	on_ring(10);
	cr_assert_eq(rsk_ring_put_command(&w.tx.ring, &w.tx.key, &again), 0);
	cr_assert_eq(recv_some(4096), -EPROTO);

	resting(100, 30);
	again.pos = 39;
	cr_assert_eq(rsk_ring_put_command(&w.tx.ring, &w.tx.key, &again), 0);
	cr_assert_eq(rsk_rx_rest(&w.rx), -EPROTO);
	cr_assert(rsk_rx_validate(&w.rx));
}

Test(tx_end, what_has_arrived_is_remembered_for_who_cannot_ask)
{
	ops = &far;
	on_ring(3);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(100), 100);
	cr_assert_not(rsk_tx_secure(&w.tx)); /* still on the ring */
	cr_assert_eq(rsk_tx_move(&w.tx, &w.wire.c), 0);
	w.unheard = true;
	cr_assert_not(rsk_tx_secure(&w.tx));
	cr_assert_eq(send_some(20), -EAGAIN);
	w.unheard = false;
	cr_assert(rsk_tx_secure(&w.tx));
	/* A child's rail is mute, and no credit may come as long as the peer is one, too. */
	w.unheard = true;
	cr_assert_eq(send_some(20), 20);
	cr_assert_eq(recv_some(100), 100);
	cr_assert_eq(recv_some(4096), 20);
}

/* What a child does with the machines, which are its parent's too, takes nothing away from that one. */
Test(rx_end, a_child_changes_nothing)
{
	ops = &far;
	on_ring(10);
	cr_assert_eq(send_some(100), 100);
	w.mute = true;
	cr_assert_eq(rsk_rx_rest(&w.rx), -EBUSY);
	cr_assert_not(w.rx.rest);
	w.tx.acked = true;
	cr_assert_eq(rsk_tx_move(&w.tx, &w.wire.c), -EAGAIN);
	cr_assert_eq(send_some(100), -EAGAIN);
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);

	w.mute = false;
	cr_assert_eq(recv_some(30), 30);
	cr_assert_eq(rsk_rx_rest(&w.rx), -EAGAIN);
	w.mute = true;
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), -EAGAIN, "its parent has to answer");
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
	cr_assert(rsk_tx_validate(&w.tx) && rsk_rx_validate(&w.rx));
	w.mute = false;
	answer();
	cr_assert_eq(rsk_rx_rest(&w.rx), 0);
	cr_assert_eq(recv_some(4096), 70);
}
