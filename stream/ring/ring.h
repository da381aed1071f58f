/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring.h - slots in a ring of cells, one direction of one stream (layout: <rsock/slot.h>). The
 * direction machines (tx.c, rx.c) call it.
 *
 * The sender composes a slot in its window and puts it. The receiver polls the place of the next
 * index, copies the payload to its destination and accepts it if the hash over *the copy* is right.
 * Pure, except for the rail's put(): no system call, no clock, no lock (the stream's tx and rx
 * locks guard it).
 */
#ifndef RSK_RING_H
#define RSK_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric.h"
#include "hash.h"
#include "iovcur.h"

struct rsk_order_tx;

/*
 * Cells reserved for a command, so that it always finds room: FALLBACK_TX, FIN or RETRANSMIT, one
 * per promotion.
 */
#define RSK_RING_RESERVE_CELLS 2u
#define RSK_RING_MIN_CELLS 64u
#define RSK_RING_MAX_CELLS (1u << 20)

/*
 * Restart of a drained ring: when the receiver has taken everything, the sender may skip the rest
 * of the lap and put the next slot at the first index of the next lap, so that a stream with few
 * bytes under way touches few pages, which stay in the cache. A receiver that finds nothing at its
 * next index also checks there; if it finds a slot there, it checks its next index once more. That
 * relies on puts becoming visible in order, so it is done only on a SYNC fabric. It is not done in
 * the first RSK_RING_RESTART_CELLS of a lap, so that the receiver need not always check two places.
 */
#define RSK_RING_RESTART_CELLS 32u
#define RSK_RING_PAGE_CELLS (4096u / RSK_CELL_BYTES)

/* Owner: the stream's sending side, under its tx lock. In memory that a fork copies. */
struct rsk_ring_tx {
	struct rsk_rail *rail;
	uint64_t off;	/* of the ring, in the peer's segment */
	uint32_t cells; /* a power of two */
	/* A lap uses cells [0, lap_cells); the slot that reaches its end has RSK_SLOT_LAST. */
	uint32_t lap_cells;
	uint32_t restart_step;
	bool stamped;  /* the receiver wants the time of each put */
	uint64_t next; /* index of the next slot to compose */
	/* Cells below this index are known to be free again. */
	uint64_t credit;
	/* The credit that the receiver has reported. */
	uint64_t told;
	/* No data is put from this index on, whatever the credit: pacing; UINT64_MAX: no limit. */
	uint64_t paced_to;
	/*
	 * Index of the first slot that was put twice, while copies may be under way; UINT64_MAX:
	 * none.
	 */
	uint64_t twice_from;
	/* Index after the newest data slot, up to which the peer has to read. */
	uint64_t data_end;
	uint64_t slots; /* put so far */
	/* The receiver's next index, a hint and credit; NULL: the ring is never restarted. */
	const _Atomic(uint64_t) *taken;
	uint64_t restart_at; /* no restart is tried before this index; then restart_step later */
	/* Range of indexes that the last restart skipped. */
	uint64_t left_out_from, left_out_to;
	/* Borrowed: assigns the slots' transaction tags (txn_tags.h); NULL: none. */
	struct rsk_order_tx *order;
	uint64_t stamp_ns; /* that time: the caller's clock, as it was last set */
};

/* Owner: the stream's receiving side, under its rx lock. In memory that a fork copies. */
struct rsk_ring_rx {
	const uint8_t *base; /* in the own segment */
	uint32_t cells;
	/* Cells that the sender uses of a lap, as far as its slots have shown. */
	uint32_t lap_cells;
	uint64_t next;	  /* index of the next slot to take */
	uint64_t slots;	  /* taken so far */
	uint64_t retries; /* times that a hash was not (yet) right */
	/* Consecutive checks of an announced slot whose hash was wrong. */
	uint32_t bad_looks;
	/* A put has landed when it returns, and the sender may skip the rest of a lap. */
	bool sync;
	/* Binary logarithm of the cells that the peer reaches, from the first; 0: all. */
	uint8_t reach_log2;
};

/* The slot at the next index, as its header claims: in bounds, but not validated yet. */
struct rsk_slot_view {
	const uint8_t *at;
	struct rsk_slot_head head; /* own copy */
};

/*
 * The lap with which a stream begins, at both ends. It is never 0, so that fresh memory (zeros)
 * cannot look like the first slot, and it depends on the key, so that slots of an earlier stream in
 * the same ring cannot either.
 */
static inline uint64_t rsk_ring_first_lap(uint64_t key_seed)
{
	return 1 + (key_seed >> 32);
}

/*
 * @off: of the ring in the peer's segment; @base: the ring in the own segment; @cells: a power of
 * two; @lap: rsk_ring_first_lap(). @rail and @base are borrowed.
 */
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

