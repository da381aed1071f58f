// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_slot_repair.c - tests the progress thread's checks of a damaged slot
 * (stream/remote/slot_repair.c) on a link with a stream of which only this end lives: the test
 * writes what the sender would.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hash.h"
#include "ready.h"
#include "recovery.h"
#include "remote_kit.h"
#include "slot_repair.h"

#define ROUND_NS 10000000ull
#define ROUNDS 8000 /* more than any repair takes, or any wait for an answer */

static struct kit k;
static struct kit_stream ks;
static uint64_t now_ns;

/* The sender's control word arrives, and is handled. */
static void say_word(struct rsk_control_word m)
{
	struct rsk_stream *s = ks.s;
	struct rsk_kernel_tcp c;

	m.hash = rsk_hash_control_word(&s->rx.key, &m, RSK_CONTROL_WORD_TX);
	rsk_seg_own_ctl(&s->link->seg, s->sid)->tx_word = m;
	rsk_kernel_tcp_init(&c, s, ks.fd);
	cr_assert_geq(rsk_rx_serve(&s->rx, &c.c), 0);
}

static void say(uint32_t what, uint32_t gen, uint32_t answered)
{
	say_word((struct rsk_control_word){
		.what = what, .gen = gen, .cells = ks.s->rx.ring.next, .repair = answered });
}

static void say_retransmit(void)
{
	const struct rsk_rx *rx = &ks.s->rx;

	say_word((struct rsk_control_word){ .what = RSK_TX_RETRANSMIT,
					    .gen = rx->gen,
					    .pos = rx->fallback.pos,
					    .cells = rx->ring.next + 2 });
}

/* On to the ring, from position 0 on; a slot shows there, and its hash is wrong. */
static void damaged(void)
{
	struct rsk_rx *rx = &ks.s->rx;
	struct rsk_slot_head head = { .len = 5, .kind = RSK_SLOT_DATA };
	uint8_t *ring = (uint8_t *)(uintptr_t)rx->ring.base;

	say(RSK_TX_PROPOSE, rx->gen + 1, 0);
	cr_assert_eq(rx->state, RSK_RX_WATCH);
	say(RSK_TX_RING, rx->gen, 0);
	cr_assert_eq(rx->state, RSK_RX_ONRING);
	head.index = rx->ring.next;
	memcpy(ring + (rx->ring.next & (rx->ring.cells - 1)) * RSK_CELL_BYTES, &head, sizeof(head));
	rsk_slot_repair_want(ks.s);
}

static void begin(void)
{
	kit_init();
	kit_link(&k, true);
	k.r->listed = true;
	kit_rail_up(&k, 0);
	ks = kit_stream(&k, false);
	now_ns = ROUND_NS;
	damaged();
}

/* One round of the progress thread. Returns whether the sender is to be told of a request. */
static bool is_called(void)
{
	now_ns += ROUND_NS;
	rsk_slot_repair_work(k.r, now_ns);
	cr_assert(rsk_rx_validate(&ks.s->rx));
	return atomic_exchange(&ks.s->apply_due, false);
}

/* Rounds until the sender is told of a request, which must be number @n. */
static void called_for(uint32_t n)
{
	int rounds = 0;

	while (!is_called())
		cr_assert_lt(++rounds, 10, "request %u is not told", n);
	cr_assert_eq(rsk_rx_repair(&ks.s->rx), n);
	cr_assert(rsk_rx_repair_open(&ks.s->rx));
	for (int i = 0; i < 10; i++)
		cr_assert_not(is_called(), "request %u is told twice", n);
}

/* Rounds until the stream has ended; returns the time that took. */
static uint64_t until_the_end(void)
{
	uint64_t from = now_ns;

	for (int i = 0; i < ROUNDS && !rsk_stream_failed(ks.s); i++)
		is_called();
	cr_assert(rsk_stream_failed(ks.s), "the reader waits for ever");
	cr_assert_not(atomic_load(&ks.s->repair.due));
	return now_ns - from;
}

static void no_news(void *arg, uint32_t sid, uint64_t pos, uint64_t cell, uint64_t owed,
		    uint64_t ring_end)
{
}

