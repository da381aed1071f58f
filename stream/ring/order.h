/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order.h - transactions that arrive out of order: indications in the slots' marks, and the special receive queue.
 * Source: Huawei, "System and method for handling out-of-order delivery transactions"; decisions: docs/adr/ordered-
 * delivery.md.
 *
 * A send() is a transaction, its slots are the packets. Every packet carries a mark of 16 bits (struct
 * rsk_slot_head):
 *
 *	15 first | 14 last | 13 indexed | 12..0 index		0: this slot is no packet of a transaction
 *
 * first, last: of the transaction's packets, so that a receiver can tell when it has them all: between them there
 * is no cell of the ring that is not the transaction's. indexed: the transaction's index is in the low bits, in the
 * form that both ends have agreed on; without, they hold 1 (RSK_ORDER_BARE), so that no mark is 0. A first packet
 * is always indexed. In the relative form the bit above the index is the epoch: it changes at each restart of the
 * counting.
 *
 * Two pure machines: no system call, no clock, no lock (the stream's tx and rx locks guard them), no memory but
 * what they are given at init. Nothing blocks; everything may be called where signals are deferred. Places are cell
 * indexes of the ring (64 bits, never wrapping); numbers of transactions are 64 bits too: the total, which is not
 * in the mark.
 */
#ifndef RSK_ORDER_H
#define RSK_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_ORDER_FIRST 0x8000u
#define RSK_ORDER_LAST 0x4000u
#define RSK_ORDER_INDEXED 0x2000u
#define RSK_ORDER_INDEX 0x1fffu
#define RSK_ORDER_BARE 1u

#define RSK_ORDER_BITS_MAX 13u
#define RSK_ORDER_EVERY_MAX 65535u
/* Transactions open at once, at most; a window is a power of two. */
#define RSK_ORDER_WINDOW_MAX 512u
#define RSK_ORDER_DEFAULT "wrapping:13+keep"

enum rsk_order_kind {
	RSK_ORDER_ABSOLUTE, /* the number itself: no more than 2^bits transactions */
	RSK_ORDER_RELATIVE, /* counted from 0 again whenever everything is acknowledged, or every so many times */
	RSK_ORDER_WRAPPING, /* the number's low bits */
};

/* How both ends of a direction write and read an index. A value; no pointers. */
struct rsk_order_form {
	uint8_t kind; /* enum rsk_order_kind */
	uint8_t bits; /* width of the index: 1 to 13, relative: to 12 */
	bool stop; /* once the first packet is acknowledged, the transaction's other packets carry no index */
	uint32_t every; /* relative: counting restarts at every so-many-th time that all is acknowledged; else 1 */
};

/*
 * rsk_order_parse - FORM[:BITS][/EVERY][+stop|+keep], FORM being absolute, relative or wrapping; without BITS the
 * widest, without EVERY 1, which only the relative form may have, without either of the last two keep. Returns 0;
 * -EINVAL: *error says why (a literal, never NULL), *form is as it was.
 */
int rsk_order_parse(struct rsk_order_form *form, const char *text, const char **error);
bool rsk_order_form_validate(const struct rsk_order_form *form);

/* Indexes that the form can tell apart. */
static inline uint32_t rsk_order_span(const struct rsk_order_form *form)
{
	return 1u << form->bits;
}

/* Words of a bitmap with a bit for each cell of a ring of @cells (a power of two, 64 or more). */
#define RSK_ORDER_WORDS(cells) ((cells) / 64)

/* What both machines are made with; the memory is borrowed for as long as the machine is used. */
struct rsk_order_setup {
	struct rsk_order_form form;
	uint32_t window; /* transactions: a power of two, to RSK_ORDER_WINDOW_MAX and 2^bits */
	uint32_t cells;	 /* of the ring: a power of two, 64 or more */
	uint64_t number; /* of the first transaction */
	uint64_t place;	 /* of the first slot */
};

/* A transaction that was begun and is not yet acknowledged with all before it. */
struct rsk_order_sent {
	uint64_t begin, end; /* places put so far */
	uint32_t acked;	     /* cells */
	uint32_t first;	     /* cells of the first packet; 0: not put */
	bool first_acked;
	bool whole; /* the last packet was put */
};

/* Owner: the stream's sending side, under its tx lock. Family memory. */
struct rsk_order_tx {
	struct rsk_order_form form;
	uint32_t window, cells;
	struct rsk_order_sent *sent; /* borrowed: window of them, by number */
	uint64_t *acks;	  /* borrowed: RSK_ORDER_WORDS(cells); acknowledged cells from floor on */
	uint64_t una;	  /* the lowest number that is not acknowledged to its last packet */
	uint64_t next;	  /* number of the next transaction to begin */
	uint64_t floor;	  /* every place below is acknowledged */
	uint64_t top;	  /* place after the newest packet */
	uint64_t origin;  /* relative: number with index 0 */
	uint32_t drained; /* relative: so many times was everything acknowledged since the restart */
	bool epoch;
	bool open; /* next - 1 is being put */
	uint64_t restarts;
};

/*
 * rsk_order_tx_init - @sent: setup.window of them, @acks: RSK_ORDER_WORDS(setup.cells), of any content.
 * 0; -EINVAL: no such form, window or ring; -ERANGE: the index is too narrow for the window, or, absolute, for the
 * number.
 */
int rsk_order_tx_init(struct rsk_order_tx *tx, const struct rsk_order_setup *setup,
		      struct rsk_order_sent *sent, uint64_t *acks);
bool rsk_order_tx_validate(const struct rsk_order_tx *tx);

/*
 * rsk_order_tx_begin - a transaction. 0; -EAGAIN: the window is full, or, relative, all indexes are used until
 * everything is acknowledged; -EOVERFLOW: absolute, and all indexes are used for good; -EBUSY: the one before has
 * no last packet yet.
 */
int rsk_order_tx_begin(struct rsk_order_tx *tx);

/* The mark of the next packet of the transaction that was begun; 0: none was. Changes nothing. */
uint16_t rsk_order_tx_tag(const struct rsk_order_tx *tx, bool last);

/*
 * rsk_order_tx_put - the next packet was put, of so many cells, with the mark of the same @last. 0; -EINVAL: no
 * transaction, or not the place after the last packet (of a first packet: a place before it); -ENOBUFS: on cells
 * not acknowledged.
 */
int rsk_order_tx_put(struct rsk_order_tx *tx, uint64_t place, uint32_t cells, bool last);

/*
 * rsk_order_tx_put_other - a slot that is no packet (mark 0: a command), after all that was put. It is acknowledged
 * only by rsk_order_tx_ack_below(). 0; -EINVAL, -ENOBUFS as above; -EBUSY: a transaction is half put.
 */
int rsk_order_tx_put_other(struct rsk_order_tx *tx, uint64_t place, uint32_t cells);

/* A transaction is half put: the next packet is its. */
static inline bool rsk_order_tx_within(const struct rsk_order_tx *tx)
{
	return tx->open && tx->sent[(tx->next - 1) & (tx->window - 1)].first;
}

/* One is begun, or could be, but for the end of absolute counting; false: acknowledgements come first. */
static inline bool rsk_order_tx_ready(const struct rsk_order_tx *tx)
{
	if (tx->open)
		return true;
	if (tx->form.kind == RSK_ORDER_RELATIVE &&
	    tx->next - tx->origin >= rsk_order_span(&tx->form))
		return false;
	return tx->next - tx->una < tx->window;
}

/*
 * rsk_order_tx_ack - one packet is acknowledged: the receiver's machine has seen it (that it lies in the receiver's
 * memory is enough only for forms that keep the index). Once more is no error. 0; -EPROTO: no packet that was put;
 * nothing changed.
 */
int rsk_order_tx_ack(struct rsk_order_tx *tx, uint64_t place, uint32_t cells);

/* The same of everything below @place, as credit says it. An older place is no error. 0 or -EPROTO. */
int rsk_order_tx_ack_below(struct rsk_order_tx *tx, uint64_t place);

/*
 * rsk_order_tx_where - the places of a transaction that the receiver asks for by name, to be put again: *begin to
 * *end, without what rsk_order_tx_ack_below() has given free. 0; -ENOENT: acknowledged, with all before it, or not
 * begun, or of all that was put nothing is left to put again.
 */
int rsk_order_tx_where(const struct rsk_order_tx *tx, uint64_t number, uint64_t *begin,
		       uint64_t *end);

/* The record of one transaction; kept after its element has left the queue, until all lower ones have. */
struct rsk_order_element {
	uint64_t lo, hi;  /* from the lowest place seen to after the highest */
	uint32_t had;	  /* cells seen */
	bool first, last; /* seen: then lo, or hi, is the transaction's own */
};

/* Owner: the stream's receiving side, under its rx lock. Family memory. */
struct rsk_order_rx {
	struct rsk_order_form form;
	uint32_t window, cells;
	struct rsk_order_element *elements; /* borrowed: window of them, by number */
	uint64_t *places; /* borrowed: RSK_ORDER_WORDS(cells); cells seen from base on */
	uint64_t low;	  /* the lowest number that is not complete */
	uint64_t next; /* the consumer pointer: the next transaction expected, the highest seen + 1 */
	uint64_t base;	 /* the next place to take */
	uint64_t floor;	 /* where the last transaction below low ended */
	uint64_t top;	 /* after the highest place seen */
	uint64_t origin; /* relative: number with index 0 */
	bool epoch;
	/*
	 * By number mod RSK_ORDER_WINDOW_MAX, low to next: an element in the queue; complete, its element removed.
	 */
	uint64_t open[RSK_ORDER_WINDOW_MAX / 64];
	uint64_t done[RSK_ORDER_WINDOW_MAX / 64];
	uint32_t opened;    /* elements in the queue */
	uint64_t completed; /* transactions, all in all */
	uint64_t overtook;  /* of these, completed before a lower one */
};

/* As rsk_order_tx_init(). */
int rsk_order_rx_init(struct rsk_order_rx *rx, const struct rsk_order_setup *setup,
		      struct rsk_order_element *elements, uint64_t *places);
/* O(window + cells / 64). */
bool rsk_order_rx_validate(const struct rsk_order_rx *rx);

/* What a packet did. */
struct rsk_order_seen {
	uint64_t number; /* of its transaction */
	bool created;	 /* it was the first one seen: there is an element now */
	bool complete;	 /* it was the last one missing: the element is removed */
};

/*
 * rsk_order_rx_see - a packet lies at @place, over @cells; its slot's hash was right, nothing else is believed.
 * Returns 0 and *seen. Else nothing has changed: -EALREADY: seen before (put again after a rail's death); -ERANGE:
 * beyond the window of transactions or the ring; -EPROTO: no honest sender writes that: a mark not of the form, a
 * second first or last packet, one before the first, after the last, of a complete transaction, among another
 * one's, around the ring's end.
 */
int rsk_order_rx_see(struct rsk_order_rx *rx, uint16_t tag, uint64_t place, uint32_t cells,
		     struct rsk_order_seen *seen);

/* A slot that is no packet of a transaction (mark 0: a command). As rsk_order_rx_see(). */
int rsk_order_rx_see_other(struct rsk_order_rx *rx, uint64_t place, uint32_t cells);

/*
 * rsk_order_rx_pass - the same, and taken, where it is the next place, all transactions are complete, and nothing was
 * seen ahead. False: it is not so; nothing changed.
 */
static inline bool rsk_order_rx_pass(struct rsk_order_rx *rx, uint64_t place, uint32_t cells)
{
	if (place != rx->base || rx->top != rx->base || rx->low != rx->next ||
	    cells > rx->cells - (place & (rx->cells - 1)))
		return false;
	rx->base = rx->top = place + cells;
	return true;
}

/*
 * rsk_order_rx_next - rsk_order_rx_see() and rsk_order_rx_take() of a packet that is the next place, where nothing was
 * seen ahead, and at most its own transaction is open. False: it is not so, or the mark is no honest sender's; nothing
 * changed.
 */
bool rsk_order_rx_next(struct rsk_order_rx *rx, uint16_t tag, uint64_t place, uint32_t cells);

/* So many places in a row can be taken, from base on. */
uint64_t rsk_order_rx_takable(const struct rsk_order_rx *rx);

/*
 * rsk_order_rx_take - everything below @place was delivered; its cells may be written again. 0; -EINVAL: some of it
 * has not come: what is left out (the rest of a lap, at a restart of the ring) lies behind everything seen.
 */
int rsk_order_rx_take(struct rsk_order_rx *rx, uint64_t place);

/* Why a transaction is not complete. */
enum rsk_order_lack {
	RSK_ORDER_ABSENT = 1, /* no packet of it was seen, but of a higher one */
	RSK_ORDER_HEADLESS,   /* packets, but not the first */
	RSK_ORDER_PARTIAL,    /* the first, but not all */
};

/*
 * rsk_order_rx_missing - the names of what is missing: the first number from @from on, and below the consumer
 * pointer, that is not complete, into *number. Its enum rsk_order_lack; 0: there is none.
 */
int rsk_order_rx_missing(const struct rsk_order_rx *rx, uint64_t from, uint64_t *number);

/*
 * rsk_order_rx_gap - the same by places: the first run of cells from @from on, and below the highest seen, that has
 * not come, into *begin and *end. False: there is none.
 */
bool rsk_order_rx_gap(const struct rsk_order_rx *rx, uint64_t from, uint64_t *begin, uint64_t *end);

/* The element of a transaction in the queue, borrowed until the next call; NULL: it is not there. */
const struct rsk_order_element *rsk_order_rx_element(const struct rsk_order_rx *rx,
						     uint64_t number);

#endif
