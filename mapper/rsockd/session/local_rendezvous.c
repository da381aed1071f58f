// SPDX-License-Identifier: BSD-2-Clause
/*
 * local_rendezvous.c - finds the peer of a connection end whose process has not found it (LOOKUP).
 * sock_diag(7) tells which users own the two ends. If both are on this host and may be paired, the
 * processes get a socketpair for their link handshake. If the peer is on another host, the port
 * mapper's protocol is used, as a connection upgrade (local_ask.c). The same is done on this host
 * if one of the two processes does not share memory (NO_SHM): this daemon then sends the request to
 * itself and answers it. local.c calls this, and the agent through rsk_local_agent_ops.
 *
 * What is proven is the user: the socket with that tuple belongs to the user of the process. Only
 * other processes of the same user could dispute that this process holds it, and those can do
 * anything to each other.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "affinity.h"
#include "clock.h"
#include "diag.h"
#include "local_parts.h"
#include "owner.h"
#include "pm_msg.h"
#include "random.h"
#include "user.h"

/* ---- both ends on this host ---- */

static bool tell_of_rendezvous(struct rsk_local *l, const struct rsk_rendezvous_table_end *end,
			       const struct rsk_rendezvous_table_end *peer, uint64_t link, int fd)
{
	const struct rsk_local_process *other = rsk_local_process(l, peer->process);
	struct rsk_local_msg m = { .type = RSK_LOCAL_RENDEZVOUS,
				   .flags = (end->connecting ? RSK_LOCAL_CONNECTING : 0) |
					    (end->by_syn ? RSK_LOCAL_BY_SYN : 0),
				   .tuple = end->tuple,
				   .cookie = end->cookie,
				   .fd = end->fd,
				   .peer_fd = peer->fd,
				   .link = link,
				   .pid = other->pid,
				   .uid = other->uid };

	return rsk_local_tell(l, rsk_local_process(l, end->process), &m, fd);
}

static bool tell_both(struct rsk_local *l, const struct rsk_rendezvous_table_end *first,
		      const struct rsk_rendezvous_table_end *second)
{
	uint64_t link = rsk_rendezvous_table_link(&l->rendezvous, first->process, second->process);
	int half[2];
	bool told;

	/*
	 * If they have a link already, only the connecting end has to know which; the other one,
	 * too, where its kernel does not show it whose stream that is.
	 */
	if (link)
		return (!second->by_syn || tell_of_rendezvous(l, second, first, link, -1)) &&
		       tell_of_rendezvous(l, first, second, link, -1);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, half) < 0)
		return false;
	link = rsk_random_u64();
	told = tell_of_rendezvous(l, second, first, link, half[1]) &&
	       tell_of_rendezvous(l, first, second, link, half[0]);
	if (told)
		rsk_rendezvous_table_link_set(&l->rendezvous, first->process, second->process,
					      link);
	close(half[0]);
	close(half[1]);
	return told;
}

/*
 * If one of them could not be told, the connecting end waits again; the accepting end will ask
 * again.
 */
static void introduce(struct rsk_local *l, const struct rsk_rendezvous_table_end *a,
		      const struct rsk_rendezvous_table_end *b)
{
	const struct rsk_rendezvous_table_end *first = a->connecting ? a : b;
	struct rsk_rendezvous_table_end other;

	if (!rsk_local_introduce(l, a, b))
		rsk_rendezvous_table_lookup(&l->rendezvous, first, rsk_clock_ns(), &other);
}

bool rsk_local_introduce(struct rsk_local *l, const struct rsk_rendezvous_table_end *a,
			 const struct rsk_rendezvous_table_end *b)
{
	bool told = tell_both(l, a->connecting ? a : b, a->connecting ? b : a);

	l->count.vouched += told;
	return told;
}

/* As far as is known before the process of the other end has come. */
static bool may_be_brought_together(const struct rsk_local *l, const struct rsk_local_process *p,
				    const struct rsk_rendezvous_table_end *end,
				    const struct rsk_owner *theirs)
{
	uint16_t service = end->connecting ? end->tuple.peer_port : end->tuple.local_port;
	struct rsk_local_party one = rsk_local_party(p);
	struct rsk_local_party other = { .uid = theirs->uid, .any_cgroup = true };

	return rsk_local_may_rendezvous(l, &one, &other, service);
}

static void refuse(struct rsk_local *l, const struct rsk_rendezvous_table_end *end)
{
	l->count.not_allowed++;
	rsk_local_answer(l, rsk_local_process(l, end->process), end, RSK_REASON_OTHER_USER);
}

