// SPDX-License-Identifier: BSD-2-Clause
/*
 * local.c - see local.h: when to look for rsockd, questions about streams, and messages from it.
 * local_say.c tells it the rest.
 */
#include "local.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "resolve_list.h"
#include "remote_addr_cache.h"
#include "fdmsg.h"
#include "local_say.h"
#include "rendezvous.h"
#include "rdma.h"
#include "port_reservations.h"
#include "pm_transaction.h"
#include "syn.h"
#include "tuple.h"
#include "pending_pairs.h"
#include "link_requests.h"
#include "stream_qos.h"

#define LOOK_NS 1000000000ull
#define OTHER_VERSION_NS 60000000000ull
#define SHIFT_MOST 5u
#define MESSAGES_AT_ONCE 64
#define LOOKS_EARLY 16
#define LOOKS_LATE 64
#define APART_NS 3000000000u
#define AGAIN_NS 2000000000ull /* between two questions about a stream, at least */
#define AGAIN_SHARE 4	       /* ... and this share of the time since its lookup began */

/* Written under the pairing lock. Read without it, relaxed: a thread that sees it late ... */
static _Atomic(bool) settled;	  /* ... checks once more */
static _Atomic(uint64_t) look_ns; /* ... checks late */

/* ---- the connection ---- */

bool rsk_local_there(void)
{
	return rsk_rsockd.fd >= 0 && !rsk_rsockd.other_version;
}

bool rsk_local_is_other_version(void)
{
	return rsk_rsockd.other_version != 0;
}

bool rsk_local_settled(void)
{
	return atomic_load_explicit(&settled, memory_order_relaxed);
}

bool rsk_local_due(void)
{
	return rsk_tick_ns() >= atomic_load_explicit(&look_ns, memory_order_relaxed);
}

/* rsockd was looked for, and if it is there, it has our statistics. */
static void settle(void)
{
	atomic_store_explicit(&settled, rsk_rsockd.fd < 0 || rsk_rsockd.shown,
			      memory_order_relaxed);
}

bool rsk_local_may_dial(const struct rsk_rsockd *r, uint64_t now_ns)
{
	uint32_t shift = r->closed_soon > SHIFT_MOST ? SHIFT_MOST : r->closed_soon - 1;

	if (!r->closed_soon)
		return true;
	return now_ns - r->began_ns >= (r->other_version ? OTHER_VERSION_NS : LOOK_NS << shift);
}

void rsk_local_hello(void)
{
	uint64_t now;

	/*
	 * A seccomp filter may forbid the calls that this needs, and no stream will be promoted any
	 * more.
	 */
	if (atomic_load_explicit(&rsk_stopped, memory_order_relaxed))
		return;
	if (!rsk_rsockd.shown && rsk_rsockd.fd >= 0 && rsk_stats_fd() >= 0) {
		rsk_local_say_hello();
		settle();
	}
	now = rsk_tick_ns();
	if (now < atomic_load_explicit(&look_ns, memory_order_relaxed))
		return;
	atomic_store_explicit(&look_ns, now + LOOK_NS, memory_order_relaxed);
	if (rsk_rsockd.fd >= 0)
		rsk_local_hear();
	if (rsk_rsockd.fd < 0 && rsk_local_may_dial(&rsk_rsockd, now))
		rsk_local_handshake();
	else if (rsk_rsockd.fd < 0)
		return;
	else if (rsk_rsockd.missed)
		rsk_local_say_all_listening();
	if (rsk_rsockd.fd >= 0)
		rsk_resolve_list_check();
	settle();
}

void rsk_local_listening(int fd)
{
	rsk_local_hello();
	if (rsk_rsockd.fd >= 0)
		rsk_local_say_listening(fd);
}

void rsk_local_forked(void)
{
	rsk_own_close(rsk_rsockd.fd);
	rsk_rsockd.fd = -1;
	rsk_rsockd.closed_soon = 0;
	rsk_local_out_clear(&rsk_rsockd.out);
	rsk_reservations_forked();
	rsk_syn_forked();
	atomic_store_explicit(&look_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&settled, false, memory_order_relaxed);
}

/* ---- questions about streams ---- */

