// SPDX-License-Identifier: BSD-2-Clause
/*
 * duplex_credit.c - the part of the duplex model in which the sender's progress thread looks up
 * what the receiver has read, as stream/remote/credit.c does, but at any moment. Gets are late or
 * torn, and their rails may fail. Whatever the sender accepts must have been true.
 */
#include "duplex_parts.h"

#include <string.h>

void duplex_credit_init(struct way *w)
{
	rsk_rx_publish_at(&w->rx, w->d->segment[!w->id] + CREDIT_OFF, CREDIT_BYTES);
}

static void believe(struct way *w, const struct rsk_mailbox_view *view)
{
	uint64_t credit = w->tx.ring.credit, read_pos = w->tx.read_pos;
	bool counts = w->tx.state == RSK_TX_ONRING;
	struct rsk_mailbox_credit is;
	struct duplex *d = w->d;
	int rc = rsk_mailbox_credit(view, &is);

	CHECK(d, rc == 0, "contents: %d", rc);
	counts &= is.gen == w->tx.gen;
	CHECK(d, is.pos <= w->received, "%" PRIu64 " were read, it says %" PRIu64, w->received,
	      is.pos);
	rc = rsk_tx_credit(&w->tx, &is);
	CHECK(d, rc == (counts && is.pos > read_pos), "credit: %d", rc);
	CHECK(d, counts || w->tx.ring.credit == credit, "credit of another promotion");
	CHECK(d, rsk_tx_validate(&w->tx), "tx invalid, state %d", w->tx.state);
	d->sums->looked++;
	d->sums->looked_new += rc == 1;
	d->sums->freed_cells += w->tx.ring.credit - credit;
}

void duplex_credit_step(struct duplex *d)
{
	struct way *w = &d->way[below(d, 2)];
	struct rsk_mailbox_reader *r = &w->looks;
	struct rsk_mailbox_view view;

	if (r->state == RSK_MAILBOX_IDLE) {
		if (w->tx.state != RSK_TX_ONRING || !chance(d, 20))
			return;
		if (!r->rail || memcmp(&w->looked_key, &w->tx.key, sizeof(w->tx.key)) != 0) {
			w->looked_key = w->tx.key;
			rsk_mailbox_reader_init(r, d->rail[w->id], CREDIT_OFF, CREDIT_BYTES,
						&w->looked_key, ++w->looked);
		}
		rsk_mailbox_start(r);
	}
	rsk_mailbox_poll(d->rail[w->id], &r, 1);
	if (r->state != RSK_MAILBOX_IDLE && rsk_mailbox_take(r, &view) == 1)
		believe(w, &view);
	CHECK(d, !r->rail || rsk_mailbox_reader_validate(r), "reader invalid");
}
