// SPDX-License-Identifier: BSD-2-Clause
/* peer_reset.c - see peer_reset.h. */
#include "peer_reset.h"

#include <errno.h>
#include <stddef.h>

#include "links.h"
#include "owner.h"
#include "stream.h"
#include "tuple.h"

/*
 * The peer may only have shut its sending half: true if no process holds its socket any more. When
 * both ends have sent their FIN, the kernel has forgotten that socket, or keeps only a timewait
 * entry, even if its reader still uses it: then the peer's own control word decides, or the end of
 * its process.
 */
static bool peer_is_gone(const struct rsk_stream *s)
{
	struct rsk_tuple end = rsk_tuple_mirror(&s->tuple);
	struct rsk_owner owner;
	int rc;

	if (s->tx.answer.at->what == RSK_RX_CLOSED)
		return true;
	if (s->apart)
		return rsk_link_peer_gone(s->link);
	rc = rsk_owner_lookup(&end, &owner);
	if (rc != -ENOENT && (rc != 0 || owner.inode))
		return false;
	return !atomic_load(&s->wr_shut) || rsk_link_peer_gone(s->link);
}

bool rsk_peer_left_data(struct rsk_stream *s)
{
	struct rsk_rail *rail = &s->link->seg.rail;
	uint64_t consumed = 0, owed;
	bool had;

	rsk_lock(&s->tx_lock);
	owed = s->tx.ring.data_end;
	had = s->tx.counts.promotions && (s->tx.state == RSK_TX_ONRING || !s->tx.peer_fell_back);
	rsk_unlock(&s->tx_lock);
	if (!had)
		return false;
	/* The control word that it wrote when it closed is all the information there is. */
	if (!(rail->ops->caps & RSK_FABRIC_SYNC))
		return s->tx.reader != RSK_READER_THERE && s->tx.ring.told < owed;
	rail->ops->get(rail, rsk_seg_ctl_off(s->sid) + offsetof(struct rsk_seg_ctl, consumed),
		       &consumed, sizeof(consumed), 0);
	return consumed < owed && peer_is_gone(s);
}

void rsk_peer_is_dead(struct rsk_stream *s)
{
	rsk_lock(&s->tx_lock);
	if (s->tx.state == RSK_TX_ONRING) {
		rsk_tx_to_tcp(&s->tx);
		rsk_stream_note(s, true, RSK_REASON_PEER_DEAD);
	}
	rsk_unlock(&s->tx_lock);
}

bool rsk_stream_see_reset(struct rsk_stream *s, int fd)
{
	bool open, told, ring;

	if (!(s->link->seg.rail.ops->caps & RSK_FABRIC_SYNC))
		return false;
	rsk_lock(&s->rx_lock);
	open = !rsk_rx_told_end(&s->rx);
	told = s->rx.tcp.err_told || s->rx.tcp.err;
	rsk_unlock(&s->rx_lock);
	/*
	 * A peer that shut its sending half and goes on reading is not looked up on every check: it
	 * announces its close itself.
	 */
	if (told || (!open && !rsk_link_peer_gone(s->link)))
		return false;
	/* tcp_reset(): after an end, the kernel refuses the sends. */
	if (rsk_peer_left_data(s))
		return rsk_stream_reset(s, fd, open ? -ECONNRESET : -EPIPE, false);
	/*
	 * That end is in order. Data sent from now on is answered by a reset, as with the kernel.
	 */
	rsk_lock(&s->tx_lock);
	ring = s->tx.state == RSK_TX_ONRING;
	rsk_unlock(&s->tx_lock);
	if (ring && rsk_link_peer_gone(s->link))
		rsk_peer_is_dead(s);
	return false;
}
