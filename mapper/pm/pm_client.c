// SPDX-License-Identifier: BSD-2-Clause
/* pm_client.c - see pm_client.h. */
#include "pm_client.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "pm_hash.h"

struct waiter {
	void *user;
	struct waiter *next;
};

/* What several users may ask for at the same time: a service, at the same PMSP. */
struct question {
	uint8_t cp_ip[16], ap_ip[16], mapped_cp_ip[16];
	uint16_t ap_port, mapped_cp_port;
	struct rsk_pm_addr to;
};
_Static_assert(sizeof(struct question) == 72, "no padding: it is hashed");

struct rsk_pm_transaction {
	uint64_t handle;
	struct question question;
	struct rsk_deadline timer;
	struct rsk_pm_msg req;
	struct waiter *waiters;
	uint64_t began_ns, rto_ns;
	struct rsk_pm_addr rdma; /* lingering: the address in the first answer */
	uint8_t sends;
	bool open;
	UT_hash_handle hh;	    /* by handle */
	UT_hash_handle by_question; /* open transactions for services */
};

static struct rsk_pm_transaction *of_timer(struct rsk_deadline *d)
{
	return (struct rsk_pm_transaction *)(void *)((char *)d -
						     offsetof(struct rsk_pm_transaction, timer));
}

void rsk_pm_client_init(struct rsk_pm_client *c, const struct rsk_pm_client_config *config,
			const struct rsk_pm_client_ops *ops, void *ctx)
{
	*c = (struct rsk_pm_client){ .config = *config, .ops = ops, .ctx = ctx };
	rsk_pm_cache_init(&c->cache, &config->cache);
}

static void close_transaction(struct rsk_pm_client *c, struct rsk_pm_transaction *t)
{
	if (!t->open)
		return;
	t->open = false;
	c->open--;
	if (!t->req.cp_port)
		HASH_DELETE(by_question, c->by_question, t);
}

static void forget(struct rsk_pm_client *c, struct rsk_pm_transaction *t)
{
	struct waiter *w, *next;

	close_transaction(c, t);
	rsk_deadline_clear(&c->timers, &t->timer);
	HASH_DEL(c->by_handle, t);
	LL_FOREACH_SAFE(t->waiters, w, next)
		free(w);
	free(t);
}

void rsk_pm_client_fini(struct rsk_pm_client *c)
{
	while (c->by_handle)
		forget(c, c->by_handle);
	rsk_pm_cache_fini(&c->cache);
}

static void send_msg(struct rsk_pm_client *c, const struct rsk_pm_addr *to,
		     const struct rsk_pm_msg *m)
{
	uint8_t wire[RSK_PM_WIRE_MAPPED_BYTES];
	ssize_t n = rsk_pm_msg_encode(m, wire, sizeof(wire));

	if (n > 0)
		c->ops->send(c->ctx, to, wire, (size_t)n);
}

static struct rsk_pm_transaction *by_handle(const struct rsk_pm_client *c, uint64_t handle)
{
	struct rsk_pm_transaction *t;

	HASH_FIND(hh, c->by_handle, &handle, sizeof(handle), t);
	return t;
}

static void question_of(const struct rsk_pm_msg *req, const struct rsk_pm_addr *to,
			struct question *q)
{
	memset(q, 0, sizeof(*q));
	memcpy(q->cp_ip, req->cp_ip, 16);
	memcpy(q->ap_ip, req->ap_ip, 16);
	memcpy(q->mapped_cp_ip, req->mapped_cp_ip, 16);
	q->ap_port = req->ap_port;
	q->mapped_cp_port = req->mapped_cp_port;
	q->to = *to;
}

/* Tells all waiters. The list was detached before, because a callback may ask again or cancel. */
static void tell(struct rsk_pm_client *c, struct waiter *list, enum rsk_pm_outcome outcome,
		 const struct rsk_pm_mapping *m)
{
	struct waiter *w, *next;

	LL_FOREACH_SAFE(list, w, next) {
		void *user = w->user;

		free(w);
		c->ops->done(c->ctx, user, outcome, m);
	}
}

static void end(struct rsk_pm_client *c, struct rsk_pm_transaction *t, enum rsk_pm_outcome outcome,
		const struct rsk_pm_mapping *m, uint64_t now_ns)
{
	struct waiter *list = t->waiters;

	t->waiters = NULL;
	close_transaction(c, t);
	if (outcome == RSK_PM_MAPPED) {
		t->rdma = m->rdma;
		rsk_deadline_set(&c->timers, &t->timer, now_ns + c->config.linger_ns);
	} else {
		forget(c, t);
	}
	tell(c, list, outcome, m);
}

