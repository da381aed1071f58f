// SPDX-License-Identifier: BSD-2-Clause
/*
 * order_rx.c - the receiving machine of order.h, the special receive queue: elements by number,
 * created by whichever packet of a transaction is seen first, and removed when the transaction is
 * complete. What was seen is one bit for each cell of the ring. A packet's place determines where
 * in its transaction it belongs, so the element needs no list of packets.
 */
#include <errno.h>
#include <string.h>

#include "order_parts.h"

#define NUMBERS (RSK_ORDER_WINDOW_MAX - 1)

int rsk_order_rx_init(struct rsk_order_rx *rx, const struct rsk_order_setup *setup,
		      struct rsk_order_element *elements, uint64_t *places)
{
	int rc = rsk_order_setup_check(setup);

	if (rc < 0)
		return rc;
	memset(elements, 0, sizeof(*elements) * setup->window);
	memset(places, 0, RSK_ORDER_WORDS(setup->cells) * sizeof(*places));
	*rx = (struct rsk_order_rx){ .form = setup->form,
				     .window = setup->window,
				     .cells = setup->cells,
				     .elements = elements,
				     .places = places,
				     .low = setup->number,
				     .next = setup->number,
				     .base = setup->place,
				     .floor = setup->place,
				     .top = setup->place,
				     .origin = setup->number };
	return 0;
}

static bool bit(const uint64_t *bits, uint64_t n)
{
	return bits[(n & NUMBERS) / 64] >> (n & 63) & 1;
}

static void flip(uint64_t *bits, uint64_t n)
{
	bits[(n & NUMBERS) / 64] ^= UINT64_C(1) << (n & 63);
}

static struct rsk_order_element *element_at(const struct rsk_order_rx *rx, uint64_t n)
{
	return &rx->elements[n & (rx->window - 1)];
}

static bool complete(const struct rsk_order_element *e)
{
	return e->first && e->last && e->had == e->hi - e->lo;
}

static uint64_t word_seen(const struct rsk_order_rx *rx, uint64_t n)
{
	return rx->open[(n & NUMBERS) / 64] | rx->done[(n & NUMBERS) / 64];
}

/* The lowest number, from @n on, of which something was seen; rx->next: none. */
static uint64_t seen_above(const struct rsk_order_rx *rx, uint64_t n)
{
	while (n < rx->next) {
		uint64_t word = word_seen(rx, n) >> (n & 63);

		if (word) {
			n += (uint64_t)__builtin_ctzll(word);
			return n < rx->next ? n : rx->next;
		}
		n = (n | 63) + 1;
	}
	return rx->next;
}

/*
 * One more than the highest number, below @n and not below rx->low, of which something was seen;
 * rx->low: none.
 */
static uint64_t seen_below(const struct rsk_order_rx *rx, uint64_t n)
{
	if (n >= rx->next)
		return rx->next; /* rx->next - 1 was seen by definition */
	while (n > rx->low) {
		uint64_t word = word_seen(rx, n - 1) << (63 - ((n - 1) & 63));

		if (word) {
			n -= (uint64_t)__builtin_clzll(word);
			return n > rx->low ? n : rx->low;
		}
		n = (n - 1) & ~UINT64_C(63);
	}
	return rx->low;
}

/* The range in which transaction @n must lie, given what was seen of others. */
static void between(const struct rsk_order_rx *rx, uint64_t n, uint64_t *lo, uint64_t *hi)
{
	uint64_t below = seen_below(rx, n), above = seen_above(rx, n + 1);

	*lo = below > rx->low ? element_at(rx, below - 1)->hi : rx->floor;
	*hi = above < rx->next ? element_at(rx, above)->lo : UINT64_MAX;
}

static bool rx_one_ok(const struct rsk_order_rx *rx, uint64_t n, uint64_t *after)
{
	const struct rsk_order_element *e = element_at(rx, n);
	uint64_t taken = rx->base < e->lo ? e->lo : rx->base < e->hi ? rx->base : e->hi;

	if (bit(rx->open, n) && bit(rx->done, n))
		return false;
	if (!bit(rx->open, n) && !bit(rx->done, n))
		return true;
	if (e->lo < *after || e->lo >= e->hi || e->hi > rx->top || e->had > e->hi - e->lo ||
	    bit(rx->done, n) != complete(e))
		return false;
	*after = e->hi;
	return e->had == taken - e->lo + rsk_order_count(rx->places, rx->cells, taken, e->hi);
}

