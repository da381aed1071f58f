// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rail_failure.c - tests a control connection that fails at each message of the report of a
 * rail failure: the progress thread goes on, the link ends, no stream stays locked, and each goes
 * on over its TCP socket, unless bytes that it has put are lost.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hooked.h"
#include "remote_kit.h"

enum {
	STREAMS = 6,
	SAID = STREAMS + 2, /* RAIL_DOWN, a MISSING for each stream, MISSING_END */
	OWES = 3	    /* this one has put bytes that were not acknowledged */
};

struct scene {
	struct kit k;
	struct kit_stream at[STREAMS];
};

static void hear_all(struct kit *k)
{
	struct rsk_remote_msg m;

	while (kit_hear(k, &m))
		;
}

/* Two rails, and streams of which every other one's sender is on the ring. */
static void begin(struct scene *s)
{
	char byte = 'x';

	kit_link(&s->k, true);
	kit_rail_up(&s->k, 0);
	kit_rail_up(&s->k, 1);
	for (int i = 0; i < STREAMS; i++)
		s->at[i] = kit_stream(&s->k, i % 2);
	cr_assert_eq(hooked_fall_back(s->at[OWES].fd, true, &byte, 1), 1);
	cr_assert_eq(s->at[OWES].s->tx.state, RSK_TX_ONRING);
	hear_all(&s->k);
}

static void is_free(struct rsk_lock *l, int i)
{
	cr_assert(rsk_trylock(l), "a lock of stream %d is held", i);
	rsk_unlock(l);
}

/* Our end has ended the link, and all streams know it. */
static void is_over(struct scene *s, uint32_t n)
{
	char byte = 'y';

	cr_assert_eq(s->k.r->state, RSK_REMOTE_DEAD, "%u messages went", n);
	for (int i = 0; i < STREAMS; i++) {
		struct kit_stream *ks = &s->at[i];

		is_free(&ks->s->rx_lock, i);
		is_free(&ks->s->tx_lock, i);
		cr_assert_eq(ks->s->tx.state, RSK_TX_TCP, "stream %d, %u messages", i, n);
		cr_assert(rsk_tx_validate(&ks->s->tx) && rsk_rx_validate(&ks->s->rx));
		cr_assert_eq(ks->s->rx.tcp.err, i == OWES ? -ECONNRESET : 0,
			     "stream %d, %u messages", i, n);
		if (i == OWES) {
			signal(SIGPIPE, SIG_IGN);
			cr_assert_eq(hooked_fall_back(ks->fd, true, &byte, 1), -ECONNRESET);
			cr_assert_eq(hooked_fall_back(ks->fd, true, &byte, 1), -EPIPE);
			/* Nothing newer has gone to whoever holds the other end. */
			cr_assert_eq(recv(ks->other, &byte, 1, 0), 0);
			byte = 'y';
			continue;
		}
		/* Both directions go by TCP. */
		cr_assert_eq(hooked_fall_back(ks->fd, true, &byte, 1), 1);
		cr_assert_eq(recv(ks->other, &byte, 1, 0), 1);
		cr_assert_eq(byte, 'y');
		cr_assert_eq(send(ks->other, "z", 1, 0), 1);
		cr_assert_eq(hooked_fall_back(ks->fd, false, &byte, 1), 1);
		cr_assert_eq(byte, 'z');
		byte = 'y';
	}
}

static void end(struct scene *s)
{
	for (int i = 0; i < STREAMS; i++) {
		rsk_fd_closing(s->at[i].fd);
		close(s->at[i].fd);
		close(s->at[i].other);
	}
	close(s->k.peer);
}

/* ---- the ways in which one of the two rails fails ---- */
static void found_here(struct scene *s)
{
	struct rsk_remote_rail *rail = &s->k.r->rail[1];

	rsk_remote_rail_end(rail);
	rsk_remote_rail_lost(rail, -EPIPE);
}

static void heard_of(struct scene *s)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RAIL_DOWN,
				    .rail = 1,
				    .generation = s->k.r->rail[1].generation,
				    .epoch = s->k.r->epoch };

	rsk_remote_on_missing(s->k.r, &m);
}

