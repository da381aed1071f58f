// SPDX-License-Identifier: BSD-2-Clause
/*
 * pm_steps.c - what both ends of a PM transaction do: send a message or a refusal, attach the
 * stream to its place in the link, check that the other process holds the mirrored end, and undo
 * it. pm_transaction.c calls this; see pm_transaction.h and pm_steps.h.
 */
#include "pm_steps.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "handshake.h"
#include "knobs.h"
#include "link.h"
#include "local.h"
#include "owner.h"
#include "pairing.h"
#include "pm_transaction.h"
#include "progress.h"
#include "rendezvous.h"
#include "stream.h"
#include "tuple.h"

/*
 * Returns 0; -EAGAIN, of PAIR and LEFT: the other end has so many messages to read that there is no
 * room for another.
 */
static int put_message(struct rsk_link *l, struct rsk_link_msg *m)
{
	int rc = rsk_link_msg_send(l->control, m, NULL, 0);

	if (rc == -EAGAIN && (m->type == RSK_LINK_PAIR || m->type == RSK_LINK_LEFT))
		return rc;
	if (rc < 0)
		rsk_link_kill(l);
	else
		atomic_fetch_add(&rsk_seg_peer_head(&l->seg)->messages, 1);
	return 0;
}

int rsk_pm_transaction_send(struct rsk_link *l, struct rsk_link_msg *m, const struct rsk_pm_msg *pm)
{
	ssize_t n = rsk_pm_msg_encode(pm, m->pm, sizeof(m->pm));

	if (n < 0)
		return 0;
	m->pm_bytes = (uint32_t)n;
	return put_message(l, m);
}

void rsk_pm_transaction_leave(const struct rsk_stream *s, bool wait)
{
	struct rsk_link_msg m = { .type = RSK_LINK_LEFT, .sid = s->sid };
	bool held;

	if (!rsk_pairing_take_anyhow(wait, &held))
		return;
	if (atomic_load(&s->link->state) == RSK_LINK_UP)
		put_message(s->link, &m);
	if (!held)
		rsk_pairing_give();
}

int rsk_pm_transaction_attach(struct rsk_stream *s, struct rsk_link *l, uint32_t sid)
{
	struct rsk_seg_ctl *ctl = rsk_seg_own_ctl(&l->seg, sid);
	uint64_t ctl_off = rsk_seg_ctl_off(sid);
	int rc = rsk_link_reach(l, sid);

	if (rc < 0)
		return rc;
	/* All but the fields that belong to the link. */
	memset((void *)ctl, 0, offsetof(struct rsk_seg_ctl, link));
	memset((void *)&ctl->want_rx, 0, sizeof(*ctl) - offsetof(struct rsk_seg_ctl, want_rx));
	s->attached = true;
	atomic_store(&s->fork.peer_left, false);
	s->link = l;
	s->sid = sid;
	rsk_tx_init(&s->tx, &l->seg.rail, rsk_seg_ring_off(&l->seg.peer, sid),
		    l->seg.peer.ring_bytes / RSK_CELL_BYTES,
		    ctl_off + offsetof(struct rsk_seg_ctl, tx_word), &ctl->rx_word,
		    rsk_link_key(l, s->connecting_side ? s->pairing.key_up : s->pairing.key_down));
	rsk_rx_init(&s->rx, &l->seg.rail, l->seg.rail.segment + rsk_seg_ring_off(&l->seg.own, sid),
		    l->seg.own.ring_bytes / RSK_CELL_BYTES,
		    ctl_off + offsetof(struct rsk_seg_ctl, rx_word), &ctl->tx_word,
		    rsk_link_key(l, s->connecting_side ? s->pairing.key_down : s->pairing.key_up));
	if (l->remote && rsk_knobs.rdma_rails > 1) {
		rsk_tx_tag(&s->tx, &rsk_knobs.order);
		rsk_rx_tag(&s->rx, &l->order, &s->rec->ahead);
	}
	memset(&s->wide, 0, sizeof(s->wide));
	if (l->remote) {
		rsk_tx_laps(&s->tx, RSK_SEG_FIRST_RING / RSK_CELL_BYTES);
		rsk_rx_laps(&s->rx, RSK_SEG_FIRST_RING / RSK_CELL_BYTES);
	}
	if (l->remote && s->qos.rate_bps)
		rsk_tx_set_rate(&s->tx, s->qos.rate_bps, rsk_now_ns());
	if (l->seg.rail.ops->caps & RSK_FABRIC_SYNC) {
		atomic_store(&ctl->consumed, s->rx.ring.next);
		s->rx.credit.consumed = &ctl->consumed;
		s->tx.ring.taken = &rsk_seg_peer_ctl(&l->seg, sid)->consumed;
		s->rx.ended = &ctl->ended;
		s->tx.ended = &rsk_seg_peer_ctl(&l->seg, sid)->ended;
	} else {
		rsk_rx_publish_at(&s->rx, ctl->credit, sizeof(ctl->credit));
	}
	atomic_store(&s->spin.rx_ns, rsk_knobs.spin_ns);
	atomic_store(&s->spin.tx_ns, rsk_knobs.spin_ns);
	atomic_fetch_add(&l->streams, 1);
	rsk_link_set_stream(l, sid, s);
	return 0;
}

