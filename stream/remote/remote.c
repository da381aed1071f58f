// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote.c - links to processes on other hosts and the rounds of the progress thread. A link is
 * requested by the engine (link_requests.c) or by a peer that connects; it goes through the
 * handshake over a control connection (link_handshake.c), gets a rail (remote_rail.c), is handed to
 * the engine, and is freed in the end. Only the progress thread runs this.
 */
#include "remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utlist.h>

#include <rsock/sys.h>

#include "credit.h"
#include "pairing.h"
#include "progress.h"
#include "links.h"
#include "local.h"
#include "log.h"
#include "rendezvous.h"
#include "recovery.h"
#include "remote_parts.h"
#include "ring_width.h"
#include "pending_pairs.h"
#include "slot_repair.h"

#define APPLY_AGAIN_NS 1000000ull /* while a control word is still in flight */
#define IDLE_NS 30000000000ull	  /* a link without streams is closed after this time */

void rsk_remote_message(struct rsk_control_conn *c, const struct rsk_remote_msg *m)
{
	struct rsk_remote *r = (struct rsk_remote *)(void *)c;

	/*
	 * Until both ends know each other, the initiator sends HELLO and nothing else, and the
	 * other end answers WELCOME or REFUSED.
	 */
	if ((r->state == RSK_REMOTE_HANDSHAKING && m->type > RSK_REMOTE_REFUSED) ||
	    (m->type <= RSK_REMOTE_REFUSED && (m->type == RSK_REMOTE_HELLO) == r->initiator)) {
		rsk_remote_dead(r, -EPROTO);
		return;
	}
	switch (m->type) {
	case RSK_REMOTE_HELLO:
		rsk_link_handshake_hello(r, m);
		break;
	case RSK_REMOTE_WELCOME:
		rsk_link_handshake_welcome(r, m);
		break;
	case RSK_REMOTE_REFUSED:
		rsk_log(RSK_LOG_INFO, "link %u: refused, reason %u", r->l->number, m->reason);
		r->peer_reason = m->reason;
		rsk_remote_dead(r, -EACCES);
		break;
	case RSK_REMOTE_RAIL:
		rsk_remote_on_rail(r, m);
		break;
	case RSK_REMOTE_LINK:
		rsk_remote_to_engine(r, m);
		break;
	case RSK_REMOTE_RAIL_DOWN:
	case RSK_REMOTE_MISSING:
	case RSK_REMOTE_MISSING_END:
		rsk_remote_on_missing(r, m);
		break;
	case RSK_REMOTE_CANDIDATE:
		rsk_remote_on_candidate(r, m);
		break;
	case RSK_REMOTE_NARROW:
		rsk_remote_on_narrow(r, m);
		break;
	case RSK_REMOTE_RING_REQ:
		rsk_remote_on_ring_req(r, m);
		break;
	case RSK_REMOTE_RING:
		rsk_remote_on_ring(r, m);
		break;
	case RSK_REMOTE_BREAK:
		rsk_remote_on_break(r, m);
		break;
	case RSK_REMOTE_RESUME:
		/*
		 * The peer's BREAK came before this; or our BREAK was sent first, and no new epoch
		 * can have begun, since the peer's RAIL comes behind this message.
		 */
		if (r->state == RSK_REMOTE_BROKEN)
			rsk_recovery_resume(r->l, m->sid, m->pos, m->cell, m->owed, m->ring_end);
		break;
	case RSK_REMOTE_RESUMED:
		if (r->state == RSK_REMOTE_BROKEN)
			rsk_recovery_resumed(r->l);
		break;
	case RSK_REMOTE_APPLY:
		if (r->listed)
			rsk_recovery_apply(r->l, m->sid);
		break;
	default:
		if (r->listed)
			rsk_recovery_ending(r->l, m->sid, m->cell);
		break;
	}
}

/* ---- the rounds of the progress thread ---- */

