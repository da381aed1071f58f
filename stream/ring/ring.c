// SPDX-License-Identifier: BSD-2-Clause
/* ring.c - composes, puts, reads and repeats slots: see ring.h. */
#include "ring.h"

#include "txn_tags.h"
#include "put.h"
#include "rails.h"
#include "touch.h"

#include <errno.h>

void rsk_ring_tx_init(struct rsk_ring_tx *tx, struct rsk_rail *rail, uint64_t off, uint32_t cells,
		      uint64_t lap)
{
	*tx = (struct rsk_ring_tx){ .rail = rail,
				    .off = off,
				    .cells = cells,
				    .lap_cells = cells,
				    .next = lap * cells,
				    .credit = lap * cells,
				    .told = lap * cells,
				    .paced_to = UINT64_MAX,
				    .twice_from = UINT64_MAX,
				    .data_end = lap * cells,
				    .restart_step = RSK_RING_PAGE_CELLS };
}

void rsk_ring_rx_init(struct rsk_ring_rx *rx, const uint8_t *base, uint32_t cells, uint64_t lap,
		      bool sync)
{
	*rx = (struct rsk_ring_rx){
		.base = base,
		.cells = cells,
		.lap_cells = cells,
		.next = lap * cells,
		.sync = sync,
	};
}

static bool cells_ok(uint32_t cells)
{
	return cells >= RSK_RING_MIN_CELLS && cells <= RSK_RING_MAX_CELLS && !(cells & (cells - 1));
}

bool rsk_ring_tx_validate(const struct rsk_ring_tx *tx)
{
	return cells_ok(tx->cells) && cells_ok(tx->lap_cells) && tx->lap_cells <= tx->cells &&
	       tx->rail && tx->credit <= tx->told && tx->told <= tx->next &&
	       tx->credit <= tx->twice_from && tx->next - tx->credit <= tx->cells &&
	       tx->data_end <= tx->next &&
	       tx->off + (uint64_t)tx->cells * RSK_CELL_BYTES <= tx->rail->window_bytes;
}

bool rsk_ring_rx_validate(const struct rsk_ring_rx *rx)
{
	return cells_ok(rx->cells) && rx->lap_cells <= rx->cells && rx->base &&
	       rx->slots <= rx->next;
}

static uint8_t *tx_at(const struct rsk_ring_tx *tx, uint64_t index)
{
	return tx->rail->window + tx->off +
	       (uint64_t)rsk_ring_cell(tx->cells, index) * RSK_CELL_BYTES;
}

/*
 * If a slot ends at @end within the first word of a cell, the rest of that word would keep bytes of
 * an older slot's index, and together with the payload they could form the index of the next slot.
 * Fills the word with 0xff. Returns where it ends.
 */
static uint32_t end_word(uint8_t *at, uint32_t end)
{
	uint32_t in = end % RSK_CELL_BYTES, pad = (uint32_t)sizeof(uint64_t) - in;

	if (in - 1 >= sizeof(uint64_t) - 1)
		return end;
	memset(at + end, 0xff, pad);
	return end + pad;
}

/*
 * Writes the frame of a slot whose payload is already in place, with hash @payload, and puts the
 * slot.
 */
static int finish_slot(struct rsk_ring_tx *tx, const struct rsk_key *key, uint8_t *at,
		       const struct rsk_slot_head *head, uint64_t payload)
{
	uint64_t hash = rsk_hash_slot(key, head, payload);
	uint32_t end = end_word(at, rsk_slot_bytes(head->len));
	int rc;

	memcpy(at + RSK_SLOT_HEAD_BYTES, &hash, sizeof(hash));
	memcpy(at + 8, (const uint8_t *)head + 8, RSK_SLOT_HEAD_BYTES - 8);
	/*
	 * Store the index last: it is only a hint, without which the receiver would hash half a
	 * slot in vain. Release, so that in shared memory a receiver that sees it usually finds the
	 * rest; the hash decides in any case.
	 */
	__atomic_store_n((uint64_t *)(void *)at, head->index, __ATOMIC_RELEASE);
	rc = rsk_put(tx->rail, (uint64_t)(at - tx->rail->window), end);
	if (rc < 0)
		return rc;
	if (__builtin_expect(tx->order != NULL, 0) && !rsk_txn_tags_put(tx->order, head))
		tx->order = NULL;
	tx->slots++;
	tx->next += rsk_slot_cells(head->len);
	if (__builtin_expect(head->kind & RSK_SLOT_LAST, 0)) {
		uint64_t next = head->index + rsk_slot_extent(head, tx->cells);

		rsk_ring_tx_skip(tx, next - tx->next);
		tx->next = next;
	}
	return 0;
}