/* Returns an answer that needs no transaction; PENDING: there is none. */
static enum rsk_pm_outcome known(struct rsk_pm_client *c, const struct rsk_pm_msg *req,
				 const struct rsk_pm_addr *to, uint64_t now_ns,
				 struct rsk_pm_mapping *out)
{
	enum rsk_pm_outcome o = RSK_PM_PENDING;

	if (!req->cp_port)
		o = rsk_pm_cache_find(&c->cache, req, now_ns, out);
	if (o == RSK_PM_MAPPED && c->ops->holds && !c->ops->holds(c->ctx, req, out)) {
		c->count.outdated++;
		rsk_pm_cache_forget(&c->cache, req);
		o = RSK_PM_PENDING;
	}
	if (o == RSK_PM_PENDING && (req->cp_port ? !rsk_pm_cache_may_try(&c->cache, to, now_ns) :
						   rsk_pm_cache_silent(&c->cache, to, now_ns)))
		o = RSK_PM_NO_ANSWER;
	return o;
}

static struct rsk_pm_transaction *open_transaction(struct rsk_pm_client *c,
						   const struct rsk_pm_msg *req,
						   const struct rsk_pm_addr *to, uint64_t now_ns)
{
	struct rsk_pm_transaction *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->req = *req;
	do
		t->handle = t->req.assoc_handle = c->ops->random(c->ctx);
	while (!t->handle || by_handle(c, t->handle));
	question_of(req, to, &t->question);
	t->rto_ns = rsk_pm_cache_rto(&c->cache, to);
	t->began_ns = now_ns;
	rsk_deadline_set(&c->timers, &t->timer, now_ns + t->rto_ns);
	t->open = true;
	c->open++;
	HASH_ADD(hh, c->by_handle, handle, sizeof(t->handle), t);
	if (!req->cp_port)
		HASH_ADD(by_question, c->by_question, question, sizeof(t->question), t);
	return t;
}

int rsk_pm_client_ask(struct rsk_pm_client *c, const struct rsk_pm_msg *req,
		      const struct rsk_pm_addr *to, void *user, uint64_t now_ns,
		      struct rsk_pm_mapping *out)
{
	struct rsk_pm_transaction *t = NULL;
	struct rsk_pm_msg whole = *req;
	enum rsk_pm_outcome o;
	struct question q;
	struct waiter *w;

	whole.assoc_handle = 1;
	if (whole.op != RSK_PM_REQ || rsk_pm_msg_validate(&whole) < 0)
		return -EINVAL;
	c->count.asked++;
	o = known(c, req, to, now_ns, out);
	if (o != RSK_PM_PENDING) {
		c->count.cached++;
		return (int)o;
	}
	w = malloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->user = user;
	question_of(req, to, &q);
	if (!req->cp_port)
		HASH_FIND(by_question, c->by_question, &q, sizeof(q), t);
	if (t) {
		c->count.shared++;
		LL_APPEND(t->waiters, w);
		return RSK_PM_PENDING;
	}
	if (c->open >= c->config.max_open || !(t = open_transaction(c, req, to, now_ns))) {
		free(w);
		return c->open >= c->config.max_open ? -EBUSY : -ENOMEM;
	}
	LL_APPEND(t->waiters, w);
	t->sends = 1;
	c->count.sends++;
	send_msg(c, to, &t->req);
	return RSK_PM_PENDING;
}

void rsk_pm_client_cancel(struct rsk_pm_client *c, const void *user)
{
	struct rsk_pm_transaction *t;

	for (t = c->by_handle; t; t = t->hh.next) {
		struct waiter **at = &t->waiters, *w;

		while ((w = *at)) {
			if (w->user != user) {
				at = &w->next;
				continue;
			}
			*at = w->next;
			free(w);
		}
	}
}

static void acknowledge(struct rsk_pm_client *c, const struct rsk_pm_addr *to,
			const struct rsk_pm_msg *accept)
{
	struct rsk_pm_msg ack;

	if (rsk_pm_msg_ack(accept, &ack) == 0)
		send_msg(c, to, &ack);
}

