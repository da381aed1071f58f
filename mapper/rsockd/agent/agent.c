// SPDX-License-Identifier: BSD-2-Clause
/* agent.c - see agent.h. */
#include "agent.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "clock.h"
#include "pm_hash.h"
#include "redirect.h"

#define CLOCK_EACH_NS 1000000000ull

static struct rsk_pma_question question_of(const struct rsk_pm_msg *req, enum rsk_pma_side side,
					   uint64_t now_ns)
{
	struct rsk_pma_question q = { .side = side,
				      .ipv = req->ipv,
				      .cp_port = req->cp_port,
				      .ap_port = req->ap_port,
				      .uid = RSK_PMA_NOBODY,
				      .now_ns = now_ns };

	memcpy(q.cp_ip, req->cp_ip, 16);
	memcpy(q.ap_ip, req->ap_ip, 16);
	return q;
}

/* Local time, as in cron(8): an hour that comes twice, or not at all, does so here, too. */
static void look_at_the_clock(struct rsk_agent *a, uint64_t now_ns)
{
	time_t now = time(NULL);
	struct tm tm;

	if (a->clock_read_ns && now_ns - a->clock_read_ns < CLOCK_EACH_NS)
		return;
	a->clock_read_ns = now_ns;
	rsk_pma_time_set(a->pma, localtime_r(&now, &tm) ?
					 (unsigned int)((tm.tm_wday + 6) % 7 * 1440 +
							tm.tm_hour * 60 + tm.tm_min) :
					 UINT_MAX);
}

