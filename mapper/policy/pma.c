// SPDX-License-Identifier: BSD-2-Clause
/* pma.c - see pma.h: a decision, from the question to the reservation. */
#include "pma.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pma_parts.h"
#include "rnic.h"
#include "rules.h"

static const char *const verdict_words[] = {
	[RSK_PMA_MAP] = "map",
	[RSK_PMA_NO_RULE] = "no rule supports it",
	[RSK_PMA_NO_DEVICE] = "no device can be used",
	[RSK_PMA_EXHAUSTED] = "resources are used up, or promised",
	[RSK_PMA_LIMIT] = "a limit is reached",
	[RSK_PMA_OVERLOAD] = "the node's load is too high",
	[RSK_PMA_UNHEARD] = "the central policy agent does not answer",
	[RSK_PMA_NOT_WORTH] = "it would not pay, by what is measured",
	[RSK_PMA_NO_LISTENER] = "no accelerated process has registered as its listener",
	[RSK_PMA_SOFT_RNIC] = "there are only software devices, which are not to be used",
	[RSK_PMA_REMOTE_FULL] = "the RNIC of the other host takes no session, as etcd says",
	[RSK_PMA_REDIRECT] = "another host answers",
};

void rsk_decision_say(const struct rsk_decision *d, const char *fmt, ...)
{
	char line[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	d->say(d->ctx, line);
}

const char *rsk_decision_ip(const struct rsk_decision *d, const uint8_t ip[static 16],
			    char text[static RSK_DECISION_IP])
{
	return rsk_pm_ip_text(d->q->ipv, ip, text);
}

/* ---- limits ---- */

static bool is_over(const struct rsk_decision *d, const char *what, uint64_t has, uint32_t most)
{
	if (!most || has < most)
		return false;
	RSK_SAY(d, "  limit reached: %s: %llu of %u", what, (unsigned long long)has, most);
	return true;
}

static bool is_limited(const struct rsk_decision *d, const struct rsk_ledger_who *who)
{
	const struct rsk_ledger *l = d->ledger;
	const struct rsk_conf_limits *s = &d->service->limits, *all = &d->conf->limits;
	enum rsk_pma_side side = l->accounts[who->service].side;

	return is_over(d, "sessions of the service", l->accounts[who->service].sessions,
		       s->sessions) ||
	       is_over(d, "sessions of the service with this CP", who->cp_sessions, s->per_cp) ||
	       is_over(d, "sessions of the service of this user", who->user_sessions,
		       s->per_user) ||
	       is_over(d, "sessions of this side", l->sessions[side], all->sessions) ||
	       is_over(d, "sessions with this CP", who->cp_all, all->per_cp) ||
	       is_over(d, "sessions of this user", who->user_all, all->per_user);
}

/* ---- rules ---- */

/* The result of evaluating a rule. */
struct finding {
	enum rsk_pma_verdict verdict;
	const struct rsk_conf_rule *rule;
	uint32_t port;
};

static unsigned int priority_of(const struct rsk_decision *d, const struct rsk_conf_rule *r)
{
	return r->priority < 0 ? d->service->priority : (unsigned int)r->priority;
}

/* True if a rule that redirects holds for any device. */
static bool redirects(const struct rsk_decision *d, const struct rsk_rnic_set *set,
		      const struct rsk_conf_rule *r)
{
	for (size_t i = 0; i < set->n; i++)
		if (rsk_rules_ask(d, r->function, set->ports[i]) == RSK_RULES_TRUE)
			return true;
	RSK_SAY(d, "  it holds for no device");
	return false;
}

static enum rsk_pma_verdict judge(const struct rsk_decision *d, const struct rsk_rnic_set *set,
				  const struct rsk_ledger_who *who, const struct rsk_conf_rule *r,
				  uint32_t near, uint32_t *port)
{
	const char *name = d->conf->functions[r->function].name;
	enum rsk_rules_value v;
	char why[200];

	if (!(r->sides & (d->q->side == RSK_PMA_CP ? RSK_CONF_SIDE_CP : RSK_CONF_SIDE_AP))) {
		RSK_SAY(d, "rule %s: is for the other side", name);
		return RSK_PMA_NO_RULE;
	}
	v = rsk_rules_ask(d, r->function, RSK_CONF_NONE);
	if (v == RSK_RULES_FALSE) {
		if (d->say) {
			rsk_rules_why_not(d, r->function, RSK_CONF_NONE, why, sizeof(why));
			RSK_SAY(d, "rule %s: does not hold: %s", name, why);
		}
		return rsk_rules_refusal(d, r->function, RSK_CONF_NONE);
	}
	RSK_SAY(d, "rule %s: %s", name,
		v == RSK_RULES_DEPENDS ? "depends on the device" : "supports the mapping");
	if (r->redirect.ipv)
		return v == RSK_RULES_TRUE || redirects(d, set, r) ? RSK_PMA_REDIRECT :
								     RSK_PMA_NO_RULE;
	if (is_limited(d, who))
		return RSK_PMA_LIMIT;
	if (d->q->placed && !set->n) {
		/*
		 * The device is unknown here: a rule that depends on the device, or names a group,
		 * does not hold.
		 */
		if (v == RSK_RULES_TRUE && r->group == RSK_CONF_NONE)
			return RSK_PMA_MAP;
		RSK_SAY(d, "  it asks for the device, which is not known here");
		return RSK_PMA_NO_RULE;
	}
	return rsk_rnic_select(d, set, r, v == RSK_RULES_DEPENDS, priority_of(d, r), near, port);
}

/*
 * Rules are combined by OR: the first that maps or redirects decides; else the one that came
 * nearest to it.
 */
static struct finding find(const struct rsk_decision *d, const struct rsk_ledger_who *who,
			   uint32_t near)
{
	static const uint8_t rank[] = {
		[RSK_PMA_NO_RULE] = 0,	 [RSK_PMA_NOT_WORTH] = 1, [RSK_PMA_OVERLOAD] = 2,
		[RSK_PMA_NO_DEVICE] = 3, [RSK_PMA_SOFT_RNIC] = 4, [RSK_PMA_EXHAUSTED] = 5,
		[RSK_PMA_LIMIT] = 6,	 [RSK_PMA_REDIRECT] = 7,  [RSK_PMA_MAP] = 7
	};
	struct finding best = { .verdict = RSK_PMA_NO_RULE }, one;
	/* An explanation also lists the rules that cannot hold for this service. */
	uint32_t n = d->say ? d->conf->n_rules : d->service->n_rules;
	struct rsk_rnic_set set;

	rsk_rnic_candidates(d, &set);
	for (uint32_t i = 0; i < n; i++) {
		one = (struct finding){ .rule = &d->conf->rules[d->say ? i : d->service->rules[i]],
					.port = RSK_CONF_NONE };
		one.verdict = judge(d, &set, who, one.rule, near, &one.port);
		if (!best.rule || rank[one.verdict] > rank[best.verdict])
			best = one;
		if (rank[best.verdict] == rank[RSK_PMA_MAP])
			break;
	}
	return best;
}

/* ---- answers ---- */

static void answer(const struct rsk_decision *d, const struct finding *f,
		   struct rsk_pma_answer *out)
{
	const struct rsk_conf_service *s = d->service;
	const struct rsk_conf_rule *r = f->rule;

	*out = (struct rsk_pma_answer){ .verdict = f->verdict };
	if (!r || f->verdict == RSK_PMA_NO_RULE)
		return;
	out->rule = d->conf->functions[r->function].name;
	if (f->verdict == RSK_PMA_REDIRECT) {
		memcpy(out->redirect_ip, r->redirect.ip, 16);
		out->redirect_ipv = r->redirect.ipv;
	}
	if (f->verdict != RSK_PMA_MAP)
		return;
	if (f->port == RSK_CONF_NONE) {
		memcpy(out->ip, d->q->at_ip, 16);
	} else {
		out->device = d->conf->ports[f->port].name;
		memcpy(out->ip, rsk_rnic_ip(d, f->port), 16);
	}
	out->port = d->q->side == RSK_PMA_AP ? s->rdma_port : 0;
	out->pm_time_s = r->pm_time_s < 0 ? s->pm_time_s : (uint8_t)r->pm_time_s;
	out->priority = (uint8_t)priority_of(d, r);
	out->dscp = s->dscp;
	out->rate_bps = rsk_pma_rate(d->conf, s, f->port, out->priority, d->overloaded);
	out->need = (struct rsk_ledger_need){ .bps = s->bps,
					      .memory_maps = s->memory_maps,
					      .connections = s->connections };
}

static void say_answer(const struct rsk_decision *d, const struct rsk_pma_answer *out)
{
	char ip[RSK_DECISION_IP];

	if (out->rate_bps)
		RSK_SAY(d, "service rate: %llu bit/s%s", (unsigned long long)out->rate_bps,
			out->rate_bps == d->service->rate_bps ? "" :
								", since its node is overloaded");
	if (out->verdict == RSK_PMA_MAP)
		RSK_SAY(d, "answer: map, by rule %s: device %s, address %s, PmTime %u", out->rule,
			out->device ? out->device : "(of another agent)",
			rsk_decision_ip(d, out->ip, ip), out->pm_time_s);
	else if (out->verdict == RSK_PMA_REDIRECT)
		RSK_SAY(d, "answer: by rule %s, %s answers", out->rule,
			rsk_decision_ip(d, out->redirect_ip, ip));
	else
		RSK_SAY(d, "answer: do not map: %s", verdict_words[out->verdict]);
}

/* Prepares the decision. Returns false if no service is registered at the port. */
static bool begin(struct rsk_pma *a, const struct rsk_pma_question *q, struct rsk_decision *d)
{
	uint32_t service = a->conf->service_at[q->ap_port];
	char cp[RSK_DECISION_IP], ap[RSK_DECISION_IP];
	const struct rsk_measures *measures;
	uint32_t uid;

	d->conf = a->conf;
	d->ledger = &a->ledger;
	d->port_account = a->bound.ports;
	d->reports = a->bound.reports;
	d->q = q;
	d->local = q->side == RSK_PMA_CP ? q->cp_ip : q->ap_ip;
	d->peer = q->side == RSK_PMA_CP ? q->ap_ip : q->cp_ip;
	d->load = q->elsewhere ? q->load : a->load;
	d->overloaded = a->overloaded && !q->elsewhere;
	d->load_over = a->load_over;
	d->week_minute = a->week_minute;
	d->routes_lead = a->routes_lead;
	d->routes_ctx = a->routes_ctx;
	d->rtt_ns = q->rtt_us ? q->rtt_us * 1e3 : RSK_NOT_MEASURED;
	if (d->say)
		RSK_SAY(d, "question: %s side, from CP %s to AP %s, service port %u, %s",
			q->side == RSK_PMA_CP ? "CP" : "AP", rsk_decision_ip(d, q->cp_ip, cp),
			rsk_decision_ip(d, q->ap_ip, ap), q->ap_port,
			q->cp_port ? "one connection" : "a service mapping");
	if (!service) {
		RSK_SAY(d, "no service is registered at this port");
		return false;
	}
	d->service_number = service - 1;
	d->service = &a->conf->services[d->service_number];
	d->service_account = a->bound.services[q->side][d->service_number];
	d->need = a->bound.needs[d->service_number];
	measures = &a->bound.measures[d->service_number];
	/* Users of another node are not our users: use root's measurements. */
	uid = q->elsewhere ? 0 : q->uid;
	d->transactions = rsk_measures_transaction_rate(measures, uid, q->side, q->now_ns);
	d->stream_bytes = rsk_measures_stream_bytes(measures, uid);
	RSK_SAY(d, "service %s: a session needs %llu bit/s, %u memory maps, %u connections",
		d->service->name, (unsigned long long)d->service->bps, d->service->memory_maps,
		d->service->connections);
	return true;
}

/* Returns the number in the current configuration of the port that a reservation is on. */
static uint32_t port_held(const struct rsk_pma *a, const struct rsk_ledger_view *v)
{
	return rsk_conf_find(a->conf, RSK_CONF_PORTS, a->ledger.accounts[v->port].name);
}

/* True if the new answer would hold exactly what is held. */
static bool is_same(const struct rsk_decision *d, const struct rsk_ledger_view *v, uint32_t account)
{
	return v->port == account && v->service == d->service_account && v->need == d->need &&
	       v->ipv == d->q->ipv && v->uid == d->q->uid && memcmp(v->cp_ip, d->q->cp_ip, 16) == 0;
}

static void decide(struct rsk_pma *a, struct rsk_decision *d, bool book, struct rsk_pma_answer *out)
{
	const struct rsk_pma_question *q = d->q;
	uint32_t near = RSK_CONF_NONE, account;
	struct rsk_ledger_view held;
	struct rsk_ledger_who who;
	struct finding f;
	bool again = q->held && rsk_ledger_find(&a->ledger, q->held, &held);

	if (q->side == RSK_PMA_AP && d->service->registered && !q->listens) {
		out->verdict = RSK_PMA_NO_LISTENER;
		say_answer(d, out);
		return;
	}
	/* Decide without its own reservation, and prefer the port where it is. */
	if (again) {
		rsk_ledger_lift(&a->ledger, q->held);
		near = port_held(a, &held);
		if (near != RSK_CONF_NONE)
			RSK_SAY(d, "held already, on %s", a->conf->ports[near].name);
	}
	rsk_ledger_who(&a->ledger, d->service_account, q->ipv, q->cp_ip, q->uid, &who);
	f = find(d, &who, near);
	/* A repeated question does not count again. */
	if (book && !again)
		rsk_rate_note(&a->bound.measures[d->service_number].decisions[q->side], 1,
			      q->now_ns);
	answer(d, &f, out);
	account = f.verdict == RSK_PMA_MAP ? rsk_pma_port_account(a, f.port) : 0;
	if (again && (!book || f.verdict != RSK_PMA_MAP || is_same(d, &held, account))) {
		rsk_ledger_put_back(&a->ledger, q->held);
		if (f.verdict == RSK_PMA_MAP)
			out->reservation = q->held;
		return;
	}
	if (!book || f.verdict != RSK_PMA_MAP)
		return;
	who.priority = out->priority;
	out->reservation = rsk_ledger_reserve(&a->ledger, &who, account, d->need);
	if (!out->reservation) { /* no memory to book it: then it is not promised */
		out->verdict = RSK_PMA_EXHAUSTED;
		if (again)
			rsk_ledger_put_back(&a->ledger, q->held);
		return;
	}
	if (again) {
		if (held.used)
			rsk_ledger_confirm(&a->ledger, out->reservation);
		rsk_ledger_drop_lifted(&a->ledger, q->held);
		if (a->observer.moved)
			a->observer.moved(a->observer.ctx, q->held, out->reservation);
		rsk_pma_watch(a, held.port);
	}
	rsk_pma_watch(a, account);
}

void rsk_pma_decide(struct rsk_pma *a, const struct rsk_pma_question *q, struct rsk_pma_answer *out)
{
	struct rsk_decision d = { 0 };

	*out = (struct rsk_pma_answer){ .verdict = RSK_PMA_NO_RULE };
	if (begin(a, q, &d))
		decide(a, &d, true, out);
}

void rsk_pma_explain(struct rsk_pma *a, const struct rsk_pma_question *q,
		     struct rsk_pma_answer *out, void (*say)(void *ctx, const char *line),
		     void *ctx)
{
	struct rsk_decision d = { .say = say, .ctx = ctx };

	*out = (struct rsk_pma_answer){ .verdict = RSK_PMA_NO_RULE };
	if (begin(a, q, &d))
		decide(a, &d, false, out);
	out->reservation = 0;
	say_answer(&d, out);
}

void rsk_pma_confirm(struct rsk_pma *a, uint64_t reservation)
{
	rsk_ledger_confirm(&a->ledger, reservation);
	if (a->observer.confirmed)
		a->observer.confirmed(a->observer.ctx, reservation);
}

void rsk_pma_release(struct rsk_pma *a, uint64_t reservation)
{
	struct rsk_ledger_view v;

	if (!rsk_ledger_find(&a->ledger, reservation, &v))
		return;
	rsk_ledger_release(&a->ledger, reservation);
	rsk_pma_watch(a, v.port);
	if (a->observer.released)
		a->observer.released(a->observer.ctx, reservation);
}