/*
 * Checks the bounds of the slot claimed at @index: the payload must not exceed the maximum, nor the
 * distance to the ring's end.
 */
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

/*
 * Before one or more slots of @len bytes are put: restarts the ring if everything is taken and the
 * slot would touch another page.
 */
void rsk_ring_tx_restart_if_taken(struct rsk_ring_tx *tx, size_t len);

static inline void rsk_ring_tx_restart(struct rsk_ring_tx *tx, size_t len)
{
	if (rsk_ring_cell(tx->cells, tx->next) >= RSK_RING_RESTART_CELLS &&
	    tx->next >= tx->restart_at)
		rsk_ring_tx_restart_if_taken(tx, len);
}

/* Maps the index where a restart began to the index that took its place. */
static inline uint64_t rsk_ring_tx_index(const struct rsk_ring_tx *tx, uint64_t index)
{
	return index == tx->left_out_from ? tx->left_out_to : index;
}

/*
 * From now on a lap uses @cells (a power of two, at least RSK_RING_MIN_CELLS) of the ring's cells,
 * at least as many as before: the rails that are up reach them.
 */
void rsk_ring_tx_widen(struct rsk_ring_tx *tx, uint32_t cells);

/* Cells that have no slot count for nothing where cells stand for bytes: pacing. */
void rsk_ring_tx_skip(struct rsk_ring_tx *tx, uint64_t cells);

/* The slot of data at the next index is the last one of its lap, if so little is left behind it. */
void rsk_ring_tx_mark_last(const struct rsk_ring_tx *tx, struct rsk_slot_head *head);

/* Drained, at the beginning of a promotion: leaves a lap in which there may be no room for data. */
void rsk_ring_tx_end_lap(struct rsk_ring_tx *tx);

/* Payload bytes that one slot could take now; 0: full (for data; commands use the reserve). */
uint32_t rsk_ring_tx_room(const struct rsk_ring_tx *tx);

/* Credit at which half of a full ring is free again. */
static inline uint64_t rsk_ring_tx_half(const struct rsk_ring_tx *tx)
{
	uint32_t half = tx->lap_cells / 2;

	if (rsk_ring_cell(tx->cells, tx->next) < half)
		half += tx->cells - tx->lap_cells;
	return tx->next - half;
}

/* May the slot that ends this lap be put? After it there has to be room for a command. */
static inline bool rsk_ring_tx_may_end_lap(const struct rsk_ring_tx *tx)
{
	return tx->credit >= tx->next - rsk_ring_cell(tx->cells, tx->next) + RSK_RING_RESERVE_CELLS;
}

/* Do laps end before the ring does? Not on one host. */
static inline bool rsk_ring_tx_is_lapped(const struct rsk_ring_tx *tx)
{
	return __builtin_expect(tx->lap_cells != tx->cells, 0);
}

/* rsk_ring_tx_limit(), rsk_ring_tx_fits() of such a ring. */
uint64_t rsk_ring_tx_lap_limit(const struct rsk_ring_tx *tx);
bool rsk_ring_tx_lap_fits(const struct rsk_ring_tx *tx, uint32_t cells);

/* The index before which there is room for data, pacing aside, if no cells are skipped. */
static inline uint64_t rsk_ring_tx_limit(const struct rsk_ring_tx *tx)
{
	return rsk_ring_tx_is_lapped(tx) ? rsk_ring_tx_lap_limit(tx) :
					   tx->credit + tx->cells - RSK_RING_RESERVE_CELLS;
}

static inline uint64_t rsk_ring_tx_free_to(const struct rsk_ring_tx *tx, uint64_t to)
{
	to = to < tx->paced_to ? to : tx->paced_to;
	return to > tx->next ? to - tx->next : 0;
}

/* Cells that are free for data. */
static inline uint64_t rsk_ring_tx_free(const struct rsk_ring_tx *tx)
{
	return rsk_ring_tx_free_to(tx, rsk_ring_tx_limit(tx));
}

/* Is there room for one slot of @len (1 to RSK_SLOT_MAX_PAYLOAD) bytes? */
static inline bool rsk_ring_tx_fits(const struct rsk_ring_tx *tx, uint32_t len)
{
	uint32_t cells = rsk_slot_cells(len);

	if (rsk_ring_tx_is_lapped(tx))
		return rsk_ring_tx_lap_fits(tx, cells);
	return cells <= rsk_ring_tx_free_to(tx, tx->credit + tx->cells - RSK_RING_RESERVE_CELLS) &&
	       cells <= tx->cells - rsk_ring_cell(tx->cells, tx->next);
}

/*
 * Returned by rsk_ring_put_len() and rsk_ring_put_data(): the memory that @src refers to cannot be
 * read, and nothing was done. No rail returns this value.
 */
#define RSK_RING_FAULT (-EDOM)