static void module_works(struct rsk_watch *w, uint32_t events)
{
	rsk_rdma_module->work(rsk_rdma);
}

/* Returns -errno if there is no RDMA on this host. */
static int open_here(void)
{
	uint16_t at = 0;
	int control = -1, rc = rsk_rdma_open(&rsk_remote_host);

	if (rc < 0)
		return rc;
	rsk_remotes.work = (struct rsk_watch){ .fd = rsk_rdma_module->work_fd(rsk_rdma),
					       .ready = module_works };
	rc = rsk_progress_watch(&rsk_remotes.work, EPOLLIN, true);
	if (rc < 0)
		return rc;
	/* A process that cannot accept links may still connect to others. */
	rc = rsk_rdma_listen(&at, &control);
	if (rc < 0) {
		rsk_log(RSK_LOG_INFO, "no rails are accepted: %d", rc);
		return 0;
	}
	rsk_remotes.listener =
		(struct rsk_watch){ .fd = control, .ready = rsk_link_handshake_accept };
	rc = rsk_progress_watch(&rsk_remotes.listener, EPOLLIN | EPOLLET, true);
	if (rc == 0)
		atomic_store(&rsk_remote_port_now, at);
	return rc;
}

/*
 * The initiator decides, since only it pairs streams: once its engine does not have the link any
 * more, no stream can be added. A closed stream is counted until all that it has put has arrived;
 * so what the other end still has of such a stream is complete.
 */
static bool is_unused(struct rsk_remote *r, uint64_t now_ns)
{
	bool unused = false;

	if (!r->listed || r->state == RSK_REMOTE_DEAD)
		return false;
	if (atomic_load(&r->l->streams))
		r->idle_ns = 0;
	else if (!r->idle_ns)
		r->idle_ns = now_ns;
	if (!r->initiator || !r->idle_ns || now_ns - r->idle_ns < IDLE_NS)
		return false;
	rsk_pairing_take();
	unused = !atomic_load(&r->l->streams);
	if (unused)
		rsk_link_kill(r->l);
	rsk_pairing_give();
	return unused;
}

static void work(uint64_t now_ns)
{
	struct rsk_remote *r, *next;
	struct rsk_remote_target target;
	uint64_t nonce;

	rsk_rdma_module->work(rsk_rdma);
	DL_FOREACH(rsk_remotes.all, r)
		if (r->state == RSK_REMOTE_UP)
			r->applies = !rsk_recovery_say_apply(r->l, &r->control);
	rsk_pairing_take();
	rsk_local_tell();
	rsk_pairing_give();
	DL_FOREACH(rsk_remotes.all, r)
		rsk_remote_hear(r);
	rsk_remote_ports_check(now_ns);
	while (rsk_link_request_next(now_ns, &nonce, &target))
		rsk_link_handshake_begin(nonce, &target);
	DL_FOREACH_SAFE(rsk_remotes.all, r, next) {
		if (r->state == RSK_REMOTE_HANDSHAKING && !r->initiator)
			rsk_link_handshake_admit(r);
		if (is_unused(r, now_ns)) {
			rsk_remote_dead(r, 0);
		} else if (r->state < RSK_REMOTE_UP && now_ns >= r->due_ns) {
			rsk_remote_dead(r, -ETIMEDOUT);
		} else {
			rsk_remote_rails_work(r, now_ns);
			rsk_remote_status_work(r);
			rsk_credit_work(r, now_ns);
			rsk_ring_width_rest(r, now_ns);
			rsk_slot_repair_work(r, now_ns);
		}
	}
	rsk_recovery_work();
	rsk_remotes_reap();
	rsk_remote_watch_news();
	rsk_remote_watch_daemon();
}

/* The time of the next check of its rails, or of its having had no stream for IDLE_NS. */
static uint64_t unused_next(const struct rsk_remote *r)
{
	uint64_t next = rsk_remote_rails_next(r), end = r->idle_ns + IDLE_NS;

	return r->idle_ns && r->initiator && end < next ? end : next;
}

