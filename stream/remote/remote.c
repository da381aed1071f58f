// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote.c - links to processes of other hosts: asked for by the engine (wants.c), or by somebody who comes;
 * greeted over a control connection (greet.c), given a rail (remote_rail.c), handed to the engine, and buried. The
 * keeper's thread does all of it but what remote.h gives to the engine.
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
#include "join.h"
#include "keeper.h"
#include "links.h"
#include "local.h"
#include "log.h"
#include "meet.h"
#include "mend.h"
#include "remote_parts.h"
#include "waiting.h"

#define HEED_AGAIN_NS 1000000ull /* a word that is still on its way */
#define IDLE_NS 30000000000ull	 /* a link that no stream has had for so long is let go */

struct rsk_remotes rsk_remotes = { .listener.fd = -1, .work.fd = -1 };

static void on_message(struct rsk_control *c, const struct rsk_remote_msg *m);

static void on_gone(struct rsk_control *c, int err)
{
	struct rsk_remote *r = (struct rsk_remote *)(void *)c;

	rsk_remote_dead(r, err);
}

struct rsk_remote *rsk_remote_new(bool initiator)
{
	struct rsk_remote *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->initiator = initiator;
	r->control.watch.fd = -1;
	r->control.message = on_message;
	r->control.gone = on_gone;
	r->pair.fd = -1;
	r->due_ns = rsk_now_ns() + RSK_REMOTE_GIVE_UP_NS;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		r->rail[i] = (struct rsk_remote_rail){ .r = r,
						       .index = i,
						       .due_ns = UINT64_MAX,
						       .port = RSK_BOARD_NOWHERE,
						       .rings_ns = UINT64_MAX,
						       .register_ns = UINT64_MAX };
	rsk_join_take();
	DL_APPEND(rsk_remotes.all, r);
	rsk_join_give();
	return r;
}

/* What the engine had of it ends; it is freed later (reap()), since its callbacks may be under way. */
void rsk_remote_dead(struct rsk_remote *r, int why)
{
	if (r->state == RSK_REMOTE_DEAD)
		return;
	/* What debtors wait for may have arrived: the rail is asked once more. */
	if (r->state == RSK_REMOTE_UP)
		rsk_mend_work();
	rsk_log(RSK_LOG_INFO, "link %u to another host ends: %d", r->l ? r->l->number : 0, why);
	rsk_remotes.strangers -= !r->initiator && r->state == RSK_REMOTE_GREETING;
	r->state = RSK_REMOTE_DEAD;
	r->due_ns = 0;
	rsk_control_close(&r->control);
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		rsk_remote_rail_end(&r->rail[i]);
		rsk_shares_give(&r->rail[i].share);
	}
	if (r->rails.one)
		rsk_rails_down(&r->rails);
	if (r->l)
		atomic_store(&r->l->seg.rail.broken, why < 0 ? why : -EPIPE);
	rsk_join_take();
	if (r->listed)
		rsk_link_dead(r->l);
	if (r->initiator) {
		rsk_want_gone(r->nonce, why);
		rsk_waiting_lost(r->nonce);
	}
	rsk_join_give();
	if (r->pair.fd >= 0) {
		rsk_keeper_unwatch(&r->pair);
		rsk_own_close(r->pair.fd); /* the engine sees the peer gone */
		r->pair.fd = -1;
	}
	if (r->listed)
		rsk_mend_lost(r->l);
}

/* The dead, once no stream leads there; the engine's object goes with its next sweep. */
static void reap(void)
{
	struct rsk_remote *r, *next;

	DL_FOREACH_SAFE(rsk_remotes.all, r, next) {
		if (r->state != RSK_REMOTE_DEAD || (r->listed && atomic_load(&r->l->streams)))
			continue;
		for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
			if (r->rail[i].rail)
				rsk_rdma_module->rail_free(r->rail[i].rail);
			rsk_ringways_free(&r->rail[i].ways);
		}
		rsk_join_take();
		DL_DELETE(rsk_remotes.all, r);
		if (r->listed)
			atomic_store(&r->l->let_go, true);
		else if (r->l)
			rsk_link_drop(r->l);
		rsk_links_sweep();
		rsk_join_give();
		rsk_rails_fini(&r->rails);
		free(r->credits);
		free(r);
	}
}

