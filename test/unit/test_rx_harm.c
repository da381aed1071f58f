// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rx_harm.c - tests a receiver against a hostile sender, which knows the key: a slot that no
 * honest sender puts ends the stream, for every kind of read, and no call of the receiver lasts as
 * long as the sender likes.
 */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "way_kit.h"

#define PEEKS 200 /* more than any repair takes */

/* A fabric whose puts land at once, as in shared memory. */
static struct rsk_fabric_ops sync_ops;

static void on_sync_ring(void)
{
	sync_ops = at_once;
	sync_ops.caps |= RSK_FABRIC_SYNC;
	on_ring(&sync_ops, 0);
}

/* Writes a slot of the sender's own making into the ring at @ring. */
static void forge_at(uint8_t *ring, uint64_t index, uint16_t kind, uint32_t len, uint64_t spoil)
{
	struct rsk_slot_head head = { .index = index, .len = len, .kind = kind };
	uint8_t *at = ring + (index & (CELLS - 1)) * RSK_CELL_BYTES;
	uint64_t hash;

	memset(at + rsk_slot_payload_off(len), 'f', len);
	hash = rsk_hash_slot(&w.tx.key, &head,
			     rsk_hash_payload(&w.tx.key, at + rsk_slot_payload_off(len), len)) ^
	       spoil;
	memcpy(at + RSK_SLOT_HEAD_BYTES, &hash, sizeof(hash));
	memcpy(at + 8, (const uint8_t *)&head + 8, sizeof(head) - 8);
	__atomic_store_n((uint64_t *)(void *)at, index, __ATOMIC_RELEASE);
}

static void forge(uint64_t index, uint16_t kind, uint32_t len, uint64_t spoil)
{
	forge_at(w.segment[1] + RING, index, kind, len, spoil);
}

static ssize_t look_some(size_t len, bool peek)
{
	static uint8_t in[4096];
	struct iovec iov = { in, len };
	struct rsk_iovcur cur;

	rsk_iovcur_init(&cur, &iov, 1);
	return rsk_rx_recv(&w.rx, &w.wire.c, &cur, peek, true);
}

/* The final result of repeated calls; -EAGAIN if the receiver reports readiness for ever. */
static ssize_t in_the_end(bool peek)
{
	ssize_t n = -EAGAIN;

	for (int i = 0; i < PEEKS && n == -EAGAIN && rsk_rx_ready(&w.rx); i++)
		n = look_some(4096, peek);
	return n;
}

/* ---- slots that no honest sender puts ---- */

Test(rx_harm, a_slot_of_no_bytes_is_an_error_for_who_peeks_too)
{
	for (int peek = 0; peek < 2; peek++) {
		on_sync_ring();
		forge(w.rx.ring.next, RSK_SLOT_DATA, 0, 0);
		cr_assert_eq(in_the_end(peek), -EPROTO, "peek: %d", peek);
	}
}

Test(rx_harm, nothing_is_behind_a_slot_of_no_bytes)
{
	on_sync_ring();
	cr_assert_eq(send_some(5), 5);
	for (uint64_t i = 0; i < CELLS - 1; i++)
		forge(w.tx.ring.next + i, RSK_SLOT_DATA, 0, 0);
	cr_assert_eq(look_some(4096, true), 5);
	cr_assert_eq(look_some(4096, false), 5);
	cr_assert_eq(look_some(4096, true), -EPROTO);
	cr_assert_eq(look_some(4096, false), -EPROTO);
}

Test(rx_harm, a_kind_that_is_none)
{
	for (int peek = 0; peek < 2; peek++)
		for (uint16_t kind = 0; kind < 6; kind++) {
			if (kind == RSK_SLOT_DATA)
				continue;
			on_sync_ring();
			forge(w.rx.ring.next, kind, 7, 0);
			cr_assert_eq(in_the_end(peek), -EPROTO, "kind %u, peek: %d", kind, peek);
		}
}