/*
 * The answer to the connecting end may get lost, or the pairing may fail, and rsockd forgets an end
 * that it has reported: the accepting end asks a few more times, in some rounds of its lookup
 * (policy.h).
 */
static bool once_more(const struct rsk_stream *s)
{
	uint32_t looks = s->pairing.search.looks;

	return !s->connecting_side && looks >= LOOKS_EARLY &&
	       (!(looks & (looks - 1)) || (looks >= LOOKS_LATE && looks % 8 == 0));
}

/*
 * The earlier answer was about the other host, or the network path to it, and may be different by
 * now. Or the answer was lost because this process had too much to read.
 */
static bool may_have_changed(const struct rsk_stream *s)
{
	uint64_t pause = (s->pairing.answer.ns - s->pairing.search.began_ns) / AGAIN_SHARE;

	return (s->pairing.search.lasting || (s->connecting_side && !s->pairing.answer.told)) &&
	       rsk_now_ns() - s->pairing.answer.ns >= (pause > AGAIN_NS ? pause : AGAIN_NS);
}

void rsk_local_lookup(struct rsk_stream *s, int fd)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_LOOKUP, .fd = fd };
	struct rsk_syn syn;

	rsk_local_hello();
	if (rsk_rsockd.fd < 0 || (s->pairing.answer.asked_daemon == rsk_rsockd.number &&
				  !once_more(s) && !may_have_changed(s)))
		return;
	if (rsk_rsockd.uid != rsk_sys_geteuid()) {
		rsk_local_drop(-ESTALE);
		atomic_store_explicit(&look_ns, 0, memory_order_relaxed);
		rsk_local_hello();
		if (rsk_rsockd.fd < 0)
			return;
	}
	rsk_local_say_rdma();
	if (rsk_rsockd.fd < 0)
		return;
	m.flags = (s->connecting_side ? RSK_LOCAL_CONNECTING : 0) |
		  (rsk_knobs.no_shm ? RSK_LOCAL_NO_SHM : 0);
	m.tuple = s->tuple;
	m.cookie = rsk_cookie_of(fd);
	if (!rsk_knobs.no_shm && rsk_resolve_list_between() && rsk_syn_learn(s, fd, &syn)) {
		m.flags |= RSK_LOCAL_BY_SYN;
		m.link = rsk_syn_pack(syn);
	}
	/* What was decided belongs to a mapping: a child has its parent's, and none yet. */
	if (!s->pairing.mapping)
		rsk_stream_set_qos(s, fd, &(struct rsk_qos){ 0 });
	if (rsk_local_say(&m, -1)) {
		s->pairing.answer.asked_daemon = rsk_rsockd.number;
		s->pairing.answer.ns = rsk_now_ns();
	}
}

/* ---- messages from rsockd ---- */

/* The stream that the message names, pinned; NULL: it is gone, or has another descriptor by now. */
static struct rsk_stream *stream_of(const struct rsk_local_msg *m)
{
	bool there = m->fd >= 0 && rsk_fd_tracked(m->fd) && rsk_cookie_of(m->fd) == m->cookie;

	return there ? rsk_stream_of(m->fd) : NULL;
}

/* The same, if the stream waits for an answer. */
static struct rsk_stream *meant(const struct rsk_local_msg *m)
{
	struct rsk_stream *s = stream_of(m);

	if (s && rsk_stream_phase(s) == RSK_PHASE_LOOKUP)
		return s;
	if (s)
		rsk_stream_unpin(s);
	return NULL;
}