/*
 * Reads up to @len bytes into the payload of the slot at @at. The slot was laid out for @len; a
 * shorter payload may belong at another offset, and is moved there. Returns the bytes read; 0:
 * there are no more, and @src has none left.
 */
static uint32_t fill_slot(struct rsk_iovcur *src, uint8_t *at, uint32_t len)
{
	uint8_t *to = at + rsk_slot_payload_off(len), *place;
	ssize_t n = src->fill->read(src->fill, to, len, src->left);

	if (n <= 0) {
		src->fill->rc = (int)n;
		src->left = 0;
		return 0;
	}
	place = at + rsk_slot_payload_off((uint32_t)n);
	if (place != to) {
		memmove(place, to, (size_t)n);
		end_word(at, (uint32_t)(to - at) + (uint32_t)n);
	}
	src->left -= (size_t)n;
	return (uint32_t)n;
}

/* @kind: constant, so that it costs the usual one nothing. */
static inline __attribute__((always_inline)) ssize_t put_len(struct rsk_ring_tx *tx,
							     const struct rsk_key *key,
							     struct rsk_iovcur *src, uint32_t len,
							     uint16_t kind)
{
	struct rsk_slot_head head = { .index = tx->next, .len = len, .kind = kind };
	uint8_t *at = tx_at(tx, tx->next), *to = at + rsk_slot_payload_off(len), *from = NULL;
	struct rsk_iovcur before = *src;
	size_t run = rsk_iovcur_run(src, &from);
	uint64_t payload;
	int rc = 0;

	if (__builtin_expect(run >= len, 1) ?
		    !rsk_touch_reads(from, len) :
		    !rsk_iovcur_fills(src) && !rsk_touch_gathers(src, len))
		return RSK_RING_FAULT;
	if (__builtin_expect(tx->order != NULL, 0)) {
		rc = rsk_txn_tags_next(tx->order, tx->rail);
		if (rc < 0)
			return 0;
	}
	if (run >= len) {
		payload = rsk_hash_copy(key, to, from, len);
		rsk_iovcur_advance(src, len);
	} else if (rsk_iovcur_fills(src)) {
		head.len = fill_slot(src, at, len);
		if (!head.len)
			return 0;
		payload = rsk_hash_payload(key, at + rsk_slot_payload_off(head.len), head.len);
	} else {
		rsk_iovcur_gather(src, to, len);
		payload = rsk_hash_payload(key, to, len);
	}
	if (rc)
		head.order = rsk_order_tx_tag(tx->order, !src->left);
	if (rsk_ring_tx_is_lapped(tx))
		rsk_ring_tx_mark_last(tx, &head);
	if (kind & RSK_SLOT_STAMPED)
		memcpy(at + rsk_slot_stamp_off(len), &tx->stamp_ns, sizeof(tx->stamp_ns));
	rc = finish_slot(tx, key, at, &head, payload);
	if (rc < 0) {
		*src = before;
		return rc;
	}
	tx->data_end = tx->next;
	return head.len;
}

/* Where the stamp has no room behind them, some of the bytes are left to the next slot. */
static ssize_t put_stamped(struct rsk_ring_tx *tx, const struct rsk_key *key,
			   struct rsk_iovcur *src, uint32_t len)
{
	if (!rsk_slot_stamp_off(len))
		len -= RSK_SLOT_STAMP_BYTES;
	return put_len(tx, key, src, len, RSK_SLOT_DATA | RSK_SLOT_STAMPED);
}

ssize_t rsk_ring_put_data(struct rsk_ring_tx *tx, const struct rsk_key *key, struct rsk_iovcur *src,
			  size_t max)
{
	uint32_t room = rsk_ring_tx_room(tx);

	if (max > src->left)
		max = src->left;
	if (!room)
		return 0;
	room = max < room ? (uint32_t)max : room;
	if (__builtin_expect(tx->stamped, 0))
		return put_stamped(tx, key, src, room);
	return rsk_ring_put_len(tx, key, src, room);
}

