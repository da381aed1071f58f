// SPDX-License-Identifier: BSD-2-Clause
/*
 * pm_transaction.c - the PM transaction that pairs one stream, over a link that is up: PAIR
 * (PMReq), ACCEPT (PMAccept), ACK, or DENY. Each side proves, by sock_diag and /proc, that the
 * other process holds the mirrored end before it answers. pairing.c and pending_pairs.c start it;
 * pm_steps.c has what both ends do. All with the pairing lock held.
 */
#include "pm_transaction.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/local.h>
#include <rsock/sys.h>

#include "arena.h"
#include "handshake.h"
#include "pairing.h"
#include "links.h"
#include "local.h"
#include "log.h"
#include "pm_steps.h"
#include "rendezvous.h"
#include "stream.h"
#include "tuple.h"
#include "upcall.h"
#include "link_requests.h"
#include "operator_request.h"

#define FEWEST_IDS 64

/*
 * Limit of requests of one end that are not answered yet. So each socket holds at most as many
 * requests, as many answers to the other end's requests, and as many ACKs, since those come before
 * the next requests: less than the 270 messages that the kernel has room for. An answer that finds
 * no room would end the link. Nor is the other end's rsockd asked about more at once than it can
 * answer.
 */
#define ASKING_MOST 64u

static void paired(struct rsk_stream *s)
{
	rsk_pm_transaction_over(s);
	s->rec->link = s->link->number;
	s->rec->peer_reason = RSK_REASON_DIRECT; /* of an earlier attempt */
	rsk_stats_set_fabric(s->rec, s->link->fabric);
	/* seq_cst: before the check of the counts of plain waits */
	atomic_store(&s->phase, RSK_PHASE_PAIRED);
	rsk_upcalls->paired(s);
	rsk_stats_event(s->rec, rsk_now_ns(), RSK_EVENT_EARNED, RSK_REASON_DIRECT);
	rsk_stream_request_paired(s);
	if (atomic_load(&s->stamps))
		rsk_stream_want_stamps(s);
	rsk_log(RSK_LOG_INFO, "stream %u paired over link %u with pid %d", s->sid, s->link->number,
		s->link->peer_pid);
}

static void pm_request(const struct rsk_stream *s, struct rsk_pm_msg *pm)
{
	*pm = (struct rsk_pm_msg){
		.op = RSK_PM_REQ,
		.ipv = s->tuple.family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6,
		.ap_port = s->tuple.peer_port,
		.cp_port = s->tuple.local_port,
		.assoc_handle = s->pairing.handle,
	};
	memcpy(pm->cp_ip, s->tuple.local, 16);
	memcpy(pm->ap_ip, s->tuple.peer, 16);
}

/*
 * An id that is free here; RSK_SEG_STREAMS: none. The other end may still use an id that was freed
 * here a moment ago, so ids are taken in turn; from a small range, so that few rings are ever
 * touched.
 */
static uint32_t free_sid(struct rsk_link *l)
{
	uint32_t most = rsk_seg_streams(&l->seg) / 2, turn = FEWEST_IDS;

	while (turn < 2 * atomic_load(&l->streams) && turn < most)
		turn *= 2;
	for (uint32_t i = 0; i < turn; i++) {
		uint32_t sid = l->next_sid++ % turn * 2 + (l->initiator ? 0 : 1);

		if (!rsk_link_stream(l, sid))
			return sid;
	}
	return RSK_SEG_STREAMS;
}

bool rsk_pm_transaction_may_ask(const struct rsk_link *l)
{
	return atomic_load(&l->asking) < ASKING_MOST;
}

