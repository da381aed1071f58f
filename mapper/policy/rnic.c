// SPDX-License-Identifier: BSD-2-Clause
/* rnic.c - see rnic.h. */
#include "rnic.h"

#include <stdio.h>
#include <string.h>

#include "rules.h"

enum out {
	IN,
	NO_ADDRESS,
	NO_WAY,
	NO_WAY_REPORTED,
	NO_ROUTE,
	OTHER_GROUP,
	OTHER_CLASS,
	DOWN,
	DRAINED,
	SOFTWARE,
	ANOTHERS_ADDRESS,
	SPARE,
};

static const char *const out_words[] = {
	[NO_ADDRESS] = "it has no address of this family",
	[NO_WAY] = "it does not reach the peer",
	[NO_WAY_REPORTED] = "its node reports that it does not reach the peer",
	[NO_ROUTE] = "this host has no route to the peer by it",
	[OTHER_GROUP] = "it is not in the rule's group",
	[OTHER_CLASS] = "it is for sessions of the other class",
	[DOWN] = "it is down",
	[DRAINED] = "it is drained",
	[SOFTWARE] = "it is a software device, and soft-rdma is decline",
	[ANOTHERS_ADDRESS] = "the address is another one's own",
	[SPARE] = "it is a spare, and none has failed that it could stand in for",
};

static const char *const lack_words[] = {
	[RSK_LEDGER_SESSIONS] = "no session left",
	[RSK_LEDGER_CONNECTIONS] = "too few connections left",
	[RSK_LEDGER_MEMORY_MAPS] = "too few memory maps left",
	[RSK_LEDGER_BANDWIDTH] = "too little bandwidth left",
	[RSK_LEDGER_KEPT] = "what is left is kept free for quotas of other hosts",
};

static const struct rsk_ledger_account *account(const struct rsk_decision *d, uint32_t port)
{
	return &d->ledger->accounts[d->port_account[port]];
}

static const struct rsk_conf_rnic *rnic_of(const struct rsk_decision *d, uint32_t port)
{
	return &d->conf->rnics[d->conf->ports[port].rnic];
}

const uint8_t *rsk_rnic_ip(const struct rsk_decision *d, uint32_t port)
{
	const struct rsk_conf_port *p = &d->conf->ports[port];
	const uint8_t *first = NULL;

	for (size_t i = 0; i < p->n_ips; i++) {
		if (p->ips[i].ipv != d->q->ipv)
			continue;
		if (memcmp(p->ips[i].ip, d->q->placed ? d->q->at_ip : d->local, 16) == 0)
			return p->ips[i].ip;
		if (!first)
			first = p->ips[i].ip;
	}
	return first;
}

/* True if it is of this node. */
static bool is_ours(const struct rsk_decision *d, uint32_t port)
{
	return rnic_of(d, port)->node == d->conf->own_node;
}

/* ---- routes ---- */

/* As rsk_pma_routes(). */
static int leads_to(const struct rsk_decision *d, uint32_t port, const uint8_t to[static 16])
{
	struct rsk_pm_addr from = { .ipv = d->q->ipv }, target = { .ipv = d->q->ipv };
	const uint8_t *ip = rsk_rnic_ip(d, port);

	if (!ip)
		return 0; /* it has no address of the family */
	memcpy(from.ip, ip, 16);
	memcpy(target.ip, to, 16);
	return d->routes_lead(d->routes_ctx, &from, &target);
}

/*
 * Whether the kernel's routes lead to the peer. An aggregate's own address need not be in any
 * network: it is enough that one of its ports is reached.
 */
static int leads(const struct rsk_decision *d, uint32_t port)
{
	const struct rsk_conf *c = d->conf;
	int best = leads_to(d, port, d->peer), one;
	uint32_t number;

	if (best > 0 || rsk_conf_owner_of(c, d->q->ipv, d->peer, &number) != RSK_CONF_AGGREGATES)
		return best;
	for (size_t i = 0; i < c->aggregates[number].n_ports; i++) {
		const struct rsk_conf_port *p = &c->ports[c->aggregates[number].ports[i]];

		for (size_t k = 0; k < p->n_ips; k++) {
			one = p->ips[k].ipv == d->q->ipv ? leads_to(d, port, p->ips[k].ip) : 0;
			if (one > 0)
				return one;
			best = one ? one : best;
		}
	}
	return best;
}

