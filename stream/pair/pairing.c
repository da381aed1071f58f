// SPDX-License-Identifier: BSD-2-Clause
/*
 * pairing.c - how the two ends of a connection find each other and become a paired stream.
 * rsk_pairing_step() is called from the stream's own calls.
 *
 * The accepting end, once the stream has earned promotion, posts itself in the registry: its
 * process, and the name of the local socket on which that process listens. The connecting end looks
 * for that entry, connects, makes a link unless there is one, and runs the port mapper's
 * transaction over it: PAIR (PMReq), ACCEPT (PMAccept), ACK, or DENY. Each side proves, by
 * sock_diag and /proc, that the other process holds the mirrored end before it answers. All of it
 * happens in calls that the two programs make anyway, and no call waits for it. After a failure the
 * stream stays on TCP. The transaction is in pm_transaction.c.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "absent.h"
#include "inherited.h"
#include "remote_addr_cache.h"
#include "pairing.h"
#include "links.h"
#include "local.h"
#include "log.h"
#include "other_version.h"
#include "rendezvous.h"
#include "fd_wait.h"
#include "place.h"
#include "registry.h"
#include "stream.h"
#include "pm_transaction.h"
#include "tuple.h"
#include "link_requests.h"

#define EAGER_NS 20000000ull	  /* while a lookup is younger, every call takes a step */
#define RENDEZVOUS_WORK_LATE 16	  /* after that: work between two steps */
#define RENDEZVOUS_WORK_RARE 1024 /* the same after looks_max looks: a peer may still come */
#define PATIENCE 64
#define PAIRING_STEPS 1024
#define HOLDER_CALLS 64
/* rounds without rsockd: two processes of one user have found each other by then */
#define LOOKS_ALONE 4

/*
 * The lock is held over the fork: list, mappings and fds, of which the child gets copies, belong
 * together.
 */
void rsk_pairing_fork(void)
{
	rsk_pairing_take();
}

void rsk_pairing_fork_parent(void)
{
	rsk_pairing_give();
}

void rsk_pairing_fork_child(void)
{
	rsk_place_forked();
	rsk_links_used_by_none();
	rsk_fd_waits_forked();
	rsk_local_forked();
	/*
	 * A process that connects to the listener means the parent, whose credentials the socket
	 * carries.
	 */
	rsk_rendezvous_close();
	rsk_place_leave();
	rsk_sigdefer_exit(); /* for the parent's rsk_lock() */
}

/* ---- the steps of one stream ---- */

static void step_in(struct rsk_stream *s, uint64_t calls)
{
	atomic_store(&s->work.step, rsk_stream_work(s) + calls);
}

/*
 * True if the reason that is shown says more than NO_PEER: it is replaced only once rsockd or the
 * kernel has given another reason.
 */
static bool tells_more(enum rsk_reason shown)
{
	return shown == RSK_REASON_SHARED_HOLDER || shown == RSK_REASON_PEER_DENIED ||
	       shown == RSK_REASON_LINK_ERROR || shown == RSK_REASON_FD_LIMIT ||
	       shown == RSK_REASON_MEMORY;
}

/* Where rsockd would help, and is of another version, that is the reason. */
static void mind_rsockd(struct rsk_stream *s)
{
	if (rsk_local_is_other_version() && (s->pairing.answer.absent == RSK_REASON_NO_RSOCKD ||
					     s->pairing.answer.absent == RSK_REASON_OTHER_USER))
		s->pairing.answer.absent = RSK_REASON_RSOCKD_VERSION;
}

/*
 * The peer was not found this time. After a few rounds the kernel is asked which user owns the
 * other end, and rsockd is asked; rsockd at once if this process does not use the registry
 * (rsk_knobs.apart), or if the address is known to be another host's.
 */
static void looked(struct rsk_stream *s, int fd, uint64_t now, int registry)
{
	uint8_t *absent = &s->pairing.answer.absent, why;
	uint32_t looks;

	rsk_policy_looked(&rsk_knobs.policy, &s->pairing.search, now);
	looks = s->pairing.search.looks;
	if (*absent == RSK_REASON_NO_REGISTRY || *absent == RSK_REASON_FD_LIMIT ||
	    *absent == RSK_REASON_MEMORY)
		*absent = 0;
	if (registry < 0)
		*absent = (uint8_t)rsk_absent_registry(registry);
	else if (looks >= LOOKS_ALONE &&
		 (!(looks & (looks - 1)) || looks == rsk_knobs.policy.looks_max))
		*absent = (uint8_t)rsk_absent_why(&s->tuple, rsk_local_there());
	mind_rsockd(s);
	/* The peer connected, and this process lacked a resource to accept it. */
	if (rsk_rendezvous_lacks() && (!*absent || *absent == RSK_REASON_NO_PEER))
		*absent = (uint8_t)rsk_absent_link(rsk_rendezvous_lacks());
	why = s->pairing.answer.told ? s->pairing.answer.told : *absent;
	if (why || !tells_more((enum rsk_reason)s->rec->reason))
		rsk_stats_set_reason(s->rec, why ? (enum rsk_reason)why : RSK_REASON_NO_PEER);
	if (rsk_knobs.no_shm || looks >= LOOKS_ALONE || rsk_remote_addr_cache_has(&s->tuple))
		rsk_local_lookup(s, fd);
	rsk_local_given_up(s);
}

