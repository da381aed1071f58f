/*
 * slots - puts and takes slots of 40 bytes through the two halves of a direction, for callgrind to
 * count their instructions; guard.py starts it. calls.c measures the calls of a real stream; here
 * the ring is reached by rails, which no test machine has:
 *
 *   no form      streams between the two ends do not carry tags at all
 *   one rail     they may, but there is one rail: that must cost nothing
 *   two rails    each send() is a transaction of one packet, whose tag is made, seen
 *                and consumed
 *
 * "put", "take": everything comes in order. "nothing": a recv() that finds nothing, and over two
 * rails looks for slots that have overtaken. "overtaken": the first of 16 slots comes last, so a
 * recv() that finds nothing sees the 15 others; this and taking all 16, for each of them. Credit is
 * given and taken once in 16 slots. The output is that of calls.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <valgrind/callgrind.h>

#include "rails.h"
#include "rx.h"
#include "tx.h"

#define BYTES 40u
#define CELLS 1024u
#define BURST 16
#define BURSTS 8
#define TX_WORD_OFF 0u
#define RX_WORD_OFF 64u
#define RING_OFF 128u
#define SEGMENT_BYTES (RING_OFF + CELLS * RSK_CELL_BYTES)

static struct {
	struct rsk_rail one, below[2], back; /* the sender's; the receiver's */
	struct rsk_rails rails;
	bool several; /* both ends have more than one rail */
	struct rsk_tx tx;
	struct rsk_rx rx;
	struct rsk_tcp c;
	struct rsk_stats_ahead seen;
	uint8_t *there, *here; /* segments of the receiver, and of the sender */
	uint8_t from[BYTES], to[BYTES];
} w;

static void must(bool so, const char *what)
{
	if (so)
		return;
	fprintf(stderr, "slots: %s\n", what);
	exit(1);
}

static ssize_t nothing(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags)
{
	return -EAGAIN;
}

static int at_none(struct rsk_tcp *c, uint64_t *pos)
{
	*pos = 0;
	return 0;
}

static const struct rsk_tcp_ops tcp_ops = { .send = nothing,
					    .recv = nothing,
					    .tx_pos = at_none,
					    .rx_pos = at_none };

static int put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	return 0;
}

static uint64_t due(struct rsk_rail *rail, uint32_t sid, uint32_t what)
{
	return 0;
}

static bool arrived(struct rsk_rail *rail, uint64_t off)
{
	return true;
}

static bool several(const struct rsk_rail *rail)
{
	return w.several;
}

static void flow(struct rsk_rail *rail, uint64_t off, struct rsk_flow *flow)
{
	*flow = (struct rsk_flow){ .rate = 1 };
}

static const struct rsk_fabric_ops below_ops = { .name = "memory",
						 .caps = RSK_FABRIC_RELIABLE,
						 .put = put,
						 .due = due,
						 .arrived = arrived,
						 .flow = flow };

static const struct rsk_fabric_ops back_ops = { .name = "memory",
						.caps = RSK_FABRIC_RELIABLE,
						.put = put,
						.due = due,
						.arrived = arrived,
						.several = several };

static void begin(uint32_t rails, const char *form_text)
{
	const struct rsk_rails_layout at = { .ctl_off = TX_WORD_OFF,
					     .rx_word_off = RX_WORD_OFF,
					     .ring_off = RING_OFF,
					     .ring_bytes = CELLS * RSK_CELL_BYTES,
					     .streams = 1 };
	static uint64_t bytes[RSK_RAILS_MOST], again;
	const struct rsk_rails_record record = { bytes, &again };
	struct rsk_order_form form;
	const char *error;

	w.there = calloc(1, SEGMENT_BYTES);
	w.here = calloc(1, SEGMENT_BYTES);
	must(w.there && w.here, "memory");
	w.one = (struct rsk_rail){ .window = w.there, .window_bytes = SEGMENT_BYTES };
	w.several = rails > 1;
	w.back = (struct rsk_rail){ .ops = &back_ops,
				    .window = w.here,
				    .window_bytes = SEGMENT_BYTES };
	w.c.ops = &tcp_ops;
	must(rsk_rails_init(&w.rails, &w.one, &at) == 0 &&
		     rsk_rails_reach(&w.rails, 0, &record) == 0,
	     "rails");
	for (uint32_t i = 0; i < rails; i++) {
		w.below[i] = w.one;
		w.below[i].ops = &below_ops;
		w.rails.rail[i] = &w.below[i];
		rsk_rails_up(&w.rails, i);
	}
	rsk_tx_init(&w.tx, &w.one, RING_OFF, CELLS, TX_WORD_OFF,
		    (const struct rsk_control_word *)(const void *)(w.here + RX_WORD_OFF), 7);
	rsk_rx_init(&w.rx, &w.back, w.there + RING_OFF, CELLS, RX_WORD_OFF,
		    (const struct rsk_control_word *)(const void *)(w.there + TX_WORD_OFF), 7);
	if (form_text) {
		must(rsk_order_parse(&form, form_text, &error) == 0, "form");
		rsk_tx_tag(&w.tx, &form);
		rsk_rx_tag(&w.rx, &form, &w.seen);
	}
	must(rsk_tx_propose(&w.tx) == 0, "propose");
	for (int i = 0; i < 3; i++)
		must(rsk_rx_serve(&w.rx, &w.c) == 0 && rsk_tx_serve(&w.tx, &w.c) == 0, "serve");
	must(w.tx.state == RSK_TX_ONRING, "the sender is not on the ring");
}

