/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slot.h - the format of peer memory: slots in a ring, and control words beside it. The sending and
 * receiving halves of a direction (stream/ring) use it. Source: CN102165739 (message and hash
 * contiguous, one transaction, receiver repeats until equal).
 *
 * A ring is an array of cells of 64 bytes. A slot takes 1 to RSK_SLOT_MAX_CELLS contiguous cells
 * and never wraps around the end of the ring. Its index is the number of its first cell, counted
 * from a lap that the stream's key determines, and never wraps (64 bits). Its place is index mod
 * cells, so slots may land in any order. When all slots were taken the sender may skip the rest of
 * a lap; no slot has those indexes. A slot whose kind has RSK_SLOT_LAST takes all cells up to the
 * end of its lap, whatever its payload, so a sender needs memory for the beginning of the ring
 * only.
 *
 *	| index 8 | len 4 | kind 2 | order 2 | hash 8 | payload len |	little-endian, host = wire
 *
 * A payload of more than RSK_SLOT_SHORT_BYTES begins at the second cell, so that vector
 * instructions move whole cache lines; the rest of the first cell is neither written nor read. If a
 * slot ends within the first word of a cell, the rest of that word is filled with 0xff, so that
 * bytes of an older index there cannot complete a new one; without them the slot is not whole.
 *
 * hash = XXH3-64(index, len, kind, order, XXH3-64(payload; secret); secret), where secret is 192
 * bytes derived from the 64-bit key of this direction of this stream. A slot of an old lap, one of
 * another stream and a forged one all fail. There are two levels, so that the payload can be hashed
 * where the receiver copied it to, and not where the peer can still change it.
 */
#ifndef RSOCK_SLOT_H
#define RSOCK_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_CELL_BYTES 64u
#define RSK_SLOT_HEAD_BYTES 16u
#define RSK_SLOT_HASH_BYTES 8u
#define RSK_SLOT_FRAME_BYTES (RSK_SLOT_HEAD_BYTES + RSK_SLOT_HASH_BYTES)
#define RSK_SLOT_SHORT_BYTES 240u
#define RSK_SLOT_MAX_PAYLOAD 16384u
#define RSK_SLOT_MAX_CELLS (1 + RSK_SLOT_MAX_PAYLOAD / RSK_CELL_BYTES)

enum rsk_slot_kind {
	RSK_SLOT_DATA = 1,
	RSK_SLOT_CONTROL = 2, /* payload: struct rsk_slot_command */
};
/* With DATA: the last slot of its lap. Without payload: and the next laps are narrower. */
#define RSK_SLOT_LAST 0x8000u
/* With DATA, where a put has landed when it returns: has the time of its put (rsk_slot_stamp()). */
#define RSK_SLOT_STAMPED 0x4000u

struct rsk_slot_head {
	uint64_t index;
	uint32_t len;
	uint16_t kind;
	uint16_t order; /* transaction tag (stream/ring/order.h); 0: none */
};
_Static_assert(sizeof(struct rsk_slot_head) == RSK_SLOT_HEAD_BYTES, "slot head");

/* The offset of a payload of @len bytes in its slot; the slot's bytes; the slot's cells. */
static inline uint32_t rsk_slot_payload_off(uint32_t len)
{
	return len > RSK_SLOT_SHORT_BYTES ? RSK_CELL_BYTES : RSK_SLOT_FRAME_BYTES;
}

static inline uint32_t rsk_slot_bytes(uint32_t len)
{
	return rsk_slot_payload_off(len) + len;
}

static inline uint32_t rsk_slot_cells(uint32_t len)
{
	return (rsk_slot_bytes(len) + RSK_CELL_BYTES - 1) / RSK_CELL_BYTES;
}

/* @kind: of a slot's head. */
static inline bool rsk_slot_is_data(uint16_t kind)
{
	return (kind & ~(RSK_SLOT_LAST | RSK_SLOT_STAMPED)) == RSK_SLOT_DATA;
}

/*
 * The offset of the time of its put, 8 bytes in nanoseconds of CLOCK_REALTIME, in a slot of @len
 * bytes: behind the frame where the payload begins at the second cell, else at the end of the last
 * cell. 0: there is no room. The hash does not cover it: a peer may as well claim any time.
 */
#define RSK_SLOT_STAMP_BYTES 8u
static inline uint32_t rsk_slot_stamp_off(uint32_t len)
{
	uint32_t end = rsk_slot_cells(len) * RSK_CELL_BYTES - RSK_SLOT_STAMP_BYTES;

	if (len > RSK_SLOT_SHORT_BYTES)
		return RSK_SLOT_FRAME_BYTES;
	return rsk_slot_bytes(len) <= end ? end : 0;
}

/* Is it a slot of no bytes, which only ends its lap? */
static inline bool rsk_slot_is_empty(const struct rsk_slot_head *head)
{
	return head->kind == (RSK_SLOT_DATA | RSK_SLOT_LAST) && !head->len;
}

/*
 * The cells that the slot takes in a ring of @cells: those of its payload, or the rest of the lap.
 * A slot of no bytes in the first RSK_SLOT_LAP_HEAD cells of a lap does not end it: a command has
 * to find room behind it before the receiver has taken anything of the lap.
 */
#define RSK_SLOT_LAP_HEAD 2u
static inline uint32_t rsk_slot_extent(const struct rsk_slot_head *head, uint32_t cells)
{
	uint32_t cell = (uint32_t)(head->index & (cells - 1));

	if (!(head->kind & RSK_SLOT_LAST) || (!head->len && cell < RSK_SLOT_LAP_HEAD))
		return rsk_slot_cells(head->len);
	return cells - cell;
}