void rsk_pm_transaction_begin(struct rsk_stream *s, int fd, struct rsk_link *l, int peer_fd)
{
	struct rsk_link_msg m = { .type = RSK_LINK_PAIR, .fd = fd, .peer_fd = peer_fd };
	struct rsk_pm_msg pm;

	if (!rsk_pm_transaction_may_ask(l)) {
		l->waits = true;
		return;
	}
	m.sid = free_sid(l);
	if (m.sid == RSK_SEG_STREAMS) {
		rsk_stream_untrack(s, RSK_REASON_MEMORY);
		return;
	}
	s->pairing.handle = l->remote ? s->pairing.mapping : rsk_random64();
	m.key_up = s->pairing.key_up = rsk_random64();
	m.key_down = s->pairing.key_down = rsk_random64();
	if (atomic_load(&rsk_stopped)) {
		rsk_stream_untrack(s, (enum rsk_reason)atomic_load(&rsk_stopped));
		return;
	}
	m.cookie = rsk_cookie_of(fd);
	m.netns = s->tuple.netns;
	m.apart = rsk_pm_transaction_met(s, l);
	pm_request(s, &pm);
	if (rsk_pm_transaction_attach(s, l, m.sid) < 0) {
		rsk_stream_untrack(s, RSK_REASON_MEMORY);
		return;
	}
	s->asks = true;
	atomic_fetch_add(&l->asking, 1);
	atomic_store(&s->phase, RSK_PHASE_PAIRING);
	if (rsk_pm_transaction_send(l, &m, &pm) == -EAGAIN) {
		/*
		 * The progress thread makes room by reading messages, and sends pending requests in
		 * the same round: to wake it here would make it spin.
		 */
		l->waits = true;
		rsk_pm_transaction_asks_no_more(s);
		rsk_pm_transaction_undo(s);
		atomic_store(&s->phase, RSK_PHASE_LOOKUP);
		return;
	}
	s->pairing.steps = 0;
	if (l->remote)
		rsk_local_link(s, fd, s->pairing.mapping, NULL, NULL, 0);
}

/* The accepting end that a request names. */
static struct rsk_tuple named(const struct rsk_pm_msg *pm)
{
	struct rsk_tuple t = { .local_port = pm->ap_port,
			       .peer_port = pm->cp_port,
			       .family = pm->ipv == RSK_PM_IPV4 ? AF_INET : AF_INET6 };

	memcpy(t.local, pm->ap_ip, 16);
	memcpy(t.peer, pm->cp_ip, 16);
	return t;
}

/*
 * A link-local address is the same in every network: the interface is no part of the name, nor is
 * the namespace.
 */
static bool is_named(const struct rsk_stream *s, const struct rsk_tuple *t)
{
	struct rsk_tuple ours = s->tuple;

	ours.netns = t->netns;
	return rsk_tuple_equal(&ours, t);
}

struct rsk_stream *rsk_pm_transaction_accepting(const struct rsk_tuple *ours, int guess, int *fd)
{
	uint32_t high = rsk_fd_high();

	for (int64_t i = -1; i < (int64_t)high; i++) {
		struct rsk_stream *s;

		*fd = i < 0 ? guess : (int)i;
		if (!rsk_fd_tracked(*fd) || !(s = rsk_stream_of(*fd)))
			continue;
		if (rsk_stream_phase(s) == RSK_PHASE_LOOKUP && !s->connecting_side &&
		    is_named(s, ours))
			return s;
		rsk_stream_unpin(s);
	}
	return NULL;
}

struct rsk_stream *rsk_pm_transaction_accepting_apart(const struct rsk_link *l, int fd)
{
	struct rsk_stream *s = fd >= 0 && rsk_fd_tracked(fd) ? rsk_stream_of(fd) : NULL;

	if (s && rsk_stream_phase(s) == RSK_PHASE_LOOKUP && !s->connecting_side &&
	    rsk_pm_transaction_met(s, l))
		return s;
	if (s)
		rsk_stream_unpin(s);
	return NULL;
}

/* Returns the reason to deny the request, as far as this process knows; 0: none. */
static int objection(const struct rsk_link *l, const struct rsk_link_msg *m, struct rsk_stream *s)
{
	/* our former stream with that id is still open: the peer must use another id */
	if (rsk_link_stream(l, m->sid))
		return RSK_REASON_MEMORY;
	if (atomic_load(&rsk_stopped))
		return atomic_load(&rsk_stopped);
	if (atomic_load(&s->request.off))
		return RSK_REASON_OPERATOR;
	return rsk_stream_sole_process(s) ? 0 : RSK_REASON_SHARED_HOLDER;
}

static void accept_pair(struct rsk_link *l, const struct rsk_link_msg *m,
			const struct rsk_pm_msg *pm, struct rsk_stream *s, int fd)
{
	struct rsk_link_msg answer = { .type = RSK_LINK_ACCEPT, .sid = m->sid };
	struct rsk_pm_msg out;
	int why = objection(l, m, s);

	if (!why)
		why = rsk_pm_transaction_proof(s, l, m);
	s->pairing.key_up = m->key_up;
	s->pairing.key_down = m->key_down;
	s->pairing.handle = pm->assoc_handle;
	if (!why && rsk_pm_transaction_attach(s, l, m->sid) < 0)
		why = RSK_REASON_MEMORY;
	if (!why && rsk_pm_msg_accept(pm, pm->ap_ip, pm->ap_port, 0, &out) < 0)
		why = RSK_REASON_NO_PEER;
	if (why) {
		rsk_pm_transaction_undo(s);
		rsk_stats_set_reason(s->rec, (enum rsk_reason)why);
		rsk_pm_transaction_deny(l, m, pm, why);
		return;
	}
	s->pairing.steps = 0;
	atomic_store(&s->phase, RSK_PHASE_PAIRING);
	answer.fd = fd;
	answer.cookie = rsk_cookie_of(fd);
	answer.netns = s->tuple.netns;
	answer.apart = s->apart;
	rsk_pm_transaction_send(l, &answer, &out);
}