static void end(void)
{
	must(w.rx.state == RSK_RX_ONRING && rsk_tx_validate(&w.tx) && rsk_rx_validate(&w.rx),
	     "state");
	rsk_tx_fini(&w.tx);
	rsk_rx_fini(&w.rx);
	rsk_rails_fini(&w.rails);
	free(w.there);
	free(w.here);
	memset(&w, 0, sizeof(w));
}

static void send_all(void)
{
	for (int i = 0; i < BURST; i++) {
		struct iovec iov = { w.from, BYTES };
		struct rsk_iovcur cur;

		rsk_iovcur_init(&cur, &iov, 1);
		must(rsk_tx_send_whole(&w.tx, &cur) == BYTES, "send");
	}
}

static void recv_all(void)
{
	for (int i = 0; i < BURST; i++) {
		struct iovec iov = { w.to, BYTES };
		struct rsk_iovcur cur;

		rsk_iovcur_init(&cur, &iov, 1);
		must((w.rx.state == RSK_RX_ONRING ?
			      rsk_rx_recv_ring(&w.rx, &cur) :
			      rsk_rx_recv(&w.rx, &w.c, &cur, false, false)) == BYTES,
		     "recv");
	}
}

static void recv_nothing(void)
{
	for (int i = 0; i < BURST; i++) {
		struct iovec iov = { w.to, BYTES };
		struct rsk_iovcur cur;

		rsk_iovcur_init(&cur, &iov, 1);
		must(rsk_rx_recv(&w.rx, &w.c, &cur, false, false) == -EAGAIN, "nothing");
	}
}

static void recv_overtaken(void)
{
	uint8_t *first = w.there + RING_OFF + rsk_ring_cell(CELLS, w.rx.ring.next) * RSK_CELL_BYTES;
	struct iovec iov = { w.to, BYTES };
	struct rsk_iovcur cur;
	uint64_t index;

	memcpy(&index, first, sizeof(index));
	memset(first, 0, sizeof(index));
	rsk_iovcur_init(&cur, &iov, 1);
	must(w.rx.state != RSK_RX_ONRING || rsk_rx_recv(&w.rx, &w.c, &cur, false, false) == -EAGAIN,
	     "the first one is missing");
	memcpy(first, &index, sizeof(index));
	recv_all();
}

static void give_credit(void)
{
	rsk_rx_give_credit(&w.rx, true);
}

/* Acknowledges what was put. */
static void serve(void)
{
	must(rsk_tx_serve(&w.tx, &w.c) == 0, "serve");
}

static void counted(void (*calls)(void), bool counts)
{
	if (counts)
		CALLGRIND_TOGGLE_COLLECT;
	calls();
	if (counts)
		CALLGRIND_TOGGLE_COLLECT;
}

enum what {
	PUT,
	TAKE,
	NOTHING,
	OVERTAKEN
};

/* One row: the sender's calls or the receiver's. */
static void run(const char *name, uint32_t rails, const char *form, enum what what, bool marked)
{
	char dump[80];

	begin(rails, form);
	for (int i = -1; i < BURSTS; i++) {
		counted(send_all, i >= 0 && what == PUT);
		if (what == OVERTAKEN)
			counted(recv_overtaken, i >= 0);
		else
			counted(recv_all, i >= 0 && what == TAKE);
		if (what == NOTHING)
			counted(recv_nothing, i >= 0);
		counted(give_credit, i >= 0 && (what == TAKE || what == OVERTAKEN));
		counted(serve, i >= 0 && what == PUT);
	}
	must((w.tx.ring.order && w.tx.ring.order->next == BURST * (BURSTS + 1)) == marked,
	     "marks where there are to be none, or none");
	must(!marked || w.rx.tags.machine->order.completed == BURST * (BURSTS + 1),
	     "marks were not seen");
	/* One burst of BURSTS + 1 is taken before the ring is reached. */
	must(what != OVERTAKEN || w.seen.slots >= BURSTS * (BURST - 1), "none was seen ahead");
	end();
	snprintf(dump, sizeof(dump), "instructions\t%s", name);
	CALLGRIND_DUMP_STATS_AT(dump);
	snprintf(dump, sizeof(dump), "syscalls\t%s", name);
	CALLGRIND_DUMP_STATS_AT(dump);
	printf("row\t%s\t%d\t0\t%d\n", name, BURST * BURSTS, BURST * BURSTS);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name, *form;
		uint32_t rails;
		enum what what;
	} rows[] = {
		{ "put, no form", NULL, 1, PUT },
		{ "take, no form", NULL, 1, TAKE },
		{ "nothing, no form", NULL, 1, NOTHING },
		{ "put, one rail", RSK_ORDER_DEFAULT, 1, PUT },
		{ "take, one rail", RSK_ORDER_DEFAULT, 1, TAKE },
		{ "nothing, one rail", RSK_ORDER_DEFAULT, 1, NOTHING },
		{ "put, two rails", RSK_ORDER_DEFAULT, 2, PUT },
		{ "take, two rails", RSK_ORDER_DEFAULT, 2, TAKE },
		{ "nothing, two rails", RSK_ORDER_DEFAULT, 2, NOTHING },
		{ "overtaken, two rails", RSK_ORDER_DEFAULT, 2, OVERTAKEN },
	};
	const char *only = argc > 2 ? argv[2] : NULL;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!only || !strcmp(only, rows[i].name))
			run(rows[i].name, rows[i].rails, rows[i].form, rows[i].what,
			    rows[i].rails > 1);
	printf("bytes\t%u\t%u\n", BYTES, BYTES);
	return 0;
}