/*
 * rsockd first: a peer in another network namespace sends its request after rsockd has told this
 * end whose it is. Where a request comes in between the two it is denied, and the peer asks again.
 */
static void hear(void)
{
	rsk_local_hear();
	rsk_rendezvous_work();
}

static int post(struct rsk_stream *s, int fd, uint64_t now)
{
	struct rsk_registry_entry e = { .pid = (uint32_t)rsk_pid,
					.fd = fd,
					.tuple = s->tuple,
					.user = (uint64_t)s->sid,
					.nonce = rsk_rendezvous_nonce(),
					.sock_cookie = rsk_cookie_of(fd),
					.posted_ns = now };
	int rc = rsk_registry_post(rsk_place_registry(), &e);

	if (rc < 0)
		rsk_log(RSK_LOG_INFO, "fd %d: no registry: %d", fd, rc);
	s->pairing.posted_nonce = e.nonce;
	return rc;
}

static void lookup_as_acceptor(struct rsk_stream *s, int fd, uint64_t now)
{
	int rc = rsk_knobs.no_shm ? 0 : rsk_rendezvous_listen();

	if (rc < 0) {
		rsk_log(RSK_LOG_INFO, "fd %d: no socket for others to come to: %d", fd, rc);
		rsk_stream_untrack(s, rsk_absent_link(rc));
		return;
	}
	/*
	 * Posted in each round, since the entry may get lost; the same entry is not written twice.
	 */
	if (rsk_policy_check_due(&rsk_knobs.policy, &s->pairing.search, now)) {
		looked(s, fd, now, rsk_knobs.no_shm ? 0 : post(s, fd, now));
	}
	hear();
}

/* Pairs over the link to another host, which the progress thread makes. */
static void lookup_remote(struct rsk_stream *s, int fd)
{
	struct rsk_link *l = rsk_rendezvous_known(s->pairing.found.nonce);
	int rc = rsk_remote_progress(s->pairing.found.nonce);

	if (rc == -EINPROGRESS)
		return;
	if (rc == 0 && l && atomic_load(&l->state) == RSK_LINK_UP) {
		rsk_pm_transaction_begin(s, fd, l, -1);
		if (rsk_stream_phase(s) == RSK_PHASE_LOOKUP)
			return; /* no room for the request: the next call tries again */
	} else {
		rsk_log(RSK_LOG_INFO, "fd %d: no link to the other host: %d", fd, rc);
		rsk_stats_set_reason(s->rec, rsk_absent_link(rc));
		if (rc == -EPROTONOSUPPORT)
			rsk_stream_untrack(s, RSK_REASON_VERSION);
		s->pairing.answer.asked_daemon = 0; /* rsockd may know better by then */
	}
	s->pairing.found.nonce = 0;
	s->pairing.found.remote = false;
}

static void lookup_as_connector(struct rsk_stream *s, int fd, uint64_t now)
{
	struct rsk_registry_entry e;
	uint64_t nonce;
	struct rsk_link *l;
	int rc = -ENOENT;

	hear();
	if (rsk_stream_phase(s) != RSK_PHASE_LOOKUP)
		return;
	if (!s->pairing.found.nonce &&
	    rsk_policy_check_due(&rsk_knobs.policy, &s->pairing.search, now)) {
		if (!rsk_knobs.no_shm)
			rc = rsk_registry_find(rsk_place_registry(), &s->tuple, &e);
		looked(s, fd, now, rc == -ENOENT ? 0 : rc);
		if (rc == 0 && rsk_registry_alive(&e)) {
			s->pairing.found.nonce = e.nonce;
			s->pairing.found.fd = e.fd;
			s->pairing.steps = 0;
		}
	}
	if (!s->pairing.found.nonce)
		return;
	if (s->pairing.found.remote) {
		lookup_remote(s, fd);
		return;
	}
	l = rsk_rendezvous_at(s->pairing.found.nonce, &rc);
	if (l && l->other_version) {
		rsk_other_version_stays(s, fd, l);
		return;
	}
	if (l && atomic_load(&l->state) == RSK_LINK_HANDSHAKING &&
	    s->pairing.steps++ < PAIRING_STEPS)
		return;
	nonce = s->pairing.found.nonce;
	s->pairing.found.nonce = 0;
	if (l && atomic_load(&l->state) == RSK_LINK_UP) {
		rsk_pm_transaction_begin(s, fd, l, s->pairing.found.fd);
		/* No room for the request: the next call tries again. */
		if (rsk_stream_phase(s) != RSK_PHASE_LOOKUP)
			return;
		if (s->pairing.steps++ < PAIRING_STEPS) {
			s->pairing.found.nonce = nonce;
			return;
		}
	}
	rsk_log(RSK_LOG_INFO, "fd %d: no link to the process at the other end: %d", fd, rc);
	rsk_stats_set_reason(s->rec, rsk_absent_link(rc));
	s->pairing.answer.asked_daemon = 0; /* rsockd may make another link */
}