Test(rx_harm, a_hash_that_stays_wrong)
{
	for (int peek = 0; peek < 2; peek++)
		for (uint16_t kind = 0; kind < 4; kind++) {
			on_sync_ring();
			forge(w.rx.ring.next, kind, 7, 1);
			cr_assert_eq(in_the_end(peek), -EPROTO, "kind %u, peek: %d", kind, peek);
		}
}

/* Bits flip in the head of a slot: bytes of TCP are not what comes next, also for a peek. */
Test(rx_harm, a_damaged_slot_that_looks_like_a_command)
{
	for (int spoil = 1; spoil >= 0; spoil--) {
		on_ring(&at_once, 0);
		cr_assert_eq(send_some(5), 5);
		forge(w.tx.ring.next, RSK_SLOT_CONTROL, sizeof(struct rsk_slot_command),
		      (uint64_t)spoil);
		w.wire.in += 7;
		cr_assert_eq(look_some(4096, true), spoil ? 5 : 5 + 7);
	}
}

/* Where puts take time the slot is requested again, also by a reader that only peeks. */
Test(rx_harm, a_hash_that_stays_wrong_is_asked_for_again)
{
	on_ring(&at_once, 0);
	forge(w.rx.ring.next, RSK_SLOT_DATA, 7, 1);
	for (int i = 0; i < PEEKS; i++)
		cr_assert_eq(look_some(4096, true), -EAGAIN);
	cr_assert_gt(w.rx.own.word.repair, 0);
}

/* The scan of a broken rail's ring ends at the first invalid slot. */
Test(rx_harm, a_broken_rail_is_scanned_to_what_is_none)
{
	uint64_t pos, cell, end;

	on_ring(&at_once, 0);
	cr_assert_eq(send_some(5), 5);
	end = w.tx.ring.next;
	for (uint64_t i = 0; i < CELLS - 1; i++)
		forge(end + i, RSK_SLOT_DATA, 0, 0);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(cell, end);
	cr_assert_eq(pos, 5);
	cr_assert_eq(look_some(4096, true), 5);
	cr_assert_eq(recv_some(4096), 5);
}

/* ---- a sender that answers each control word at once ---- */

static struct {
	struct rsk_fabric_ops ops;
	uint32_t gen;
	unsigned int turns;
} flip;

static void say(uint32_t what, uint64_t pos, uint64_t cells)
{
	struct rsk_control_word m = { .what = what, .gen = flip.gen, .pos = pos, .cells = cells };

	m.hash = rsk_hash_control_word(&w.tx.key, &m, RSK_CONTROL_WORD_TX);
	memcpy(w.segment[1] + WORD_TX, &m, sizeof(m));
}

/*
 * Answers WATCHING with a switch to the ring and a fallback right behind it; after that it proposes
 * again.
 */
static int answer(struct rsk_rail *rail, uint64_t off, size_t len)
{
	struct rsk_slot_command cmd = { .pos = w.rx.pos, .what = RSK_COMMAND_FALLBACK_TX };
	struct rsk_control_word said;
	uint8_t *at;

	memcpy(&said, rail->window + off, sizeof(said));
	if (off != WORD_RX || ++flip.turns > 100000)
		return 0;
	if (said.what == RSK_RX_WATCHING && said.gen == flip.gen && w.rx.state == RSK_RX_WATCH) {
		struct rsk_slot_head head = { .index = w.rx.ring.next,
					      .len = sizeof(cmd),
					      .kind = RSK_SLOT_CONTROL };
		uint64_t hash;

		cmd.gen = flip.gen;
		at = w.segment[1] + RING + (head.index & (CELLS - 1)) * RSK_CELL_BYTES;
		memcpy(at, &head, sizeof(head));
		memcpy(at + RSK_SLOT_FRAME_BYTES, &cmd, sizeof(cmd));
		hash = rsk_hash_slot(&w.tx.key, &head,
				     rsk_hash_payload(&w.tx.key, &cmd, sizeof(cmd)));
		memcpy(at + RSK_SLOT_HEAD_BYTES, &hash, sizeof(hash));
		say(RSK_TX_RING, w.rx.pos, head.index);
	} else if (w.rx.state == RSK_RX_TCP) {
		flip.gen++;
		say(RSK_TX_PROPOSE, 0, 0);
	}
	return 0;
}