ssize_t rsk_ring_put_len(struct rsk_ring_tx *tx, const struct rsk_key *key, struct rsk_iovcur *src,
			 uint32_t len)
{
	return put_len(tx, key, src, len, RSK_SLOT_DATA);
}

int rsk_ring_put_command(struct rsk_ring_tx *tx, const struct rsk_key *key,
			 const struct rsk_slot_command *cmd)
{
	struct rsk_slot_head head = { .index = tx->next,
				      .len = sizeof(*cmd),
				      .kind = RSK_SLOT_CONTROL };
	uint8_t *at = tx_at(tx, tx->next);

	_Static_assert(sizeof(*cmd) + RSK_SLOT_FRAME_BYTES <= RSK_CELL_BYTES,
		       "a command is one cell");
	if (tx->next - tx->credit >= tx->cells)
		return -ENOBUFS;
	if (tx->order)
		head.order = rsk_txn_tags_end(tx->order);
	return finish_slot(tx, key, at, &head,
			   rsk_hash_copy(key, at + rsk_slot_payload_off(head.len), cmd, head.len));
}

int rsk_ring_put_last(struct rsk_ring_tx *tx, const struct rsk_key *key)
{
	struct rsk_slot_head head = { .index = tx->next, .kind = RSK_SLOT_DATA | RSK_SLOT_LAST };
	uint8_t *at = tx_at(tx, tx->next);

	if (tx->order)
		head.order = rsk_txn_tags_end(tx->order);
	return finish_slot(tx, key, at, &head,
			   rsk_hash_payload(key, at + rsk_slot_payload_off(0), 0));
}

int rsk_ring_tx_credit(struct rsk_ring_tx *tx, uint64_t credit)
{
	if (credit > tx->next)
		return -EPROTO;
	if (credit > tx->told)
		tx->told = credit;
	if (__builtin_expect(credit > tx->twice_from, 0)) {
		if (tx->rail->ops->arrived(tx->rail, tx->off))
			tx->twice_from = UINT64_MAX;
		else
			credit = tx->twice_from;
	}
	if (credit > tx->credit)
		tx->credit = credit;
	return 0;
}

int rsk_ring_tx_reput(struct rsk_ring_tx *tx, uint64_t from)
{
	if (from < tx->credit)
		from = tx->credit;
	while (from < tx->next) {
		uint32_t cell = rsk_ring_cell(tx->cells, from);
		uint64_t run = tx->cells - cell;
		int rc;

		if (run > tx->next - from)
			run = tx->next - from;
		rc = rsk_put(tx->rail, tx->off + (uint64_t)cell * RSK_CELL_BYTES,
			     run * RSK_CELL_BYTES);
		if (rc < 0)
			return rc;
		from += run;
	}
	return 0;
}

static int put_again(struct rsk_ring_tx *tx, uint64_t off, size_t len, uint32_t lost)
{
	const struct rsk_fabric_ops *ops = tx->rail->ops;

	return ops->again ? ops->again(tx->rail, off, len, lost) : rsk_rail_put(tx->rail, off, len);
}

int rsk_ring_tx_retransmit(struct rsk_ring_tx *tx, uint64_t from, uint64_t to, uint32_t lost)
{
	uint64_t index = tx->credit;

	while (index < tx->next && index < to) {
		uint8_t *at = tx_at(tx, index);
		struct rsk_slot_head head;
		int rc = 0;

		memcpy(&head, at, sizeof(head));
		if (!rsk_slot_fits(&head, tx->cells, index))
			return -EPROTO;
		if (index >= from)
			rc = put_again(tx, (uint64_t)(at - tx->rail->window),
				       end_word(at, rsk_slot_bytes(head.len)), lost);
		if (rc < 0)
			return rc;
		if (rc > 0)
			rsk_defer_post(tx->rail);
		if (lost != RSK_RAILS_NOBODY && index >= from && index < tx->twice_from)
			tx->twice_from = index;
		index += rsk_slot_extent(&head, tx->cells);
	}
	return 0;
}