static void on_accept(struct rsk_pm_client *c, struct rsk_pm_transaction *t,
		      const struct rsk_pm_addr *from, const struct rsk_pm_msg *m, uint64_t now_ns)
{
	struct rsk_pm_mapping mapping = { .rdma = { .port = m->ap_port, .ipv = m->ipv },
					  .until_ns = rsk_pm_until(m->pm_time_s, now_ns),
					  .handle = t->handle };

	memcpy(mapping.rdma.ip, m->ap_ip, 16);
	if (!t->open) {
		if (!rsk_pm_addr_equal(&t->rdma, &mapping.rdma)) {
			c->count.strays++; /* the first answer counts */
			return;
		}
		c->count.acks_again++;
		acknowledge(c, from, m);
		return;
	}
	c->count.mapped++;
	acknowledge(c, from, m);
	/* Best effort: without memory the next caller asks again. */
	if (!t->req.cp_port)
		rsk_pm_cache_mapped(&c->cache, &t->req, &mapping, now_ns);
	end(c, t, RSK_PM_MAPPED, &mapping, now_ns);
}

int rsk_pm_client_receive(struct rsk_pm_client *c, const struct rsk_pm_addr *from,
			  const void *datagram, size_t bytes, uint64_t now_ns)
{
	struct rsk_pm_transaction *t;
	struct rsk_pm_msg m;

	if (rsk_pm_msg_decode(datagram, bytes, &m) < 0) {
		c->count.malformed++;
		return -EBADMSG;
	}
	if (m.op != RSK_PM_ACCEPT && m.op != RSK_PM_DENY)
		return -EOPNOTSUPP;
	t = by_handle(c, m.assoc_handle);
	if (!t || !rsk_pm_msg_answers(&m, &t->req) || (m.op == RSK_PM_DENY && !t->open)) {
		c->count.strays++;
		return 0;
	}
	if (t->open)
		rsk_pm_cache_note_answer(&c->cache, &t->question.to);
	if (t->open && t->sends == 1)
		rsk_pm_cache_note_rtt(&c->cache, &t->question.to, now_ns - t->began_ns, now_ns);
	if (m.op == RSK_PM_ACCEPT) {
		on_accept(c, t, from, &m, now_ns);
		return 0;
	}
	c->count.refused++;
	if (!t->req.cp_port)
		rsk_pm_cache_refused(&c->cache, &t->req, now_ns);
	end(c, t, RSK_PM_REFUSED, NULL, now_ns);
	return 0;
}

/*
 * A fast network is no reason to give up early: a PMSP may wait for the accepting end, or for
 * another agent, longer than the round trip takes. So a host must be silent for as long as one of
 * which nothing is known.
 */
static uint64_t patience_until(const struct rsk_pm_client *c, const struct rsk_pm_transaction *t)
{
	return t->began_ns +
	       c->cache.config.rto_first_ns * ((UINT64_C(1) << c->config.max_sends) - 1);
}

static void on_time(struct rsk_pm_client *c, struct rsk_pm_transaction *t, uint64_t now_ns)
{
	if (!t->open) {
		forget(c, t);
		return;
	}
	if (t->sends >= c->config.max_sends && now_ns < patience_until(c, t)) {
		rsk_deadline_set(&c->timers, &t->timer, patience_until(c, t));
		return;
	}
	if (t->sends >= c->config.max_sends) {
		c->count.unanswered++;
		rsk_pm_cache_note_silence(&c->cache, &t->question.to, now_ns);
		end(c, t, RSK_PM_NO_ANSWER, NULL, now_ns);
		return;
	}
	t->sends++;
	t->rto_ns *= 2;
	c->count.repeats++;
	rsk_deadline_set(&c->timers, &t->timer, now_ns + t->rto_ns);
	send_msg(c, &t->question.to, &t->req);
}

void rsk_pm_client_tick(struct rsk_pm_client *c, uint64_t now_ns)
{
	struct rsk_deadline *d;

	while ((d = rsk_deadlines_take(&c->timers, now_ns)))
		on_time(c, of_timer(d), now_ns);
}

bool rsk_pm_client_validate(const struct rsk_pm_client *c)
{
	uint32_t open = 0, services = 0;

	for (const struct rsk_pm_transaction *t = c->by_handle; t; t = t->hh.next) {
		if (!rsk_deadline_is_set(&t->timer) ||
		    (t->open && t->sends > c->config.max_sends) || (!t->open && t->waiters))
			return false;
		open += t->open;
		services += t->open && !t->req.cp_port;
	}
	return open == c->open && c->timers.n == HASH_COUNT(c->by_handle) &&
	       services == HASH_CNT(by_question, c->by_question) &&
	       rsk_deadlines_validate(&c->timers) && rsk_pm_cache_validate(&c->cache);
}