/*
 * rsk_ring_put_len - composes and puts one slot of @len bytes of @src, which must fit; @src
 * advances. Returns @len; for a source that is read (struct rsk_fill) the bytes that it had; 0:
 * such a source has ended, or the window of transactions is full, and there is no slot;
 * RSK_RING_FAULT; -errno when the rail is broken.
 */
ssize_t rsk_ring_put_len(struct rsk_ring_tx *tx, const struct rsk_key *key, struct rsk_iovcur *src,
			 uint32_t len);

/*
 * rsk_ring_put_data - composes and puts one slot with up to @max bytes of @src, which advances.
 * Returns the bytes taken; 0: there is no room, or a source that is read has ended and nothing is
 * left of it; RSK_RING_FAULT; -errno when the rail is broken.
 */
ssize_t rsk_ring_put_data(struct rsk_ring_tx *tx, const struct rsk_key *key, struct rsk_iovcur *src,
			  size_t max);

/*
 * Puts a slot of no bytes, which ends the lap unless it has just begun. The ring is drained.
 * Returns 0 or -errno.
 */
int rsk_ring_put_last(struct rsk_ring_tx *tx, const struct rsk_key *key);

/*
 * Puts a command slot, for which there is reserved room. Returns 0, -ENOBUFS (a second command in
 * one promotion, which is a bug), or -errno.
 */
int rsk_ring_put_command(struct rsk_ring_tx *tx, const struct rsk_key *key,
			 const struct rsk_slot_command *cmd);

/*
 * Accepts the peer's credit if it is not beyond what was put. Returns 0 or -EPROTO. A slot that was
 * put twice may have been completed by either copy, so its cells become free only when this is
 * called and nothing is under way any more.
 */
int rsk_ring_tx_credit(struct rsk_ring_tx *tx, uint64_t credit);

/*
 * Puts everything from index @from (at least the credit) on again (a fabric that is not RELIABLE).
 * Returns 0 or -errno.
 */
int rsk_ring_tx_reput(struct rsk_ring_tx *tx, uint64_t from);

/*
 * Puts those slots of the index range [@from, @to) again that rail @lost of several had carried, by
 * other rails. @lost may be RSK_RAILS_NOBODY, or RSK_RAILS_ASKED: all slots of that range, which
 * have arrived. Not on a fabric on which rings restart. Returns 0 or -errno, as again() does;
 * -EPROTO: the window does not hold what was put.
 */
int rsk_ring_tx_retransmit(struct rsk_ring_tx *tx, uint64_t from, uint64_t to, uint32_t lost);

/* The index after the slot at @index, which is in the window; @index: what is there is none. */
uint64_t rsk_ring_tx_after(const struct rsk_ring_tx *tx, uint64_t index);

/*
 * rsk_ring_tx_read - reads the sender's own slot at *index back: its kind into *kind, the payload
 * into buf[RSK_SLOT_MAX_PAYLOAD]. Used to retransmit by TCP. *index advances. Returns the payload
 * length, or -EPROTO when the content is not what was put (a hostile peer in shared memory).
 */
ssize_t rsk_ring_tx_read(const struct rsk_ring_tx *tx, const struct rsk_key *key, uint64_t *index,
			 uint16_t *kind, uint8_t *buf);

/*
 * After the holder of the tx lock was killed: if the slot at @next had been put already, counts it.
 * Returns whether it had; *data_len: its payload bytes.
 */
bool rsk_ring_tx_recover(struct rsk_ring_tx *tx, const struct rsk_key *key, uint8_t *buf,
			 uint32_t *data_len);

/* The next index; may be called without the lock. */
static inline uint64_t rsk_ring_index(const struct rsk_ring_rx *rx)
{
	return __atomic_load_n(&rx->next, __ATOMIC_RELAXED);
}

/* Where the slot of that index begins; its first word is the index. */
static inline const uint64_t *rsk_ring_place(const struct rsk_ring_rx *rx, uint64_t index)
{
	return (const uint64_t *)(const void *)(rx->base +
						(uint64_t)rsk_ring_cell(rx->cells, index) *
							RSK_CELL_BYTES);
}

/*
 * The other index that the next slot may have: the first one of the next lap; or @index again if
 * the sender cannot have restarted.
 */
static inline uint64_t rsk_ring_other(const struct rsk_ring_rx *rx, uint64_t index)
{
	return rx->sync && rsk_ring_cell(rx->cells, index) >= RSK_RING_RESTART_CELLS ?
		       rsk_ring_next_lap(rx->cells, index) :
		       index;
}

/* Is there something at the next index that claims to be the next slot, within bounds? */
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
		/* The lap may have been filled to its end since the first check. */
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
 * Is the next index there, with a head that is no slot's? On a fabric where a put has landed when
 * its index has, nobody asks.
 */
