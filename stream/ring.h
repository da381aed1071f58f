/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring.h - slots in a ring of cells, one direction of one stream (layout: <rsock/slot.h>).
 *
 * The sender composes a slot in its window and puts it; the receiver polls the place of the next index,
 * copies the payload to where it is wanted and believes it when the hash over *the copy* is right.
 * Pure but for the rail's put(): no system call, no clock, no lock (the stream's tx and rx locks guard them).
 */
#ifndef RSK_RING_H
#define RSK_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric.h"
#include "hash.h"
#include "iovcur.h"

/* Cells kept back from data, so that a command always finds room: MOVE or FIN, one per promotion. */
#define RSK_RING_RESERVE_CELLS 2u
#define RSK_RING_MIN_CELLS 64u
#define RSK_RING_MAX_CELLS (1u << 20)

/* Owner: the stream's sending side, under its tx lock. Family memory. */
struct rsk_ring_tx {
	struct rsk_rail *rail;
	uint64_t off;	 /* of the ring in the peer's segment */
	uint32_t cells;	 /* power of two */
	uint64_t next;	 /* index of the next slot to compose */
	uint64_t credit; /* cells below this index are free again, as far as believed */
	uint64_t data_end; /* index after the newest data slot: what the peer's reader still owes us */
	uint64_t slots;	   /* put so far */
};

/* Owner: the stream's receiving side, under its rx lock. Family memory. */
struct rsk_ring_rx {
	const uint8_t *base; /* own segment */
	uint32_t cells;
	uint64_t next;	    /* index of the next slot to take */
	uint64_t slots;	    /* taken so far */
	uint64_t retries;   /* hash not right (yet) */
	uint32_t bad_looks; /* consecutive looks at a promised slot whose hash stayed wrong */
};

/* What lies at the next index, as its header claims: in bounds, not believed yet. */
struct rsk_slot_view {
	const uint8_t *at;
	struct rsk_slot_head head; /* own copy */
};

void rsk_ring_tx_init(struct rsk_ring_tx *tx, struct rsk_rail *rail, uint64_t off, uint32_t cells);
void rsk_ring_rx_init(struct rsk_ring_rx *rx, const uint8_t *base, uint32_t cells);
bool rsk_ring_tx_validate(const struct rsk_ring_tx *tx);
bool rsk_ring_rx_validate(const struct rsk_ring_rx *rx);

static inline uint32_t rsk_ring_cell(uint32_t cells, uint64_t index)
{
	return (uint32_t)(index & (cells - 1));
}

/* Bounds of the claimed slot at index: payload length must fit the maximum and the way to the ring's end. */
static inline bool rsk_slot_fits(const struct rsk_slot_head *head, uint32_t cells, uint64_t index)
{
	return head->index == index && head->len <= RSK_SLOT_MAX_PAYLOAD &&
	       rsk_slot_cells(head->len) <= cells - rsk_ring_cell(cells, index);
}

/* Payload bytes that one slot could take now, 0: full (for data; commands have their reserve). */
uint32_t rsk_ring_tx_room(const struct rsk_ring_tx *tx);

/* Cells free for data. */
static inline uint64_t rsk_ring_tx_free(const struct rsk_ring_tx *tx)
{
	uint64_t used = tx->next - tx->credit;
	uint64_t cap = tx->cells - RSK_RING_RESERVE_CELLS;

	return used < cap ? cap - used : 0;
}

/*
 * rsk_ring_put_data - compose and put one slot with up to @max bytes of @src, which advances.
 * Returns the bytes taken, 0 when there is no room, -errno when the rail is broken.
 */
ssize_t rsk_ring_put_data(struct rsk_ring_tx *tx, const struct rsk_key *key, struct rsk_iovcur *src,
			  size_t max);

/* A command slot; room is reserved. Returns 0, -ENOBUFS (a second one in one promotion: a bug), -errno. */
int rsk_ring_put_command(struct rsk_ring_tx *tx, const struct rsk_key *key,
			 const struct rsk_slot_command *cmd);

/* Believe the peer's credit if it lies between what was believed and what was put. 0 or -EPROTO. */
int rsk_ring_tx_credit(struct rsk_ring_tx *tx, uint64_t credit);

/* Put everything from index @from (>= credit) on again (a lossy fabric, a repair request). 0 or -errno. */
int rsk_ring_tx_reput(struct rsk_ring_tx *tx, uint64_t from);

/*
 * rsk_ring_tx_read - the sender reads its own slot back: the one at *index, kind in *kind, payload into
 * buf[RSK_SLOT_MAX_PAYLOAD]. For "go on by TCP from here". *index advances. Returns the payload length or
 * -EPROTO when what is there is not what was put (a hostile peer in shm).
 */
ssize_t rsk_ring_tx_read(const struct rsk_ring_tx *tx, const struct rsk_key *key, uint64_t *index,
			 uint16_t *kind, uint8_t *buf);

/* After the holder of the tx lock was killed: was the slot at next put already? Then count it. */
bool rsk_ring_tx_recover(struct rsk_ring_tx *tx, const struct rsk_key *key, uint8_t *buf,
			 uint32_t *data_len);

/* The next index, also without the lock. */
static inline uint64_t rsk_ring_index(const struct rsk_ring_rx *rx)
{
	return __atomic_load_n(&rx->next, __ATOMIC_RELAXED);
}

/* Where the slot of that index begins, and with it its index. */
static inline const uint64_t *rsk_ring_place(const struct rsk_ring_rx *rx, uint64_t index)
{
	return (const uint64_t *)(const void *)(rx->base +
						(uint64_t)rsk_ring_cell(rx->cells, index) *
							RSK_CELL_BYTES);
}

/* Is something at the next index that claims to be the next slot, within bounds? */
static inline bool rsk_ring_peek(const struct rsk_ring_rx *rx, struct rsk_slot_view *v)
{
	const uint64_t *at = rsk_ring_place(rx, rx->next);

	if (__atomic_load_n(at, __ATOMIC_ACQUIRE) != rx->next)
		return false;
	memcpy(&v->head, at, sizeof(v->head));
	v->at = (const uint8_t *)at;
	return rsk_slot_fits(&v->head, rx->cells, rx->next);
}

/*
 * rsk_ring_copy - copy the payload of @v to dst[head.len] and check the hash over that copy and head.
 * True: dst holds the slot's payload, whole; call rsk_ring_consume(). False: look again later.
 */
bool rsk_ring_copy(struct rsk_ring_rx *rx, const struct rsk_key *key, const struct rsk_slot_view *v,
		   uint8_t *dst);
static inline void rsk_ring_consume(struct rsk_ring_rx *rx, const struct rsk_slot_view *v)
{
	__atomic_store_n(&rx->next, rx->next + rsk_slot_cells(v->head.len), __ATOMIC_RELAXED);
	rx->slots++;
}

#endif