static void lookup_here(struct rsk_local *l, struct rsk_local_process *p,
			const struct rsk_rendezvous_table_end *end, const struct rsk_owner *theirs)
{
	struct rsk_rendezvous_table_end other;

	if (!may_be_brought_together(l, p, end, theirs)) {
		refuse(l, end);
		return;
	}
	if (rsk_rendezvous_table_lookup(&l->rendezvous, end, rsk_clock_ns(), &other) != 1)
		return;
	/*
	 * The cookies differ if the end that waits is of an earlier connection with the same tuple.
	 */
	if (other.cookie != theirs->cookie) {
		rsk_rendezvous_table_lookup(&l->rendezvous, end, rsk_clock_ns(), &other);
	} else if (rsk_local_may_introduce(l, end, &other, false)) {
		introduce(l, end, &other);
	} else {
		refuse(l, end);
		refuse(l, &other);
	}
}

/* ---- the other end is on another host, or is treated so ---- */

/*
 * One of the two ends is enough to exclude shared memory, whichever of them comes first. A
 * connecting end that came first has asked: the question is under way, or has arrived at the agent.
 * @peer: the other end's SO_COOKIE.
 */
static bool no_shm(const struct rsk_local *l, const struct rsk_rendezvous_table_end *end,
		   uint64_t peer)
{
	const struct rsk_rendezvous_table_end *other = rsk_local_waits_here(l, end);

	return end->no_shm || (other && other->no_shm) ||
	       (!end->connecting &&
		(rsk_local_asks_of(l, peer) || rsk_agent_awaits(l->agent, &end->tuple)));
}

static void ask_there(struct rsk_local *l, struct rsk_local_process *p,
		      const struct rsk_rendezvous_table_end *end)
{
	const struct rsk_rendezvous_table_end *other = rsk_local_waits_here(l, end);

	/*
	 * The accepting end waits for a rendezvous on this host, and has to know that its peer will
	 * come as from another host.
	 */
	if (other && !other->no_shm)
		rsk_local_answer(l, rsk_local_process(l, other->process), other, RSK_REASON_REMOTE);
	rsk_local_ask(l, p, end, false);
}

static void lookup_there(struct rsk_local *l, struct rsk_local_process *p,
			 const struct rsk_rendezvous_table_end *end)
{
	struct rsk_rendezvous_table_end other;

	l->count.remote++;
	if (end->connecting) {
		ask_there(l, p, end);
		return;
	}
	/*
	 * The accepting end waits until the connecting one asks us, unless it has done so already.
	 * If the connecting end waits here for a rendezvous, its question is asked now.
	 */
	if (rsk_rendezvous_table_lookup(&l->rendezvous, end, rsk_clock_ns(), &other) == 1) {
		rsk_rendezvous_table_lookup(&l->rendezvous, end, rsk_clock_ns(),
					    &(struct rsk_rendezvous_table_end){ 0 });
		rsk_local_ask(l, rsk_local_process(l, other.process), &other, false);
	}
	rsk_local_answer(l, p, end, RSK_REASON_REMOTE);
	/* A process that has no port yet reports one in reply to that answer (rsk_local_rdma()). */
	if (p->rail || !p->able)
		rsk_agent_came(l->agent, &end->tuple);
}

/*
 * Answers what a LOOKUP would lead to, for a process without a stream (DRY). Nothing is recorded,
 * and no other process is told.
 */
static void lookup_dry(struct rsk_local *l, struct rsk_local_process *p,
		       const struct rsk_rendezvous_table_end *end, int found,
		       const struct rsk_owner *theirs)
{
	bool here = found == 0 && !no_shm(l, end, theirs->cookie);

	rsk_local_answer(l, p, end,
			 !here					    ? RSK_REASON_REMOTE :
			 may_be_brought_together(l, p, end, theirs) ? RSK_REASON_DIRECT :
								      RSK_REASON_OTHER_USER);
}

void rsk_local_lookup(struct rsk_local *l, struct rsk_local_process *p,
		      const struct rsk_local_msg *m)
{
	const struct rsk_rendezvous_table_end end = { .tuple = m->tuple,
						      .cookie = m->cookie,
						      .process = p->number,
						      .uid = p->uid,
						      .fd = m->fd,
						      .connecting = m->flags & RSK_LOCAL_CONNECTING,
						      .no_shm = m->flags & RSK_LOCAL_NO_SHM };
	struct rsk_tuple mirror = rsk_tuple_mirror(&m->tuple);
	struct rsk_owner theirs = { .uid = RSK_PMA_NOBODY };
	enum rsk_reason why;
	int rc;

	l->count.lookups++;
	why = rsk_local_proof(l, p, m);
	if (why == RSK_REASON_OTHER_NETNS && l->apart && !p->elsewhere) {
		p->elsewhere = true;
		l->elsewhere++;
	}
	if (why == RSK_REASON_OTHER_NETNS && !(m->flags & RSK_LOCAL_DRY) &&
	    rsk_local_lookup_apart(l, p, m, &end))
		return;
	if (why == RSK_REASON_OTHER_NETNS && l->apart && (m->flags & RSK_LOCAL_DRY)) {
		rsk_local_ask_syn(l, p, &end);
		return;
	}
	if (why != RSK_REASON_DIRECT) {
		if (why != RSK_REASON_CLOSED) /* closed meanwhile: no answer is needed */
			rsk_local_answer(l, p, &end, why);
		return;
	}
	rc = rsk_owner_lookup(&mirror, &theirs);
	if (m->flags & RSK_LOCAL_DRY)
		lookup_dry(l, p, &end, rc, &theirs);
	else if (rc == 0 && !no_shm(l, &end, theirs.cookie))
		lookup_here(l, p, &end, &theirs);
	else if (rc == -ENOENT && rsk_local_lookup_apart(l, p, m, &end))
		return;
	/* Without a device it cannot be on another host; it may be in another namespace of this. */
	else if (rc == -ENOENT && l->elsewhere && l->apart && !p->able && !p->rail)
		rsk_local_answer(l, p, &end, RSK_REASON_OTHER_NETNS);
	else if (rc == 0 || rc == -ENOENT)
		lookup_there(l, p, &end);
}

