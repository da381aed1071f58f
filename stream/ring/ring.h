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

struct rsk_order_tx;

/* Cells kept back from data, so that a command always finds room: MOVE, FIN or AGAIN, one per promotion. */
#define RSK_RING_RESERVE_CELLS 2u
#define RSK_RING_MIN_CELLS 64u
#define RSK_RING_MAX_CELLS (1u << 20)

/*
 * A drained ring goes on at its start: where the receiver has taken everything, the sender may leave the rest of the
 * lap out and put the next slot at the first index of the next lap, so that a stream with little on its way touches
 * few pages, and those that are in the cache. The receiver, which finds nothing at its next index, looks there as
 * well; behind what it sees there, it looks at its next index once more. That relies on puts being seen in order: only
 * on a fabric that is SYNC. Not near the start, so that the receiver need not look twice all the time.
 */
#define RSK_RING_RESTART_CELLS 32u
#define RSK_RING_PAGE_CELLS (4096u / RSK_CELL_BYTES)

/* Owner: the stream's sending side, under its tx lock. Family memory. */
struct rsk_ring_tx {
	struct rsk_rail *rail;
	uint64_t off;	 /* of the ring in the peer's segment */
	uint32_t cells;	 /* power of two */
	uint64_t next;	 /* index of the next slot to compose */
	uint64_t credit; /* cells below this index are free again, as far as believed */
	uint64_t told;	 /* as far as the receiver has said */
	uint64_t twice_from; /* a slot that was put twice, of which some may be under way; UINT64_MAX: none */
	uint64_t data_end; /* index after the newest data slot: what the peer's reader still owes us */
	uint64_t slots;	   /* put so far */
	const _Atomic(uint64_t)
		*taken;	     /* the receiver's next index, hint and credit; NULL: no restarts */
	uint64_t restart_at; /* not to be thought of before this index */
	uint32_t restart_step;
	uint64_t left_out_from, left_out_to; /* by the last restart */
	struct rsk_order_tx *order; /* borrowed: slots get its marks (txn_tags.h); NULL: none */
};

/* Owner: the stream's receiving side, under its rx lock. Family memory. */
struct rsk_ring_rx {
	const uint8_t *base; /* own segment */
	uint32_t cells;
	uint64_t next;	    /* index of the next slot to take */
	uint64_t slots;	    /* taken so far */
	uint64_t retries;   /* hash not right (yet) */
	uint32_t bad_looks; /* consecutive looks at a promised slot whose hash stayed wrong */
	bool sync; /* a put has landed when it returns; and the sender may leave out the rest of a lap */
};

/* What lies at the next index, as its header claims: in bounds, not believed yet. */
struct rsk_slot_view {
	const uint8_t *at;
	struct rsk_slot_head head; /* own copy */
};

/*
 * The lap that a stream begins with, of both ends: not the first, so that fresh memory (zeros) cannot look like its
 * first slot, and another one for each key, so that what an earlier stream has left in the ring cannot either.
 */
static inline uint64_t rsk_ring_first_lap(uint64_t key_seed)
{
	return 1 + (key_seed >> 32);
}

void rsk_ring_tx_init(struct rsk_ring_tx *tx, struct rsk_rail *rail, uint64_t off, uint32_t cells,
		      uint64_t lap);
void rsk_ring_rx_init(struct rsk_ring_rx *rx, const uint8_t *base, uint32_t cells, uint64_t lap,
		      bool sync);
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

/* The first index of the next lap. */
static inline uint64_t rsk_ring_next_lap(uint32_t cells, uint64_t index)
{
	return (index | (cells - 1)) + 1;
}

/* Before a slot of @len bytes, or several, is put: at the start, if all is taken and it would touch another page. */
void rsk_ring_tx_restart_if_taken(struct rsk_ring_tx *tx, size_t len);

static inline void rsk_ring_tx_restart(struct rsk_ring_tx *tx, size_t len)
{
	if (rsk_ring_cell(tx->cells, tx->next) >= RSK_RING_RESTART_CELLS &&
	    tx->next >= tx->restart_at)
		rsk_ring_tx_restart_if_taken(tx, len);
}