static void meet(const struct rsk_local_msg *m, int with)
{
	bool connecting = m->flags & RSK_LOCAL_CONNECTING;
	struct rsk_rendezvous_peer peer = {
		.pid = m->pid, .uid = m->uid, .vouched = true, .nonce = m->link
	};
	struct rsk_stream *s;

	if (with >= 0 && rsk_rendezvous_known(m->link)) {
		rsk_fdmsg_close(with, NULL); /* one link of a name is enough */
		with = -1;
	}
	with = with < 0 ? with : rsk_own_fd(with);
	if (with >= 0)
		rsk_rendezvous_vouched(with, connecting, &peer);
	if (!connecting && !(m->flags & RSK_LOCAL_BY_SYN))
		return; /* the other end connects */
	s = meant(m);
	if (!s)
		return;
	s->syn.met = m->flags & RSK_LOCAL_BY_SYN ? m->link : 0;
	if (!connecting)
		s->pairing.steps = 0;
	else if (rsk_rendezvous_known(m->link)) {
		s->pairing.found.nonce = m->link;
		s->pairing.found.fd = m->peer_fd;
		s->pairing.steps = 0;
	} else {
		struct rsk_local_msg lost = { .type = RSK_LOCAL_LOST, .link = m->link };

		rsk_local_say(&lost, -1);
		s->pairing.answer.asked_daemon = 0; /* asks again, for another link */
	}
	rsk_stream_unpin(s);
}

/*
 * True if the reason means that the other end is on another host, or is treated so; the other
 * reasons are about an end on this host, and the registry.
 */
static bool elsewhere(uint32_t reason)
{
	return reason != RSK_REASON_SAME_PROCESS && reason != RSK_REASON_OTHER_USER &&
	       reason != RSK_REASON_NOT_HOLDER && reason != RSK_REASON_UNVERIFIED &&
	       reason != RSK_REASON_OTHER_NETNS;
}

/*
 * The other end is on another host, to which there is no device, or in a network namespace of its
 * own on this one: then its process says so at about the same time, and a send of this one may
 * still have to show what its first segment was.
 */
static bool leads_nowhere(const struct rsk_stream *s)
{
	return s->pairing.answer.told && elsewhere(s->pairing.answer.told) && !rsk_rdma_device() &&
	       (!rsk_resolve_list_between() ||
		(s->pairing.search.began_ns &&
		 rsk_now_ns() - s->pairing.search.began_ns >= APART_NS &&
		 !atomic_load(&s->syn.asked)));
}

void rsk_local_given_up(struct rsk_stream *s)
{
	if (leads_nowhere(s))
		rsk_stream_untrack(s, (enum rsk_reason)s->pairing.answer.told);
}

/*
 * The stream has a mapping to an address on the other host: a link to there is made, unless there
 * is one.
 */
static void mapped(struct rsk_stream *s, const struct rsk_local_msg *m)
{
	struct rsk_remote_target t = { .tuple = s->tuple, .handle = m->link, .dscp = s->qos.dscp };
	int rc = rsk_remote_accept();

	rsk_stats_set_reason(s->rec, RSK_REASON_MAPPED);
	if (rc == -ENODEV) {
		rsk_stream_untrack(s, RSK_REASON_MAPPED);
		return;
	}
	if (rc < 0) {
		s->pairing.answer.asked_daemon = 0; /* asks again */
		return;
	}
	t.to.family = t.from.family = m->ipv == RSK_PM_IPV4 ? AF_INET : AF_INET6;
	t.to.port = m->port;
	t.to.scope = t.from.scope = s->tuple.scope;
	memcpy(t.to.ip, m->ip, sizeof(t.to.ip));
	memcpy(t.from.ip, m->from_ip, sizeof(t.from.ip));
	if (!memcmp(m->from_ip, (const uint8_t[16]){ 0 }, 16))
		t.from.family = 0;
	if (s->pairing.mapping && s->pairing.mapping != m->link)
		rsk_local_unlink_later(s->pairing.mapping); /* the mapping of a failed attempt */
	s->pairing.mapping = m->link;
	s->pairing.found.nonce = rsk_remote_at(&t);
	s->pairing.found.remote = s->pairing.found.nonce != 0;
	if (s->pairing.found.remote)
		rsk_pending_pairs_ask_over(s, m->fd);
	else
		s->pairing.answer.asked_daemon = 0;
}

/*
 * Gives back a mapping that came too late for its stream, or that the stream cannot use: rsockd can
 * grant another one then. The answer to LINK, which names no port, comes too late if the link has
 * ended, or the stream is paired or gone.
 */
