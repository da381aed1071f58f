// SPDX-License-Identifier: BSD-2-Clause
/*
 * duplex_txn_tags.c - checks transactions over several rails (../../stream/ring/txn_tags.h) at both
 * ends of the duplex model. Whatever the form of the tags, the two machines agree at every step as
 * far as they can. When a rail fails, each transaction that the receiver reports missing is one
 * that the sender has under way under that number, and the receiver has asked for the place where
 * it lies. At the end nothing is missing.
 */
#include "duplex_parts.h"

#include <string.h>

void duplex_txn_tags_init(struct way *w)
{
	static const uint8_t widest[] = {
		[RSK_ORDER_ABSOLUTE] = 13, [RSK_ORDER_RELATIVE] = 12, [RSK_ORDER_WRAPPING] = 13
	};
	struct duplex *d = w->d;
	struct rsk_order_form form = { .kind = (uint8_t)below(d, 3), .every = 1 };

	form.bits = chance(d, 50) ? widest[form.kind] : 1 + (uint8_t)below(d, widest[form.kind]);
	form.stop = chance(d, 50);
	if (form.kind == RSK_ORDER_RELATIVE && chance(d, 50))
		form.every = 1 + (uint32_t)below(d, 4);
	CHECK(d, rsk_order_form_validate(&form), "no such form");
	rsk_tx_tag(&w->tx, &form);
	rsk_rx_tag(&w->rx, &form, &w->ahead);
}

/*
 * True if both ends are on the ring, in one promotion over one link, and no call of either is under
 * way.
 */
static bool together(const struct way *w)
{
	return w->tx.state == RSK_TX_ONRING && rsk_rx_txn_tags(&w->rx) && w->tx.gen == w->rx.gen &&
	       !w->rx.rail_loss.limit && memcmp(&w->tx.key, &w->rx.key, sizeof(w->tx.key)) == 0;
}

/*
 * What the receiver has looked at ahead was put, and what it calls missing is under way at the
 * sender, under the same number.
 */
static void check_ahead(struct way *w, const struct rsk_order_tx *tx, const struct rsk_order_rx *rx)
{
	uint64_t begin, end;
	int lack;

	CHECK(w->d, rx->top <= w->tx.ring.next, "%" PRIu64 " was seen, and %" PRIu64 " put",
	      rx->top, w->tx.ring.next);
	CHECK(w->d,
	      w->ahead.gap == w->rx.tags.machine->ahead.gap.transactions &&
		      w->ahead.gap_lowest == w->rx.tags.machine->ahead.gap.lowest,
	      "another gap in the record");
	w->d->sums->gap_steps += w->ahead.gap > 0;
	for (uint64_t n = rx->low; (lack = rsk_order_rx_missing(rx, n, &n)) != 0; n++)
		/* All that was put of the newest one may be here. */
		CHECK(w->d,
		      (n + 1 == rx->next && lack == RSK_ORDER_PARTIAL) ||
			      rsk_order_tx_where(tx, n, &begin, &end) == 0,
		      "%" PRIu64 " is missing, which is not under way", n);
}

void duplex_txn_tags_check(struct way *w)
{
	const struct rsk_order_tx *tx = w->tx.ring.order;
	const struct rsk_order_rx *rx;

	if (w->in_tx || w->in_rx || !together(w))
		return;
	/* The receiver also begins when it has lost a rail that the sender has not had yet. */
	if (!tx && w->tx.tags.promotion != w->tx.counts.promotions)
		return;
	CHECK(w->d, tx, "the sender has no marks any more");
	rx = &w->rx.tags.machine->order;
	CHECK(w->d, tx->una <= rx->low && rx->next <= tx->next,
	      "%" PRIu64 " to %" PRIu64 " there, %" PRIu64 " to %" PRIu64 " here", tx->una,
	      tx->next, rx->low, rx->next);
	check_ahead(w, tx, rx);
	if (w->tx.ring.next != w->rx.ring.next)
		return;
	CHECK(w->d,
	      rx->low == tx->next - tx->open &&
		      !rsk_txn_tags_count(w->rx.tags.machine).transactions,
	      "all is taken, but %" PRIu64 " of %" PRIu64 " are complete, %u missing", rx->low,
	      tx->next, rsk_txn_tags_count(w->rx.tags.machine).transactions);
}

/* True if a gap that was reported overlaps this range. */
static bool asked(const struct duplex_gaps *gaps, uint64_t begin, uint64_t end)
{
	for (uint32_t i = 0; i < gaps->n; i++)
		if (gaps->at[i].from < end && begin < gaps->at[i].to)
			return true;
	return false;
}

void duplex_txn_tags_missing(struct way *w, const struct duplex_gaps *gaps,
			     const struct rsk_txn_tags_missing *missing)
{
	const struct rsk_order_rx *rx;
	uint64_t n, begin, end;
	uint32_t seen = 0;

	w->d->sums->missing[w->rx.tags.form.kind] += missing->transactions;
	w->d->sums->missing_first += missing->first;
	CHECK(w->d, missing->first <= missing->transactions, "more than all");
	if (!missing->transactions || !together(w))
		return;
	rx = &w->rx.tags.machine->order;
	CHECK(w->d, rsk_order_rx_validate(rx), "invalid behind a look ahead");
	n = missing->lowest;
	CHECK(w->d, n >= rx->low && n < rx->next, "an odd name");
	for (int lack; seen < missing->transactions; n++, seen++) {
		lack = rsk_order_rx_missing(rx, n, &n);
		CHECK(w->d, lack, "%u of %u transactions are missing", seen, missing->transactions);
		CHECK(w->d, rsk_order_tx_where(w->tx.ring.order, n, &begin, &end) == 0,
		      "the sender has no %" PRIu64 " under way", n);
		CHECK(w->d, asked(gaps, begin, end), "%" PRIu64 " is missing, and not asked for",
		      n);
	}
}

void duplex_txn_tags_end(struct way *w)
{
	const struct rsk_txn_tags_rx *tags = rsk_rx_txn_tags(&w->rx);

	w->d->sums->ahead += w->ahead.slots;
	w->d->sums->ahead_overtook += w->ahead.overtook;
	/* If the end of stream came by TCP, the machines are idle. */
	if (!tags || !w->rx.fin)
		return;
	CHECK(w->d, tags->order.low == tags->order.next && !tags->order.opened,
	      "the stream has ended, transactions %" PRIu64 " to %" PRIu64 " have not",
	      tags->order.low, tags->order.next);
	w->d->sums->tagged += tags->order.completed;
	w->d->sums->overtook += tags->order.overtook;
}