static void look_up(struct rsk_stream *s, int fd)
{
	uint64_t now = rsk_now_ns();
	bool soon;

	if (s->connecting_side)
		lookup_as_connector(s, fd, now);
	else
		lookup_as_acceptor(s, fd, now);
	if (rsk_stream_phase(s) != RSK_PHASE_LOOKUP) {
		step_in(s, 1);
		return;
	}
	if (!s->pairing.found.nonce &&
	    rsk_policy_given_up(&rsk_knobs.policy, &s->pairing.search, now))
		rsk_stream_untrack(s, (enum rsk_reason)s->rec->reason);
	soon = (s->pairing.found.nonce && !s->pairing.found.remote) ||
	       now - s->pairing.search.began_ns < EAGER_NS;
	atomic_store_explicit(&s->soon, soon, memory_order_relaxed);
	/* A send that is to show its segment is one with a step. */
	if (soon || atomic_load(&s->syn.asked) == RSK_SYN_ASKED)
		step_in(s, 1);
	else
		step_in(s, s->pairing.found.nonce ||
					   s->pairing.search.looks < rsk_knobs.policy.looks_max ?
				   RENDEZVOUS_WORK_LATE :
				   RENDEZVOUS_WORK_RARE);
}

/* True if the stream has earned promotion by an operator's request, or by its calls and bytes. */
static bool earned(struct rsk_stream *s)
{
	return atomic_load(&s->request.search_anew) ||
	       rsk_policy_earned(&rsk_knobs.policy, atomic_load(&s->work.calls),
				 atomic_load(&s->tcp_bytes.rx) + atomic_load(&s->tcp_bytes.tx));
}

static void step(struct rsk_stream *s, int fd)
{
	uint32_t phase = rsk_stream_phase(s);
	enum rsk_stamps stamps;
	enum rsk_reason why;
	int rc;

	if (atomic_load(&s->request.off) && phase <= RSK_PHASE_LOOKUP) {
		atomic_store(&s->work.step, UINT64_MAX);
		/*
		 * A thread that takes the request back makes a step due; of the two, the later one
		 * sees the other's store.
		 */
		if (!atomic_load(&s->request.off))
			step_in(s, 0);
		return;
	}
	switch (phase) {
	case RSK_PHASE_CANDIDATE:
		rsk_local_hello();
		if (!earned(s)) {
			step_in(s, rsk_knobs.policy.earn_calls ? 1 : 64);
			return;
		}
		if (atomic_load(&rsk_stopped)) {
			rsk_stream_untrack(s, (enum rsk_reason)atomic_load(&rsk_stopped));
			return;
		}
		rc = rsk_stream_learn(s, fd);
		stamps = rsk_stamps_asked(fd);
		why = rc == -EOPNOTSUPP ? RSK_REASON_UNSUPPORTED : rsk_kernel_refuses(fd, stamps);
		if (why) {
			rsk_stream_untrack(s, why);
			return;
		}
		if (rc < 0) {
			step_in(s, HOLDER_CALLS);
			return;
		}
		/* Also of options that were set where no hook saw it: on its listener. */
		atomic_store(&s->stamps, rsk_stamps_type(fd, stamps));
		atomic_store(&s->phase, RSK_PHASE_LOOKUP);
		__attribute__((fallthrough));
	case RSK_PHASE_LOOKUP:
		if (!rsk_inherited_look(s))
			return;
		if (!rsk_stream_sole_process(s)) {
			rsk_stats_set_reason(s->rec, RSK_REASON_SHARED_HOLDER);
			step_in(s, HOLDER_CALLS);
			return;
		}
		if (atomic_exchange(&s->request.search_anew, false)) {
			s->pairing.search = (struct rsk_policy_search){ 0 };
			s->pairing.answer.asked_daemon = 0;
		}
		rsk_stats_stream_own(s->rec);
		look_up(s, fd);
		return;
	case RSK_PHASE_PAIRING:
		step_in(s, ++s->pairing.steps < PATIENCE ? 1 : RENDEZVOUS_WORK_LATE);
		/*
		 * Forked meanwhile: only the process that sent the request can get the answer, and
		 * it may make no more calls.
		 */
		if (!rsk_stream_sole_process(s))
			rsk_stats_set_reason(s->rec, RSK_REASON_SHARED_HOLDER);
		hear();
		if (rsk_stream_phase(s) != RSK_PHASE_PAIRING)
			return;
		/* That process has ended, and the connection has not: another one may have it. */
		if (atomic_load(&s->link->state) == RSK_LINK_DEAD) {
			rsk_pm_transaction_again(s, RSK_REASON_LINK_ERROR);
		} else if (s->pairing.steps > PAIRING_STEPS && s->connecting_side) {
			rsk_log(RSK_LOG_INFO, "fd %d: pid %d does not answer over the link", fd,
				s->link->peer_pid);
			rsk_pm_transaction_undo(s);
			rsk_stream_untrack(s, RSK_REASON_LINK_ERROR);
		}
	}
}

