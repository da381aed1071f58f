// SPDX-License-Identifier: BSD-2-Clause
/* pmsp.c - see pmsp.h. */
#include "pmsp.h"

#include <errno.h>
#include <string.h>

/* Memory that is prefetched too early is evicted again */
#define PREPARE_MOST 64

static struct rsk_pm_entry *of_timer(struct rsk_deadline *d)
{
	return (struct rsk_pm_entry *)(void *)((char *)d - offsetof(struct rsk_pm_entry, timer));
}

int rsk_pmsp_init(struct rsk_pmsp *p, const struct rsk_pmsp_config *config,
		  const struct rsk_pmsp_ops *ops, void *ctx)
{
	int rc;

	*p = (struct rsk_pmsp){ .config = *config, .ops = ops, .ctx = ctx };
	if (!config->max_open || !config->accept_ns || !config->ask_ns || !config->resend_ns)
		return -EINVAL;
	rc = rsk_pm_table_init(&p->table, config->max_open, config->seed);
	if (rc == 0)
		rc = rsk_pm_rate_init(&p->rate, config->rate_per_s, config->burst, config->seed);
	if (rc < 0)
		rsk_pmsp_fini(p);
	return rc;
}

static struct rsk_pmsp_grant grant_of(const struct rsk_pm_entry *e)
{
	struct rsk_pmsp_grant g = { .id = e->grant,
				    .port = e->rdma_port,
				    .ipv = e->ipv,
				    .pm_time_s = e->pm_time_s,
				    .own_port = e->own_port };

	memcpy(g.ip, e->rdma_ip, 16);
	return g;
}

/* Removes the entry from the table and releases what is held for it. */
static void drop(struct rsk_pmsp *p, struct rsk_pm_entry *e)
{
	if (e->grant) {
		const struct rsk_pmsp_grant g = grant_of(e);

		p->ops->release(p->ctx, &g);
	}
	rsk_deadline_clear(&p->timers, &e->timer);
	rsk_pm_table_remove(&p->table, e);
}

/* The same, but the session now owns what is held. */
static void hand_over(struct rsk_pmsp *p, struct rsk_pm_entry *e)
{
	const struct rsk_pmsp_grant g = grant_of(e);

	p->ops->used(p->ctx, &g);
	e->grant = 0;
	drop(p, e);
}

void rsk_pmsp_fini(struct rsk_pmsp *p)
{
	struct rsk_deadline *d;

	while ((d = rsk_deadlines_any(&p->timers)))
		drop(p, of_timer(d));
	rsk_pm_rate_fini(&p->rate);
	rsk_pm_table_fini(&p->table);
}

static void send_msg(struct rsk_pmsp *p, const struct rsk_pm_addr *to, const struct rsk_pm_msg *m)
{
	uint8_t wire[RSK_PM_WIRE_MAPPED_BYTES];
	ssize_t n = rsk_pm_msg_encode(m, wire, sizeof(wire));

	if (n > 0)
		p->ops->send(p->ctx, to, wire, (size_t)n);
}

static void deny(struct rsk_pmsp *p, const struct rsk_pm_msg *req, const struct rsk_pm_addr *from)
{
	struct rsk_pm_msg m;

	if (rsk_pm_msg_deny(req, &m) < 0)
		return;
	p->count.denies++;
	send_msg(p, from, &m);
}

/* Returns the PMReq, as far as an answer needs it. */
static struct rsk_pm_msg request_of(const struct rsk_pm_entry *e)
{
	struct rsk_pm_msg m = {
		.op = RSK_PM_REQ,
		.ipv = e->ipv,
		.ap_port = e->ap_port,
		.cp_port = e->cp_port,
		.assoc_handle = e->handle,
	};

	memcpy(m.cp_ip, e->cp_ip, 16);
	memcpy(m.ap_ip, e->ap_ip, 16);
	return m;
}

static void send_accept(struct rsk_pmsp *p, const struct rsk_pm_entry *e)
{
	struct rsk_pm_msg req = request_of(e), m;

	if (rsk_pm_msg_accept(&req, e->rdma_ip, e->rdma_port, e->pm_time_s, &m) == 0)
		send_msg(p, &e->from, &m);
}

static void arm(struct rsk_pmsp *p, struct rsk_pm_entry *e, uint64_t now_ns)
{
	uint64_t due = e->expires_ns;

	if (e->state == RSK_PM_OFFERED && e->tries < p->config.resends &&
	    now_ns + p->config.resend_ns < due)
		due = now_ns + p->config.resend_ns;
	rsk_deadline_set(&p->timers, &e->timer, due);
}