/*
 * A request that waits until rsockd has said whether its sender is the process that it claims to
 * be. Arena memory, owned by its stream.
 */
struct rsk_held_pair_request {
	struct rsk_link *l; /* may be gone by then */
	uint32_t link;	    /* its number: another link may be at the same place by then */
	uint32_t asked;	    /* number of the rsockd that was asked */
	struct rsk_link_msg m;
	struct rsk_pm_msg pm;
};

/* True if a request of another link waits at @s for its answer, which is not this one's. */
static bool waits_for_another(const struct rsk_stream *s, const struct rsk_link *l)
{
	const struct rsk_held_pair_request *h = s->pairing.held;
	uint32_t number;
	bool waits;

	return h && h->link != l->number && rsk_local_fd(&number, &waits) >= 0 &&
	       h->asked == number;
}

static void hold(struct rsk_link *l, const struct rsk_link_msg *m, const struct rsk_pm_msg *pm,
		 struct rsk_stream *s, int fd)
{
	const struct rsk_verbs_addr *here = rsk_remote_ops->here(l),
				    *from = rsk_remote_ops->from(l, &s->tuple);
	bool waits;

	/* rsockd takes no address for one that is not known yet, and would not compare it. */
	if (from && (!here || from->family != here->family)) {
		rsk_pm_transaction_deny(l, m, pm, RSK_REASON_OTHER_SOURCE);
		return;
	}
	if (waits_for_another(s, l)) {
		rsk_pm_transaction_deny(l, m, pm, RSK_REASON_NO_PEER);
		return;
	}
	if (!s->pairing.held)
		s->pairing.held = rsk_arena_alloc(sizeof(*s->pairing.held));
	if (!s->pairing.held) {
		rsk_pm_transaction_deny(l, m, pm, RSK_REASON_MEMORY);
		return;
	}
	*s->pairing.held =
		(struct rsk_held_pair_request){ .l = l, .link = l->number, .m = *m, .pm = *pm };
	rsk_local_fd(&s->pairing.held->asked, &waits);
	if (rsk_local_link(s, fd, pm->assoc_handle, here, from, RSK_LOCAL_PAIR))
		return;
	/* Otherwise the request would wait in vain; the other end asks again. */
	rsk_arena_free(s->pairing.held);
	s->pairing.held = NULL;
	rsk_pm_transaction_deny(l, m, pm, RSK_REASON_NO_PMSP);
}

bool rsk_pm_transaction_uses(const struct rsk_stream *s, uint64_t handle)
{
	return s->pairing.mapping == handle ||
	       (s->pairing.held && s->pairing.held->pm.assoc_handle == handle);
}

void rsk_pm_transaction_answered(struct rsk_stream *s, int fd, uint64_t handle, uint32_t reason)
{
	struct rsk_held_pair_request *h = s->pairing.held;

	if (!h || h->pm.assoc_handle != handle)
		return;
	s->pairing.held = NULL;
	if (rsk_links_have(h->l) && h->l->number == h->link &&
	    atomic_load(&h->l->state) == RSK_LINK_UP && rsk_stream_phase(s) == RSK_PHASE_LOOKUP) {
		if (reason == RSK_REASON_MAPPED) {
			rsk_pm_transaction_set_mapping(s, h->pm.assoc_handle);
			accept_pair(h->l, &h->m, &h->pm, s, fd);
		} else {
			rsk_pm_transaction_deny(h->l, &h->m, &h->pm, (int)reason);
		}
	}
	rsk_arena_free(h);
}

