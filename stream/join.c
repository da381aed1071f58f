// SPDX-License-Identifier: BSD-2-Clause
/*
 * join.c - how the two ends of a connection find each other, and become a joined stream.
 *
 * The accepting end, once the stream has earned it, posts itself in the registry: process, and the name of a local
 * socket where that process can be met. The connecting end looks for that, goes there, makes a link unless there
 * is one, and runs the port mapper's transaction over it: JOIN (PMReq), ACCEPT (PMAccept), ACK, or DENY. Each side
 * proves, by sock_diag and /proc, that the other process holds the mirrored end before it answers. All of it happens
 * in calls that the two programs make anyway; nobody waits. What goes wrong leaves the stream on TCP.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "epoll.h"
#include "handshake.h"
#include "links.h"
#include "log.h"
#include "meet.h"
#include "owner.h"
#include "registry.h"
#include "stream.h"
#include "tuple.h"

#define EAGER_NS 20000000ull /* so long after a search began every call looks who has come, then */
#define MEET_WORK_LATE 16    /* only once for so much work */
#define PATIENCE 64
#define FEWEST_IDS 64
#define JOINING_STEPS 1024
#define HOLDER_CALLS 64

/* Private to the process; a child makes its own. Guarded by lock. */
static struct {
	struct rsk_lock lock;
	int pid;
	struct rsk_registry registry;
} place;

/* The lock is kept over the fork: list, mappings and fds, of which the child gets copies, belong together. */
void rsk_join_fork(void)
{
	rsk_lock(&place.lock);
	rsk_links_fork(false);
}

void rsk_join_fork_parent(bool ok)
{
	if (!ok)
		rsk_links_fork(true);
	rsk_unlock(&place.lock);
}

void rsk_join_fork_child(void)
{
	memset(&place.lock, 0, sizeof(place.lock));
	atomic_store(&rsk_link_users, 0);
	rsk_guard_exit(); /* the parent's rsk_lock() */
}

/* The child's own: what it inherited is its parent's. */
static void be_this_process(void)
{
	if (place.pid == rsk_pid)
		return;
	if (place.pid) {
		rsk_door_leave();
		rsk_registry_close(&place.registry);
	}
	place.pid = rsk_pid;
	rsk_registry_open(&place.registry, NULL, rsk_own_fd);
}

/* ---- messages about streams ---- */

static void put_message(struct rsk_link *l, struct rsk_link_msg *m)
{
	if (rsk_link_msg_send(l->control, m, NULL, 0) < 0)
		rsk_link_dead(l);
	else
		atomic_fetch_add(&rsk_shm_peer_head(&l->shm)->messages, 1);
}

static void put_pm(struct rsk_link *l, struct rsk_link_msg *m, const struct rsk_pm_msg *pm)
{
	ssize_t n = rsk_pm_msg_encode(pm, m->pm, sizeof(m->pm));

	if (n < 0)
		return;
	m->pm_bytes = (uint32_t)n;
	put_message(l, m);
}

static int attach(struct rsk_stream *s, struct rsk_link *l, uint32_t sid)
{
	struct rsk_shm_ctl *ctl = rsk_shm_own_ctl(&l->shm, sid);
	uint64_t ctl_off = rsk_shm_ctl_off(sid);
	int rc = rsk_link_reach(l, sid);

	if (rc < 0)
		return rc;
	memset((void *)ctl, 0, sizeof(*ctl));
	s->attached = true;
	s->link = l;
	s->sid = sid;
	rsk_tx_init(&s->tx, &l->shm.rail, rsk_shm_ring_off(&l->shm.peer, sid),
		    l->shm.peer.ring_bytes / RSK_CELL_BYTES,
		    ctl_off + offsetof(struct rsk_shm_ctl, txmail), &ctl->rxmail,
		    s->connecting_side ? s->key_up : s->key_down);
	rsk_rx_init(&s->rx, &l->shm.rail, l->shm.rail.segment + rsk_shm_ring_off(&l->shm.own, sid),
		    l->shm.own.ring_bytes / RSK_CELL_BYTES,
		    ctl_off + offsetof(struct rsk_shm_ctl, rxmail), &ctl->txmail,
		    s->connecting_side ? s->key_down : s->key_up);
	atomic_store(&ctl->consumed, s->rx.ring.next);
	s->rx.consumed = &ctl->consumed;
	if (l->shm.rail.ops->caps & RSK_FABRIC_SYNC)
		s->tx.ring.taken = &rsk_shm_peer_ctl(&l->shm, sid)->consumed;
	atomic_store(&s->rx_spin_ns, rsk_knobs.spin_ns);
	atomic_store(&s->tx_spin_ns, rsk_knobs.spin_ns);
	atomic_fetch_add(&l->streams, 1);
	rsk_link_set_stream(l, sid, s);
	return 0;
}

