// SPDX-License-Identifier: BSD-2-Clause
/* txn_tags.c - transaction tags in the two halves of a direction: see txn_tags.h. */
#include "txn_tags.h"

#include <errno.h>
#include <string.h>

#include "arena.h"

/* ---- sender ---- */

bool rsk_txn_tags_tx_begin(struct rsk_txn_tags_tx **tags, const struct rsk_order_form *form,
			   uint32_t cells, uint64_t place)
{
	struct rsk_order_setup setup = { .form = *form, .cells = cells, .place = place };

	if (!form->bits)
		return false;
	if (!*tags)
		*tags = rsk_arena_alloc_raw(sizeof(**tags));
	if (!*tags)
		return false;
	(*tags)->begun = place;
	setup.window = rsk_txn_tags_window(form);
	return rsk_order_tx_init(&(*tags)->order, &setup, (*tags)->sent) == 0;
}

int rsk_txn_tags_next(struct rsk_order_tx *tx, struct rsk_rail *rail)
{
	int rc;

	if (rsk_order_tx_within(tx))
		return 1;
	if (!rail->ops->several(rail))
		return 0;
	if (tx->open)
		return 1;
	rc = rsk_order_tx_begin(tx);
	if (rc == 0)
		return 1;
	/* Absolute numbering is exhausted: no more tags in this promotion. */
	return rc == -EAGAIN ? rc : 0;
}

bool rsk_txn_tags_put(struct rsk_order_tx *tx, const struct rsk_slot_head *head)
{
	uint32_t cells = rsk_slot_extent(head, tx->cells);

	if (!head->order)
		return rsk_order_tx_put_other(tx, head->index, cells) == 0;
	return rsk_order_tx_put(tx, head->index, cells, head->order & RSK_ORDER_LAST) == 0;
}

/* ---- receiver ---- */

bool rsk_txn_tags_rx_begin(struct rsk_txn_tags_rx **tags, const struct rsk_order_form *form,
			   uint32_t cells, uint64_t place)
{
	struct rsk_order_setup setup = { .form = *form, .cells = cells, .place = place };

	if (!form->bits)
		return false;
	if (!*tags)
		*tags = rsk_arena_alloc_raw(sizeof(**tags) +
					    RSK_ORDER_WORDS(cells) * sizeof(uint64_t));
	if (!*tags)
		return false;
	setup.window = rsk_txn_tags_window(form);
	(*tags)->credited = 0;
	(*tags)->record = NULL;
	memset(&(*tags)->ahead, 0, sizeof((*tags)->ahead));
	return rsk_order_rx_init(&(*tags)->order, &setup, (*tags)->elements, (*tags)->places) == 0;
}

static int see(struct rsk_order_rx *rx, const struct rsk_slot_head *head)
{
	uint32_t cells = rsk_slot_extent(head, rx->cells);
	struct rsk_order_seen seen;

	if (!head->order)
		return rsk_order_rx_see_other(rx, head->index, cells);
	return rsk_order_rx_see(rx, head->order, head->index, cells, &seen);
}

int rsk_txn_tags_take(struct rsk_txn_tags_rx *tags, const struct rsk_slot_head *head)
{
	struct rsk_order_rx *rx = &tags->order;
	uint32_t cells = rsk_slot_extent(head, rx->cells);
	int rc;

	/*
	 * The common case: in order, with nothing seen ahead (one rail, or a command; or a packet).
	 */
	if (head->order ? rsk_order_rx_next(rx, head->order, head->index, cells) :
			  rsk_order_rx_pass(rx, head->index, cells))
		return 0;
	rc = see(rx, head);
	if (rc < 0 && rc != -EALREADY)
		return -EPROTO;
	if (rsk_order_rx_take(rx, head->index + cells) < 0)
		return -EPROTO;
	if (rx->top == rx->base && tags->ahead.gap.transactions)
		rsk_txn_tags_close_gap(tags);
	return 0;
}

bool rsk_txn_tags_ahead(struct rsk_txn_tags_rx *tags, const struct rsk_slot_head *head)
{
	return see(&tags->order, head) == 0;
}

/* Was everything of transaction @n taken, and of all before it? @n is at least tags->credited. */
static bool taken(const struct rsk_txn_tags_rx *tags, uint64_t n)
{
	const struct rsk_order_rx *rx = &tags->order;

	/* The sender uses the element of a number again when it has the credit for it. */
	return n < rx->low &&
	       (rx->top == rx->base || rx->elements[n & (rx->window - 1)].hi <= rx->base);
}

/* The newest slot that was taken holds back the credit of its transaction at the most. */
void rsk_txn_tags_credited(struct rsk_txn_tags_rx *tags, bool partial)
{
	uint64_t n = tags->credited;

	if (tags->order.top == tags->order.base)
		n = tags->order.low;
	while (taken(tags, n))
		n++;
	if (n > tags->credited)
		tags->credited = n - partial;
}

bool rsk_txn_tags_credit_due(const struct rsk_txn_tags_rx *tags, bool partial)
{
	const struct rsk_order_rx *rx = &tags->order;

	if (taken(tags, tags->credited + (rx->window + 1) / 2 - 1 + partial))
		return true;
	/* Relative: all indexes of this counting are used. */
	return rx->form.kind == RSK_ORDER_RELATIVE &&
	       rx->low - rx->origin >= rsk_order_span(&rx->form);
}

struct rsk_txn_tags_missing rsk_txn_tags_count(const struct rsk_txn_tags_rx *tags)
{
	const struct rsk_order_rx *rx = &tags->order;
	struct rsk_txn_tags_missing m = { 0 };
	uint64_t n = rx->low;
	int lack;

	while ((lack = rsk_order_rx_missing(rx, n, &n)) != 0) {
		const struct rsk_order_element *e = rsk_order_rx_element(rx, n);

		/*
		 * The newest transaction, of which everything seen is contiguous: the rest may not
		 * have been put.
		 */
		if (n + 1 == rx->next && lack == RSK_ORDER_PARTIAL && e->had == e->hi - e->lo)
			break;
		if (!m.transactions++)
			m.lowest = n;
		m.first += lack != RSK_ORDER_PARTIAL;
		n++;
	}
	return m;
}

static void set_gap(struct rsk_txn_tags_rx *tags, struct rsk_txn_tags_missing gap)
{
	struct rsk_stats_ahead *rec = tags->record;

	tags->ahead.gap = gap;
	if (!rec)
		return;
	__atomic_store_n(&rec->gap, gap.transactions, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->gap_lowest, gap.lowest, __ATOMIC_RELAXED);
}

void rsk_txn_tags_name_gap(struct rsk_txn_tags_rx *tags)
{
	set_gap(tags, rsk_txn_tags_count(tags));
}

void rsk_txn_tags_close_gap(struct rsk_txn_tags_rx *tags)
{
	set_gap(tags, (struct rsk_txn_tags_missing){ 0 });
}