/* The longest payload of a slot of @cells (at least 1) cells. */
static inline uint32_t rsk_slot_payload_in(uint32_t cells)
{
	uint32_t whole = (cells - 1) * RSK_CELL_BYTES;

	if (cells > RSK_SLOT_MAX_CELLS)
		return RSK_SLOT_MAX_PAYLOAD;
	return whole > RSK_SLOT_SHORT_BYTES ? whole : cells * RSK_CELL_BYTES - RSK_SLOT_FRAME_BYTES;
}

/*
 * Conditional commands: "when the stream has reached position pos, do what". A command is in the
 * slot behind the last byte before @pos, so it waits there, however early it has landed.
 */
enum rsk_command {
	/* FALLBACK_TX: the stream continues on the TCP socket from pos on. */
	RSK_COMMAND_FALLBACK_TX = 1,
	/* The stream ends at pos. */
	RSK_COMMAND_FIN = 2,
	/*
	 * RETRANSMIT, the answer to QUIESCED: what the receiver has not read comes by TCP, up to
	 * pos.
	 */
	RSK_COMMAND_RETRANSMIT = 3,
};

struct rsk_slot_command {
	uint64_t pos;
	uint32_t what; /* enum rsk_command */
	uint32_t gen;  /* the promotion that the command ends */
};
_Static_assert(sizeof(struct rsk_slot_command) == 16, "slot command");

/*
 * A control word: the current state of one end of one direction, overwritten in place, accepted
 * only if its hash is right. The TX control word goes from the sender to the receiver, the RX
 * control word from the receiver to the sender.
 */
struct rsk_control_word {
	uint32_t what; /* enum rsk_tx_word / enum rsk_rx_word */
	uint32_t gen;  /* number of the promotion that it refers to, from 1 */
	/*
	 * TX RING: first position on the ring; TX RETRANSMIT: the first position that is
	 * retransmitted, or, as the answer to QUIESCED, the one after the last. RX FALLBACK_RX,
	 * QUIESCED, PAUSE: consumed up to here; RX REQ_FALLBACK: 1 if it also means SWITCHED.
	 */
	uint64_t pos;
	/*
	 * RX: cells below this index are free again (credit). TX RING: index of the first slot; TX
	 * RETRANSMIT: 0, or, as the answer to QUIESCED, the index after the command RETRANSMIT.
	 */
	uint64_t cells;
	/*
	 * RX: number of requests to put the slot at @cells again, or what is behind it. TX: number
	 * of the newest request that was answered: the slot is put again, or cannot be.
	 */
	uint32_t repair;
	uint32_t flags; /* RX: RSK_RX_WORD_*; TX: 0 */
	uint64_t hash;
};
/* In each word from here on: the receiver wants the time of each put (RSK_SLOT_STAMPED). */
#define RSK_RX_WORD_STAMPS 1u
_Static_assert(sizeof(struct rsk_control_word) == 40, "control word");

enum rsk_tx_word {
	RSK_TX_NONE = 0,
	RSK_TX_PROPOSE = 1, /* may this direction use the ring? */
	RSK_TX_RING = 2,    /* from pos on everything is in the ring */
	/*
	 * RETRANSMIT: FALLBACK_RX is applied, and the stream continues by TCP at pos. Or, with
	 * @cells, QUIESCED is: the command of that name, which may be damaged in the ring, says the
	 * same.
	 */
	RSK_TX_RETRANSMIT = 3,
};

enum rsk_rx_word {
	RSK_RX_NONE = 0,
	/* @gen: this end checks the ring in every call. */
	RSK_RX_WATCHING = 1,
	/* FALLBACK_RX: continue by TCP from pos (RSK_POS_START: from where gen began), for good. */
	RSK_RX_FALLBACK_RX = 2,
	RSK_RX_CLOSED = 3, /* this end does not read any more */
	/* @gen: this end knows where the ring begins (sent on fabrics that are not SYNC). */
	RSK_RX_SWITCHED = 4,
	/*
	 * REQ_FALLBACK: fall back, and do not propose while this is the word; this end reads the
	 * ring to its end.
	 */
	RSK_RX_REQ_FALLBACK = 5,
	/*
	 * QUIESCED: as REQ_FALLBACK, but this end does not read the ring: retransmit from pos,
	 * after RETRANSMIT (fabrics that are not SYNC).
	 */
	RSK_RX_QUIESCED = 6,
	/*
	 * As REQ_FALLBACK; and if this end has ended gen first (rsk_promotion_end()), continue by
	 * TCP from pos.
	 */
	RSK_RX_PAUSE = 7,
};

#define RSK_POS_START UINT64_MAX

/*
 * Which end ends a promotion: the sender, by a command in the ring, or the receiver, by PAUSE. Each
 * end writes its command or control word first, then compares and swaps the word that holds this
 * value, in the receiver's control block (seq_cst). The end that comes second sees what the first
 * one wrote, and follows it, so neither waits for the other. Exception: a receiver that falls back
 * for good, and then writes in place of its sender, ends the promotion first and writes FALLBACK_RX
 * afterwards; until it has, a sender that comes second writes nothing by TCP.
 */
enum rsk_promotion_ender {
	RSK_ENDED_BY_TX = 1,
	RSK_ENDED_BY_RX = 2
};

#endif