/* An index that was left out stands for the one that came instead. */
static inline uint64_t rsk_ring_tx_index(const struct rsk_ring_tx *tx, uint64_t index)
{
	return index == tx->left_out_from ? tx->left_out_to : index;
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

/* Is there room for one slot of @len (1 to RSK_SLOT_MAX_PAYLOAD) bytes? */
static inline bool rsk_ring_tx_fits(const struct rsk_ring_tx *tx, uint32_t len)
{
	uint32_t cells = rsk_slot_cells(len);

	return cells <= rsk_ring_tx_free(tx) &&
	       cells <= tx->cells - rsk_ring_cell(tx->cells, tx->next);
}

/* Of the next two: the memory that @src names cannot be read; nothing was done. No rail answers so. */
#define RSK_RING_FAULT (-EDOM)

/*
 * Compose and put one slot of @len bytes of @src, which fits and advances. @len, or what a filled source had of it (0:
 * nothing more, no slot; or there is no room among its marks); RSK_RING_FAULT; -errno when the rail is broken.
 */
ssize_t rsk_ring_put_len(struct rsk_ring_tx *tx, const struct rsk_key *key, struct rsk_iovcur *src,
			 uint32_t len);

/*
 * rsk_ring_put_data - compose and put one slot with up to @max bytes of @src, which advances.
 * Returns the bytes taken, 0 when there is no room (or @src, which is read, has ended: nothing is left of it),
 * RSK_RING_FAULT, -errno when the rail is broken.
 */
ssize_t rsk_ring_put_data(struct rsk_ring_tx *tx, const struct rsk_key *key, struct rsk_iovcur *src,
			  size_t max);

/* A command slot; room is reserved. Returns 0, -ENOBUFS (a second one in one promotion: a bug), -errno. */
int rsk_ring_put_command(struct rsk_ring_tx *tx, const struct rsk_key *key,
			 const struct rsk_slot_command *cmd);

/*
 * Believe the peer's credit if it lies between what was believed and what was put. 0 or -EPROTO. A slot that was put
 * twice may be whole by a part of either: its cells are free when nothing is under way any more, and this was called.
 */
int rsk_ring_tx_credit(struct rsk_ring_tx *tx, uint64_t credit);

/* Put everything from index @from (>= credit) on again (a lossy fabric, a repair request). 0 or -errno. */
int rsk_ring_tx_reput(struct rsk_ring_tx *tx, uint64_t from);

/*
 * Of rail @lost of several, or of RSK_RAILS_NOBODY: what it carried of the indexes [from, to) is put once more, by
 * others. Not on a fabric that restarts. 0 or -errno; -EPROTO: the window does not hold what was put.
 */
int rsk_ring_tx_retransmit(struct rsk_ring_tx *tx, uint64_t from, uint64_t to, uint32_t lost);

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

/* The other index that the next slot may have: the next lap's first, or the same once more. */
static inline uint64_t rsk_ring_other(const struct rsk_ring_rx *rx, uint64_t index)
{
	return rx->sync && rsk_ring_cell(rx->cells, index) >= RSK_RING_RESTART_CELLS ?
		       rsk_ring_next_lap(rx->cells, index) :
		       index;
}

/* Is something at the next index that claims to be the next slot, within bounds? */
static inline bool rsk_ring_peek(const struct rsk_ring_rx *rx, struct rsk_slot_view *v)
{
	const uint64_t *at = rsk_ring_place(rx, rx->next);
	uint64_t index = rx->next;

	if (__atomic_load_n(at, __ATOMIC_ACQUIRE) != index) {
		const uint64_t *next = at;

		index = rsk_ring_other(rx, index);
		at = rsk_ring_place(rx, index);
		if (__atomic_load_n(at, __ATOMIC_ACQUIRE) != index)
			return false;
		/* Or the lap was filled to its end since the first look. */
		if (__atomic_load_n(next, __ATOMIC_RELAXED) == rx->next) {
			index = rx->next;
			at = next;
		}
	}
	memcpy(&v->head, at, sizeof(v->head));
	v->at = (const uint8_t *)at;
	return rsk_slot_fits(&v->head, rx->cells, index);
}

/*
 * rsk_ring_copy - copy the payload of @v to dst[head.len] and check the hash over that copy and head.
 * True: dst holds the slot's payload, whole; call rsk_ring_consume(). False: look again later.
 */
bool rsk_ring_copy(struct rsk_ring_rx *rx, const struct rsk_key *key, const struct rsk_slot_view *v,
		   uint8_t *dst);

/* Is the slot whole, for who asks only whether it could be had: a copy has the last word. Not counted as a look. */
bool rsk_ring_whole(const struct rsk_key *key, const struct rsk_slot_view *v);

/* The same to two places: the first @split bytes to @first, the others to rest[split..]; see rsk_hash_split(). */
bool rsk_ring_copy_split(struct rsk_ring_rx *rx, const struct rsk_key *key,
			 const struct rsk_slot_view *v, uint8_t *first, uint32_t split,
			 uint8_t *rest);
static inline void rsk_ring_consume(struct rsk_ring_rx *rx, const struct rsk_slot_view *v)
{
	__atomic_store_n(&rx->next, v->head.index + rsk_slot_cells(v->head.len), __ATOMIC_RELAXED);
	rx->slots++;
}

#endif
