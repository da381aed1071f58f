/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slots.c - measures what one slot costs, by size, in one thread: the copies alone, the hashes
 * alone, and the whole way through the ring (stream/ring/ring.h). Nothing sleeps and no other
 * processor is involved, so the difference is the cost of the code itself. Run by rows_rsperf.py.
 *
 * 	copy	payload into the ring, and out again to the receiver's buffer
 * 	hash	payload and head, once by the sender and once by the receiver
 * 	ring	put, peek, copy with its hash, consume, and credit now and then
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/clock.h>

#include "ring.h"

#define SLOTS_CELLS 8192u /* 512 KiB, as streams have */
#define SLOTS_BYTES (SLOTS_CELLS * RSK_CELL_BYTES)
#define SLOTS_BATCH 64u /* slots between two readings of the clock */
#define SLOTS_ROUNDS 5	/* the best round counts, since disturbances only add time */

static const struct rsk_fabric_ops slots_ops = {
	.name = "one process",
	.caps = RSK_FABRIC_RELIABLE | RSK_FABRIC_DURABLE | RSK_FABRIC_SYNC,
};

/* Both ends over one piece of memory. */
struct slots {
	struct rsk_rail rail;
	struct rsk_key key;
	struct rsk_ring_tx tx;
	struct rsk_ring_rx rx;
	uint8_t *ring; /* owned */
	uint8_t *from; /* owned; the sender's message */
	uint8_t *to;   /* owned; the receiver's buffer */
	uint64_t sum;  /* of hashes, so that the compiler keeps them */
	uint32_t size;
	uint32_t place; /* offset of the next copy */
};

/* Makes the compiler assume that the memory is used. */
static inline void slots_touch(void *p)
{
	__asm__ volatile("" : : "r"(p) : "memory");
}

static int slots_copy(struct slots *s)
{
	uint8_t *at = s->ring + s->place;

	memcpy(at, s->from, s->size);
	slots_touch(at);
	memcpy(s->to, at, s->size);
	slots_touch(s->to);
	s->place += rsk_slot_cells(s->size) * RSK_CELL_BYTES;
	if (s->place + s->size > SLOTS_BYTES)
		s->place = 0;
	return 0;
}

static int slots_hash(struct slots *s)
{
	struct rsk_slot_head head = { .index = s->sum, .len = s->size, .kind = RSK_SLOT_DATA };

	s->sum += rsk_hash_slot(&s->key, &head, rsk_hash_payload(&s->key, s->from, s->size));
	slots_touch(s->from);
	s->sum += rsk_hash_slot(&s->key, &head, rsk_hash_payload(&s->key, s->to, s->size));
	slots_touch(s->to);
	return 0;
}

static int slots_ring(struct slots *s)
{
	struct iovec iov = { s->from, s->size };
	struct rsk_slot_view v;
	struct rsk_iovcur cur;
	uint32_t taken = 0;

	rsk_iovcur_init(&cur, &iov, 1);
	/* A slot does not wrap around the end of the ring: a message there takes two slots. */
	while (taken < s->size) {
		if (rsk_ring_put_data(&s->tx, &s->key, &cur, cur.left) <= 0)
			return -ENOBUFS;
		if (!rsk_ring_peek(&s->rx, &v) || v.head.len > s->size - taken ||
		    !rsk_ring_copy(&s->rx, &s->key, &v, s->to + taken))
			return -EBADMSG;
		rsk_ring_consume(&s->rx, &v);
		taken += v.head.len;
	}
	slots_touch(s->to);
	/* Gives credit in batches, as the receiver does. */
	if (rsk_ring_tx_free(&s->tx) < SLOTS_CELLS / 2)
		return rsk_ring_tx_credit(&s->tx, s->rx.next);
	return 0;
}

/* Nanoseconds for each slot, or -errno. */
static double slots_measure(struct slots *s, int (*one)(struct slots *), uint64_t time_ns)
{
	double best = 0;

	for (int round = 0; round < SLOTS_ROUNDS; round++) {
		uint64_t begun = rsk_monotonic_ns(), done = 0, now;

		do {
			for (unsigned int i = 0; i < SLOTS_BATCH; i++) {
				int rc = one(s);

				if (rc)
					return rc;
			}
			done += SLOTS_BATCH;
			now = rsk_monotonic_ns();
		} while (now - begun < time_ns / SLOTS_ROUNDS);
		if (!round || (double)(now - begun) / (double)done < best)
			best = (double)(now - begun) / (double)done;
	}
	return best;
}

static int slots_size(struct slots *s, uint32_t size, uint64_t time_ns, bool first)
{
	double copy, hash, ring;

	s->size = size;
	s->place = 0;
	memset(s->ring, 0, SLOTS_BYTES);
	memset(s->to, 0, size);
	rsk_ring_tx_init(&s->tx, &s->rail, 0, SLOTS_CELLS, 1);
	rsk_ring_rx_init(&s->rx, s->ring, SLOTS_CELLS, 1, false);
	ring = slots_measure(s, slots_ring, time_ns);
	if (ring >= 0 && memcmp(s->from, s->to, size) != 0)
		ring = -EBADMSG;
	copy = slots_measure(s, slots_copy, time_ns);
	hash = slots_measure(s, slots_hash, time_ns);
	if (ring < 0) { /* the others cannot fail */
		fprintf(stderr, "slots: %u B: %s\n", size, strerror((int)-ring));
		return 1;
	}
	printf("%s{\"size_bytes\":%u,\"copy_ns\":%.2f,\"hash_ns\":%.2f,\"ring_ns\":%.2f}",
	       first ? "" : ",", size, copy, hash, ring);
	return 0;
}

static int slots_usage(void)
{
	fprintf(stderr,
		"usage: slots SECONDS SIZE...\n"
		"ns a slot for copy alone, hash alone and the whole ring, as JSON; "
		"sizes of 1 to %u bytes\n",
		RSK_SLOT_MAX_PAYLOAD);
	return 2;
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? strtod(argv[1], NULL) : 0;
	struct slots s = { .sum = 0 };
	int status = 0;

	if (!(seconds > 0 && seconds <= 60))
		return slots_usage();
	s.ring = aligned_alloc(4096, SLOTS_BYTES);
	s.from = aligned_alloc(4096, 4 * 4096);
	s.to = aligned_alloc(4096, 4 * 4096);
	if (!s.ring || !s.from || !s.to)
		return 1;
	for (uint32_t i = 0; i < 4 * 4096; i++)
		s.from[i] = (uint8_t)(i * 167 + 13);
	s.rail = (struct rsk_rail){ .ops = &slots_ops,
				    .window = s.ring,
				    .window_bytes = SLOTS_BYTES };
	rsk_key_init(&s.key, 42);
	printf("{\"slots\":[");
	for (int i = 2; i < argc && !status; i++) {
		unsigned long size = strtoul(argv[i], NULL, 10);

		if (!size || size > RSK_SLOT_MAX_PAYLOAD)
			return slots_usage();
		status = slots_size(&s, (uint32_t)size, (uint64_t)(seconds * 1e9 / 3 / (argc - 2)),
				    i == 2);
	}
	printf("]}\n");
	free(s.ring);
	free(s.from);
	free(s.to);
	return status;
}