/* ---- messages of the engine, to and from the other end ---- */

static void from_engine(struct rsk_watch *w, uint32_t events)
{
	struct rsk_remote *r =
		(struct rsk_remote *)(void *)((char *)w - offsetof(struct rsk_remote, pair));
	struct rsk_remote_msg out = { .type = RSK_REMOTE_LINK };
	int fds[RSK_LINK_MSG_FDS], nfds;
	ssize_t n;

	if (r->holds && (events & EPOLLOUT) &&
	    rsk_link_msg_send(r->pair.fd, &r->held, NULL, 0) == 0) {
		atomic_fetch_add(&rsk_seg_own_head(&r->l->seg)->messages, 1);
		r->holds = false;
		rsk_keeper_watch(&r->pair, EPOLLIN, false);
		rsk_control_pause(&r->control, false);
	}
	while (r->state != RSK_REMOTE_DEAD) {
		n = rsk_link_msg_recv(r->pair.fd, &out.link, fds, &nfds);
		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n <= 0) {
			rsk_remote_dead(r, n ? (int)n : -EPIPE);
			return;
		}
		out.link_bytes = (uint32_t)n;
		if (!rsk_control_send(&r->control, &out))
			return;
		/* Its ring here is wanted by the peer; and the peer's by us. */
		if (out.link.type == RSK_LINK_JOIN || out.link.type == RSK_LINK_ACCEPT)
			rsk_remote_want_ring(r, out.link.sid);
	}
}

static void to_engine(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_link_msg msg = m->link;
	int rc;

	if (r->pair.fd < 0)
		return;
	rc = rsk_link_msg_send(r->pair.fd, &msg, NULL, 0);
	if (rc == -EAGAIN) {
		r->held = msg;
		r->holds = true;
		rsk_control_pause(&r->control, true);
		rsk_keeper_watch(&r->pair, EPOLLIN | EPOLLOUT, false);
	} else if (rc < 0) {
		rsk_remote_dead(r, rc);
	} else {
		atomic_fetch_add(&rsk_seg_own_head(&r->l->seg)->messages, 1);
	}
}

static void on_message(struct rsk_control *c, const struct rsk_remote_msg *m)
{
	struct rsk_remote *r = (struct rsk_remote *)(void *)c;

	/* Until they know each other, who came says HELLO and nothing else, and is told WELCOME or REFUSED. */
	if ((r->state == RSK_REMOTE_GREETING && m->type > RSK_REMOTE_REFUSED) ||
	    (m->type <= RSK_REMOTE_REFUSED && (m->type == RSK_REMOTE_HELLO) == r->initiator)) {
		rsk_remote_dead(r, -EPROTO);
		return;
	}
	switch (m->type) {
	case RSK_REMOTE_HELLO:
		rsk_greet_hello(r, m);
		break;
	case RSK_REMOTE_WELCOME:
		rsk_greet_welcome(r, m);
		break;
	case RSK_REMOTE_REFUSED:
		rsk_log(RSK_LOG_INFO, "link %u: refused, reason %u", r->l->number, m->reason);
		rsk_remote_dead(r, -EACCES);
		break;
	case RSK_REMOTE_RAIL:
		rsk_remote_on_rail(r, m);
		break;
	case RSK_REMOTE_LINK:
		to_engine(r, m);
		break;
	case RSK_REMOTE_LOST:
	case RSK_REMOTE_GAP:
	case RSK_REMOTE_NAMED:
		rsk_remote_on_naming(r, m);
		break;
	case RSK_REMOTE_PLACE:
		rsk_remote_on_place(r, m);
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
		/* Its BREAK came before; or ours had gone out, and a new epoch cannot have begun without its RAIL. */
		if (r->state == RSK_REMOTE_BROKEN)
			rsk_mend_resume(r->l, m->sid, m->pos, m->cell, m->owed);
		break;
	case RSK_REMOTE_RESUMED:
		if (r->state == RSK_REMOTE_BROKEN)
			rsk_mend_resumed(r->l);
		break;
	case RSK_REMOTE_HEED:
		if (r->listed)
			rsk_mend_heed(r->l, m->sid);
		break;
	default:
		if (r->listed)
			rsk_mend_ending(r->l, m->sid, m->cell);
		break;
	}
}

