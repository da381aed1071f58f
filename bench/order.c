/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order.c - measures what ordering costs a slot: the sender's tag, put and acknowledgement, and the
 * receiver's queue, in addition to the ring itself (stream/ring/ring.h) and as a share of it, in
 * one thread and one run. Packets arrive in the order in which they were put, or as several rails
 * would deliver them: packet i goes by rail i mod RAILS, and each rail delivers a batch before the
 * next one does. Run by mech_order.py.
 *
 * 	ring	put, peek, copy with its hash, consume, and credit now and then, of one slot
 * 	order	tag, put and acknowledgement of one packet, and its way through the
 * 		receiver's queue
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/clock.h>

#include "order.h"
#include "ring.h"

#define ORDER_CELLS 8192u
#define ORDER_BYTES (ORDER_CELLS * RSK_CELL_BYTES)
#define ORDER_BATCH 16u /* packets under way at once; 16 of 16 KiB are half of the ring */
#define ORDER_SEND 4u	/* packets of one transaction */
#define ORDER_WINDOW 64u
#define ORDER_ROUNDS 5 /* the best round counts, since disturbances only add time */

static const struct rsk_fabric_ops order_ops = {
	.name = "one process",
	.caps = RSK_FABRIC_RELIABLE | RSK_FABRIC_DURABLE | RSK_FABRIC_SYNC,
};

struct order {
	struct rsk_rail rail;
	struct rsk_key key;
	struct rsk_ring_tx ring_tx;
	struct rsk_ring_rx ring_rx;
	struct rsk_order_tx tx;
	struct rsk_order_rx rx;
	struct rsk_order_sent sent[ORDER_WINDOW];
	struct rsk_order_element elements[ORDER_WINDOW];
	uint64_t places[RSK_ORDER_WORDS(ORDER_CELLS)];
	uint8_t *ring, *from, *to; /* owned */
	uint32_t size, rails;
};

static int order_one_slot(struct order *o)
{
	struct iovec iov = { o->from, o->size };
	struct rsk_slot_view v;
	struct rsk_iovcur cur;
	uint32_t taken = 0;

	rsk_iovcur_init(&cur, &iov, 1);
	/* A slot does not wrap around the end of the ring: a message there takes two slots. */
	while (taken < o->size) {
		if (rsk_ring_put_data(&o->ring_tx, &o->key, &cur, cur.left) <= 0)
			return -ENOBUFS;
		if (!rsk_ring_peek(&o->ring_rx, &v) || v.head.len > o->size - taken ||
		    !rsk_ring_copy(&o->ring_rx, &o->key, &v, o->to + taken))
			return -EBADMSG;
		rsk_ring_consume(&o->ring_rx, &v);
		taken += v.head.len;
	}
	if (rsk_ring_tx_free(&o->ring_tx) < ORDER_CELLS / 2)
		return rsk_ring_tx_credit(&o->ring_tx, o->ring_rx.next);
	return 0;
}

/* Sends a batch of packets by the ring alone. */
static int order_ring(struct order *o)
{
	for (uint32_t i = 0; i < ORDER_BATCH; i++) {
		int rc = order_one_slot(o);

		if (rc)
			return rc;
	}
	return 0;
}

struct order_packet {
	uint64_t place;
	uint32_t cells;
	uint16_t tag;
};

static int order_put(struct order *o, uint32_t i, struct order_packet *k)
{
	uint32_t cells = rsk_slot_cells(o->size);
	uint64_t to_end = ORDER_CELLS - (o->tx.top & (ORDER_CELLS - 1));
	bool last = i % ORDER_SEND == ORDER_SEND - 1;
	int rc = i % ORDER_SEND ? 0 : rsk_order_tx_begin(&o->tx);

	if (rc < 0)
		return rc;
	*k = (struct order_packet){ o->tx.top, cells < to_end ? cells : (uint32_t)to_end,
				    rsk_order_tx_tag(&o->tx, last) };
	return rsk_order_tx_put(&o->tx, k->place, k->cells, last);
}

/* Sends a batch of packets through both state machines. */
static int order_order(struct order *o)
{
	struct order_packet k[ORDER_BATCH];
	struct rsk_order_seen seen;
	int rc = 0;

	for (uint32_t i = 0; i < ORDER_BATCH && !rc; i++)
		rc = order_put(o, i, &k[i]);
	for (uint32_t r = 0; r < o->rails; r++)
		for (uint32_t i = r; i < ORDER_BATCH && !rc; i += o->rails)
			rc = rsk_order_rx_see(&o->rx, k[i].tag, k[i].place, k[i].cells, &seen);
	if (rc)
		return rc;
	rc = rsk_order_rx_take(&o->rx, o->rx.base + rsk_order_rx_takable(&o->rx));
	return rc ? rc : rsk_order_tx_ack_below(&o->tx, o->rx.base);
}

