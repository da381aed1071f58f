// SPDX-License-Identifier: BSD-2-Clause
/*
 * rails.c - rails between hosts, as far as processes report them: the port at which each process
 * accepts them, and which of its streams uses which mapping. A mapping that was answered to a
 * process is held for it. A peer that connects is admitted only if exactly this was granted to this
 * process. What is held is released with the stream or with its process. local.c calls it; see
 * local_parts.h.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "clock.h"
#include "local_parts.h"
#include "pm_msg.h"

/* ---- where processes accept rails ---- */

static void recount(struct rsk_local *l, struct rsk_local_process *p, uint16_t rail, bool able)
{
	size_t had = p->rail || p->able, has = rail || able;

	p->user->rails = p->user->rails + has - had;
	l->railable = l->railable + has - had;
	l->rails = l->rails + (rail != 0) - (p->rail != 0);
	p->rail = rail;
	p->able = able;
}

void rsk_local_able(struct rsk_local *l, struct rsk_local_process *p, bool able)
{
	recount(l, p, p->rail, able);
}

/* A PMReq may be waiting for this accepting end; now it can be answered. */
static void has_come(void *ctx, const struct rsk_rendezvous_table_end *end)
{
	struct rsk_local *l = ctx;

	if (!end->connecting)
		rsk_agent_came(l->agent, &end->tuple);
}

void rsk_local_rdma(struct rsk_local *l, struct rsk_local_process *p, const struct rsk_local_msg *m)
{
	bool is_new = m->port && !p->rail;

	recount(l, p, m->port, p->able);
	if (is_new)
		rsk_rendezvous_table_each(&l->rendezvous, p->number, has_come, l);
}

/* ---- reservations ---- */

static void release(void *ctx, uint64_t reservation)
{
	struct rsk_local *l = ctx;

	rsk_pma_release(l->agent->pma, reservation);
}

/*
 * The session of the stream that @m names, which uses its mapping. @again: an earlier daemon may
 * have told the process what service it gets.
 */
static bool take(struct rsk_local *l, const struct rsk_local_process *p,
		 const struct rsk_local_msg *m, uint64_t reservation, bool again,
		 const uint8_t from_ip[static 16])
{
	struct rsk_session new = { .handle = m->link,
				   .process = p->number,
				   .used = true,
				   .fd = m->fd,
				   .cookie = m->cookie,
				   .reservation = reservation,
				   .qos.dscp = again ? UINT8_MAX : 0 };

	memcpy(new.from_ip, from_ip, sizeof(new.from_ip));
	return rsk_sessions_add(&l->sessions, &new, rsk_clock_ns()) == 0;
}

bool rsk_local_promise(struct rsk_local *l, const struct rsk_local_process *p, uint64_t link,
		       const struct rsk_rendezvous_table_end *end, uint64_t reservation)
{
	const struct rsk_session new = { .handle = link,
					 .process = p->number,
					 .fd = end->fd,
					 .cookie = end->cookie,
					 .reservation = reservation };

	return rsk_sessions_add(&l->sessions, &new, rsk_clock_ns()) == 0;
}

static void settle(struct rsk_local *l, struct rsk_local_process *p, const struct rsk_local_msg *m,
		   enum rsk_reason why)
{
	struct rsk_local_msg a = { .type = RSK_LOCAL_ANSWER,
				   .flags = m->flags & RSK_LOCAL_PAIR,
				   .tuple = m->tuple,
				   .cookie = m->cookie,
				   .link = m->link,
				   .fd = m->fd,
				   .reason = why };
	const struct rsk_session *s = rsk_sessions_find(&l->sessions, p->number, m->link);

	if (why == RSK_REASON_MAPPED && s)
		memcpy(a.from_ip, s->from_ip, sizeof(a.from_ip));
	l->count.links_refused += why != RSK_REASON_MAPPED;
	if (why != RSK_REASON_MAPPED || !(m->flags & RSK_LOCAL_CONNECTING))
		rsk_local_tell(l, p, &a, -1);
	if (why == RSK_REASON_MAPPED)
		rsk_local_qos(l, p, m->link);
}

/* ---- the connecting end ---- */

static enum rsk_reason begin_use(struct rsk_local *l, const struct rsk_local_process *p,
				 const struct rsk_local_msg *m)
{
	const struct rsk_session *s = rsk_sessions_find(&l->sessions, p->number, m->link);
	uint64_t reservation;

	if (!s || s->cookie != m->cookie)
		return RSK_REASON_NOT_HOLDER;
	if (s->used)
		return RSK_REASON_MAPPED;
	reservation = s->reservation;
	rsk_sessions_use(&l->sessions, p->number, m->link);
	rsk_pma_confirm(l->agent->pma, reservation);
	l->count.links++;
	return RSK_REASON_MAPPED;
}