static void renewed(void *arg, uint32_t sid)
{
}

/* Requests are counted from 1 on again on a new rail: the first one there is told, too. */
Test(slot_repair, after_a_renewal)
{
	begin();
	called_for(1);
	rsk_recovery_break(k.r->l, no_news, NULL);
	cr_assert_not(is_called(), "a request of a ring that is gone is told");
	atomic_store(&k.r->l->epoch, 1);
	rsk_recovery_renew(k.r->l, renewed, NULL);
	cr_assert_eq(rsk_rx_repair(&ks.s->rx), 0);
	damaged();
	called_for(1);
}

/* A sender that lives may take its time over a request. */
Test(slot_repair, a_late_answer)
{
	begin();
	called_for(1);
	for (int i = 0; i < ROUNDS; i++)
		cr_assert_not(is_called());
	cr_assert_not(rsk_stream_failed(ks.s));
	say(RSK_TX_RING, ks.s->rx.gen, 1);
	called_for(2);
}

/* One that has closed its socket is not waited for long. */
Test(slot_repair, a_sender_that_has_closed)
{
	uint64_t ns;

	begin();
	called_for(1);
	close(ks.other);
	ns = until_the_end();
	cr_assert_gt(ns, 4000000000ull);
	cr_assert_lt(ns, 6000000000ull);
}

/*
 * The sender retransmits by TCP, and its answer, which says so, is damaged however often it is
 * asked for: the bytes wait on the TCP socket, and nothing says from where on. That is a reset, not
 * a reader that waits for ever.
 */
Test(slot_repair, retransmit_is_damaged)
{
	uint64_t ns;

	begin();
	for (uint32_t n = 1; !rsk_rx_is_quiesced(&ks.s->rx); n++) {
		called_for(n);
		cr_assert_lt(n, 20);
		if (!rsk_rx_is_quiesced(&ks.s->rx))
			say(RSK_TX_RING, ks.s->rx.gen, n);
	}
	cr_assert(ks.s->rx.repair.gave_up);
	ns = until_the_end();
	cr_assert_gt(ns, 4000000000ull);
	cr_assert_lt(ns, 6000000000ull);
}

/*
 * A process that forks: the answer is damaged, though no slot was. The sender is asked for it again
 * and again, and its control word, when it is right, is the answer.
 */
Test(slot_repair, an_answer_to_a_fork_is_damaged)
{
	uint64_t from, last = 0, wait = 0;
	uint32_t asked = 0;

	begin();
	rsk_lock(&ks.s->rx_lock);
	cr_assert_eq(rsk_rx_quiesce(&ks.s->rx), -EAGAIN);
	rsk_slot_repair_want(ks.s);
	rsk_unlock(&ks.s->rx_lock);
	from = now_ns;
	while (now_ns < from + 600000000000ull) {
		if (!is_called())
			continue;
		cr_assert_eq(rsk_rx_repair(&ks.s->rx), ++asked);
		cr_assert(!last || now_ns - last >= wait, "asked more and more often");
		wait = last ? now_ns - last : 0;
		last = now_ns;
	}
	cr_assert_gt(asked, 8);
	cr_assert_lt(asked, 40);
	cr_assert(rsk_rx_is_quiesced(&ks.s->rx));
	cr_assert_not(rsk_stream_failed(ks.s), "the sender may be stopped");
	say_retransmit();
	cr_assert_eq(ks.s->rx.state, RSK_RX_TCP);
	for (int i = 0; i < 10; i++)
		cr_assert_not(is_called());
	cr_assert_not(atomic_load(&ks.s->repair.due));
}

/* The same, and the sender has closed its socket. */
Test(slot_repair, an_answer_to_a_fork_that_does_not_come)
{
	uint64_t ns;

	begin();
	rsk_lock(&ks.s->rx_lock);
	cr_assert_eq(rsk_rx_quiesce(&ks.s->rx), -EAGAIN);
	rsk_unlock(&ks.s->rx_lock);
	close(ks.other);
	ns = until_the_end();
	cr_assert_gt(ns, 4000000000ull);
	cr_assert_lt(ns, 6000000000ull);
}