/* ---- handed to the engine ---- */

/* The first rail is up: streams may be joined. 0 or -errno. */
static int hand_over(struct rsk_remote *r)
{
	int half[2], rc;

	rc = rsk_sys_socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, half);
	if (rc < 0)
		return rc;
	r->l->control = rsk_own_fd(half[0]);
	r->pair = (struct rsk_watch){ .fd = rsk_own_fd(half[1]), .ready = from_engine };
	if (r->l->control < 0 || r->pair.fd < 0)
		return -EMFILE;
	rc = rsk_keeper_watch(&r->pair, EPOLLIN, true);
	if (rc < 0)
		return rc;
	r->l->vouched = true;
	r->l->peer_nonce = r->initiator ? r->nonce : 0;
	rsk_join_take();
	rc = rsk_links_add(r->l);
	if (rc == 0) {
		r->listed = true;
		r->l->waits = r->initiator;
		atomic_store(&r->l->state, RSK_LINK_UP);
		if (r->initiator)
			rsk_want_up(r->nonce);
	}
	rsk_join_give();
	return rc;
}

void rsk_remote_up(struct rsk_remote *r)
{
	int rc = 0;

	if (r->state == RSK_REMOTE_RAILING)
		rc = hand_over(r);
	if (rc < 0) {
		rsk_remote_dead(r, rc);
		return;
	}
	r->state = RSK_REMOTE_UP;
	r->due_ns = UINT64_MAX;
}

/* ---- the keeper's rounds ---- */

static void module_works(struct rsk_watch *w, uint32_t events)
{
	rsk_rdma_module->work(rsk_rdma);
}

/* No RDMA here: -errno. */
static int open_here(void)
{
	uint16_t at = 0;
	int control = -1, rc = rsk_rdma_open(&rsk_remote_host);

	if (rc < 0)
		return rc;
	rsk_remotes.work = (struct rsk_watch){ .fd = rsk_rdma_module->work_fd(rsk_rdma),
					       .ready = module_works };
	rc = rsk_keeper_watch(&rsk_remotes.work, EPOLLIN, true);
	if (rc < 0)
		return rc;
	/* Who cannot be come to may still go to others. */
	rc = rsk_rdma_listen(&at, &control);
	if (rc < 0) {
		rsk_log(RSK_LOG_INFO, "no rails are accepted: %d", rc);
		return 0;
	}
	rsk_remotes.listener = (struct rsk_watch){ .fd = control, .ready = rsk_greet_knocks };
	rc = rsk_keeper_watch(&rsk_remotes.listener, EPOLLIN | EPOLLET, true);
	if (rc == 0)
		atomic_store(&rsk_remote_port_now, at);
	return rc;
}