static void detach(struct rsk_stream *s)
{
	if (!s->link)
		return;
	rsk_link_set_stream(s->link, s->sid, NULL);
	atomic_fetch_sub(&s->link->streams, 1);
	s->link = NULL;
}

static void joined(struct rsk_stream *s)
{
	s->rec->link = s->link->number;
	atomic_store(&s->phase,
		     RSK_PHASE_JOINED); /* seq_cst: before the look at the plain counts */
	rsk_epoll_joined(s);
	rsk_stats_event(s->rec, rsk_now_ns(), RSK_EVENT_EARNED, RSK_REASON_DIRECT);
	rsk_log(RSK_LOG_INFO, "stream %u joined over link %u with pid %d", s->sid, s->link->number,
		s->link->peer_pid);
}

static void pm_request(const struct rsk_stream *s, struct rsk_pm_msg *pm)
{
	*pm = (struct rsk_pm_msg){
		.op = RSK_PM_REQ,
		.ipv = s->tuple.family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6,
		.ap_port = s->tuple.peer_port,
		.cp_port = s->tuple.local_port,
		.assoc_handle = s->handle,
	};
	memcpy(pm->cp_ip, s->tuple.local, 16);
	memcpy(pm->ap_ip, s->tuple.peer, 16);
}

/*
 * An id that is free here; RSK_SHM_STREAMS: none. One that was used a moment ago may still be used at the other end, so
 * they are taken in turn; of few, so that few rings are ever touched.
 */
static uint32_t free_sid(struct rsk_link *l)
{
	uint32_t most = rsk_shm_streams(&l->shm) / 2, turn = FEWEST_IDS;

	while (turn < 2 * atomic_load(&l->streams) && turn < most)
		turn *= 2;
	for (uint32_t i = 0; i < turn; i++) {
		uint32_t sid = l->next_sid++ % turn * 2 + (l->initiator ? 0 : 1);

		if (!rsk_link_stream(l, sid))
			return sid;
	}
	return RSK_SHM_STREAMS;
}

static void ask(struct rsk_stream *s, int fd, struct rsk_link *l, int peer_fd)
{
	struct rsk_link_msg m = { .type = RSK_LINK_JOIN, .fd = fd, .peer_fd = peer_fd };
	struct rsk_pm_msg pm;

	m.sid = free_sid(l);
	if (m.sid == RSK_SHM_STREAMS) {
		rsk_stream_cold(s, RSK_REASON_MEMORY);
		return;
	}
	s->handle = rsk_random64();
	m.key_up = s->key_up = rsk_random64();
	m.key_down = s->key_down = rsk_random64();
	m.cookie = rsk_cookie_of(fd);
	m.netns = s->tuple.netns;
	pm_request(s, &pm);
	if (attach(s, l, m.sid) < 0) {
		rsk_stream_cold(s, RSK_REASON_MEMORY);
		return;
	}
	s->join_steps = 0;
	atomic_store(&s->phase, RSK_PHASE_JOINING);
	put_pm(l, &m, &pm);
}

/* Does the process at the other end of the link hold the mirrored end, now? */
static int proof(struct rsk_stream *s, struct rsk_link *l, const struct rsk_link_msg *m)
{
	struct rsk_owner owner;
	int rc;

	if (m->netns != s->tuple.netns)
		return RSK_REASON_OTHER_NETNS;
	rc = rsk_owner_verify(&s->tuple, l->peer_pid, m->fd, rsk_sys_geteuid(), &owner);
	if (rc == -EOPNOTSUPP)
		return RSK_REASON_UNVERIFIED;
	if (rc == -EPERM)
		return RSK_REASON_OTHER_USER;
	if (rc < 0 || owner.cookie != m->cookie)
		return RSK_REASON_NOT_HOLDER;
	s->peer_fd = m->fd;
	s->peer_cookie = m->cookie;
	return 0;
}