bool rsk_order_rx_validate(const struct rsk_order_rx *rx)
{
	uint64_t after = rx->floor;
	uint32_t opened = 0, bits = 0, tagged = 0;

	if (!rsk_order_form_validate(&rx->form) || !rx->elements || !rx->places ||
	    rx->low > rx->next || rx->next - rx->low > rx->window || rx->base > rx->top ||
	    rx->top - rx->base > rx->cells || rx->floor > rx->top)
		return false;
	if (rx->form.kind == RSK_ORDER_RELATIVE &&
	    (rx->origin > rx->low || rx->next - rx->origin > rsk_order_span(&rx->form)))
		return false;
	if (rx->low < rx->next && (bit(rx->done, rx->low) ||
				   !(bit(rx->open, rx->next - 1) || bit(rx->done, rx->next - 1))))
		return false;
	for (uint64_t n = rx->low; n < rx->next; n++) {
		if (!rx_one_ok(rx, n, &after))
			return false;
		opened += bit(rx->open, n);
		tagged += bit(rx->open, n) || bit(rx->done, n);
	}
	for (uint32_t i = 0; i < RSK_ORDER_WINDOW_MAX / 64; i++)
		bits += (uint32_t)__builtin_popcountll(rx->open[i] | rx->done[i]);
	/* No bit is set outside the window, and none of a cell outside [base, top). */
	return bits == tagged && opened == rx->opened &&
	       rsk_order_count(rx->places, rx->cells, rx->base, rx->base + rx->cells) ==
		       rsk_order_count(rx->places, rx->cells, rx->base, rx->top);
}

/* Can there be a slot at @place that was not seen yet? Returns 0 or -errno. */
static int check_place(const struct rsk_order_rx *rx, uint64_t place, uint32_t cells)
{
	uint64_t end = place + cells;

	if (!rsk_order_fits(rx->cells, place, cells))
		return -EPROTO;
	if (place < rx->base)
		return end <= rx->base ? -EALREADY : -EPROTO;
	if (end - rx->base > rx->cells)
		return -ERANGE;
	if (rsk_order_find(rx->places, rx->cells, place, end, true) == end)
		return 0;
	return rsk_order_find(rx->places, rx->cells, place, end, false) == end ? -EALREADY :
										 -EPROTO;
}

/*
 * Finds the transaction of a packet without an index: the nearest lower one whose first packet was
 * seen. Both ends know that packet. Returns 0 or -EPROTO.
 */
static int number_of_bare(const struct rsk_order_rx *rx, uint32_t tag, uint64_t place, uint64_t *n)
{
	if (!rx->form.stop || tag & RSK_ORDER_FIRST || (tag & RSK_ORDER_INDEX) != RSK_ORDER_BARE)
		return -EPROTO;
	for (uint64_t i = seen_below(rx, rx->next); i > rx->low; i = seen_below(rx, i - 1)) {
		const struct rsk_order_element *e = element_at(rx, i - 1);

		if (!e->first || e->lo >= place)
			continue;
		*n = i - 1;
		return 0;
	}
	return -EPROTO;
}

/* The number that an index stands for. Returns 0, -ERANGE or -EPROTO. */
static int number_of(const struct rsk_order_rx *rx, uint32_t index, uint64_t *n)
{
	uint32_t span = rsk_order_span(&rx->form);
	bool epoch = rx->epoch;

	if (rx->form.kind == RSK_ORDER_RELATIVE) {
		epoch = index & span;
		index &= ~span;
	}
	if (index >= span)
		return -EPROTO;
	if (rx->form.kind == RSK_ORDER_WRAPPING) {
		*n = rx->low + ((index - rx->low) & (span - 1));
	} else if (rx->form.kind == RSK_ORDER_ABSOLUTE) {
		*n = index;
	} else if (epoch == rx->epoch) {
		*n = rx->origin + index;
	} else {
		/*
		 * An epoch changes only after everything was acknowledged, so everything was seen.
		 */
		if (rx->low != rx->next || rx->low == rx->origin)
			return -EPROTO;
		*n = rx->low + index;
	}
	if (*n < rx->low)
		return -EPROTO;
	return *n - rx->low < rx->window ? 0 : -ERANGE;
}

/*
 * Is [@begin, @end) free of slots of others? Between two packets of a transaction it must be: what
 * was taken there belonged to another one.
 */
static bool nothing_in(const struct rsk_order_rx *rx, uint64_t begin, uint64_t end)
{
	return begin >= end || (begin >= rx->base &&
				rsk_order_find(rx->places, rx->cells, begin, end, true) == end);
}

/*
 * Stores in *e what the transaction's record becomes with that packet. Returns 0, or -EPROTO if the
 * packet breaks the rules of order.h.
 */
