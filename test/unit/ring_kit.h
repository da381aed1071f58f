/* SPDX-License-Identifier: BSD-2-Clause */
/* ring_kit.h - for tests of the ring alone, without a state machine above it. */
#ifndef RSK_TEST_RING_KIT_H
#define RSK_TEST_RING_KIT_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ring.h"

#define CELLS 64u
#define BYTES (CELLS * RSK_CELL_BYTES)

static const struct rsk_fabric_ops shm_ops = {
	.name = "shm-like",
	.caps = RSK_FABRIC_RELIABLE | RSK_FABRIC_DURABLE | RSK_FABRIC_SYNC,
};

/* Both ends over one piece of memory, exactly as long as the ring. */
struct pair {
	struct rsk_rail rail;
	struct rsk_key key;
	struct rsk_ring_tx tx;
	struct rsk_ring_rx rx;
	uint8_t *memory;
};

static inline void pair_init(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	p->memory = calloc(1, BYTES);
	p->rail = (struct rsk_rail){ .ops = &shm_ops, .window = p->memory, .window_bytes = BYTES };
	rsk_key_init(&p->key, 42);
	rsk_ring_tx_init(&p->tx, &p->rail, 0, CELLS, 1);
	rsk_ring_rx_init(&p->rx, p->memory, CELLS, 1, false);
}

static inline void pair_check(const struct pair *p)
{
	cr_assert(rsk_ring_tx_validate(&p->tx));
	cr_assert(rsk_ring_rx_validate(&p->rx));
}

static inline ssize_t put(struct pair *p, const void *data, size_t len)
{
	struct iovec iov = { (void *)(uintptr_t)data, len };
	struct rsk_iovcur cur;

	rsk_iovcur_init(&cur, &iov, 1);
	return rsk_ring_put_data(&p->tx, &p->key, &cur, len);
}

/* Copies the next slot's payload to @dst. Returns its length, or -EAGAIN if no slot is whole. */
static inline ssize_t take(struct pair *p, uint8_t *dst)
{
	struct rsk_slot_view v;

	if (!rsk_ring_peek(&p->rx, &v) || !rsk_ring_copy(&p->rx, &p->key, &v, dst))
		return -EAGAIN;
	rsk_ring_consume(&p->rx, &v);
	return v.head.len;
}

#endif