uint32_t rsk_agent_rtt_us(const struct rsk_agent *a, const struct rsk_pma_question *q)
{
	struct rsk_pm_addr pmsp = { .port = RSK_PM_UDP_PORT, .ipv = q->ipv };
	uint64_t us;

	if (q->side != RSK_PMA_CP)
		return 0;
	memcpy(pmsp.ip, q->ap_ip, 16);
	us = (rsk_pm_cache_rtt(a->hosts, &pmsp, q->now_ns) + 999) / 1000;
	return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

void rsk_agent_measure(struct rsk_agent *a, uint64_t now_ns)
{
	double load;

	look_at_the_clock(a, now_ns);

	if (rsk_load_check(a->load, now_ns, &load) > 0)
		rsk_pma_load_set(a->pma, load);
}

void rsk_agent_count(struct rsk_agent *a, enum rsk_pma_verdict v)
{
	if (v <= RSK_PMA_REDIRECT)
		a->count.verdicts[v]++;
}

/* Makes a port for the requested service, on the address that was chosen. 0: none is available. */
static uint16_t make_port(struct rsk_agent *a, const struct rsk_pm_msg *req,
			  const uint8_t ip[static 16])
{
	struct rsk_pm_addr service = { .port = req->ap_port, .ipv = req->ipv };
	int port;

	memcpy(service.ip, req->ap_ip, 16);
	port = rsk_ports_take(a->ports, &service, ip);
	return port > 0 ? (uint16_t)port : 0;
}

/* A repeated request keeps the grant it holds if address and port are the same. */
static bool same_place(const struct rsk_pmsp_grant *g, const struct rsk_pma_answer *answer,
		       uint16_t rail)
{
	uint16_t port = rail ? rail : answer->port;

	return g->id && memcmp(g->ip, answer->ip, 16) == 0 && g->own_port == (rail != 0) &&
	       (!port || port == g->port);
}

static void put_port(struct rsk_agent *a, const struct rsk_pmsp_grant *grant)
{
	if (!grant->own_port)
		rsk_ports_put(a->ports, grant->ipv, grant->ip, grant->port);
}

/* Forwards a request to the host that answers instead of us, with the asker's address. */
static enum rsk_pmsp_verdict redirect(struct rsk_agent *a, const struct rsk_pm_msg *req,
				      const struct rsk_pm_addr *from, const struct rsk_pm_addr *to)
{
	uint8_t envelope[RSK_REDIRECT_BYTES];
	ssize_t n = rsk_redirect_wrap(req, from, a->hops, envelope);

	if (n < 0) {
		a->count.redirects_dropped++;
		return RSK_PMSP_SILENT;
	}
	a->count.redirected++;
	rsk_udp_send(a->udp, to, envelope, (size_t)n);
	return RSK_PMSP_SILENT;
}

static enum rsk_pmsp_verdict redirect_by_rule(struct rsk_agent *a, const struct rsk_pm_msg *req,
					      const struct rsk_pm_addr *from,
					      const struct rsk_pma_answer *answer)
{
	struct rsk_pm_addr to = { .port = RSK_PM_UDP_PORT, .ipv = answer->redirect_ipv };

	memcpy(to.ip, answer->redirect_ip, 16);
	return redirect(a, req, from, &to);
}

/*
 * Policy does not map it here: another host may offer it. What has been redirected to us is not
 * redirected again, since each of two hosts may have heard that the other one has room.
 */
static enum rsk_pmsp_verdict deny(struct rsk_agent *a, const struct rsk_pm_msg *req,
				  const struct rsk_pm_addr *from)
{
	struct rsk_pm_addr to;

	if (a->elsewhere && !a->hops && a->elsewhere(a->ctx, req, &to))
		return redirect(a, req, from, &to);
	return RSK_PMSP_DENY;
}

/* Turns an answer of policy into a verdict for a PMReq. *grant is what is held for it, or zero. */
static enum rsk_pmsp_verdict grant_by(struct rsk_agent *a, const struct rsk_pm_msg *req,
				      const struct rsk_pm_addr *from,
				      const struct rsk_pma_answer *answer,
				      struct rsk_pmsp_grant *grant)
{
	struct rsk_agent_holder holder;
	uint16_t port = answer->port;

	rsk_agent_count(a, answer->verdict);
	if (answer->verdict == RSK_PMA_REDIRECT)
		return redirect_by_rule(a, req, from, answer);
	if (answer->verdict != RSK_PMA_MAP)
		return deny(a, req, from);
	/* If a process accepts rails at a port, the link goes to that port. */
	a->local_ops->holder(a->local, req, &holder);
	if (holder.rail)
		port = holder.rail;
	if (same_place(grant, answer, holder.rail)) {
		port = grant->port;
	} else {
		if (!port)
			port = make_port(a, req, answer->ip);
		if (!port) {
			a->count.no_port++;
			if (answer->reservation != grant->id)
				rsk_pma_release(a->pma, answer->reservation);
			return RSK_PMSP_DENY;
		}
		if (grant->id)
			put_port(a, grant);
	}
	*grant = (struct rsk_pmsp_grant){ .id = answer->reservation,
					  .port = port,
					  .ipv = req->ipv,
					  .pm_time_s = answer->pm_time_s,
					  .own_port = holder.rail != 0 };
	memcpy(grant->ip, answer->ip, 16);
	return RSK_PMSP_ACCEPT;
}

/* A connection, identified by the addresses and ports of its PMReq. */
struct connection {
	uint8_t cp_ip[16], ap_ip[16];
	uint16_t cp_port, ap_port, ipv, pad;
};
_Static_assert(sizeof(struct connection) == 40, "no padding: it is hashed");

/* A PMReq that waits for the central agent, or for the accepting end. */
struct rsk_agent_request {
	struct rsk_agent *a;
	struct rsk_pm_msg req;
	struct connection connection;
	uint64_t until_ns; /* time at which the PMSP denies it */
	UT_hash_handle hh;
	struct rsk_pm_addr from;
	uint8_t hops;
	struct rsk_udp_place place;
	struct rsk_agent_request *prev, *next;
};

static void forget(struct rsk_agent_request *r)
{
	DL_DELETE(r->a->requests, r);
	free(r);
}

static void on_decided(void *user, const struct rsk_pma_answer *answer)
{
	struct rsk_agent_request *r = user;
	struct rsk_agent *a = r->a;
	const struct rsk_udp_place before = rsk_udp_place(a->udp);
	struct rsk_pmsp_grant grant = { 0 };
	enum rsk_pmsp_verdict v;
	uint8_t hops = a->hops; /* another request may be in progress */

	a->hops = r->hops;
	rsk_udp_set_place(a->udp, &r->place);
	v = grant_by(a, &r->req, &r->from, answer, &grant);
	/* The transaction may be gone: replaced, or timed out. */
	if (!rsk_pmsp_decided(a->pmsp, &r->req, v, &grant, rsk_clock_ns()) && grant.id)
		rsk_agent_pmsp_ops.release(a, &grant);
	forget(r);
	rsk_udp_flush(a->udp);
	rsk_udp_set_place(a->udp, &before);
	a->hops = hops;
	a->after(a->ctx);
}

static void await_no_more(struct rsk_agent *a, struct rsk_agent_request *r)
{
	HASH_DEL(a->awaiting, r); /* NOLINT(clang-analyzer-unix.Malloc): freed after removal */
	free(r);
}

void rsk_agent_fini(struct rsk_agent *a)
{
	struct rsk_agent_request *r, *next;

	rsk_agent_ask_fini(&a->ask);
	DL_FOREACH_SAFE(a->requests, r, next)
		forget(r);
	/* The table is emptied; its entries are still linked as a list. */
	r = a->awaiting;
	HASH_CLEAR(hh, a->awaiting);
	for (; r; r = next) {
		next = r->hh.next;
		free(r);
	}
}

static struct rsk_agent_request *request_of(struct rsk_agent *a, const struct rsk_pm_msg *req,
					    const struct rsk_pm_addr *from)
{
	struct rsk_agent_request *r = malloc(sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct rsk_agent_request){
		.a = a, .req = *req, .from = *from, .hops = a->hops, .place = rsk_udp_place(a->udp)
	};
	return r;
}

/* Fills in user and listener of @q. Returns true if the process is still to come. */
static bool look_for_holder(const struct rsk_agent *a, const struct rsk_pm_msg *req,
			    struct rsk_pma_question *q)
{
	struct rsk_agent_holder holder;

	q->listens = a->local_ops->holder(a->local, req, &holder);
	q->uid = holder.uid;
	q->numa_nodes = holder.numa_nodes;
	return holder.comes;
}

/* ---- PMReq that wait for the accepting end ---- */

static struct connection connection_of(uint8_t ipv, const uint8_t cp_ip[static 16],
				       uint16_t cp_port, const uint8_t ap_ip[static 16],
				       uint16_t ap_port)
{
	struct connection c = { .cp_port = cp_port, .ap_port = ap_port, .ipv = ipv };

	memcpy(c.cp_ip, cp_ip, 16);
	memcpy(c.ap_ip, ap_ip, 16);
	return c;
}

static struct rsk_agent_request *find_awaiting(const struct rsk_agent *a,
					       const struct connection *c)
{
	struct rsk_agent_request *r;

	HASH_FIND(hh, a->awaiting, c, sizeof(*c), r);
	return r;
}

/*
 * True if it would be mapped; otherwise the PMReq need not wait. The central agent is asked only
 * when the accepting end is there.
 */
static bool may_be_mapped(struct rsk_agent *a, const struct rsk_pma_question *q)
{
	struct rsk_pma_answer answer;

	if (a->ask.link)
		return true;
	rsk_pma_explain(a->pma, q, &answer, NULL, NULL);
	return answer.verdict == RSK_PMA_MAP;
}

/* The table is in the order of arrival, and all entries wait equally long. */
static enum rsk_pmsp_verdict await(struct rsk_agent *a, const struct rsk_pm_msg *req,
				   const struct rsk_pm_addr *from, uint64_t now_ns)
{
	struct rsk_agent_request *r, *next, *former;

	for (r = a->awaiting; r && r->until_ns <= now_ns; r = next) {
		next = r->hh.next;
		await_no_more(a, r);
	}
	r = request_of(a, req, from);
	if (!r)
		return RSK_PMSP_DENY;
	r->connection = connection_of(req->ipv, req->cp_ip, req->cp_port, req->ap_ip, req->ap_port);
	r->until_ns = now_ns + a->pmsp->config.ask_ns;
	former = find_awaiting(a, &r->connection);
	if (former)
		await_no_more(a, former);
	HASH_ADD(hh, a->awaiting, connection, sizeof(r->connection), r);
	a->count.waited++;
	return RSK_PMSP_WAIT;
}

static struct rsk_agent_request *awaiting_end(const struct rsk_agent *a,
					      const struct rsk_tuple *end)
{
	const struct connection c =
		connection_of(end->family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6, end->peer,
			      end->peer_port, end->local, end->local_port);

	return find_awaiting(a, &c);
}

bool rsk_agent_awaits(const struct rsk_agent *a, const struct rsk_tuple *end)
{
	return awaiting_end(a, end);
}

void rsk_agent_came(struct rsk_agent *a, const struct rsk_tuple *end)
{
	struct rsk_agent_request *r = awaiting_end(a, end);
	struct rsk_pma_question q;
	struct rsk_pma_answer answer;

	if (!r)
		return;
	HASH_DEL(a->awaiting, r);
	DL_APPEND(a->requests, r);
	a->count.came++;
	q = question_of(&r->req, RSK_PMA_AP, rsk_clock_ns());
	look_for_holder(a, &r->req, &q);
	rsk_agent_measure(a, q.now_ns);
	if (rsk_agent_decide(&a->ask, &q, &answer, on_decided, r))
		on_decided(r, &answer);
}

static enum rsk_pmsp_verdict decide(void *ctx, const struct rsk_pm_msg *req,
				    const struct rsk_pm_addr *from, struct rsk_pmsp_grant *grant)
{
	struct rsk_agent *a = ctx;
	struct rsk_pma_question q = question_of(req, RSK_PMA_AP, rsk_clock_ns());
	struct rsk_agent_request *r = NULL;
	struct rsk_pma_answer answer;
	bool comes;

	q.held = grant->id;
	comes = look_for_holder(a, req, &q);
	rsk_agent_measure(a, q.now_ns);
	if (comes && !grant->id && may_be_mapped(a, &q))
		return await(a, req, from, q.now_ns);
	if (a->ask.link) {
		r = request_of(a, req, from);
		if (!r)
			return RSK_PMSP_DENY;
		DL_APPEND(a->requests, r);
	}
	if (!rsk_agent_decide(&a->ask, &q, &answer, on_decided, r))
		return RSK_PMSP_WAIT;
	if (r)
		forget(r);
	return grant_by(a, req, from, &answer, grant);
}

static void release(void *ctx, const struct rsk_pmsp_grant *grant)
{
	struct rsk_agent *a = ctx;

	put_port(a, grant);
	rsk_pma_release(a->pma, grant->id);
}

static void used(void *ctx, const struct rsk_pmsp_grant *grant)
{
	struct rsk_agent *a = ctx;

	rsk_pma_confirm(a->pma, grant->id);
	put_port(a, grant);
	a->session = grant->id;
}

static void send_datagram(void *ctx, const struct rsk_pm_addr *to, const void *datagram,
			  size_t bytes)
{
	rsk_udp_send(((struct rsk_agent *)ctx)->udp, to, datagram, bytes);
}

const struct rsk_pmsp_ops rsk_agent_pmsp_ops = { .decide = decide,
						 .used = used,
						 .release = release,
						 .send = send_datagram };

bool rsk_agent_may_ask(struct rsk_agent *a, const struct rsk_pm_msg *req, uint32_t uid,
		       uint64_t numa_nodes, struct rsk_pma_answer *out, rsk_agent_decided *decided,
		       void *user)
{
	struct rsk_pma_question q = question_of(req, RSK_PMA_CP, rsk_clock_ns());

	q.uid = uid;
	q.numa_nodes = numa_nodes;
	q.rtt_us = rsk_agent_rtt_us(a, &q);
	rsk_agent_measure(a, q.now_ns);
	if (!rsk_agent_decide(&a->ask, &q, out, decided, user))
		return false;
	rsk_agent_count(a, out->verdict);
	return true;
}

uint64_t rsk_agent_link(struct rsk_agent *a, const struct rsk_pm_msg *link,
			const struct rsk_pm_addr *rdma, const uint8_t source[static 16],
			uint8_t announced[static 16])
{
	return rsk_pmsp_link_named(a->pmsp, link, rdma, source, announced) ? a->session : 0;
}

bool rsk_agent_again(struct rsk_agent *a, const struct rsk_pm_msg *link, enum rsk_pma_side side,
		     uint32_t uid, const uint8_t at_ip[static 16], struct rsk_pma_answer *out,
		     rsk_agent_decided *decided, void *user)
{
	static const uint8_t any[16];
	struct rsk_pma_question q = question_of(link, side, rsk_clock_ns());

	q.uid = uid;
	q.listens = true;
	q.placed = memcmp(at_ip, any, 16) != 0;
	memcpy(q.at_ip, at_ip, 16);
	q.rtt_us = rsk_agent_rtt_us(a, &q);
	rsk_agent_measure(a, q.now_ns);
	return rsk_agent_decide(&a->ask, &q, out, decided, user);
}

struct rsk_pma_device_view *rsk_agent_devices(const struct rsk_agent *a, size_t *n)
{
	struct rsk_pma_device_view *view = NULL;

	*n = rsk_pma_devices(a->pma, NULL, 0);
	if (*n)
		view = calloc(*n, sizeof(*view));
	if (view)
		rsk_pma_devices(a->pma, view, *n);
	else
		*n = 0;
	for (size_t i = 0; i < *n; i++)
		view[i].rails = a->local_ops->reserved(a->local, view[i].name);
	return view;
}