/*
 * The initiator's to say, since it alone joins streams: once the engine has it no more, none can come. A stream that
 * was closed is counted until all it has put has arrived; so what the other end still has of one is complete.
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
	rsk_join_take();
	unused = !atomic_load(&r->l->streams);
	if (unused)
		rsk_link_dead(r->l);
	rsk_join_give();
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
			r->heeds = !rsk_mend_say_heed(r->l, &r->control);
	rsk_join_take();
	rsk_local_tell();
	rsk_join_give();
	DL_FOREACH(rsk_remotes.all, r)
		rsk_remote_hear(r);
	rsk_remote_board_look(now_ns);
	while (rsk_want_next(now_ns, &nonce, &target))
		rsk_greet_begin(nonce, &target);
	DL_FOREACH_SAFE(rsk_remotes.all, r, next) {
		if (r->state == RSK_REMOTE_GREETING && !r->initiator)
			rsk_greet_let_in(r);
		if (is_unused(r, now_ns)) {
			rsk_remote_dead(r, 0);
		} else if (r->state < RSK_REMOTE_UP && now_ns >= r->due_ns) {
			rsk_remote_dead(r, -ETIMEDOUT);
		} else {
			rsk_remote_rails_work(r, now_ns);
			rsk_remote_status_work(r);
			rsk_credit_work(r, now_ns);
		}
	}
	rsk_mend_work();
	reap();
	rsk_remote_mind_words();
	rsk_remote_mind_office();
}

/* When it is looked at again: its rails, or that it has had no stream for long. */
static uint64_t unused_next(const struct rsk_remote *r)
{
	uint64_t next = rsk_remote_rails_next(r), end = r->idle_ns + IDLE_NS;

	return r->idle_ns && r->initiator && end < next ? end : next;
}

static uint64_t next_ns(void)
{
	uint64_t next = rsk_mend_next_ns(), owed = rsk_shares_owed_next();
	struct rsk_remote *r;

	DL_FOREACH(rsk_remotes.all, r) {
		uint64_t due = r->due_ns;

		if (r->state == RSK_REMOTE_DEAD)
			continue;
		if (r->more)
			return 0;
		if (r->state >= RSK_REMOTE_UP)
			due = unused_next(r);
		if (r->state == RSK_REMOTE_UP && r->heeds)
			due = rsk_now_ns() + HEED_AGAIN_NS;
		next = due < next ? due : next;
		due = rsk_credit_next_ns(r);
		next = due < next ? due : next;
	}
	return owed < next ? owed : next;
}

/*
 * All that was put has arrived: 0. -ETIMEDOUT: not in that time. Else it is not known: of what a lost one carried, or
 * one that is about to be known to be.
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
 * All that was put has arrived, also of streams that were closed; the other keepers are told how far that is, and
 * what was consumed.
 */
static bool settled_all(bool first)
{
	struct rsk_remote *r;
	bool settled = rsk_mend_idle();
	int rc;

	DL_FOREACH(rsk_remotes.all, r) {
		if (r->state == RSK_REMOTE_BROKEN)
			settled &= !rsk_mend_is_broken(r->l) && rsk_control_empty(&r->control);
		if (r->state != RSK_REMOTE_UP)
			continue;
		if (first) {
			r->told_end = false;
			rsk_mend_say_consumed(r->l);
		}
		rc = rails_settle(r, RSK_MEND_PATIENCE_NS);
		if (rc == 0 && !r->told_end) {
			rsk_mend_say_ending(r->l, &r->control);
			r->told_end = true;
		}
		settled &= rc == 0 || rc == -ETIMEDOUT;
		settled &= rsk_control_empty(&r->control) && !atomic_load(&r->l->heed_due);
	}
	return settled;
}

static void forked(void)
{
	struct rsk_remote *r;

	/* The parent's objects: only what would keep its connections open goes. */
	DL_FOREACH(rsk_remotes.all, r) {
		r->rails.mute = true;
		rsk_own_close(r->control.watch.fd);
		rsk_own_close(r->pair.fd);
	}
	rsk_own_close(rsk_remotes.listener.fd);
	rsk_remotes.all = NULL;
	atomic_store(&rsk_remote_port_now, 0);
	rsk_wants_forget();
	rsk_mend_forked();
	rsk_rdma_forked();
}

const struct rsk_keeper_job rsk_remote_job = {
	.open = open_here,
	.work = work,
	.next_ns = next_ns,
	.settled = settled_all,
	.forked = forked,
};