/* Not of a target that another host resolves (ask-first): the address is not where the AP is. */
static bool are_asked(const struct rsk_decision *d)
{
	const struct rsk_conf *c = d->conf;

	if (!d->routes_lead || d->q->side != RSK_PMA_CP || d->q->placed)
		return false;
	for (size_t i = 0; i < c->daemon.n_ask_first; i++)
		if (rsk_conf_within(&c->daemon.ask_first[i], d->q->ipv, d->peer))
			return false;
	return true;
}

/*
 * A port that is down has no routes; it would reach the peer if it were up, so it counts as failed,
 * and a spare stands in for it. A configured reach counts instead of routes.
 */
static bool lacks_route(const struct rsk_decision *d, uint32_t port)
{
	return !d->conf->ports[port].n_reach && is_ours(d, port) &&
	       rsk_ledger_state(account(d, port)) != RSK_PMA_DOWN && leads(d, port) == 0;
}

static bool has_route(const struct rsk_rnic_set *set, uint32_t port)
{
	for (size_t i = 0; i < set->n && i < RSK_RNIC_ROUTES_MOST; i++)
		if (set->ports[i] == port)
			return !(set->no_route >> i & 1);
	return true;
}

static void candidates(const struct rsk_decision *d, struct rsk_rnic_set *out)
{
	const struct rsk_conf *c = d->conf;
	const struct rsk_conf_node *node = &c->nodes[c->own_node];
	bool outbound = d->q->side == RSK_PMA_CP;
	uint32_t number;

	*out = (struct rsk_rnic_set){ .own = RSK_CONF_NONE };
	if (d->q->placed) {
		out->ports = rsk_conf_port_at(c, d->q->ipv, d->q->at_ip);
		out->n = out->ports != NULL;
		return;
	}
	switch (rsk_conf_owner_of(c, d->q->ipv, d->local, &number)) {
	case RSK_CONF_AGGREGATES:
		out->ports = c->aggregates[number].ports;
		out->n = c->aggregates[number].n_ports;
		out->in_order = c->aggregates[number].in_order;
		return;
	case RSK_CONF_PORTS_OWN:
		node = &c->nodes[rnic_of(d, number)->node];
		out->own = number;
		out->fixed = !outbound && !d->service->balance;
		break;
	default:
		if (!outbound)
			return; /* the address is of no RNIC here */
	}
	out->ports = node->ports;
	out->n = node->n_ports;
}

void rsk_rnic_candidates(const struct rsk_decision *d, struct rsk_rnic_set *out)
{
	candidates(d, out);
	if (!are_asked(d))
		return;
	for (size_t i = 0; i < out->n && i < RSK_RNIC_ROUTES_MOST; i++)
		out->no_route |= (uint64_t)lacks_route(d, out->ports[i]) << i;
}

double rsk_rnic_load(const struct rsk_decision *d, uint32_t port)
{
	return rsk_ledger_load(d->ledger, d->port_account[port], RSK_LEDGER_NONE);
}

static bool reaches(const struct rsk_decision *d, uint32_t port)
{
	const struct rsk_conf_port *p = &d->conf->ports[port];

	for (size_t i = 0; i < p->n_reach; i++)
		if (rsk_conf_within(&p->reach[i], d->q->ipv, d->peer))
			return true;
	return !p->n_reach;
}

/* What its node reports of it; where that node has chosen it itself, it has looked at that. */
static const struct rsk_port_report *report_of(const struct rsk_decision *d, uint32_t port)
{
	static const struct rsk_port_report none;

	return d->q->placed ? &none : &d->reports[port];
}