static bool names_us(const struct rsk_stream *s, const struct rsk_pm_msg *pm)
{
	return pm->ipv == (s->tuple.family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6) &&
	       pm->ap_port == s->tuple.local_port && pm->cp_port == s->tuple.peer_port &&
	       !memcmp(pm->ap_ip, s->tuple.local, 16) && !memcmp(pm->cp_ip, s->tuple.peer, 16);
}

/* The accepting end named by a request: pinned, SEEKING; the posted fd is a good guess. */
static struct rsk_stream *find_named(const struct rsk_pm_msg *pm, int guess, int *fd)
{
	uint32_t high = rsk_fd_high();

	for (int64_t i = -1; i < (int64_t)high; i++) {
		struct rsk_stream *s;

		*fd = i < 0 ? guess : (int)i;
		if (!rsk_fd_hot(*fd) || !(s = rsk_stream_of(*fd)))
			continue;
		if (rsk_stream_phase(s) == RSK_PHASE_SEEKING && !s->connecting_side &&
		    names_us(s, pm))
			return s;
		rsk_stream_unpin(s);
	}
	return NULL;
}

static void deny(struct rsk_link *l, const struct rsk_link_msg *req, const struct rsk_pm_msg *pm,
		 int why)
{
	struct rsk_link_msg m = { .type = RSK_LINK_DENY, .sid = req->sid, .reason = (uint32_t)why };
	struct rsk_pm_msg out;

	if (rsk_pm_msg_deny(pm, &out) == 0)
		put_pm(l, &m, &out);
}

static void on_join(struct rsk_link *l, const struct rsk_link_msg *m, const struct rsk_pm_msg *pm)
{
	struct rsk_link_msg answer = { .type = RSK_LINK_ACCEPT, .sid = m->sid };
	struct rsk_pm_msg out;
	struct rsk_stream *s;
	int fd, why;

	/* Ids are the asker's: even ones where it made the link. */
	if ((m->sid & 1) != (l->initiator ? 1 : 0) || m->sid >= rsk_shm_streams(&l->shm)) {
		rsk_link_dead(l);
		return;
	}
	s = find_named(pm, m->peer_fd, &fd);
	if (!s) {
		deny(l, m, pm, RSK_REASON_NO_PEER);
		return;
	}
	if (rsk_link_stream(l, m->sid))
		why = RSK_REASON_MEMORY; /* our former stream of that id is still open: another id */
	else if (atomic_load(&rsk_stopped))
		why = atomic_load(&rsk_stopped);
	else if (!rsk_stream_sole_process(s))
		why = RSK_REASON_SHARED_HOLDER;
	else
		why = proof(s, l, m);
	s->key_up = m->key_up;
	s->key_down = m->key_down;
	s->handle = pm->assoc_handle;
	if (!why && attach(s, l, m->sid) < 0)
		why = RSK_REASON_MEMORY;
	if (why || rsk_pm_msg_accept(pm, pm->ap_ip, pm->ap_port, 0, &out) < 0) {
		detach(s);
		rsk_stats_set_reason(s->rec, (enum rsk_reason)why);
		deny(l, m, pm, why);
		rsk_stream_unpin(s);
		return;
	}
	s->join_steps = 0;
	atomic_store(&s->phase, RSK_PHASE_JOINING);
	answer.fd = fd;
	answer.cookie = rsk_cookie_of(fd);
	answer.netns = s->tuple.netns;
	put_pm(l, &answer, &out);
	rsk_stream_unpin(s);
}

/* The stream of a transaction under way, pinned. */
static struct rsk_stream *transaction(struct rsk_link *l, uint32_t sid, const struct rsk_pm_msg *pm)
{
	struct rsk_stream *s = rsk_link_stream(l, sid);

	if (!s || !rsk_stream_pin(s))
		return NULL;
	if (rsk_link_stream(l, sid) == s && rsk_stream_phase(s) == RSK_PHASE_JOINING &&
	    s->handle == pm->assoc_handle)
		return s;
	rsk_stream_unpin(s);
	return NULL;
}