static void give_back(const struct rsk_local_msg *m)
{
	bool promised = m->reason == RSK_REASON_MAPPED && m->port && m->link;
	struct rsk_local_msg unlink = { .type = RSK_LOCAL_UNLINK, .link = m->link };
	struct rsk_stream *s = promised ? stream_of(m) : NULL;

	if (m->reason == RSK_REASON_MAPPED && m->link && !m->port)
		rsk_local_unlink_unused(m->link);
	if (promised && !(s && s->pairing.mapping == m->link) && rsk_rsockd.fd >= 0)
		rsk_local_say(&unlink, -1);
	if (s)
		rsk_stream_unpin(s);
}

/* Sent once, so it counts for a stream that is paired, or waits, or is about to. */
static void serve_by(const struct rsk_local_msg *m)
{
	struct rsk_stream *s = stream_of(m);

	if (!s)
		return;
	rsk_stream_set_qos(s, m->fd, &m->qos);
	rsk_stream_unpin(s);
}

/* By one of the next sends, which begins with a pairing step: shown_send.c. */
static void show_syn(struct rsk_stream *s)
{
	uint8_t not_asked = RSK_SYN_NOT_ASKED;

	atomic_compare_exchange_strong(&s->syn.asked, &not_asked, RSK_SYN_ASKED);
	atomic_store_explicit(&s->work.step, 0, memory_order_relaxed);
}

static void answer(const struct rsk_local_msg *m)
{
	struct rsk_stream *s;

	/* A link that is about to be made must not be admitted by the answer about another one. */
	if (m->link && !(m->flags & RSK_LOCAL_PAIR) &&
	    rsk_remote_ops->answered(m->link, m->reason, m->from_ip))
		return;
	s = meant(m);
	if (!s) {
		give_back(m);
		return;
	}
	s->pairing.answer.told = (uint8_t)m->reason;
	s->pairing.answer.ns = rsk_now_ns();
	s->pairing.search.lasting = elsewhere(m->reason);
	if ((m->flags & RSK_LOCAL_BY_SYN) && s->connecting_side) {
		if (s->syn.is.n)
			s->pairing.answer.asked_daemon = 0; /* says it again, being asked */
		else
			show_syn(s);
	}
	if (s->pairing.search.lasting)
		rsk_remote_addr_cache_add(&s->tuple);
	if (m->link && !s->connecting_side)
		rsk_pm_transaction_answered(s, m->fd, m->link, m->reason);
	else if (m->reason == RSK_REASON_MAPPED && m->port && m->link && rsk_rdma_device())
		mapped(s, m);
	else if (m->reason == RSK_REASON_REMOTE && rsk_remote_accept() != -ENODEV)
		rsk_stats_set_reason(s->rec, RSK_REASON_REMOTE);
	else if (m->reason == RSK_REASON_SAME_PROCESS || leads_nowhere(s))
		rsk_stream_untrack(s, (enum rsk_reason)m->reason);
	else
		rsk_stats_set_reason(s->rec, (enum rsk_reason)m->reason);
	give_back(m);
	rsk_stream_unpin(s);
}

void rsk_local_hear(void)
{
	int said = rsk_rsockd.fd >= 0 ? rsk_local_out_flush(&rsk_rsockd.out, rsk_rsockd.fd) : 0;

	if (said < 0)
		rsk_local_drop(said);
	for (int i = 0; i < MESSAGES_AT_ONCE && rsk_rsockd.fd >= 0; i++) {
		struct rsk_local_msg m;
		int with, rc = rsk_local_msg_recv(rsk_rsockd.fd, true, &m, &with);

		if (rc == -EAGAIN)
			return;
		if (rc > 0) {
			rsk_rsockd.heard = true;
			rsk_rsockd.other_version = 0;
		}
		if (rc == -EPROTONOSUPPORT)
			rsk_rsockd.other_version = rsk_magic_version(m.magic, RSK_LOCAL_LETTERS);
		if (rc <= 0)
			rsk_local_drop(rc);
		else if (m.type == RSK_LOCAL_RENDEZVOUS)
			meet(&m, with);
		else if (m.type == RSK_LOCAL_PORT_TABLE)
			rsk_reservations_came(with, m.port);
		else if (m.type == RSK_LOCAL_QOS)
			serve_by(&m);
		else
			answer(&m);
		if (rc > 0 && m.type != RSK_LOCAL_RENDEZVOUS && with >= 0)
			rsk_sys_close(with);
	}
}