/* Sends PMAccept, for the first time or for a duplicate; the time counts from now. */
static void offer(struct rsk_pmsp *p, struct rsk_pm_entry *e, const struct rsk_pmsp_grant *g,
		  uint64_t now_ns)
{
	bool held = e->state == RSK_PM_HELD && e->rdma_port == g->port &&
		    memcmp(e->rdma_ip, g->ip, 16) == 0;

	if (!held)
		rsk_pm_table_offer(&p->table, e, g->ip, g->port);
	e->grant = g->id;
	e->own_port = g->own_port;
	e->pm_time_s = g->pm_time_s;
	e->tries = 0;
	e->expires_ns =
		now_ns + (g->pm_time_s ? g->pm_time_s * 1000000000ull : p->config.accept_ns);
	p->count.accepts++;
	send_accept(p, e);
	arm(p, e, now_ns);
}

/* Applies a verdict to an entry in the table. */
static void settle(struct rsk_pmsp *p, struct rsk_pm_entry *e, const struct rsk_pm_msg *req,
		   enum rsk_pmsp_verdict verdict, const struct rsk_pmsp_grant *g, uint64_t now_ns)
{
	struct rsk_pm_addr from = e->from;

	switch (verdict) {
	case RSK_PMSP_ACCEPT:
		offer(p, e, g, now_ns);
		return;
	case RSK_PMSP_WAIT:
		/* A duplicate: the previous answer stands until the verdict is known */
		if (e->state != RSK_PM_ASKED)
			return;
		e->expires_ns = now_ns + p->config.ask_ns;
		arm(p, e, now_ns);
		return;
	case RSK_PMSP_DENY:
		drop(p, e);
		deny(p, req, &from);
		return;
	default:
		drop(p, e);
	}
}

static void ask(struct rsk_pmsp *p, struct rsk_pm_entry *e, const struct rsk_pm_msg *req,
		uint64_t now_ns)
{
	struct rsk_pmsp_grant g = grant_of(e);
	enum rsk_pmsp_verdict v = p->ops->decide(p->ctx, req, &e->from, &g);

	settle(p, e, req, v, &g, now_ns);
}

/*
 * Makes a new entry. If the table is full, the longest unacknowledged one is evicted, as in a SYN
 * cache.
 */
static struct rsk_pm_entry *make_room(struct rsk_pmsp *p, const struct rsk_pm_msg *req,
				      const struct rsk_pm_addr *from)
{
	struct rsk_pm_entry *e = rsk_pm_table_add(&p->table, req, from);

	if (e || !p->table.oldest)
		return e;
	p->count.evicted++;
	drop(p, p->table.oldest);
	return rsk_pm_table_add(&p->table, req, from);
}

static void on_request(struct rsk_pmsp *p, const struct rsk_pm_msg *req,
		       const struct rsk_pm_addr *from, uint64_t now_ns)
{
	struct rsk_pm_entry *e = rsk_pm_table_named(&p->table, req), *old;

	p->count.requests++;
	/* The CP chooses the name: the same name for another service is a new request. */
	if (e && (e->ap_port != req->ap_port || memcmp(e->ap_ip, req->ap_ip, 16) != 0)) {
		p->count.replaced++;
		drop(p, e);
		e = NULL;
	}
	if (e) {
		p->count.duplicates++;
		e->from = *from;
		if (e->state != RSK_PM_ASKED)
			ask(p, e, req, now_ns);
		return;
	}
	old = rsk_pm_table_about(&p->table, req);
	if (old) {
		p->count.replaced++;
		drop(p, old);
	}
	e = make_room(p, req, from);
	if (!e) {
		p->count.full++;
		return;
	}
	/*
	 * Set the timer before the decision: a decider that calls back in here finds the entry
	 * complete.
	 */
	e->expires_ns = now_ns + p->config.ask_ns;
	arm(p, e, now_ns);
	ask(p, e, req, now_ns);
}

static void on_ack(struct rsk_pmsp *p, const struct rsk_pm_msg *ack)
{
	struct rsk_pm_entry *e = rsk_pm_table_named(&p->table, ack);

	if (!e || e->state != RSK_PM_OFFERED || e->rdma_port != ack->ap_port ||
	    memcmp(e->rdma_ip, ack->ap_ip, 16) != 0) {
		p->count.strays++;
		return;
	}
	p->count.acks++;
	/* Its timer stays: most entries are used and gone before it fires. */
	rsk_pm_table_hold(&p->table, e);
}