/* Resolves a service before there is a connection: CpPort is 0, and the answer may be cached. */
void rsk_local_resolve(struct rsk_local *l, struct rsk_local_process *p,
		       const struct rsk_local_msg *m)
{
	struct rsk_rendezvous_table_end end = { .tuple = m->tuple,
						.cookie = m->cookie,
						.process = p->number,
						.uid = p->uid,
						.fd = m->fd };
	struct rsk_pm_addr ap = { .port = m->tuple.peer_port,
				  .ipv = m->tuple.family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6 },
			   cp;

	memcpy(ap.ip, m->tuple.peer, 16);
	l->count.asks++;
	if (rsk_diag_source(&ap, &cp) < 0) {
		rsk_local_answer(l, p, &end,
				 RSK_REASON_NO_RNIC); /* no route: connect() will fail, too */
		return;
	}
	memcpy(end.tuple.local, cp.ip, 16);
	end.tuple.local_port = 0;
	rsk_local_ask(l, p, &end, m->flags & RSK_LOCAL_QUIET);
}

/*
 * The process that holds the listening socket may be unknown: it may be a child of one that has
 * exited, or have reported to an earlier daemon. A socket of root may be served by a process of any
 * user.
 */
static bool user_may_have_rails(const struct rsk_local *l, uint32_t uid)
{
	const struct rsk_local_user *u;

	if (uid == 0)
		return l->railable;
	HASH_FIND(hh, l->users, &uid, sizeof(uid), u);
	return u && u->rails;
}

/* @process: its number; 0 for one that has exited. */
static uint64_t numa_nodes_of(const struct rsk_local *l, uint32_t process)
{
	const struct rsk_local_process *p = rsk_local_process(l, process);

	return p ? rsk_affinity_nodes(&l->numa, p->pid) : 0;
}

bool rsk_local_holder(const struct rsk_local *l, const struct rsk_pm_msg *req,
		      struct rsk_agent_holder *out)
{
	struct rsk_tuple tuple = { .netns = l->netns,
				   .local_port = req->ap_port,
				   .peer_port = req->cp_port,
				   .family = req->ipv == RSK_PM_IPV4 ? AF_INET : AF_INET6 };
	struct rsk_pm_addr at = { .port = req->ap_port, .ipv = req->ipv };
	const struct rsk_rendezvous_table_end *end = NULL;
	const struct rsk_local_process *p;
	const struct rsk_listener *listener;
	struct rsk_owner own;

	*out = (struct rsk_agent_holder){ .uid = RSK_PMA_NOBODY };
	memcpy(tuple.local, req->ap_ip, 16);
	memcpy(tuple.peer, req->cp_ip, 16);
	memcpy(at.ip, req->ap_ip, 16);
	if (req->cp_port)
		end = rsk_rendezvous_table_waits(&l->rendezvous, &tuple);
	if (end) {
		p = rsk_local_process(l, end->process);
		out->uid = end->uid;
		out->numa_nodes = numa_nodes_of(l, end->process);
		out->rail = p ? p->rail : 0;
		out->comes = p && p->able && !p->rail;
		return true;
	}
	/*
	 * Only an existing connection is worth waiting for. Requests of other port mappers name a
	 * CpPort of their own, for which no process will report an end.
	 */
	listener = rsk_listeners_find(&l->listeners, &at);
	if (listener) {
		out->uid = listener->uid;
		out->numa_nodes = numa_nodes_of(l, listener->process);
		out->comes = req->cp_port && user_may_have_rails(l, listener->uid) &&
			     rsk_owner_lookup(&tuple, &own) == 0;
		return true;
	}
	/* The process may have stopped listening after accept(), as with FTP's data connections. */
	out->comes = req->cp_port && l->railable && rsk_owner_lookup(&tuple, &own) == 0 &&
		     rsk_user_is_one(own.uid) && user_may_have_rails(l, own.uid);
	if (out->comes)
		out->uid = own.uid;
	return out->comes;
}

static uint64_t reserved(const struct rsk_local *l, const char *port)
{
	return rsk_port_tables_reserved(&l->port_tables, port);
}

const struct rsk_agent_local_ops rsk_local_agent_ops = { .holder = rsk_local_holder,
							 .reserved = reserved };