Test(rx_harm, a_path_that_changes_all_the_time_is_no_reason_to_stay)
{
	for (int peek = 0; peek < 2; peek++) {
		on_sync_ring();
		flip.ops = sync_ops;
		flip.ops.put = answer;
		w.rail[1].ops = &flip.ops;
		flip.gen = w.rx.gen;
		flip.turns = 0;
		/* The sender falls back to TCP; then it proposes again, in this very call. */
		cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
		look_some(4096, peek);
		cr_assert_gt(flip.turns, 2, "it did not begin");
		cr_assert_lt(flip.turns, 1000, "%u turns in one call", flip.turns);
	}
}

/* ---- another process that writes all the time ---- */

static _Noreturn void write_for_ever(uint8_t *ring, const _Atomic(uint64_t) *near)
{
	for (uint32_t i = 0;; i++) {
		uint64_t index = atomic_load(near) + i % (3 * CELLS) - CELLS;

		forge_at(ring, index, (uint16_t)(i / 7 % 4), i % 5 ? i % 60 : 0, i % 97 == 0);
	}
}

/* Whatever is there when it is checked: each check ends, within bounds, with a valid machine. */
Test(rx_harm, written_meanwhile, .timeout = 60)
{
	struct shared {
		_Atomic(uint64_t) near;
		uint8_t ring[CELLS * RSK_CELL_BYTES] __attribute__((aligned(64)));
	} *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);
	uint64_t pos, cell, got = 0, ends = 0;
	pid_t pid;

	cr_assert_neq(shared, MAP_FAILED);
	on_sync_ring();
	atomic_store(&shared->near, w.rx.ring.next);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid)
		write_for_ever(shared->ring, &shared->near);
	for (int i = 0; i < 20000; i++) {
		ssize_t n;

		on_sync_ring();
		w.rx.ring.base = shared->ring;
		atomic_store(&shared->near, w.rx.ring.next);
		for (int k = 0; k < 8; k++) {
			rsk_rx_ready(&w.rx);
			rsk_rx_pending(&w.rx, NULL);
			rsk_rx_moved_on(&w.rx);
			n = look_some(4096, k % 2);
			cr_assert_leq(n, 4096);
			got += n > 0;
			ends += n == -EPROTO;
			atomic_store(&shared->near, w.rx.ring.next);
			sched_yield();
		}
		if (i % 8 == 0)
			rsk_rx_break(&w.rx, &pos, &cell);
		cr_assert(rsk_rx_validate(&w.rx));
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cr_assert_gt(got, 100);
	cr_assert_gt(ends, 100);
	munmap(shared, sizeof(*shared));
}

/* ---- commands of another promotion, or of another position ---- */

static void command(uint64_t index, uint64_t pos, uint32_t what, uint32_t gen)
{
	struct rsk_slot_head head = { .index = index,
				      .len = sizeof(struct rsk_slot_command),
				      .kind = RSK_SLOT_CONTROL };
	struct rsk_slot_command cmd = { .pos = pos, .what = what, .gen = gen };
	uint8_t *at = w.segment[1] + RING + (index & (CELLS - 1)) * RSK_CELL_BYTES;
	uint64_t hash =
		rsk_hash_slot(&w.tx.key, &head, rsk_hash_payload(&w.tx.key, &cmd, sizeof(cmd)));

	memcpy(at, &head, sizeof(head));
	memcpy(at + RSK_SLOT_HEAD_BYTES, &hash, sizeof(hash));
	memcpy(at + RSK_SLOT_FRAME_BYTES, &cmd, sizeof(cmd));
}