static void on_pair(struct rsk_link *l, const struct rsk_link_msg *m, const struct rsk_pm_msg *pm)
{
	struct rsk_tuple end = named(pm);
	struct rsk_stream *s;
	int fd;

	/* The requesting end chooses the id: an even one if it made the link, else an odd one. */
	if ((m->sid & 1) != (l->initiator ? 1 : 0) || m->sid >= rsk_seg_streams(&l->seg)) {
		rsk_link_kill(l);
		return;
	}
	/* Another host names the addresses, which rsockd has mapped. */
	if (l->remote && m->apart) {
		rsk_link_kill(l);
		return;
	}
	fd = m->peer_fd;
	if (m->apart)
		s = rsk_pm_transaction_accepting_apart(l, m->peer_fd);
	else
		s = rsk_pm_transaction_accepting(&end, m->peer_fd, &fd);
	if (!s) {
		rsk_pm_transaction_deny(l, m, pm, RSK_REASON_NO_PEER);
		return;
	}
	if (l->remote && rsk_remote_ops->vouched(l, pm->assoc_handle, &s->tuple))
		rsk_pm_transaction_set_mapping(s, pm->assoc_handle);
	/* The mapping may be known, and not this link: a former link has brought it. */
	if (l->remote &&
	    (s->pairing.mapping != pm->assoc_handle || rsk_remote_ops->from(l, &s->tuple)))
		hold(l, m, pm, s, fd);
	else
		accept_pair(l, m, pm, s, fd);
	rsk_stream_unpin(s);
}

/* The stream of a transaction in progress, pinned. */
static struct rsk_stream *transaction(struct rsk_link *l, uint32_t sid, const struct rsk_pm_msg *pm)
{
	struct rsk_stream *s = rsk_link_stream(l, sid);

	if (!s || !rsk_stream_pin(s))
		return NULL;
	if (rsk_link_stream(l, sid) == s && rsk_stream_phase(s) == RSK_PHASE_PAIRING &&
	    s->pairing.handle == pm->assoc_handle)
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
		rsk_stream_unpin(s); /* at this end the stream is the accepting one */
		return;
	}
	pm_request(s, &req);
	why = rsk_pm_msg_answers(pm, &req) ? rsk_pm_transaction_proof(s, l, m) :
					     RSK_REASON_PEER_DENIED;
	if (!why && rsk_pm_msg_ack(pm, &out) < 0)
		why = RSK_REASON_PEER_DENIED;
	if (why) {
		rsk_pm_transaction_undo(s);
		rsk_pm_transaction_deny(l, m, &req, why);
		rsk_stream_untrack(s, (enum rsk_reason)why);
	} else {
		rsk_pm_transaction_send(l, &ack, &out);
		paired(s);
	}
	rsk_stream_unpin(s);
}

static void on_ack(struct rsk_link *l, const struct rsk_link_msg *m, const struct rsk_pm_msg *pm)
{
	struct rsk_stream *s = transaction(l, m->sid, pm);

	if (!s)
		return;
	if (!s->connecting_side) {
		rsk_pairing_forget(s, false);
		paired(s);
	}
	rsk_stream_unpin(s);
}

void rsk_pm_transaction_again(struct rsk_stream *s, enum rsk_reason why)
{
	bool remote = s->link->remote;

	rsk_pm_transaction_undo(s);
	if (remote)
		rsk_pm_transaction_set_mapping(s, 0);
	rsk_stats_set_reason(s->rec, why);
	s->pairing.answer.asked_daemon = 0;
	atomic_store(&s->phase, RSK_PHASE_LOOKUP);
}

static void on_deny(struct rsk_link *l, const struct rsk_link_msg *m, const struct rsk_pm_msg *pm)
{
	struct rsk_stream *s = transaction(l, m->sid, pm);

	if (!s)
		return;
	s->rec->peer_reason = (uint8_t)m->reason;
	/*
	 * The stream may be shared only for a moment (accept, fork, close), or the id be in use:
	 * worth asking again, within limits.
	 */
	rsk_pm_transaction_again(s, RSK_REASON_PEER_DENIED);
	rsk_stream_unpin(s);
}

/* Between hosts. Its next call that sends begins anew (anew.h). */
static void on_left(struct rsk_link *l, const struct rsk_link_msg *m)
{
	struct rsk_stream *s = l->remote ? rsk_link_stream(l, m->sid) : NULL;

	if (!s || !rsk_stream_pin(s))
		return;
	if (rsk_link_stream(l, m->sid) == s && rsk_stream_phase(s) == RSK_PHASE_PAIRED)
		atomic_store(&s->fork.peer_left, true);
	rsk_stream_unpin(s);
}

void rsk_pm_transaction_message(struct rsk_link *l, const struct rsk_link_msg *m,
				const struct rsk_pm_msg *pm)
{
	if (m->type == RSK_LINK_PAIR)
		on_pair(l, m, pm);
	else if (m->type == RSK_LINK_ACCEPT)
		on_accept(l, m, pm);
	else if (m->type == RSK_LINK_ACK)
		on_ack(l, m, pm);
	else if (m->type == RSK_LINK_LEFT)
		on_left(l, m);
	else
		on_deny(l, m, pm);
}