/* Nanoseconds for each packet, or -errno. */
static double order_measure(struct order *o, int (*batch)(struct order *), uint64_t time_ns)
{
	double best = 0;

	for (int round = 0; round < ORDER_ROUNDS; round++) {
		uint64_t begun = rsk_monotonic_ns(), done = 0, now;

		do {
			for (int i = 0; i < 4; i++) {
				int rc = batch(o);

				if (rc)
					return rc;
			}
			done += (uint64_t)4 * ORDER_BATCH;
			now = rsk_monotonic_ns();
		} while (now - begun < time_ns / ORDER_ROUNDS);
		if (!round || (double)(now - begun) / (double)done < best)
			best = (double)(now - begun) / (double)done;
	}
	return best;
}

static int order_failed(const char *what, double rc)
{
	fprintf(stderr, "order: %s: %s\n", what, strerror((int)-rc));
	return 1;
}

static int order_size(struct order *o, const struct rsk_order_setup *setup, uint32_t size,
		      uint64_t time_ns, bool first)
{
	static const uint32_t rails[] = { 1, 2, 4 };
	double ns;

	o->size = size;
	memset(o->ring, 0, ORDER_BYTES);
	memset(o->to, 0, size);
	rsk_ring_tx_init(&o->ring_tx, &o->rail, 0, ORDER_CELLS, 1);
	rsk_ring_rx_init(&o->ring_rx, o->ring, ORDER_CELLS, 1, false);
	ns = order_measure(o, order_ring, time_ns);
	if (ns < 0 || memcmp(o->from, o->to, size) != 0)
		return order_failed("ring", ns < 0 ? ns : -EBADMSG);
	printf("%s{\"size_bytes\":%u,\"ring_ns\":%.2f,\"order_ns\":{", first ? "" : ",", size, ns);
	for (size_t i = 0; i < sizeof(rails) / sizeof(*rails); i++) {
		int rc = rsk_order_tx_init(&o->tx, setup, o->sent);

		if (!rc)
			rc = rsk_order_rx_init(&o->rx, setup, o->elements, o->places);
		if (rc)
			return order_failed("init", rc);
		o->rails = rails[i];
		ns = order_measure(o, order_order, time_ns);
		if (ns < 0)
			return order_failed("order", ns);
		if (!rsk_order_tx_validate(&o->tx) || !rsk_order_rx_validate(&o->rx) ||
		    o->rx.low != o->tx.next || (o->rails == 1 && o->rx.overtook))
			return order_failed("order", -EBADMSG);
		printf("%s\"%u\":%.2f", i ? "," : "", rails[i], ns);
	}
	printf("}}");
	return 0;
}

static int order_usage(const char *error)
{
	fprintf(stderr,
		"order: %s\n"
		"usage: order SECONDS FORM SIZE...\n"
		"ns a packet for the ring and for the order over 1, 2 and 4 rails, as JSON; "
		"FORM as %s;\n"
		"sizes of 1 to %u bytes\n",
		error, RSK_ORDER_DEFAULT, RSK_SLOT_MAX_PAYLOAD);
	return 2;
}

int main(int argc, char **argv)
{
	static struct order o;
	struct rsk_order_setup setup = { .window = ORDER_WINDOW,
					 .cells = ORDER_CELLS,
					 .place = ORDER_CELLS };
	double seconds = argc > 3 ? strtod(argv[1], NULL) : 0;
	const char *error = "SECONDS is above 0, to 60";
	int status = 0;

	if (!(seconds > 0 && seconds <= 60))
		return order_usage(error);
	if (rsk_order_parse(&setup.form, argv[2], &error) < 0)
		return order_usage(error);
	if (rsk_order_span(&setup.form) < ORDER_WINDOW || setup.form.kind == RSK_ORDER_ABSOLUTE)
		return order_usage("a relative or wrapping index of 6 bits or more, please");
	o.ring = aligned_alloc(4096, ORDER_BYTES);
	o.from = aligned_alloc(4096, RSK_SLOT_MAX_PAYLOAD);
	o.to = aligned_alloc(4096, RSK_SLOT_MAX_PAYLOAD);
	if (!o.ring || !o.from || !o.to)
		return 1;
	for (uint32_t i = 0; i < RSK_SLOT_MAX_PAYLOAD; i++)
		o.from[i] = (uint8_t)(i * 167 + 13);
	o.rail = (struct rsk_rail){ .ops = &order_ops,
				    .window = o.ring,
				    .window_bytes = ORDER_BYTES };
	rsk_key_init(&o.key, 42);
	printf("{\"form\":\"%s\",\"batch\":%u,\"send\":%u,\"packets\":[", argv[2], ORDER_BATCH,
	       ORDER_SEND);
	for (int i = 3; i < argc && !status; i++) {
		unsigned long size = strtoul(argv[i], NULL, 10);

		if (!size || size > RSK_SLOT_MAX_PAYLOAD)
			return order_usage("a size is 1 to 16384");
		status = order_size(&o, &setup, (uint32_t)size,
				    (uint64_t)(seconds * 1e9 / 4 / (argc - 3)), i == 3);
	}
	printf("]}\n");
	free(o.ring);
	free(o.from);
	free(o.to);
	return status;
}