uint64_t rsk_ring_tx_after(const struct rsk_ring_tx *tx, uint64_t index)
{
	struct rsk_slot_head head;

	memcpy(&head, tx_at(tx, index), sizeof(head));
	return rsk_slot_fits(&head, tx->cells, index) ? index + rsk_slot_extent(&head, tx->cells) :
							index;
}

/* Checks the hash of a slot whose payload was copied, with hash @payload. */
static bool hash_right(const struct rsk_key *key, const struct rsk_slot_head *head,
		       const uint8_t *at, uint64_t payload)
{
	uint64_t hash;

	memcpy(&hash, at + RSK_SLOT_HEAD_BYTES, sizeof(hash));
	return hash == rsk_hash_slot(key, head, payload);
}

/*
 * Has the padding of end_word() arrived too? The hash does not cover it. Where several rails carry
 * adjacent ranges, a late one would overwrite the slot that is put there next.
 */
static bool end_right(const struct rsk_slot_view *v)
{
	uint32_t end = rsk_slot_bytes(v->head.len), in = end % RSK_CELL_BYTES;
	uint64_t word;

	if (in - 1 >= sizeof(word) - 1)
		return true;
	memcpy(&word, v->at + end - in, sizeof(word));
	return word >> 8 * in == UINT64_MAX >> 8 * in;
}

/* Copies the payload of the slot at @at to @dst. Returns whether the copy's hash is right. */
static bool copy_checked(const struct rsk_key *key, const struct rsk_slot_head *head,
			 const uint8_t *at, uint8_t *dst)
{
	return hash_right(key, head, at,
			  rsk_hash_copy(key, dst, at + rsk_slot_payload_off(head->len), head->len));
}

ssize_t rsk_ring_tx_read(const struct rsk_ring_tx *tx, const struct rsk_key *key, uint64_t *index,
			 uint16_t *kind, uint8_t *buf)
{
	const uint8_t *at = tx_at(tx, *index);
	struct rsk_slot_head head;

	memcpy(&head, at, sizeof(head));
	if (!rsk_slot_fits(&head, tx->cells, *index))
		return -EPROTO;
	if (!copy_checked(key, &head, at, buf))
		return -EPROTO;
	*index += rsk_slot_extent(&head, tx->cells);
	*kind = head.kind & (uint16_t) ~(RSK_SLOT_LAST | RSK_SLOT_STAMPED);
	return head.len;
}

bool rsk_ring_tx_recover(struct rsk_ring_tx *tx, const struct rsk_key *key, uint8_t *buf,
			 uint32_t *data_len)
{
	uint64_t index = tx->next;
	uint16_t kind;
	ssize_t n = rsk_ring_tx_read(tx, key, &index, &kind, buf);

	if (n < 0)
		return false;
	tx->next = index;
	tx->slots++;
	*data_len = 0;
	if (kind == RSK_SLOT_DATA) {
		tx->data_end = index;
		*data_len = (uint32_t)n;
	}
	return true;
}

static bool note_look(struct rsk_ring_rx *rx, bool right)
{
	rx->retries += !right;
	rx->bad_looks = right ? 0 : rx->bad_looks + 1;
	return right;
}

bool rsk_ring_copy(struct rsk_ring_rx *rx, const struct rsk_key *key, const struct rsk_slot_view *v,
		   uint8_t *dst)
{
	return note_look(rx, copy_checked(key, &v->head, v->at, dst) && (rx->sync || end_right(v)));
}

bool rsk_ring_whole(const struct rsk_key *key, const struct rsk_slot_view *v)
{
	const uint8_t *payload = v->at + rsk_slot_payload_off(v->head.len);

	return hash_right(key, &v->head, v->at, rsk_hash_payload(key, payload, v->head.len)) &&
	       end_right(v);
}

bool rsk_ring_copy_split(struct rsk_ring_rx *rx, const struct rsk_key *key,
			 const struct rsk_slot_view *v, uint8_t *first, uint32_t split,
			 uint8_t *rest)
{
	uint32_t len = v->head.len;
	uint64_t payload =
		rsk_hash_split(key, first, split, rest, v->at + rsk_slot_payload_off(len), len);

	return note_look(rx,
			 hash_right(key, &v->head, v->at, payload) && (rx->sync || end_right(v)));
}