/*
 * The address to which the mapping leads refuses links. The service is remembered for this user
 * only: another user need not believe it.
 */
static void link_refused(struct rsk_local *l, struct rsk_local_process *p,
			 const struct rsk_local_msg *m)
{
	const struct rsk_session *s = rsk_sessions_find(&l->sessions, p->number, m->link);
	const struct rsk_tuple *t = &m->tuple;
	struct rsk_pm_addr service = { .port = t->peer_port,
				       .ipv = t->family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6 };

	if (!s || s->used || s->cookie != m->cookie)
		return;
	/* Users without a number here may be several. */
	if (p->uid != RSK_PMA_NOBODY && rsk_local_proof(l, p, m) == RSK_REASON_DIRECT) {
		memcpy(service.ip, t->peer, 16);
		l->count.link_refusals++;
		rsk_link_refusals_add(&p->user->refusals, &service,
				      rsk_clock_ns() + l->settings->client.cache.refused_ns);
	}
	rsk_sessions_drop(&l->sessions, p->number, m->link);
}

/* ---- the accepting end ---- */

/* The names of this connection as its PMReq has them. */
static struct rsk_pm_msg name_of(const struct rsk_local_msg *m, bool connecting)
{
	const struct rsk_tuple *t = &m->tuple;
	struct rsk_pm_msg req = { .op = RSK_PM_REQ,
				  .ipv = t->family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6,
				  .cp_port = connecting ? t->local_port : t->peer_port,
				  .ap_port = connecting ? t->peer_port : t->local_port,
				  .assoc_handle = m->link };

	memcpy(req.cp_ip, connecting ? t->local : t->peer, 16);
	memcpy(req.ap_ip, connecting ? t->peer : t->local, 16);
	return req;
}

/* Zeros: not known. */
static bool is_other(const uint8_t announced[static 16], const uint8_t from_ip[static 16])
{
	static const uint8_t unknown[16];

	return memcmp(announced, unknown, 16) != 0 && memcmp(from_ip, unknown, 16) != 0 &&
	       memcmp(announced, from_ip, 16) != 0;
}

static enum rsk_reason let_in(struct rsk_local *l, const struct rsk_local_process *p,
			      const struct rsk_local_msg *m)
{
	const struct rsk_session *s = rsk_sessions_find(&l->sessions, p->number, m->link);
	const struct rsk_pm_msg name = name_of(m, false);
	struct rsk_pm_addr at = { .port = m->port, .ipv = (uint8_t)m->ipv };
	uint8_t announced[16];
	uint64_t reservation;

	/*
	 * A repeated request: the answer may have been lost. Or another link of this process claims
	 * the stream, and it has to come from the same source.
	 */
	if (s && (!s->used || s->cookie != m->cookie))
		return RSK_REASON_NOT_HOLDER;
	if (s)
		return is_other(s->from_ip, m->from_ip) ? RSK_REASON_OTHER_SOURCE :
							  RSK_REASON_MAPPED;
	if (!p->rail || m->port != p->rail)
		return RSK_REASON_NOT_HOLDER;
	memcpy(at.ip, m->ip, 16);
	reservation = rsk_agent_link(l->agent, &name, &at, m->from_ip, announced);
	if (!reservation && is_other(announced, m->from_ip))
		return RSK_REASON_OTHER_SOURCE;
	if (!reservation)
		return RSK_REASON_NOT_HOLDER;
	if (!take(l, p, m, reservation, false, announced)) {
		rsk_pma_release(l->agent->pma, reservation);
		return RSK_REASON_MEMORY;
	}
	l->count.links++;
	return RSK_REASON_MAPPED;
}

/* ---- streams that used a mapping before this daemon was started ---- */

struct rsk_local_told {
	struct rsk_local *l;
	struct rsk_local_msg m;
	uint32_t process;
	struct rsk_local_told *prev, *next;
};

static void forget(struct rsk_local_told *t)
{
	DL_DELETE(t->l->told, t);
	free(t);
}

/* The other host has it already, whatever quota there is. */
static void count_at_quota(const struct rsk_local_told *t, uint64_t reservation)
{
	const struct rsk_agent_ask *ask = &t->l->agent->ask;
	const struct rsk_pm_msg name = name_of(&t->m, true);

	if (ask->quota_ops && (t->m.flags & RSK_LOCAL_CONNECTING))
		ask->quota_ops->begin(ask->quota_ctx, &name, reservation, true);
}