static int add(const struct rsk_order_rx *rx, uint64_t n, uint32_t tag, uint64_t place,
	       uint32_t cells, struct rsk_order_element *e)
{
	bool first = tag & RSK_ORDER_FIRST, last = tag & RSK_ORDER_LAST;
	uint64_t lo, hi, end = place + cells;

	between(rx, n, &lo, &hi);
	if (place < lo || end > hi)
		return -EPROTO;
	if (!bit(rx->open, n)) {
		*e = (struct rsk_order_element){ place, end, cells, first, last };
		return 0;
	}
	*e = *element_at(rx, n);
	if ((e->first && (first || place < e->lo)) || (e->last && (last || end > e->hi)) ||
	    (first && place > e->lo) || (last && end < e->hi))
		return -EPROTO;
	if (!nothing_in(rx, e->hi, place) || !nothing_in(rx, end, e->lo))
		return -EPROTO;
	e->lo = place < e->lo ? place : e->lo;
	e->hi = end > e->hi ? end : e->hi;
	e->had += cells;
	e->first |= first;
	e->last |= last;
	return 0;
}

static void remove_element(struct rsk_order_rx *rx, uint64_t n)
{
	flip(rx->open, n);
	flip(rx->done, n);
	rx->opened--;
	rx->completed++;
	rx->overtook += n != rx->low;
	for (; rx->low < rx->next && bit(rx->done, rx->low); rx->low++) {
		flip(rx->done, rx->low);
		rx->floor = element_at(rx, rx->low)->hi;
	}
}

static void note_place(struct rsk_order_rx *rx, uint64_t place, uint32_t cells)
{
	rsk_order_set(rx->places, rx->cells, place, place + cells);
	if (place + cells > rx->top)
		rx->top = place + cells;
}

int rsk_order_rx_see_any(struct rsk_order_rx *rx, uint16_t tag, uint64_t place, uint32_t cells,
			 struct rsk_order_seen *seen)
{
	struct rsk_order_element e;
	uint64_t n = 0;
	int rc = check_place(rx, place, cells);

	if (rc < 0)
		return rc;
	rc = tag & RSK_ORDER_INDEXED ? number_of(rx, tag & RSK_ORDER_INDEX, &n) :
				       number_of_bare(rx, tag, place, &n);
	if (rc < 0)
		return rc;
	if (bit(rx->done, n))
		return -EPROTO;
	rc = add(rx, n, tag, place, cells, &e);
	if (rc < 0)
		return rc;

	*seen = (struct rsk_order_seen){ .number = n,
					 .created = !bit(rx->open, n),
					 .complete = complete(&e) };
	/*
	 * The other epoch begins: its first number is the lowest that is not complete, not the
	 * lowest seen.
	 */
	if (rx->form.kind == RSK_ORDER_RELATIVE && tag & RSK_ORDER_INDEXED &&
	    rx->epoch != !!(tag & rsk_order_span(&rx->form))) {
		rx->epoch = !rx->epoch;
		rx->origin = rx->low;
	}
	*element_at(rx, n) = e;
	if (seen->created) {
		flip(rx->open, n);
		rx->opened++;
		if (n >= rx->next)
			rx->next = n + 1;
	}
	note_place(rx, place, cells);
	if (seen->complete)
		remove_element(rx, n);
	return 0;
}

/*
 * Does the tag's index stand for @n, the lowest number that is not complete? Also false in the rare
 * cases that need a full check.
 */
static inline bool stands_for(const struct rsk_order_rx *rx, uint32_t tag, uint64_t n)
{
	uint32_t index = tag & RSK_ORDER_INDEX, span = rsk_order_span(&rx->form);

	if (!(tag & RSK_ORDER_INDEXED))
		return rx->form.stop && !(tag & RSK_ORDER_FIRST) && index == RSK_ORDER_BARE;
	if (rx->form.kind == RSK_ORDER_WRAPPING)
		return index == (n & (span - 1));
	if (rx->form.kind == RSK_ORDER_ABSOLUTE)
		return index == n && index < span;
	return n - rx->origin < span && index == ((n - rx->origin) | (rx->epoch ? span : 0));
}

/*
 * The fast path, for nearly all packets, when nothing was seen ahead: the next packet of the only
 * open transaction, of which everything before was seen; or, if none is open, the first packet of
 * the next one. True: done, except for the bits of its cells; the state is that which
 * rsk_order_rx_see_any() leaves. False: nothing changed.
 */