void rsk_pm_transaction_set_mapping(struct rsk_stream *s, uint64_t handle)
{
	if (s->pairing.mapping && s->pairing.mapping != handle)
		rsk_local_unlink_later(s->pairing.mapping);
	s->pairing.mapping = handle;
}

bool rsk_pm_transaction_met(const struct rsk_stream *s, const struct rsk_link *l)
{
	return !l->remote && l->vouched && s->syn.met && s->syn.met == l->peer_nonce;
}

/*
 * No kernel interface shows this process and rsockd whose the other end is, since it is in another
 * network namespace, or both are in one that is not rsockd's and have no processes in common (the
 * containers of a pod). rsockd has brought the two together over this link, since each of their
 * processes knew what the connection's first segment was (docs/adr/containers.md). If the kernel
 * shows that end here, the peer must have named it, as one that is here.
 */
static int proof_apart(struct rsk_stream *s, const struct rsk_link *l, const struct rsk_link_msg *m)
{
	struct rsk_tuple end = rsk_tuple_mirror(&s->tuple);
	struct rsk_owner owner;
	int rc;

	if (!rsk_pm_transaction_met(s, l))
		return RSK_REASON_NOT_HOLDER;
	rc = rsk_owner_lookup(&end, &owner);
	if (rc == 0 && (m->netns != s->tuple.netns || m->cookie != owner.cookie))
		return RSK_REASON_NOT_HOLDER;
	if (rc < 0 && rc != -ENOENT)
		return RSK_REASON_UNVERIFIED;
	s->apart = true;
	s->peer.fd = -1;
	return 0;
}

int rsk_pm_transaction_proof(struct rsk_stream *s, const struct rsk_link *l,
			     const struct rsk_link_msg *m)
{
	struct rsk_owner owner;
	int rc;

	/*
	 * On another host: rsockd, here and there, has granted the mapping for this connection and
	 * no other.
	 */
	s->apart = false;
	if (l->remote)
		return 0;
	if (m->apart)
		return proof_apart(s, l, m);
	if (m->netns != s->tuple.netns)
		return RSK_REASON_OTHER_NETNS;
	/*
	 * /proc does not show the files of another user's process; rsockd, which vouches for it,
	 * has made the same check before.
	 */
	rc = l->vouched ? rsk_owner_is(&s->tuple, l->peer_uid, &owner) :
			  rsk_owner_verify(&s->tuple, l->peer_pid, m->fd, l->peer_uid, &owner);
	if (rc == -EOPNOTSUPP)
		return RSK_REASON_UNVERIFIED;
	if (rc == -EPERM)
		return RSK_REASON_OTHER_USER;
	if (rc < 0 || owner.cookie != m->cookie)
		return RSK_REASON_NOT_HOLDER;
	s->peer.fd = m->fd;
	s->peer.cookie = m->cookie;
	return 0;
}

void rsk_pm_transaction_deny(struct rsk_link *l, const struct rsk_link_msg *req,
			     const struct rsk_pm_msg *pm, int why)
{
	struct rsk_link_msg m = { .type = RSK_LINK_DENY, .sid = req->sid, .reason = (uint32_t)why };
	struct rsk_pm_msg out;

	if (rsk_pm_msg_deny(pm, &out) == 0)
		rsk_pm_transaction_send(l, &m, &out);
}

bool rsk_pm_transaction_asks_no_more(struct rsk_stream *s)
{
	if (!s->asks)
		return false;
	s->asks = false;
	atomic_fetch_sub(&s->link->asking, 1);
	return true;
}

void rsk_pm_transaction_over(struct rsk_stream *s)
{
	if (rsk_pm_transaction_asks_no_more(s) && s->link->remote)
		rsk_progress_call();
}

void rsk_pm_transaction_undo(struct rsk_stream *s)
{
	if (!s->link)
		return;
	rsk_pm_transaction_over(s);
	rsk_link_set_stream(s->link, s->sid, NULL);
	atomic_fetch_sub(&s->link->streams, 1);
	s->link = NULL;
}