static void the_last_one(struct scene *s)
{
	rsk_remote_broken(s->k.r, -EPIPE);
}

static void (*const ways[])(struct scene *s) = { found_here, heard_of, the_last_one };
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* Leaves room for @left messages only: the other end reads nothing. */
static void fill(struct rsk_control_conn *c, size_t most, uint32_t left)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_APPLY };

	while (c->out_room < most || c->out_to + (left + 1) * sizeof(m) <= most)
		cr_assert(rsk_control_conn_send(c, &m));
}

/* The largest amount that a connection queues. */
static size_t most_room(void)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_APPLY };
	size_t most = 0;
	struct kit k;

	kit_link(&k, true);
	while (rsk_control_conn_send(&k.r->control, &m))
		if (k.r->control.out_room > most)
			most = k.r->control.out_room;
	cr_assert_eq(k.r->state, RSK_REMOTE_DEAD);
	close(k.peer);
	return most;
}

/*
 * The other end reads everything, but so slowly that something is always queued: what it reads
 * makes room.
 */
Test(remote_lost, never_empty, .timeout = 60)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_APPLY }, heard;
	size_t most = 0, sent = 0, had;
	struct kit k;

	kit_init();
	had = most_room();
	kit_link(&k, true);
	while (k.r->control.out_to < 1000 * sizeof(m))
		cr_assert(rsk_control_conn_send(&k.r->control,
						&m)); /* the socket has no room, and these wait */
	while (sent < 2 * had) {
		cr_assert(rsk_control_conn_send(&k.r->control, &m));
		sent += sizeof(m);
		cr_assert(kit_hear(&k, &heard));
		cr_assert_neq(k.r->control.out_to, k.r->control.out_from);
		most = k.r->control.out_room > most ? k.r->control.out_room : most;
	}
	cr_assert_lt(most, had / 16, "%zu bytes", most);
	rsk_remote_dead(k.r, -EPIPE);
	close(k.peer);
}

/* If the end of the link took a lock that is held, it would wait for ever. */
Test(remote_lost, full_at_each_message, .timeout = 60)
{
	size_t most;

	kit_init();
	most = most_room();
	for (size_t way = 0; way < WAYS; way++)
		for (uint32_t n = 0; n < SAID - (ways[way] == the_last_one); n++) {
			struct scene s;

			begin(&s);
			fill(&s.k.r->control, most, n);
			ways[way](&s);
			is_over(&s, n);
			end(&s);
		}
}

/* With room for all messages nothing ends. */
Test(remote_lost, room_for_all, .timeout = 60)
{
	struct rsk_remote_msg m;
	struct scene s;
	uint32_t gaps = 0;
	size_t most;

	kit_init();
	most = most_room();
	begin(&s);
	fill(&s.k.r->control, most, SAID);
	found_here(&s);
	cr_assert_eq(s.k.r->state, RSK_REMOTE_UP);
	cr_assert_eq(s.k.r->rail[1].state, RSK_REMOTE_RAIL_LOST);
	do {
		while (!kit_hear(&s.k, &m))
			kit_turn(&s.k);
	} while (m.type == RSK_REMOTE_APPLY);
	cr_assert_eq(m.type, RSK_REMOTE_RAIL_DOWN);
	for (; kit_hear(&s.k, &m) && m.type == RSK_REMOTE_MISSING; gaps++)
		cr_assert_eq(m.pos, gaps + 1);
	cr_assert_eq(gaps, STREAMS);
	cr_assert_eq(m.type, RSK_REMOTE_MISSING_END);
	end(&s);
}

