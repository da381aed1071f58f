/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slot.h - what lies in peer memory: slots in a ring, and mails (control words) beside it.
 * Source: CN102165739 (message and hash contiguous, one transaction, receiver repeats until equal).
 *
 * A ring is an array of cells of 64 bytes. A slot takes 1..RSK_SLOT_MAX_CELLS cells in a row, never around
 * the end of the ring. Its index is the number of its first cell, counted from a lap that the stream's key says
 * and never wrapping (64 bits), so its place is index mod cells: slots may land in any order. When all slots were
 * taken the sender may leave the rest of a lap out: those indexes are no slot's.
 *
 *	| index 8 | len 4 | kind 2 | order 2 | hash 8 | payload len |	little-endian, host = wire
 *
 * A payload of more than RSK_SLOT_SHORT_BYTES begins at the second cell, so that vectors move whole cache lines; the
 * rest of the first cell is neither written nor read. A slot that ends within the first word of a cell has 0xff up to
 * that word's end, so that the rest of an older index cannot make one of it; without them it is not whole.
 *
 * hash = XXH3-64(index, len, kind, order, XXH3-64(payload; secret); secret), secret = 192 bytes derived from
 * the 64-bit key of this direction of this stream: an old lap, another stream's slot and a forged one fail.
 * Two levels, so that the payload can be hashed where the receiver copied it to, not where the peer can
 * still change it.
 */
#ifndef RSOCK_SLOT_H
#define RSOCK_SLOT_H

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

struct rsk_slot_head {
	uint64_t index;
	uint32_t len;
	uint16_t kind;
	uint16_t order; /* RSK_ORDER mark (stream/ring/order.h); 0: none */
};
_Static_assert(sizeof(struct rsk_slot_head) == RSK_SLOT_HEAD_BYTES, "slot head");

/* Where a payload of so many bytes begins in its slot; the slot's bytes from first to last, and its cells. */
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

/* The longest payload of a slot of so many (1 or more) cells. */
static inline uint32_t rsk_slot_payload_in(uint32_t cells)
{
	uint32_t whole = (cells - 1) * RSK_CELL_BYTES;

	if (cells > RSK_SLOT_MAX_CELLS)
		return RSK_SLOT_MAX_PAYLOAD;
	return whole > RSK_SLOT_SHORT_BYTES ? whole : cells * RSK_CELL_BYTES - RSK_SLOT_FRAME_BYTES;
}

/* Conditional commands: "when the stream has reached position pos, do what". */
enum rsk_command {
	RSK_COMMAND_FALLBACK_TX = 1, /* go on at the companion from pos on */
	RSK_COMMAND_FIN = 2,	     /* the stream ends at pos */
	RSK_COMMAND_RETRANSMIT =
		3, /* your BACK is applied: what you have not read, from pos on, comes by the companion */
};

struct rsk_slot_command {
	uint64_t pos;
	uint32_t what; /* enum rsk_command */
	uint32_t gen;  /* the promotion that this ends */
};
_Static_assert(sizeof(struct rsk_slot_command) == 16, "slot command");

/*
 * A mail: the newest word of one end of one direction, overwritten in place, believed only when its hash
 * is right. tx_word: from the sender to the receiver; rx_word: from the receiver to the sender.
 */
struct rsk_control_word {
	uint32_t what; /* enum rsk_tx_word / enum rsk_rx_word */
	uint32_t gen;  /* number of the promotion it is about, from 1 */
	/* tx_word RING: first position on the ring; rx_word LEAVE, BACK: consumed up to here, GO: 1: and SWITCHED */
	uint64_t pos;
	uint64_t cells; /* rx_word: cells free again (credit); tx_word RING: index of the first slot */
	uint32_t repair; /* rx_word: counts requests to put everything from `cells` on again */
	uint32_t zero;
	uint64_t hash;
};
_Static_assert(sizeof(struct rsk_control_word) == 40, "mail");

enum rsk_tx_word {
	RSK_TX_NONE = 0,
	RSK_TX_PROPOSE = 1, /* may I? */
	RSK_TX_RING = 2,    /* from pos on everything is in the ring */
	RSK_TX_RETRANSMIT =
		3, /* your LEAVE is applied: the companion goes on at pos, what it says there */
};

enum rsk_rx_word {
	RSK_RX_NONE = 0,
	RSK_RX_WATCHING = 1, /* gen: I look at the ring in every call */
	RSK_RX_FALLBACK_RX =
		2, /* go on by TCP from pos (RSK_POS_START: from where gen began); never again */
	RSK_RX_CLOSED = 3, /* nobody reads here any more */
	RSK_RX_SWITCHED =
		4, /* gen: I know where the ring begins (said on fabrics that are not SYNC) */
	RSK_RX_REQ_FALLBACK =
		5, /* move, and propose nothing as long as this is my word: I read the ring to its end */
	RSK_RX_QUIESCED =
		6, /* as GO, but I read nothing of the ring: repeat from pos, after AGAIN (fabrics that are not SYNC) */
	RSK_RX_PAUSE =
		7, /* as GO; and if I have ended gen first (rsk_promotion_end()), go on by TCP from pos */
};

#define RSK_POS_START UINT64_MAX

/*
 * Who ends a promotion: the sender, by a command that lies in the ring, or the receiver, by PAUSE. Both write what
 * they have to say first, then compare and swap this word, in the receiver's control block; seq_cst. Who comes second
 * sees what the first one has said, and does as it says. So neither waits for the other; but a receiver that leaves for
 * good, and writes in its sender's place before, ends the promotion first and says LEAVE then. Until it has, a sender
 * that comes second writes nothing by TCP.
 */
enum rsk_promotion_ender {
	RSK_ENDED_BY_TX = 1,
	RSK_ENDED_BY_RX = 2
};

#endif