static void told_decided(void *user, const struct rsk_pma_answer *answer)
{
	struct rsk_local_told *t = user;
	struct rsk_local *l = t->l;
	struct rsk_local_process *p = rsk_local_process(l, t->process);
	enum rsk_reason why = rsk_local_verdict(answer->verdict);
	static const uint8_t anywhere[16]; /* the PMReq is long forgotten, and the link exists */

	rsk_agent_count(l->agent, answer->verdict);
	/*
	 * The address that the process names is not one of our devices. (With a central agent it
	 * decides.)
	 */
	if (why == RSK_REASON_MAPPED && !answer->device && !l->agent->ask.link) {
		rsk_pma_release(l->agent->pma, answer->reservation);
		why = RSK_REASON_NO_RNIC;
	}
	if (why == RSK_REASON_MAPPED &&
	    (!p || !take(l, p, &t->m, answer->reservation, true, anywhere))) {
		rsk_pma_release(l->agent->pma, answer->reservation);
		why = RSK_REASON_MEMORY;
	}
	if (why == RSK_REASON_MAPPED)
		count_at_quota(t, answer->reservation);
	if (why == RSK_REASON_MAPPED) {
		rsk_pma_confirm(l->agent->pma, answer->reservation);
		l->count.links++;
		l->count.links_again++;
	}
	if (p)
		settle(l, p, &t->m, why);
	forget(t);
}

/*
 * Decides by the present rules and limits, on the device that the link uses, whatever was granted
 * before.
 */
static void again(struct rsk_local *l, struct rsk_local_process *p, const struct rsk_local_msg *m)
{
	bool connecting = m->flags & RSK_LOCAL_CONNECTING;
	const struct rsk_session *s = rsk_sessions_find(&l->sessions, p->number, m->link);
	const struct rsk_pm_msg name = name_of(m, connecting);
	struct rsk_local_told *t;
	struct rsk_pma_answer answer;

	if (s) {
		settle(l, p, m,
		       s->used && s->cookie == m->cookie ? RSK_REASON_MAPPED :
							   RSK_REASON_NOT_HOLDER);
		return;
	}
	t = malloc(sizeof(*t));
	if (!t) {
		settle(l, p, m, RSK_REASON_MEMORY);
		return;
	}
	*t = (struct rsk_local_told){ .l = l, .m = *m, .process = p->number };
	DL_APPEND(l->told, t);
	if (rsk_agent_again(l->agent, &name, connecting ? RSK_PMA_CP : RSK_PMA_AP, p->uid,
			    connecting ? m->from_ip : m->ip, &answer, told_decided, t))
		told_decided(t, &answer);
}

/* ---- messages ---- */

void rsk_local_link(struct rsk_local *l, struct rsk_local_process *p, const struct rsk_local_msg *m)
{
	enum rsk_reason why;

	if (m->flags & RSK_LOCAL_REFUSED) {
		link_refused(l, p, m);
		rsk_local_lookup_on(l, p);
		return;
	}
	why = rsk_local_proof(l, p, m);
	if (why != RSK_REASON_DIRECT)
		settle(l, p, m, why);
	else if (m->flags & RSK_LOCAL_AGAIN)
		again(l, p, m);
	else
		settle(l, p, m,
		       m->flags & RSK_LOCAL_CONNECTING ? begin_use(l, p, m) : let_in(l, p, m));
	rsk_local_lookup_on(l, p);
}

void rsk_local_unlink(struct rsk_local *l, struct rsk_local_process *p,
		      const struct rsk_local_msg *m)
{
	const struct rsk_session *s = rsk_sessions_find(&l->sessions, p->number, m->link);

	l->count.unlinks += s && s->used;
	rsk_sessions_drop(&l->sessions, p->number, m->link);
	rsk_local_lookup_on(l, p);
}

/* ---- start and end ---- */

void rsk_local_rails_open(struct rsk_local *l)
{
	l->sessions = (struct rsk_sessions){ .release = release, .ctx = l };
}

void rsk_local_rails_gone(struct rsk_local *l, struct rsk_local_process *p)
{
	recount(l, p, 0, false);
	rsk_sessions_gone(&l->sessions, p->number);
}

void rsk_local_rails_close(struct rsk_local *l)
{
	struct rsk_local_told *t, *next;

	DL_FOREACH_SAFE(l->told, t, next)
		forget(t);
	rsk_sessions_fini(&l->sessions);
}