static uint64_t next_ns(void)
{
	uint64_t next = rsk_recovery_next_ns(), owed = rsk_reservations_owed_next();
	struct rsk_remote *r;

	DL_FOREACH(rsk_remotes.all, r) {
		uint64_t due = r->due_ns;

		if (r->state == RSK_REMOTE_DEAD)
			continue;
		if (r->more)
			return 0;
		if (r->state >= RSK_REMOTE_UP)
			due = unused_next(r);
		if (r->state == RSK_REMOTE_UP && r->applies)
			due = rsk_now_ns() + APPLY_AGAIN_NS;
		next = due < next ? due : next;
		due = rsk_credit_next_ns(r);
		next = due < next ? due : next;
		due = r->rest_ns;
		next = due < next ? due : next;
		due = rsk_slot_repair_next_ns(r);
		next = due < next ? due : next;
	}
	return owed < next ? owed : next;
}

/*
 * Returns 0 if all that was put has arrived; -ETIMEDOUT if it has not within @timeout_ns; another
 * -errno if this cannot be known, because a lost rail carried some of it, or a rail that is about
 * to be found lost.
 */
static int rails_settle(struct rsk_remote *r, uint64_t timeout_ns)
{
	uint64_t until = rsk_now_ns() + timeout_ns;
	int rc = 0;

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		uint64_t now = rsk_now_ns();
		int one = 0;

		if (r->rail[i].state == RSK_REMOTE_RAIL_UP)
			one = rsk_rdma_module->rail_settle(r->rail[i].rail,
							   now < until ? until - now : 0);
		else if (r->rail[i].state == RSK_REMOTE_RAIL_LOST)
			one = -EAGAIN;
		if (one < 0 && (!rc || rc == -ETIMEDOUT))
			rc = one;
	}
	return rc;
}

/*
 * True if all that was put has arrived, including the bytes of closed streams, and the other
 * progress threads have been told how far that is and what was consumed.
 */
static bool settled_all(bool first)
{
	struct rsk_remote *r;
	bool settled = rsk_recovery_idle();
	int rc;

	DL_FOREACH(rsk_remotes.all, r) {
		if (r->state == RSK_REMOTE_BROKEN)
			settled &= !rsk_recovery_is_broken(r->l) &&
				   rsk_control_conn_empty(&r->control);
		if (r->state != RSK_REMOTE_UP)
			continue;
		if (first) {
			rsk_remote_from_engine(r);
			if (r->state != RSK_REMOTE_UP)
				continue;
			r->told_end = false;
			rsk_recovery_say_consumed(r->l);
		}
		rc = rails_settle(r, RSK_RECOVERY_PATIENCE_NS);
		if (rc == 0 && !r->told_end) {
			rsk_recovery_say_ending(r->l, &r->control);
			r->told_end = true;
		}
		settled &= rc == 0 || rc == -ETIMEDOUT;
		settled &= rsk_control_conn_empty(&r->control) && !atomic_load(&r->l->apply_due);
	}
	return settled;
}

static void forked(void)
{
	struct rsk_remote *r;

	/*
	 * The objects are the parent's: only the descriptors that would keep its connections open
	 * are closed.
	 */
	DL_FOREACH(rsk_remotes.all, r) {
		r->rails.mute = true;
		rsk_own_close(r->control.watch.fd);
		rsk_own_close(r->pair.fd);
	}
	rsk_own_close(rsk_remotes.listener.fd);
	rsk_remotes_forget();
	rsk_remote_forget_daemon();
	atomic_store(&rsk_remote_port_now, 0);
	rsk_link_requests_forget();
	rsk_recovery_forked();
	rsk_rdma_forked();
}

const struct rsk_progress_job rsk_remote_job = {
	.open = open_here,
	.work = work,
	.next_ns = next_ns,
	.settled = settled_all,
	.forked = forked,
};