static void on_accept(struct rsk_link *l, const struct rsk_link_msg *m, const struct rsk_pm_msg *pm)
{
	struct rsk_link_msg ack = { .type = RSK_LINK_ACK, .sid = m->sid };
	struct rsk_stream *s = transaction(l, m->sid, pm);
	struct rsk_pm_msg req, out;
	int why;

	if (!s)
		return;
	if (!s->connecting_side) {
		rsk_stream_unpin(s); /* it is ours to accept */
		return;
	}
	pm_request(s, &req);
	why = rsk_pm_msg_answers(pm, &req) ? proof(s, l, m) : RSK_REASON_PEER_DENIED;
	if (why || rsk_pm_msg_ack(pm, &out) < 0) {
		detach(s);
		deny(l, m, &req, why);
		rsk_stream_cold(s, (enum rsk_reason)why);
	} else {
		put_pm(l, &ack, &out);
		joined(s);
	}
	rsk_stream_unpin(s);
}

static void on_ack(struct rsk_link *l, const struct rsk_link_msg *m, const struct rsk_pm_msg *pm)
{
	struct rsk_stream *s = transaction(l, m->sid, pm);

	if (!s)
		return;
	if (!s->connecting_side) {
		rsk_join_forget(s);
		joined(s);
	}
	rsk_stream_unpin(s);
}

static void on_deny(struct rsk_link *l, const struct rsk_link_msg *m, const struct rsk_pm_msg *pm)
{
	struct rsk_stream *s = transaction(l, m->sid, pm);

	if (!s)
		return;
	s->rec->peer_reason = (uint8_t)m->reason;
	detach(s);
	/* Shared for the moment (accept, fork, close), an id in use: worth asking again, within bounds. */
	rsk_stats_set_reason(s->rec, RSK_REASON_PEER_DENIED);
	atomic_store(&s->phase, RSK_PHASE_SEEKING);
	rsk_stream_unpin(s);
}

void rsk_join_message(struct rsk_link *l, const struct rsk_link_msg *m, const struct rsk_pm_msg *pm)
{
	if (m->type == RSK_LINK_JOIN)
		on_join(l, m, pm);
	else if (m->type == RSK_LINK_ACCEPT)
		on_accept(l, m, pm);
	else if (m->type == RSK_LINK_ACK)
		on_ack(l, m, pm);
	else
		on_deny(l, m, pm);
}

/* ---- one stream's steps ---- */

static void step_in(struct rsk_stream *s, uint64_t calls)
{
	atomic_store(&s->step_work, rsk_stream_work(s) + calls);
}

static void seek_as_acceptor(struct rsk_stream *s, int fd, uint64_t now)
{
	struct rsk_registry_entry e = {
		.pid = (uint32_t)rsk_pid, .fd = fd, .tuple = s->tuple, .user = (uint64_t)s->sid
	};

	if (rsk_door_open() < 0) {
		rsk_stream_cold(s, RSK_REASON_LINK_ERROR);
		return;
	}
	/* Again and again: it may be lost meanwhile. The same offer is not written twice. */
	if (rsk_policy_look_due(&rsk_knobs.policy, &s->search, now)) {
		e.nonce = rsk_door_nonce();
		e.sock_cookie = rsk_cookie_of(fd);
		e.posted_ns = now;
		if (rsk_registry_post(&place.registry, &e) < 0)
			rsk_log(RSK_LOG_INFO, "fd %d: no registry", fd);
		s->posted_nonce = rsk_door_nonce();
		rsk_policy_looked(&rsk_knobs.policy, &s->search, now);
		rsk_stats_set_reason(s->rec, RSK_REASON_NO_PEER);
	}
	rsk_meet();
}

