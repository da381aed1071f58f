// SPDX-License-Identifier: BSD-2-Clause
/*
 * local_ask.c - questions of processes to the port mapper: starts them, keeps those that have to
 * wait for their turn, and sends the answers. local_rendezvous.c asks, before connect() and for
 * streams whose peer is on another host, or is treated so; local.c and rails.c call this when a
 * process may have another answer. See local_parts.h.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#include "affinity.h"
#include "clock.h"
#include "local_parts.h"
#include "pm_msg.h"

#define ASKED_MOST_OF_ONE 1024

/*
 * Limit for one process: questions without an answer, and mappings that it was promised and has not
 * used yet. A mapping is held for seconds. If a thousand were requested while the first link to
 * that host is being set up, they would expire before the process uses them, and be requested
 * again.
 */
#define AT_ONCE_OF_ONE 64

struct rsk_local_question {
	struct rsk_local *l;
	struct rsk_map map;
	struct rsk_rendezvous_table_end end;
	bool quiet; /* do not send the answer */
	/* list of those of its process that wait for their turn */
	struct rsk_local_question *prev, *next;
	bool listed;	   /* it is in l->of_streams: the first of its stream */
	UT_hash_handle hh; /* by end.cookie */
};

static void list(struct rsk_local *l, struct rsk_local_question *q)
{
	struct rsk_local_question *other;

	HASH_FIND(hh, l->of_streams, &q->end.cookie, sizeof(q->end.cookie), other);
	q->listed = !other;
	if (q->listed)
		HASH_ADD(hh, l->of_streams, end.cookie, sizeof(q->end.cookie), q);
}

static void end_question(struct rsk_local_question *q)
{
	if (q->listed)
		HASH_DEL(q->l->of_streams, q);
	free(q);
}

bool rsk_local_asks_of(const struct rsk_local *l, uint64_t cookie)
{
	const struct rsk_local_question *q;

	HASH_FIND(hh, l->of_streams, &cookie, sizeof(cookie), q);
	return q;
}

static enum rsk_reason reason_of(const struct rsk_map *m)
{
	if (m->answer.verdict != RSK_PMA_MAP)
		return rsk_local_verdict(m->answer.verdict);
	switch (m->outcome) {
	case RSK_PM_MAPPED:
		return RSK_REASON_MAPPED;
	case RSK_PM_REFUSED:
		return RSK_REASON_PEER_POLICY;
	default:
		return RSK_REASON_NO_PMSP;
	}
}

/* Keeps the reservation for a stream if its process can use it. */
static bool hold(const struct rsk_map *map, const struct rsk_local_process *p)
{
	const struct rsk_local_question *q = map->user;

	return map->outcome == RSK_PM_MAPPED && map->mapping.handle && map->req.cp_port && p &&
	       (p->rail || p->able) &&
	       rsk_local_promise(p->l, p, map->mapping.handle, &q->end, map->answer.reservation);
}

const struct rsk_rendezvous_table_end *
rsk_local_waits_here(const struct rsk_local *l, const struct rsk_rendezvous_table_end *end)
{
	const struct rsk_tuple mirror = rsk_tuple_mirror(&end->tuple);

	return rsk_rendezvous_table_waits(&l->rendezvous, &mirror);
}

/* True if the asking process also holds the accepting end, for which the request was granted. */
static bool of_one_process(const struct rsk_local *l, const struct rsk_rendezvous_table_end *end)
{
	const struct rsk_rendezvous_table_end *other = rsk_local_waits_here(l, end);

	return other && other->process == end->process;
}

static void answered(struct rsk_map *map)
{
	struct rsk_local_question *q = map->user;
	struct rsk_local *l = q->l;
	struct rsk_local_process *p = rsk_local_process(l, q->end.process);
	struct rsk_local_user *user;
	bool alone = map->outcome == RSK_PM_MAPPED && of_one_process(l, &q->end);
	bool held = !alone && hold(map, p), told = false;
	struct rsk_local_msg m = { .type = RSK_LOCAL_ANSWER,
				   .tuple = q->end.tuple,
				   .cookie = q->end.cookie,
				   .fd = q->end.fd,
				   .reason = alone ? RSK_REASON_SAME_PROCESS : reason_of(map) };

	l->asked--;
	HASH_FIND(hh, l->users, &map->uid, sizeof(map->uid), user);
	if (user)
		user->asked--;
	if (map->answer.verdict == RSK_PMA_MAP && !held)
		rsk_pma_release(map->by->agent->pma, map->answer.reservation);
	if (map->outcome == RSK_PM_MAPPED && !alone) {
		memcpy(m.ip, map->mapping.rdma.ip, 16);
		m.port = map->mapping.rdma.port;
		m.ipv = map->mapping.rdma.ipv;
		m.link = map->req.cp_port ? map->mapping.handle : 0;
		memcpy(m.from_ip, map->answer.ip, 16);
	}
	if (p)
		p->asked--;
	/* First, since the process chooses a link of that DSCP when it has the answer. */
	if (held && !q->quiet)
		rsk_local_qos(l, p, m.link);
	if (p && !q->quiet)
		told = rsk_local_tell(l, p, &m, -1);
	if (held && !told)
		rsk_sessions_drop(&l->sessions, p->number, m.link);
	end_question(q);
	if (p)
		rsk_local_lookup_on(l, p);
}