static inline bool see_in_order(struct rsk_order_rx *rx, uint32_t tag, uint64_t place,
				uint32_t cells, struct rsk_order_seen *seen)
{
	uint64_t n = rx->low, end = place + cells;
	bool first = tag & RSK_ORDER_FIRST, last = tag & RSK_ORDER_LAST;
	struct rsk_order_element *e = element_at(rx, n);

	if (place != rx->top || rx->next != n + !first || !stands_for(rx, tag, n) ||
	    !rsk_order_fits(rx->cells, place, cells) || end - rx->base > rx->cells)
		return false;
	if (first) {
		*e = (struct rsk_order_element){ place, end, cells, true, last };
		rx->next = n + 1;
	} else {
		if (!e->first || e->last || e->hi != place || e->had != place - e->lo)
			return false;
		e->hi = end;
		e->had += cells;
		e->last = last;
	}
	*seen = (struct rsk_order_seen){ .number = n, .created = first, .complete = last };
	/* A transaction of a single packet never has an element in the queue. */
	if (first != last) {
		flip(rx->open, n);
		rx->opened += first ? 1 : -1u;
	}
	if (last) {
		rx->completed++;
		rx->low = n + 1;
		rx->floor = end;
	}
	rx->top = end;
	return true;
}

int rsk_order_rx_see(struct rsk_order_rx *rx, uint16_t tag, uint64_t place, uint32_t cells,
		     struct rsk_order_seen *seen)
{
	if (!see_in_order(rx, tag, place, cells, seen))
		return rsk_order_rx_see_any(rx, tag, place, cells, seen);
	rsk_order_set(rx->places, rx->cells, place, place + cells);
	return 0;
}

/* The packet is seen and taken at once, so the bits of its cells need not be set. */
bool rsk_order_rx_next(struct rsk_order_rx *rx, uint16_t tag, uint64_t place, uint32_t cells)
{
	struct rsk_order_seen seen;

	if (place != rx->base || !see_in_order(rx, tag, place, cells, &seen))
		return false;
	rx->base = rx->top;
	return true;
}

int rsk_order_rx_see_other(struct rsk_order_rx *rx, uint64_t place, uint32_t cells)
{
	int rc = check_place(rx, place, cells);

	if (rc < 0)
		return rc;
	/* It must not be among the packets of a transaction. */
	for (uint64_t i = seen_below(rx, rx->next); i > rx->low; i = seen_below(rx, i - 1)) {
		const struct rsk_order_element *e = element_at(rx, i - 1);

		if (e->lo >= place + cells)
			continue;
		if (e->hi > place)
			return -EPROTO;
		break;
	}
	note_place(rx, place, cells);
	return 0;
}

uint64_t rsk_order_rx_takable(const struct rsk_order_rx *rx)
{
	return rsk_order_find(rx->places, rx->cells, rx->base, rx->top, false) - rx->base;
}

int rsk_order_rx_take(struct rsk_order_rx *rx, uint64_t place)
{
	uint64_t to = place < rx->top ? place : rx->top;

	if (place < rx->base || place - rx->base > rx->cells ||
	    rsk_order_find(rx->places, rx->cells, rx->base, to, false) != to)
		return -EINVAL;
	if (place > rx->top) {
		if (rx->low != rx->next)
			return -EINVAL;
		rx->top = place;
	}
	rsk_order_clear(rx->places, rx->cells, rx->base, to);
	rx->base = place;
	return 0;
}

int rsk_order_rx_missing(const struct rsk_order_rx *rx, uint64_t from, uint64_t *number)
{
	for (uint64_t n = from > rx->low ? from : rx->low; n < rx->next; n++) {
		uint64_t lacks = ~rx->done[(n & NUMBERS) / 64] >> (n & 63);

		if (!lacks)
			n |= 63; /* the rest of this word is complete */
		else
			n += (uint64_t)__builtin_ctzll(lacks);
		if (!lacks || n >= rx->next)
			continue;
		*number = n;
		if (!bit(rx->open, n))
			return RSK_ORDER_ABSENT;
		return element_at(rx, n)->first ? RSK_ORDER_PARTIAL : RSK_ORDER_HEADLESS;
	}
	return 0;
}

bool rsk_order_rx_gap(const struct rsk_order_rx *rx, uint64_t from, uint64_t *begin, uint64_t *end)
{
	if (from < rx->base)
		from = rx->base;
	if (from >= rx->top)
		return false;
	*begin = rsk_order_find(rx->places, rx->cells, from, rx->top, false);
	if (*begin == rx->top)
		return false;
	*end = rsk_order_find(rx->places, rx->cells, *begin, rx->top, true);
	return true;
}

const struct rsk_order_element *rsk_order_rx_element(const struct rsk_order_rx *rx, uint64_t number)
{
	return number >= rx->low && number < rx->next && bit(rx->open, number) ?
		       element_at(rx, number) :
		       NULL;
}
