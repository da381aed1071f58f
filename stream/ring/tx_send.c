// SPDX-License-Identifier: BSD-2-Clause
/* tx_send.c - the sending machine's bytes, by the ring or by the TCP socket: see tx.h. */
#include "tx.h"

#include <errno.h>

#include "tx_parts.h"

/*
 * Accounts for @n, the result of putting a slot. Returns bytes; 0: no room, or the rail broke;
 * -EFAULT.
 */
static ssize_t sent(struct rsk_tx *tx, ssize_t n)
{
	if (n < 0) {
		if (n == RSK_RING_FAULT)
			return -EFAULT;
		if (n != RSK_RAIL_MUTE)
			rsk_tx_break(tx);
		return 0;
	}
	tx->pos += (uint64_t)n;
	tx->ring_bytes += (uint64_t)n;
	return n;
}

static void maybe_restart(struct rsk_tx *tx, const struct rsk_iovcur *src)
{
	/* The first slot of a promotion must be where the receiver was told. */
	if (tx->ring.next != tx->start.cell)
		rsk_ring_tx_restart(&tx->ring, src->left);
}

static ssize_t send_ring(struct rsk_tx *tx, struct rsk_iovcur *src)
{
	ssize_t total = 0, n = 0;

	maybe_restart(tx, src);
	while (src->left &&
	       (n = sent(tx, rsk_ring_put_data(&tx->ring, &tx->key, src, src->left))) > 0)
		total += n;
	if (total || !src->left)
		return total;
	return n < 0 ? n : -EAGAIN;
}

ssize_t rsk_tx_send_whole(struct rsk_tx *tx, struct rsk_iovcur *src)
{
	if (!rsk_tx_on_fast_path(tx) || !src->left || src->left > RSK_SLOT_MAX_PAYLOAD ||
	    tx->ring.stamped)
		return 0;
	maybe_restart(tx, src);
	if (!rsk_ring_tx_fits(&tx->ring, (uint32_t)src->left))
		return 0;
	return sent(tx, rsk_ring_put_len(&tx->ring, &tx->key, src, (uint32_t)src->left));
}

ssize_t rsk_tx_send(struct rsk_tx *tx, struct rsk_tcp *c, struct rsk_iovcur *src, int flags)
{
	struct iovec first;
	ssize_t n;
	int rc = rsk_tx_on_fast_path(tx) ? 0 : rsk_tx_serve(tx, c);

	if (rc < 0)
		return rc;
	switch (tx->state) {
	case RSK_TX_ONRING:
		/* A slot that is filled has the length that comes, which may leave no room. */
		if (tx->ring.stamped && rsk_iovcur_fills(src))
			return src->fill->rc = -ENOSYS;
		return src->left ? send_ring(tx, src) : 0;
	case RSK_TX_RESEND:
	case RSK_TX_HELD:
	case RSK_TX_BROKEN:
		return -EAGAIN;
	default:
		break;
	}
	if (rsk_iovcur_fills(src))
		return src->fill->rc = -ENOSYS;
	/*
	 * Slots put before the fallback may still have to be retransmitted, and before anything
	 * newer.
	 */
	if (rsk_tx_undrained(tx))
		return -EAGAIN;
	if (tx->passed_on)
		return -EPIPE;
	/*
	 * From here on newer bytes are on the TCP socket, so nothing is retransmitted, whatever the
	 * rail reports.
	 */
	tx->rail_loss.safe_to = tx->ring.next;
	if (src->off) {
		uint8_t *p = NULL;

		first.iov_len = rsk_iovcur_run(src, &p);
		first.iov_base = p;
		n = c->ops->send(c, &first, 1, first.iov_len, flags);
	} else {
		n = c->ops->send(c, src->v, src->n, src->left, flags);
	}
	if (n > 0)
		rsk_iovcur_advance(src, (size_t)n);
	return n;
}

bool rsk_tx_writable(const struct rsk_tx *tx)
{
	/* As TCP does: writable again only when a good part is free, not for every cell. */
	return tx->state == RSK_TX_ONRING && rsk_ring_tx_free(&tx->ring) >= rsk_tx_low(tx) &&
	       (!tx->ring.order || rsk_order_tx_ready(tx->ring.order));
}