static inline bool rsk_ring_misfits(const struct rsk_ring_rx *rx)
{
	const uint64_t *at = rsk_ring_place(rx, rx->next);
	struct rsk_slot_head head;

	if (__atomic_load_n(at, __ATOMIC_ACQUIRE) != rx->next)
		return false;
	memcpy(&head, at, sizeof(head));
	return !rsk_slot_fits(&head, rx->cells, rx->next);
}

/*
 * Laps back that the slot is looked for which an index at the next place may be left of. An older
 * one is not left there, unless almost nothing else was put since.
 */
#define RSK_RING_OLD_LAPS 32u

/* Is @index what an earlier lap has left at the place of @next? */
static inline bool rsk_ring_is_left(uint32_t cells, uint64_t next, uint64_t index)
{
	return index < next && rsk_ring_cell(cells, next - index) == 0 &&
	       next - index <= (uint64_t)RSK_RING_OLD_LAPS * cells;
}

/*
 * May the next slot be there, with a damaged index? It does not show then, and only its hash can
 * tell (rsk_ring_whole(), of the view, in which the index is right): what is at that place may be
 * anything that an earlier lap has left. This is cheap, and rarely true of such a rest.
 */
static inline bool rsk_ring_hides(const struct rsk_ring_rx *rx, struct rsk_slot_view *v)
{
	const uint64_t *at = rsk_ring_place(rx, rx->next);

	memcpy(&v->head, at, sizeof(v->head));
	if ((!rsk_slot_is_data(v->head.kind) && v->head.kind != RSK_SLOT_CONTROL) ||
	    (!v->head.len && !rsk_slot_is_empty(&v->head)) || v->head.index == rx->next ||
	    rsk_ring_is_left(rx->cells, rx->next, v->head.index))
		return false;
	v->head.index = rx->next;
	v->at = (const uint8_t *)at;
	return rsk_slot_fits(&v->head, rx->cells, rx->next);
}

/*
 * rsk_ring_copy - copies the payload of @v to dst[head.len] and checks the hash over that copy and
 * the head. True: @dst holds the whole payload; call rsk_ring_consume(). False: check again later.
 */
bool rsk_ring_copy(struct rsk_ring_rx *rx, const struct rsk_key *key, const struct rsk_slot_view *v,
		   uint8_t *dst);

/*
 * Is the slot whole? For callers that only want to know whether it could be read; the later copy
 * decides. Not counted as a check.
 */
bool rsk_ring_whole(const struct rsk_key *key, const struct rsk_slot_view *v);

/*
 * As rsk_ring_copy(), to two destinations: the first @split bytes to @first, the others to
 * rest[split..]; see rsk_hash_split().
 */
bool rsk_ring_copy_split(struct rsk_ring_rx *rx, const struct rsk_key *key,
			 const struct rsk_slot_view *v, uint8_t *first, uint32_t split,
			 uint8_t *rest);
/* rsk_ring_consume() of a slot of @cells that is not the last one of its lap. */
static inline void rsk_ring_step(struct rsk_ring_rx *rx, const struct rsk_slot_view *v,
				 uint32_t cells)
{
	__atomic_store_n(&rx->next, v->head.index + cells, __ATOMIC_RELAXED);
	rx->slots++;
}

static inline void rsk_ring_consume(struct rsk_ring_rx *rx, const struct rsk_slot_view *v)
{
	uint32_t cells = rsk_slot_cells(v->head.len);

	if (__builtin_expect(v->head.kind & RSK_SLOT_LAST, 0)) {
		rx->lap_cells = rsk_ring_cell(rx->cells, v->head.index) + cells;
		if (rx->lap_cells < RSK_RING_MIN_CELLS || rsk_slot_is_empty(&v->head))
			rx->lap_cells = RSK_RING_MIN_CELLS;
		cells = rsk_slot_extent(&v->head, rx->cells);
	}
	rsk_ring_step(rx, v, cells);
}

/*
 * The next index after @index at which a slot can begin, for a search at any place: cells that the
 * peer does not reach are left out, since looking at them gives them memory.
 */
static inline uint64_t rsk_ring_next_place(const struct rsk_ring_rx *rx, uint64_t index)
{
	if (rx->reach_log2 && rsk_ring_cell(rx->cells, index + 1) >> rx->reach_log2)
		return rsk_ring_next_lap(rx->cells, index);
	return index + 1;
}

/*
 * Cells that the sender uses of a lap, of which a part is worth a credit: never more than it does
 * use. @taken: all slots before that index were taken.
 */
static inline uint32_t rsk_ring_lap_cells(struct rsk_ring_rx *rx, uint64_t taken)
{
	uint32_t cell = rsk_ring_cell(rx->cells, taken);

	if (__builtin_expect(cell > rx->lap_cells, 0))
		rx->lap_cells = cell;
	return rx->lap_cells;
}

#endif