void rsk_pairing_step(struct rsk_stream *s, int fd)
{
	if (!rsk_pairing_try())
		return; /* another thread takes steps */
	rsk_place_is_mine();
	step(s, fd);
	rsk_pairing_give();
}

/* ---- a wait of the program's own, during which the pairing goes on ---- */

static uint32_t watch(struct pollfd *out, uint32_t n, uint32_t room, int fd)
{
	if (fd >= 0 && n < room)
		out[n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
	return n;
}

/* For an end that waits for a request: the listener, and the links that exist, newest first. */
static uint32_t watch_all(struct pollfd *out, uint32_t room)
{
	uint32_t n = watch(out, 0, room, rsk_rendezvous_fd());

	for (uint32_t i = rsk_links.n; i-- > 0 && n < room;) {
		const struct rsk_link *l = rsk_links.at[i].l;

		if (l->maker == rsk_pid && !l->remote && atomic_load(&l->state) != RSK_LINK_DEAD)
			n = watch(out, n, room, l->control);
	}
	return n;
}

static uint32_t watched(struct rsk_stream *s, struct pollfd *out, uint32_t room)
{
	const struct rsk_link *l = NULL;

	switch (rsk_stream_phase(s)) {
	case RSK_PHASE_LOOKUP:
		if (s->pairing.found.remote || !rsk_stream_sole_process(s))
			return 0;
		if (s->pairing.found.nonce)
			l = rsk_rendezvous_known(s->pairing.found.nonce);
		else if (!s->connecting_side)
			return watch_all(out, room);
		break;
	case RSK_PHASE_PAIRING:
		l = s->link && !s->link->remote ? s->link : NULL;
		break;
	default:
		break;
	}
	return l && l->maker == rsk_pid ? watch(out, 0, room, l->control) : 0;
}

uint32_t rsk_pairing_watch(struct rsk_stream *s, int fd, bool heard, struct pollfd *out,
			   uint32_t room)
{
	uint32_t n;

	if (!rsk_stream_is_paired_now(s) || !rsk_pairing_try())
		return 0;
	rsk_place_is_mine();
	if (heard)
		step(s, fd);
	n = watched(s, out, room);
	rsk_pairing_give();
	return n;
}

int rsk_pairing_ask_about(const struct rsk_tuple *ours, uint64_t handle,
			  const struct rsk_verbs_addr *here)
{
	int fd;
	struct rsk_stream *s = rsk_pm_transaction_accepting(ours, -1, &fd);
	bool told;

	if (!s)
		return -ENOENT;
	told = rsk_local_link(s, fd, handle, here, NULL, 0);
	rsk_stream_unpin(s);
	return told ? 0 : -EAGAIN;
}

void rsk_pairing_came_from_elsewhere(const struct rsk_tuple *ours)
{
	int fd;
	struct rsk_stream *s = rsk_pm_transaction_accepting(ours, -1, &fd);

	if (!s)
		return;
	s->pairing.answer.told = RSK_REASON_OTHER_SOURCE;
	rsk_stats_set_reason(s->rec, RSK_REASON_OTHER_SOURCE);
	rsk_stream_unpin(s);
}

void rsk_pairing_sweep(void)
{
	if (!rsk_pairing_try())
		return; /* the thread that holds the lock, or the next one, does it */
	rsk_links_sweep();
	rsk_pairing_give();
}

void rsk_pairing_leave(void)
{
	rsk_pairing_take();
	rsk_links_leave();
	rsk_pairing_give();
}

void rsk_pairing_hello(void)
{
	if (!rsk_local_settled())
		rsk_pairing_check();
}

void rsk_pairing_check(void)
{
	if (!rsk_pairing_try())
		return; /* another thread does it, or takes steps */
	rsk_local_hello();
	rsk_pairing_give();
}

void rsk_pairing_listening(int fd)
{
	rsk_pairing_take();
	rsk_local_listening(fd);
	rsk_pairing_give();
}