int rsk_pmsp_receive(struct rsk_pmsp *p, const struct rsk_pm_addr *from, const void *datagram,
		     size_t bytes, uint64_t now_ns)
{
	struct rsk_pm_msg m;

	if (rsk_pm_msg_decode(datagram, bytes, &m) < 0) {
		p->count.malformed++;
		return -EBADMSG;
	}
	switch (m.op) {
	case RSK_PM_REQ:
		if (rsk_pm_rate_take(&p->rate, from, now_ns))
			on_request(p, &m, from, now_ns);
		else
			p->count.limited++;
		return 0;
	case RSK_PM_ACK:
		on_ack(p, &m);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

void rsk_pmsp_prepare(const struct rsk_pmsp *p, const struct rsk_pmsp_coming *coming, size_t n)
{
	struct rsk_pm_look look[PREPARE_MOST];
	struct rsk_pm_msg m;
	size_t k = 0;

	for (size_t i = 0; i < n && k < PREPARE_MOST; i++)
		if (rsk_pm_msg_decode(coming[i].datagram, coming[i].bytes, &m) == 0)
			rsk_pm_table_prefetch(&p->table, &m, &look[k++]);
	for (size_t i = 0; i < k; i++)
		rsk_pm_table_prefetch_entries(&look[i]);
	for (size_t i = 0; i < k; i++)
		rsk_pm_table_prefetch_replaced(&p->table, &look[i]);
}

bool rsk_pmsp_decided(struct rsk_pmsp *p, const struct rsk_pm_msg *req,
		      enum rsk_pmsp_verdict verdict, const struct rsk_pmsp_grant *grant,
		      uint64_t now_ns)
{
	struct rsk_pm_entry *e = rsk_pm_table_named(&p->table, req);

	if (!e || e->state != RSK_PM_ASKED || e->ap_port != req->ap_port ||
	    memcmp(e->ap_ip, req->ap_ip, 16) != 0)
		return false;
	settle(p, e, req, verdict, grant, now_ns);
	return true;
}

/* True if the link is the one for which this entry was granted, wherever it comes from. */
static bool is_for(const struct rsk_pm_entry *e, const struct rsk_pm_msg *link,
		   const struct rsk_pm_addr *rdma)
{
	return e && link->cp_port && (e->state == RSK_PM_OFFERED || e->state == RSK_PM_HELD) &&
	       e->ipv == link->ipv && e->ap_port == link->ap_port &&
	       memcmp(e->ap_ip, link->ap_ip, 16) == 0 && e->ipv == rdma->ipv &&
	       e->rdma_port == rdma->port && memcmp(e->rdma_ip, rdma->ip, 16) == 0;
}

uint64_t rsk_pmsp_link_named(struct rsk_pmsp *p, const struct rsk_pm_msg *link,
			     const struct rsk_pm_addr *rdma, const uint8_t source[static 16],
			     uint8_t announced[static 16])
{
	struct rsk_pm_entry *e = rsk_pm_table_named(&p->table, link);
	static const uint8_t unknown[16];
	uint64_t id = 0;

	memset(announced, 0, 16);
	if (is_for(e, link, rdma)) {
		memcpy(announced, e->link_ip, 16);
		if (!memcmp(source, unknown, 16) || !memcmp(source, announced, 16)) {
			id = e->grant;
			hand_over(p, e);
		}
	}
	if (id)
		p->count.links++;
	else
		p->count.refused++;
	return id;
}

static void on_time(struct rsk_pmsp *p, struct rsk_pm_entry *e, uint64_t now_ns)
{
	struct rsk_pm_msg req = request_of(e);
	struct rsk_pm_addr from = e->from;
	bool asked = e->state == RSK_PM_ASKED;

	if (now_ns < e->expires_ns) {
		if (e->state == RSK_PM_OFFERED) {
			e->tries++;
			p->count.repeats++;
			send_accept(p, e);
		}
		arm(p, e, now_ns);
		return;
	}
	p->count.expired++;
	drop(p, e);
	if (asked)
		deny(p, &req, &from);
}

void rsk_pmsp_tick(struct rsk_pmsp *p, uint64_t now_ns)
{
	struct rsk_deadline *d;

	while ((d = rsk_deadlines_take(&p->timers, now_ns)))
		on_time(p, of_timer(d), now_ns);
}

bool rsk_pmsp_validate(const struct rsk_pmsp *p)
{
	/* Each entry has a timer, so that nothing is held forever. */
	return rsk_pm_table_validate(&p->table) && rsk_deadlines_validate(&p->timers) &&
	       p->timers.n == p->table.n;
}