/* This end has shut reading, which shows as the other's end, and its sender is stopped. */
Test(slot_repair, a_reader_that_shuts_down_ends_nothing)
{
	begin();
	rsk_lock(&ks.s->rx_lock);
	cr_assert_eq(rsk_rx_quiesce(&ks.s->rx), -EAGAIN);
	rsk_slot_repair_want(ks.s);
	rsk_unlock(&ks.s->rx_lock);
	cr_assert_eq(shutdown(ks.fd, SHUT_RD), 0);
	atomic_store(&ks.s->rd_shut, 1);
	for (int i = 0; i < ROUNDS; i++)
		is_called();
	cr_assert_not(rsk_stream_failed(ks.s));
	close(ks.other); /* but now its sender has */
	until_the_end();
}

/* The TCP socket's bytes, which come before the ring's, are not read until the answer is there. */
Test(slot_repair, what_is_not_read_does_not_show)
{
	struct rsk_rx *rx;

	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	ks = kit_stream(&k, false);
	rx = &ks.s->rx;
	cr_assert_eq(send(ks.other, "before", 6, 0), 6);
	cr_assert_eq(poll(&(struct pollfd){ .fd = ks.fd, .events = POLLIN }, 1, 10000), 1);
	say(RSK_TX_PROPOSE, rx->gen + 1, 0);
	cr_assert_eq(rx->state, RSK_RX_WATCH);
	say_word((struct rsk_control_word){
		.what = RSK_TX_RING, .gen = rx->gen, .pos = 6, .cells = rx->ring.next });
	cr_assert_eq(rx->state, RSK_RX_DRAIN_TCP);
	cr_assert_eq(rsk_stream_poll(ks.s, ks.fd, POLLIN, -1), POLLIN);
	rsk_lock(&ks.s->rx_lock);
	cr_assert_eq(rsk_rx_quiesce(rx), -EAGAIN);
	rsk_unlock(&ks.s->rx_lock);
	cr_assert_eq(rsk_stream_poll(ks.s, ks.fd, POLLIN, -1), 0);
}

/*
 * A reader sleeps until its sender has answered, and does not watch the TCP socket meanwhile:
 * another thread ends the stream.
 */
Test(slot_repair, a_stream_that_fails_wakes_who_waits_for_the_answer)
{
	_Atomic(uint64_t) *sleepers;

	begin();
	rsk_lock(&ks.s->rx_lock);
	cr_assert_eq(rsk_rx_quiesce(&ks.s->rx), -EAGAIN);
	rsk_unlock(&ks.s->rx_lock);
	sleepers = &rsk_seg_own_ctl(&ks.s->link->seg, ks.s->sid)->want_rx;
	atomic_store(sleepers, 1);
	rsk_stream_fail(ks.s, ks.fd);
	cr_assert_eq(atomic_load(sleepers), 0, "its doorbell was not struck");
}

struct told {
	uint64_t pos, cell, owed, ring_end;
};

static void hear(void *arg, uint32_t sid, uint64_t pos, uint64_t cell, uint64_t owed,
		 uint64_t ring_end)
{
	*(struct told *)arg = (struct told){ pos, cell, owed, ring_end };
}

static void break_at_0(uint64_t put)
{
	struct told told = { .ring_end = 1 };

	begin();
	rsk_recovery_break(k.r->l, hear, &told);
	cr_assert_eq(told.pos, 0);
	cr_assert_eq(told.owed, 0);
	cr_assert_eq(told.ring_end, 0, "this end has put nothing");
	rsk_recovery_resume(k.r->l, ks.s->sid, 0, ks.s->tx.ring.next, 0, put);
	cr_assert_eq(rsk_stream_failed(ks.s), put > 0);
}

/*
 * The last rail breaks, the slot at position 0 is damaged, and the sender has left the ring: its
 * report says that it had put the slot, so bytes are missing.
 */
Test(slot_repair, a_break_before_it_is_repaired)
{
	break_at_0(5);
}

/* It had put nothing: what shows there is no slot. */
Test(slot_repair, a_break_with_nothing_put)
{
	break_at_0(0);
}