/*
 * A refused link of the same user to the same service counts as a PMDeny, for as long as one is
 * remembered.
 */
static bool is_refused(const struct rsk_local_question *q, const struct rsk_local_process *p)
{
	const struct rsk_pm_msg *req = &q->map.req;
	struct rsk_pm_addr service = { .port = req->ap_port, .ipv = req->ipv };

	memcpy(service.ip, req->ap_ip, 16);
	return rsk_link_refusals_has(&p->user->refusals, &service, rsk_clock_ns());
}

static void start(struct rsk_local *l, struct rsk_local_process *p, struct rsk_local_question *q)
{
	if (is_refused(q, p)) {
		l->count.asks_spared++;
		p->user->asked--;
		if (!q->quiet)
			rsk_local_answer(l, p, &q->end, RSK_REASON_LINK_ERROR);
		end_question(q);
		return;
	}
	l->asked++;
	p->asked++;
	if (rsk_map_start(&q->map) < 0) {
		l->asked--;
		p->asked--;
		p->user->asked--;
		end_question(q);
	}
}

static bool may_start(const struct rsk_local *l, const struct rsk_local_process *p)
{
	return p->asked + rsk_sessions_promised(&l->sessions, p->number) < AT_ONCE_OF_ONE;
}

void rsk_local_lookup_on(struct rsk_local *l, struct rsk_local_process *p)
{
	/* A question that is answered at once calls this again; the outer call goes on. */
	if (p->asks)
		return;
	p->asks = true;
	while (p->waiting && may_start(l, p)) {
		struct rsk_local_question *q = p->waiting;

		DL_DELETE(p->waiting, q);
		p->n_waiting--;
		start(l, p, q);
	}
	p->asks = false;
}

void rsk_local_lookup_over(struct rsk_local_process *p)
{
	struct rsk_local_question *q, *next;

	DL_FOREACH_SAFE(p->waiting, q, next) {
		DL_DELETE(p->waiting, q);
		p->user->asked--;
		end_question(q);
	}
	p->n_waiting = 0;
}

/* The process repeats its LOOKUP after a while. */
static bool waits_already(const struct rsk_local_process *p,
			  const struct rsk_rendezvous_table_end *end)
{
	const struct rsk_local_question *q;

	DL_FOREACH(p->waiting, q)
		if (q->end.cookie == end->cookie)
			return true;
	return false;
}

void rsk_local_ask(struct rsk_local *l, struct rsk_local_process *p,
		   const struct rsk_rendezvous_table_end *end, bool quiet)
{
	const struct rsk_tuple *t = &end->tuple;
	bool of_stream = t->local_port; /* connect() may wait for an answer to the other kind */
	struct rsk_local_question *q;

	if (of_stream && waits_already(p, end))
		return;
	if (l->asked >= RSK_LOCAL_ASKED_MOST || p->asked + p->n_waiting >= ASKED_MOST_OF_ONE ||
	    p->user->asked >= RSK_LOCAL_ASKED_MOST_OF_USER) {
		l->count.asks_refused++;
		return;
	}
	q = calloc(1, sizeof(*q));
	if (!q)
		return;
	p->user->asked++;
	*q = (struct rsk_local_question){ .l = l, .end = *end, .quiet = quiet };
	q->map = (struct rsk_map){ .by = l->maps, .uid = p->uid, .done = answered, .user = q };
	q->map.numa_nodes = rsk_affinity_nodes(&l->numa, p->pid);
	q->map.req = (struct rsk_pm_msg){ .op = RSK_PM_REQ,
					  .ipv = t->family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6,
					  .ap_port = t->peer_port,
					  .cp_port = t->local_port };
	memcpy(q->map.req.cp_ip, t->local, 16);
	memcpy(q->map.req.ap_ip, t->peer, 16);
	if (of_stream)
		list(l, q);
	if (of_stream && (p->waiting || !may_start(l, p))) {
		DL_APPEND(p->waiting, q);
		p->n_waiting++;
	} else {
		start(l, p, q);
	}
}