static void seek_as_connector(struct rsk_stream *s, int fd, uint64_t now)
{
	struct rsk_registry_entry e;
	struct rsk_link *l;

	rsk_meet();
	if (!s->found_nonce && rsk_policy_look_due(&rsk_knobs.policy, &s->search, now)) {
		rsk_policy_looked(&rsk_knobs.policy, &s->search, now);
		rsk_stats_set_reason(s->rec, RSK_REASON_NO_PEER);
		if (rsk_registry_find(&place.registry, &s->tuple, &e) == 0 &&
		    rsk_registry_alive(&e)) {
			s->found_nonce = e.nonce;
			s->found_fd = e.fd;
			s->join_steps = 0;
		}
	}
	if (!s->found_nonce)
		return;
	l = rsk_meet_at(s->found_nonce);
	if (l && atomic_load(&l->state) == RSK_LINK_GREETING && s->join_steps++ < JOINING_STEPS)
		return;
	s->found_nonce = 0;
	if (l && atomic_load(&l->state) == RSK_LINK_UP)
		ask(s, fd, l, s->found_fd);
	else
		rsk_stats_set_reason(s->rec, RSK_REASON_LINK_ERROR);
}

static void seek(struct rsk_stream *s, int fd)
{
	uint64_t now = rsk_now_ns();

	if (s->connecting_side)
		seek_as_connector(s, fd, now);
	else
		seek_as_acceptor(s, fd, now);
	if (rsk_stream_phase(s) != RSK_PHASE_SEEKING) {
		step_in(s, 1);
		return;
	}
	if (!s->found_nonce && rsk_policy_given_up(&rsk_knobs.policy, &s->search, now))
		rsk_stream_cold(s, (enum rsk_reason)s->rec->reason);
	step_in(s, s->found_nonce || now - s->search.began_ns < EAGER_NS ? 1 : MEET_WORK_LATE);
}

static void step(struct rsk_stream *s, int fd)
{
	uint64_t calls = atomic_load(&s->calls);
	int rc;

	switch (rsk_stream_phase(s)) {
	case RSK_PHASE_CANDIDATE:
		if (!rsk_policy_earned(&rsk_knobs.policy, calls,
				       atomic_load(&s->tcp_rx) + atomic_load(&s->tcp_tx))) {
			step_in(s, rsk_knobs.policy.earn_calls ? 1 : 64);
			return;
		}
		if (atomic_load(&rsk_stopped)) {
			rsk_stream_cold(s, (enum rsk_reason)atomic_load(&rsk_stopped));
			return;
		}
		rc = rsk_stream_learn(s, fd);
		if (rc == -EOPNOTSUPP) {
			rsk_stream_cold(s, RSK_REASON_UNSUPPORTED);
			return;
		}
		if (rc < 0) {
			step_in(s, HOLDER_CALLS);
			return;
		}
		atomic_store(&s->phase, RSK_PHASE_SEEKING);
		__attribute__((fallthrough));
	case RSK_PHASE_SEEKING:
		if (!rsk_stream_sole_process(s)) {
			rsk_stats_set_reason(s->rec, RSK_REASON_SHARED_HOLDER);
			step_in(s, HOLDER_CALLS);
			return;
		}
		rsk_stats_stream_own(s->rec);
		seek(s, fd);
		return;
	case RSK_PHASE_JOINING:
		step_in(s, ++s->join_steps < PATIENCE ? 1 : MEET_WORK_LATE);
		rsk_meet();
		if (rsk_stream_phase(s) == RSK_PHASE_JOINING && s->join_steps > JOINING_STEPS &&
		    s->connecting_side) {
			detach(s);
			rsk_stream_cold(s, RSK_REASON_LINK_ERROR);
		}
		return;
	default:
		return;
	}
}

void rsk_join_step(struct rsk_stream *s, int fd)
{
	if (!rsk_trylock(&place.lock))
		return; /* another thread meets people */
	be_this_process();
	step(s, fd);
	rsk_unlock(&place.lock);
}

void rsk_join_sweep(void)
{
	if (!rsk_trylock(&place.lock))
		return; /* the next one does it */
	rsk_links_sweep();
	rsk_unlock(&place.lock);
}

void rsk_join_leave(bool own)
{
	rsk_lock(&place.lock);
	rsk_links_leave(own);
	rsk_unlock(&place.lock);
}

void rsk_join_forget(struct rsk_stream *s)
{
	if (!s->posted_nonce)
		return;
	if (place.pid == rsk_pid && rsk_trylock(&place.lock)) {
		rsk_registry_withdraw(&place.registry, &s->tuple, s->posted_nonce);
		rsk_unlock(&place.lock);
	}
	s->posted_nonce = 0;
}