/* Of transactions 0 to 2 of a stream, 1 has not come: MISSING says so. */
Test(remote_lost, what_is_missing_has_a_name, .timeout = 60)
{
	const struct rsk_order_form form = { RSK_ORDER_WRAPPING, 13, false, 1 };
	const uint16_t alone = RSK_ORDER_FIRST | RSK_ORDER_LAST | RSK_ORDER_INDEXED;
	struct rsk_order_seen seen;
	struct rsk_remote_msg m;
	struct scene s;
	struct rsk_rx *rx;
	uint32_t told = 0;

	kit_init();
	begin(&s);
	rx = &s.at[2].s->rx;
	rsk_rx_tag(rx, &form, NULL);
	rx->state = RSK_RX_ONRING;
	rx->counts.promotions++;
	cr_assert(rsk_rx_txn_tags_begin(rx));
	for (uint32_t i = 0; i < 3; i += 2)
		cr_assert_eq(rsk_order_rx_see(&rx->tags.machine->order, (uint16_t)(alone | i),
					      rx->ring.next + i, 1, &seen),
			     0);
	found_here(&s);
	do {
		while (!kit_hear(&s.k, &m))
			kit_turn(&s.k);
		if (m.type != RSK_REMOTE_MISSING)
			continue;
		cr_assert_eq(m.missing, m.sid == s.at[2].s->sid, "stream %u", m.sid);
		cr_assert_eq(m.cell, m.missing, "stream %u", m.sid);
		told += m.missing;
	} while (m.type != RSK_REMOTE_MISSING_END);
	cr_assert_eq(told, 1);
	end(&s);
}

/* The other end misses a transaction that this one has put, or calls one missing that it has not.
 */
Test(remote_lost, a_name_is_heard, .timeout = 60)
{
	const struct rsk_order_form form = { RSK_ORDER_WRAPPING, 13, false, 1 };
	struct rsk_remote_msg m;
	struct rsk_tx *tx;
	struct scene s;

	kit_init();
	begin(&s);
	tx = &s.at[OWES].s->tx;
	cr_assert(rsk_txn_tags_tx_begin(&tx->tags.machine, &form, tx->ring.cells, tx->ring.next));
	tx->ring.order = &tx->tags.machine->order;
	heard_of(&s);
	m = (struct rsk_remote_msg){ .type = RSK_REMOTE_MISSING,
				     .rail = 1,
				     .generation = s.k.r->rail[1].generation,
				     .epoch = s.k.r->epoch,
				     .gaps = 1,
				     .missing = 1,
				     .gap[0] = { 0, UINT64_MAX } };
	for (int i = 0; i < STREAMS; i++)
		for (uint32_t n = 0; n < 2; n++) {
			m.pos++;
			m.sid = s.at[i].s->sid;
			m.cell = n ? UINT64_MAX : 0;
			rsk_remote_on_missing(s.k.r, &m);
			is_free(&s.at[i].s->tx_lock, i);
		}
	m.pos++;
	m.sid = 1000; /* no stream has it */
	rsk_remote_on_missing(s.k.r, &m);
	cr_assert_eq(s.k.r->rail[1].heard_turn, 2 + 2 * STREAMS);
	cr_assert_eq(s.k.r->state, RSK_REMOTE_UP);
	end(&s);
}

/* The other end closes after it has read so many messages of the report; the rest was under way. */
Test(remote_lost, gone_at_each_message, .timeout = 60)
{
	const int small = 1;

	kit_init();
	for (size_t way = 0; way < WAYS; way++)
		for (uint32_t n = 0; n < SAID - (ways[way] == the_last_one); n++) {
			struct rsk_remote_msg m;
			struct scene s;

			begin(&s);
			setsockopt(s.k.r->control.watch.fd, SOL_SOCKET, SO_SNDBUF, &small,
				   sizeof(small));
			if (!n)
				shutdown(s.k.peer, SHUT_RDWR);
			ways[way](&s);
			for (uint32_t i = 0; i < n; i++) {
				if (!kit_hear(&s.k, &m)) {
					kit_turn(&s.k);
					cr_assert(kit_hear(&s.k, &m));
				}
				cr_assert_eq(m.type == RSK_REMOTE_RAIL_DOWN,
					     !i && ways[way] != the_last_one);
			}
			shutdown(s.k.peer, SHUT_RDWR);
			kit_turn(&s.k);
			is_over(&s, n);
			end(&s);
		}
}
