/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order.h - transactions that arrive out of order: the transaction tags in the slots, and the
 * special receive queue. txn_tags.c and the direction machines call it. Source: Huawei, "System and
 * method for handling out-of-order delivery transactions"; decisions: docs/adr/ordered-delivery.md.
 *
 * A send() is a transaction, its slots are the packets. Every packet carries a tag of 16 bits
 * (struct rsk_slot_head):
 *
 *	15 first | 14 last | 13 indexed | 12..0 index		0: the slot is not a packet
 *
 * first, last: the packet is the first or last of its transaction, so that a receiver can tell when
 * it has all of them: between the two, every cell of the ring belongs to the transaction. indexed:
 * the low bits hold the transaction's index, in the form that both ends have agreed on; otherwise
 * they hold 1 (RSK_ORDER_BARE), so that no tag is 0. A first packet is always indexed. In the
 * relative form the bit above the index is the epoch; it changes each time that counting restarts.
 *
 * Two pure machines: no system call, no clock, no lock (the stream's tx and rx locks guard them),
 * and no memory but what they are given at init. Nothing blocks, and every function may be called
 * in a signal-deferred section. Places are cell indexes of the ring (64 bits, never wrapping).
 * Transaction numbers have 64 bits too: the full count, of which the tag holds only the index.
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
/* Maximum number of transactions open at once. A window is a power of two. */
#define RSK_ORDER_WINDOW_MAX 512u
#define RSK_ORDER_DEFAULT "wrapping:13+keep"

enum rsk_order_kind {
	RSK_ORDER_ABSOLUTE, /* the number itself: at most 2^bits transactions */
	/* Counted from 0 again when everything is acknowledged, or every n-th time that it is. */
	RSK_ORDER_RELATIVE,
	RSK_ORDER_WRAPPING, /* the number's low bits */
};

/* How both ends of a direction write and read an index. A value without pointers. */
struct rsk_order_form {
	uint8_t kind; /* enum rsk_order_kind */
	uint8_t bits; /* width of the index: 1 to 13, relative: 1 to 12 */
	/* Once the first packet is acknowledged, the transaction's other packets carry no index. */
	bool stop;
	/*
	 * Relative: counting restarts at every n-th time that everything is acknowledged; else 1.
	 */
	uint32_t every;
};

/*
 * rsk_order_parse - parses FORM[:BITS][/EVERY][+stop|+keep], where FORM is absolute, relative or
 * wrapping. Defaults: the largest BITS, EVERY 1, keep. Only the relative form may have EVERY.
 * Returns 0, or -EINVAL: *error says why (a string literal, never NULL), and *form is unchanged.
 */
int rsk_order_parse(struct rsk_order_form *form, const char *text, const char **error);
bool rsk_order_form_validate(const struct rsk_order_form *form);

/* The number of indexes that the form can distinguish. */
static inline uint32_t rsk_order_span(const struct rsk_order_form *form)
{
	return 1u << form->bits;
}

/*
 * Words of a bitmap with one bit for each cell of a ring of @cells (a power of two, at least 64).
 */
#define RSK_ORDER_WORDS(cells) ((cells) / 64)

/* Parameters of both machines. */
struct rsk_order_setup {
	struct rsk_order_form form;
	uint32_t window; /* transactions: a power of two, at most RSK_ORDER_WINDOW_MAX and 2^bits */
	uint32_t cells;	 /* of the ring: a power of two, at least 64 */
	uint64_t number; /* of the first transaction */
	uint64_t place;	 /* of the first slot */
};

/* A transaction that was begun and is not yet acknowledged together with all before it. */
struct rsk_order_sent {
	uint64_t begin, end; /* places put so far */
	uint32_t first;	     /* cells of the first packet; 0: not put yet */
	bool whole;	     /* the last packet was put */
};

/* Owner: the stream's sending side, under its tx lock. In memory that a fork copies. */
struct rsk_order_tx {
	struct rsk_order_form form;
	uint32_t window, cells;
	struct rsk_order_sent *sent; /* borrowed: [window], indexed by number */
	uint64_t una;		     /* lowest number that is not completely acknowledged */
	uint64_t next;		     /* number of the next transaction to begin */
	uint64_t floor;		     /* every place below is acknowledged, and no other */
	uint64_t top;		     /* place after the newest packet */
	uint64_t origin;	     /* relative: the number with index 0 */
	/* Relative: times that everything was acknowledged since counting restarted. */
	uint32_t drained;
	bool epoch;
	bool open; /* transaction next - 1 is being put */
	uint64_t restarts;
};

/*
 * rsk_order_tx_init - @sent has setup.window elements of any content, borrowed for as long as the
 * machine is used. Returns 0; -EINVAL: invalid form, window or ring; -ERANGE: the index is too
 * narrow for the window, or, in the absolute form, for the number.
 */
int rsk_order_tx_init(struct rsk_order_tx *tx, const struct rsk_order_setup *setup,
		      struct rsk_order_sent *sent);
bool rsk_order_tx_validate(const struct rsk_order_tx *tx);

/*
 * rsk_order_tx_begin - begins a transaction. Returns 0; -EAGAIN: the window is full, or, in the
 * relative form, all indexes are used until everything is acknowledged; -EOVERFLOW: absolute, and
 * all indexes are used for good; -EBUSY: the previous transaction has no last packet yet.
 */
int rsk_order_tx_begin(struct rsk_order_tx *tx);

/* The tag of the next packet of the open transaction; 0: none is open. Changes nothing. */
uint16_t rsk_order_tx_tag(const struct rsk_order_tx *tx, bool last);

/*
 * rsk_order_tx_put - the next packet was put at @place, over @cells, with the tag for @last.
 * Returns 0; -EINVAL: no transaction is open, or @place is not the place after the last packet (for
 * a first packet: it is below that place); -ENOBUFS: some of the cells are not acknowledged.
 */
int rsk_order_tx_put(struct rsk_order_tx *tx, uint64_t place, uint32_t cells, bool last);

/*
 * rsk_order_tx_put_other - a slot that is not a packet (tag 0: a command) was put, after all
 * packets. Returns 0; -EINVAL, -ENOBUFS as above; -EBUSY: a transaction is put in part.
 */
int rsk_order_tx_put_other(struct rsk_order_tx *tx, uint64_t place, uint32_t cells);

/* A transaction is put in part: the next packet belongs to it. */
static inline bool rsk_order_tx_within(const struct rsk_order_tx *tx)
{
	return tx->open && tx->sent[(tx->next - 1) & (tx->window - 1)].first;
}

/*
 * A transaction is open, or one could begin (unless absolute counting has ended). False:
 * acknowledgements have to arrive first.
 */
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
 * rsk_order_tx_ack_below - everything below @place is acknowledged, as credit tells: the receiver
 * has taken it, so its machine has seen it. An older place is not an error. Returns 0; -EPROTO: so
 * much was not put, or a packet would be acknowledged in part; nothing changed.
 */
int rsk_order_tx_ack_below(struct rsk_order_tx *tx, uint64_t place);

/*
 * rsk_order_tx_where - the places of a transaction that the receiver has reported as missing, to be
 * put again: [*begin, *end), without what rsk_order_tx_ack_below() has released. Returns 0;
 * -ENOENT: acknowledged together with all before it, not begun, or nothing of it is left to put
 * again.
 */
int rsk_order_tx_where(const struct rsk_order_tx *tx, uint64_t number, uint64_t *begin,
		       uint64_t *end);

/*
 * The record of one transaction. It is kept after its element has left the queue, until all lower
 * ones have left it.
 */
struct rsk_order_element {
	/* From the lowest place seen to after the highest. */
	uint64_t lo, hi;
	uint32_t had; /* cells seen */
	/* Seen; then @lo, or @hi, is the beginning, or the end, of the transaction. */
	bool first, last;
};

/* Owner: the stream's receiving side, under its rx lock. In memory that a fork copies. */
struct rsk_order_rx {
	struct rsk_order_form form;
	uint32_t window, cells;
	/* Borrowed: [window], indexed by number. */
	struct rsk_order_element *elements;
	/* Borrowed: RSK_ORDER_WORDS(cells); cells seen from @base on. */
	uint64_t *places;
	uint64_t low; /* lowest number that is not complete */
	/* Consumer pointer: the next transaction expected, the highest number seen + 1. */
	uint64_t next;
	uint64_t base;	 /* next place to take */
	uint64_t floor;	 /* where the last transaction below @low ended */
	uint64_t top;	 /* place after the highest seen */
	uint64_t origin; /* relative: the number with index 0 */
	bool epoch;
	/*
	 * Bit sets by number mod RSK_ORDER_WINDOW_MAX, for @low to @next: the transaction has an
	 * element in the queue; the transaction is complete and its element removed.
	 */
	uint64_t open[RSK_ORDER_WINDOW_MAX / 64];
	uint64_t done[RSK_ORDER_WINDOW_MAX / 64];
	uint32_t opened;    /* elements in the queue */
	uint64_t completed; /* transactions, in total */
	uint64_t overtook;  /* of these, completed before a lower number */
};

/*
 * As rsk_order_tx_init(); @elements has setup.window elements, @places RSK_ORDER_WORDS(setup.cells)
 * words, both of any content, and borrowed.
 */
int rsk_order_rx_init(struct rsk_order_rx *rx, const struct rsk_order_setup *setup,
		      struct rsk_order_element *elements, uint64_t *places);
/* Takes O(window + cells / 64). */
bool rsk_order_rx_validate(const struct rsk_order_rx *rx);

/* What a packet caused. */
struct rsk_order_seen {
	uint64_t number; /* of its transaction */
	bool created;	 /* it was the first one seen, and there is an element now */
	bool complete;	 /* it was the last one missing, and the element was removed */
};

/*
 * rsk_order_rx_see - a packet is at @place, over @cells. The hash of its slot was right; nothing
 * else is trusted. Returns 0 and *seen. On an error nothing has changed: -EALREADY: seen before
 * (put again after a rail failed); -ERANGE: beyond the window of transactions or the ring; -EPROTO:
 * a correct sender does not write that: the tag is not of the form, or the packet is a second first
 * or last packet, is before the first, after the last, of a complete transaction, among the packets
 * of another one, or wraps around the ring's end.
 */
int rsk_order_rx_see(struct rsk_order_rx *rx, uint16_t tag, uint64_t place, uint32_t cells,
		     struct rsk_order_seen *seen);

/* A slot that is not a packet (tag 0: a command). Returns as rsk_order_rx_see(). */
int rsk_order_rx_see_other(struct rsk_order_rx *rx, uint64_t place, uint32_t cells);

/*
 * rsk_order_rx_pass - sees and takes such a slot, if it is at the next place, all transactions are
 * complete, and nothing was seen ahead. False: a condition does not hold, and nothing changed.
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
 * rsk_order_rx_next - rsk_order_rx_see() and rsk_order_rx_take() of a packet at the next place, if
 * nothing was seen ahead and at most its own transaction is open. False: a condition does not hold,
 * or a correct sender does not write that tag; nothing changed.
 */
bool rsk_order_rx_next(struct rsk_order_rx *rx, uint16_t tag, uint64_t place, uint32_t cells);

/* The number of contiguous places, from @base on, that can be taken. */
uint64_t rsk_order_rx_takable(const struct rsk_order_rx *rx);

/*
 * rsk_order_rx_take - everything below @place was delivered, and its cells may be written again.
 * Returns 0; -EINVAL: some of it has not arrived. Places that the sender left out (the rest of a
 * lap, when the ring restarts) are above everything seen, so they are allowed.
 */
int rsk_order_rx_take(struct rsk_order_rx *rx, uint64_t place);

/* Why a transaction is not complete. */
enum rsk_order_lack {
	RSK_ORDER_ABSENT = 1, /* no packet of it was seen, but one of a higher number */
	RSK_ORDER_HEADLESS,   /* packets were seen, but not the first */
	RSK_ORDER_PARTIAL,    /* the first was seen, but not all */
};

/*
 * rsk_order_rx_missing - finds the first number, from @from on and below the consumer pointer, that
 * is not complete, and stores it in *number. Returns its enum rsk_order_lack; 0: there is none.
 */
int rsk_order_rx_missing(const struct rsk_order_rx *rx, uint64_t from, uint64_t *number);

/*
 * rsk_order_rx_gap - the same by places: the first run of cells, from @from on and below the
 * highest place seen, that has not arrived: [*begin, *end). False: there is none.
 */
bool rsk_order_rx_gap(const struct rsk_order_rx *rx, uint64_t from, uint64_t *begin, uint64_t *end);

/*
 * The element of a transaction in the queue, borrowed until the next call; NULL: it is not in the
 * queue.
 */
const struct rsk_order_element *rsk_order_rx_element(const struct rsk_order_rx *rx,
						     uint64_t number);

#endif