/* By our configuration, or by that of its node. */
static bool is_spare(const struct rsk_decision *d, uint32_t port)
{
	return rnic_of(d, port)->spare || report_of(d, port)->spare;
}

static enum rsk_conf_qos class_of(unsigned int priority)
{
	return priority >= RSK_CONF_PRIORITY_HIGH ? RSK_CONF_QOS_HIGH : RSK_CONF_QOS_BEST_EFFORT;
}

/* Checks the port's properties, except its state and its role as a spare. */
static enum out fitting(const struct rsk_decision *d, const struct rsk_rnic_set *set,
			const struct rsk_conf_rule *rule, unsigned int priority, uint32_t port)
{
	const struct rsk_conf_rnic *r = rnic_of(d, port);
	const struct rsk_conf_port *p = &d->conf->ports[port];
	enum rsk_conf_qos reported = report_of(d, port)->qos;

	if (!(d->q->ipv == RSK_PM_IPV4 ? p->has_ipv4 : p->has_ipv6))
		return NO_ADDRESS;
	if (!reaches(d, port))
		return NO_WAY;
	if (!rsk_port_report_reaches(report_of(d, port), d->q->ipv, d->peer))
		return NO_WAY_REPORTED;
	if (rule->group != RSK_CONF_NONE && rule->group != r->group)
		return OTHER_GROUP;
	if ((r->qos != RSK_CONF_QOS_ANY && r->qos != class_of(priority)) ||
	    (reported != RSK_CONF_QOS_ANY && reported != class_of(priority)))
		return OTHER_CLASS;
	return has_route(set, port) ? IN : NO_ROUTE;
}

static enum out state_of(const struct rsk_decision *d, uint32_t port)
{
	switch (rsk_ledger_state(account(d, port))) {
	case RSK_PMA_UP:
		return account(d, port)->soft && !d->conf->use_soft ? SOFTWARE : IN;
	case RSK_PMA_DRAINING:
		return DRAINED;
	default:
		return DOWN;
	}
}

/*
 * Counts the active ports that would fit but have failed or are drained: so many spares may replace
 * them.
 */
static size_t failed(const struct rsk_decision *d, const struct rsk_rnic_set *set,
		     const struct rsk_conf_rule *rule, unsigned int priority)
{
	size_t n = 0;

	for (size_t i = 0; i < set->n; i++)
		n += !is_spare(d, set->ports[i]) && state_of(d, set->ports[i]) != IN &&
		     fitting(d, set, rule, priority, set->ports[i]) == IN;
	return n;
}

/* Counts the spares in state UP that come before this one. */
static size_t rank(const struct rsk_decision *d, const struct rsk_rnic_set *set,
		   const struct rsk_conf_rule *rule, unsigned int priority, size_t at)
{
	uint32_t order = rnic_of(d, set->ports[at])->order;
	size_t n = 0;

	for (size_t i = 0; i < set->n; i++) {
		const struct rsk_conf_rnic *r = rnic_of(d, set->ports[i]);

		if (is_spare(d, set->ports[i]) &&
		    (r->order < order || (r->order == order && i < at)))
			n += state_of(d, set->ports[i]) == IN &&
			     fitting(d, set, rule, priority, set->ports[i]) == IN;
	}
	return n;
}

/* Smaller is better, compared in this order. */
struct merit {
	uint32_t hot, distance, spare, shared, order;
	double load;
	uint32_t other_address;
	uint64_t sessions;
};

static uint32_t distance(const struct rsk_decision *d, uint32_t near, uint32_t port)
{
	if (near == RSK_CONF_NONE || near == port)
		return 0;
	if (d->conf->ports[near].rnic == d->conf->ports[port].rnic)
		return 1;
	return rnic_of(d, near)->node == rnic_of(d, port)->node ? 2 : 3;
}

/* True if it is on this node and this node is overloaded. */
static bool is_on_overloaded(const struct rsk_decision *d, uint32_t port)
{
	return d->overloaded && is_ours(d, port);
}