Test(rx_harm, commands_of_another_promotion_or_position)
{
	static const struct {
		int64_t pos, gen;
	} off[] = { { 1, 0 }, { -1, 0 }, { 0, 1 }, { 0, -1 }, { 1, 1 }, { INT64_MAX, 0 } };

	for (uint32_t what = 0; what < 6; what++)
		for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
			on_ring(&at_once, 7);
			command(w.rx.ring.next, w.rx.pos + (uint64_t)off[i].pos, what,
				w.rx.gen + (uint32_t)off[i].gen);
			cr_assert_eq(recv_some(10), -EPROTO, "command %u, %zu", what, i);
			cr_assert_not(w.rx.fin);
		}
	/* Those of this promotion are applied. */
	on_ring(&at_once, 7);
	command(w.rx.ring.next, w.rx.pos, RSK_COMMAND_FIN, w.rx.gen);
	cr_assert_eq(recv_some(10), 0);
	cr_assert(w.rx.fin);
	on_ring(&at_once, 7);
	command(w.rx.ring.next, w.rx.pos, RSK_COMMAND_FALLBACK_TX, w.rx.gen);
	cr_assert_eq(recv_some(10), -EAGAIN);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	/* An answer to a control word that was not sent is an error. */
	on_ring(&at_once, 7);
	command(w.rx.ring.next, w.rx.pos, RSK_COMMAND_RETRANSMIT, w.rx.gen);
	cr_assert_eq(recv_some(10), -EPROTO);
}

Test(rx_harm, an_answer_to_another_rest)
{
	for (int i = 0; i < 3; i++) {
		on_ring(&far, 7);
		cr_assert_eq(send_some(20), 20);
		cr_assert_eq(recv_some(5), 5);
		cr_assert_eq(rsk_rx_quiesce(&w.rx), -EAGAIN);
		command(w.tx.ring.next, w.rx.fallback.pos - (i == 1), RSK_COMMAND_RETRANSMIT,
			w.rx.gen + (i == 2));
		cr_assert_eq(rsk_rx_quiesce(&w.rx), i ? -EPROTO : 0, "%d", i);
	}
}

/* Control words of the sender for another promotion do not switch the receiver to the ring. */
Test(rx_harm, words_of_another_promotion)
{
	for (int i = 0; i < 4; i++) {
		world_init(&at_once, 5);
		cr_assert_eq(rsk_tx_propose(&w.tx), 0);
		cr_assert_eq(recv_some(1), -EAGAIN);
		cr_assert_eq(w.rx.state, RSK_RX_WATCH);
		flip.gen = w.rx.gen + (uint32_t)i - 1;
		say(RSK_TX_RING, 0, w.rx.ring.next + (i == 3));
		flip.gen = w.rx.gen;
		if (i == 3)
			say(RSK_TX_RING, 0, w.rx.ring.next + 1);
		cr_assert_eq(recv_some(1), i == 3 ? -EPROTO : -EAGAIN);
		cr_assert_eq(w.rx.state == RSK_RX_ONRING, i == 1, "%d", i);
	}
}

/*
 * The same for control words of the receiver: the answer to another proposal does not count for
 * this one.
 */
Test(rx_harm, answers_to_another_promotion)
{
	for (int i = 0; i < 3; i++) {
		struct rsk_control_word m = { .what = RSK_RX_WATCHING };

		world_init(&at_once, 5);
		cr_assert_eq(rsk_tx_propose(&w.tx), 0);
		m.gen = w.tx.gen + (uint32_t)i - 1;
		m.cells = w.tx.ring.next;
		m.hash = rsk_hash_control_word(&w.tx.key, &m, RSK_CONTROL_WORD_RX);
		memcpy(w.segment[0] + WORD_RX, &m, sizeof(m));
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		cr_assert_eq(w.tx.state == RSK_TX_ONRING, i == 1, "%d", i);
	}
}