/*
 * True if another port is preferable. A session that leaves an overloaded port must not go to one
 * that it would have to leave next: two ports that are nearly full would move sessions back and
 * forth.
 */
static bool is_hot(const struct rsk_decision *d, uint32_t near, uint32_t port)
{
	double limit = d->conf->overload.device_load;

	return account(d, port)->overloaded || is_on_overloaded(d, port) ||
	       (limit > 0 && near != RSK_CONF_NONE && near != port &&
		rsk_ledger_load(d->ledger, d->port_account[port], d->need) >=
			limit * RSK_DECISION_RELIEF);
}

/* True if the process on our side runs on other NUMA nodes of this node only. */
static bool is_far(const struct rsk_decision *d, uint32_t port)
{
	uint32_t numa = d->ledger->accounts[account(d, port)->rnic].bus.numa;

	return d->q->numa_nodes && numa && rnic_of(d, port)->node == d->conf->own_node &&
	       !(d->q->numa_nodes & 1ull << (numa - 1));
}

static struct merit merit_of(const struct rsk_decision *d, const struct rsk_rnic_set *set,
			     size_t at, uint32_t near)
{
	uint32_t port = set->ports[at];
	const struct rsk_conf_rnic *r = rnic_of(d, port);
	const struct rsk_port_report *reported = report_of(d, port);

	return (struct merit){
		.hot = is_hot(d, near, port),
		.distance = distance(d, near, port),
		.spare = is_spare(d, port),
		.shared = r->qos == RSK_CONF_QOS_ANY && reported->qos == RSK_CONF_QOS_ANY,
		.order = set->in_order ? (uint32_t)at : r->order,
		.load = rsk_rnic_load(d, port) + (is_far(d, port) ? RSK_RNIC_FAR_LOAD : 0),
		.other_address = port != set->own,
		.sessions = account(d, port)->sessions,
	};
}

static bool better(const struct merit *a, const struct merit *b)
{
	if (a->hot != b->hot)
		return a->hot < b->hot;
	if (a->distance != b->distance)
		return a->distance < b->distance;
	if (a->spare != b->spare)
		return a->spare < b->spare;
	if (a->shared != b->shared)
		return a->shared < b->shared;
	if (a->order != b->order)
		return a->order < b->order;
	if (a->load < b->load || b->load < a->load)
		return a->load < b->load;
	if (a->other_address != b->other_address)
		return a->other_address < b->other_address;
	return a->sessions < b->sessions;
}

/* Returns RSK_PMA_MAP if the rule holds for this port and there is room. */
static enum rsk_pma_verdict usable(const struct rsk_decision *d, const struct rsk_conf_rule *rule,
				   bool depends, unsigned int priority, uint32_t port)
{
	const char *name = d->conf->ports[port].name;
	enum rsk_ledger_lack lack;
	char why[200];

	if (depends && rsk_rules_ask(d, rule->function, port) != RSK_RULES_TRUE) {
		if (d->say) {
			rsk_rules_why_not(d, rule->function, port, why, sizeof(why));
			RSK_SAY(d, "  device %s: left out: %s", name, why);
		}
		return rsk_rules_refusal(d, rule->function, port);
	}
	if (is_on_overloaded(d, port) && priority < d->conf->overload.refuse_below) {
		if (d->load_over)
			snprintf(why, sizeof(why), "%.3g of %.3g", d->load, d->conf->overload.load);
		RSK_SAY(d,
			"  device %s: left out: its node is overloaded (%s), and priority %u is "
			"less than %u",
			name, d->load_over ? why : "a service carries less than is wanted",
			priority, d->conf->overload.refuse_below);
		return RSK_PMA_OVERLOAD;
	}
	lack = rsk_ledger_lacks_for(d->ledger, d->port_account[port], d->need, d->q->ipv,
				    d->q->side == RSK_PMA_AP ? d->q->cp_ip : NULL);
	if (lack != RSK_LEDGER_FITS) {
		RSK_SAY(d, "  device %s: left out: %s", name, lack_words[lack]);
		return RSK_PMA_EXHAUSTED;
	}
	RSK_SAY(d, "  device %s: has room, load %.3g%s%s", name, rsk_rnic_load(d, port),
		account(d, port)->overloaded ? ", which is too much" : "",
		is_far(d, port) ? "; the process runs on other NUMA nodes" : "");
	return RSK_PMA_MAP;
}

/* Returns the verdict of the device that came further in the selection, which says more. */
static enum rsk_pma_verdict further(enum rsk_pma_verdict a, enum rsk_pma_verdict b)
{
	static const uint8_t far[] = {
		[RSK_PMA_NO_DEVICE] = 0, [RSK_PMA_SOFT_RNIC] = 1, [RSK_PMA_NO_RULE] = 2,
		[RSK_PMA_NOT_WORTH] = 3, [RSK_PMA_OVERLOAD] = 4,  [RSK_PMA_EXHAUSTED] = 5,
		[RSK_PMA_MAP] = 6
	};

	return far[b] > far[a] ? b : a;
}

static enum rsk_pma_verdict select_of(const struct rsk_decision *d, const struct rsk_rnic_set *set,
				      const struct rsk_conf_rule *rule, bool depends,
				      unsigned int priority, uint32_t near, uint32_t *port)
{
	size_t stand_in = d->service->high_availability ? failed(d, set, rule, priority) : 0;
	bool only_own = set->fixed && !is_spare(d, set->own) && state_of(d, set->own) == IN &&
			!account(d, set->own)->overloaded &&
			fitting(d, set, rule, priority, set->own) == IN;
	enum rsk_pma_verdict best = RSK_PMA_NO_DEVICE, one;
	struct merit merit, least = { 0 };
	bool beats;

	/* A port that replaces the owner of an address should be near to it. */
	if (near == RSK_CONF_NONE && set->fixed)
		near = set->own;
	for (size_t i = 0; i < set->n; i++) {
		uint32_t p = set->ports[i];
		enum out out = fitting(d, set, rule, priority, p);

		if (out == IN)
			out = state_of(d, p);
		if (out == IN && only_own && p != set->own)
			out = ANOTHERS_ADDRESS;
		if (out == IN && !d->q->placed && is_spare(d, p) &&
		    (!stand_in || rank(d, set, rule, priority, i) >= stand_in))
			out = SPARE;
		if (out != IN) {
			if (out == SOFTWARE)
				best = further(best, RSK_PMA_SOFT_RNIC);
			RSK_SAY(d, "  device %s: left out: %s", d->conf->ports[p].name,
				out_words[out]);
			continue;
		}
		/*
		 * A port that would not be chosen anyway is not evaluated, unless an explanation is
		 * wanted.
		 */
		merit = merit_of(d, set, i, near);
		beats = best != RSK_PMA_MAP || better(&merit, &least);
		if (!beats && !d->say)
			continue;
		one = usable(d, rule, depends, priority, p);
		if (one == RSK_PMA_MAP && beats) {
			least = merit;
			*port = p;
		}
		best = further(best, one);
	}
	if (!set->n)
		RSK_SAY(d, "  no RNIC has or serves the address on this side");
	return best;
}

/*
 * Routes are a preference: where no port to which they lead takes the session, another one may be
 * in a fabric that is another network than that of the connection, and the AP names its address
 * there.
 */
enum rsk_pma_verdict rsk_rnic_select(const struct rsk_decision *d, const struct rsk_rnic_set *set,
				     const struct rsk_conf_rule *rule, bool depends,
				     unsigned int priority, uint32_t near, uint32_t *port)
{
	enum rsk_pma_verdict verdict = select_of(d, set, rule, depends, priority, near, port);
	struct rsk_rnic_set all = *set;

	if (verdict == RSK_PMA_MAP || !set->no_route)
		return verdict;
	RSK_SAY(d, "  none with a route to the peer; without regard to routes:");
	all.no_route = 0;
	return select_of(d, &all, rule, depends, priority, near, port);
}
