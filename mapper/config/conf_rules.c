// SPDX-License-Identifier: BSD-2-Clause
/*
 * conf_rules.c - reads rules and sub-functions, resolves their references, and checks the
 * invariants of a configuration. Called by conf_load.c.
 */
#include <errno.h>
#include <stdio.h>

#include "conf_build.h"
#include "conf_value.h"

/*
 * A decision evaluates a function's conditions and those of all functions that it refers to; both
 * numbers are bounded.
 */
#define DEPTH_MOST 256u
#define COST_MOST 65536u

/* ---- rules ---- */

static int take_map(struct rsk_conf_build *b, const char *where, const struct rsk_raw_map *raw,
		    struct rsk_conf_rule *r)
{
	uint64_t priority = 0;
	uint8_t pm_time;
	int rc;

	if (raw->pm_time) {
		if (rsk_conf_pm_time(raw->pm_time, &pm_time) < 0)
			return rsk_conf_wrong(
				b, where,
				"map.pm-time: \"%s\" is not whole seconds up to 254s, or lasting",
				raw->pm_time);
		r->pm_time_s = pm_time;
	}
	rc = rsk_conf_take(b, where, "map.priority", raw->priority, RSK_CONF_U64, 0,
			   RSK_CONF_PRIORITY_MOST, &priority);
	if (rc < 0)
		return rc;
	if (raw->priority)
		r->priority = (int)priority;
	if (raw->group) {
		r->group = rsk_conf_find(b->c, RSK_CONF_GROUPS, raw->group);
		if (r->group == RSK_CONF_NONE)
			return rsk_conf_wrong(b, where, "map.group: no RNIC is in a group \"%s\"",
					      raw->group);
	}
	if (!raw->redirect)
		return 0;
	if (rsk_conf_ip(raw->redirect, &r->redirect) < 0)
		return rsk_conf_wrong(b, where, "map.redirect: \"%s\" is not an IP address",
				      raw->redirect);
	if (r->sides != RSK_CONF_SIDE_AP || raw->pm_time || raw->priority || raw->group)
		return rsk_conf_wrong(b, where,
				      "map.redirect: only alone, and with side: ap (who asks for "
				      "a CP has nobody to redirect)");
	return 0;
}

static int take_function(struct rsk_conf_build *b, const char *where, uint32_t number,
			 const struct rsk_raw_when *when)
{
	b->c->functions[number].root = b->c->n_conds;
	return rsk_conf_take_when(b, where, when);
}

static int take_rule(struct rsk_conf_build *b, unsigned int i)
{
	const struct rsk_raw_rule *raw = &b->raw->rules[i];
	struct rsk_conf_rule *r = &b->c->rules[i];
	char where[RSK_CONF_WHERE / 2];
	int rc;

	snprintf(where, sizeof(where), "rules[%u] (%.64s)", i, raw->name);
	*r = (struct rsk_conf_rule){ .function = b->raw->n_functions + i,
				     .sides = raw->side ? raw->side :
							  RSK_CONF_SIDE_CP | RSK_CONF_SIDE_AP,
				     .pm_time_s = -1,
				     .priority = -1,
				     .group = RSK_CONF_NONE };
	rc = take_function(b, where, r->function, raw->when);
	return rc < 0 || !raw->map ? rc : take_map(b, where, raw->map, r);
}

/* ---- references ---- */

#define UNDER_WAY UINT32_MAX

/*
 * Computes a function's depth and cost, with everything it refers to: a function's depth is one
 * more than that of the deepest that it refers to, in whatever order they are weighed. Depth-first;
 * @level is the depth of this recursion, which has the same bound.
 */
static int weigh(struct rsk_conf_build *b, uint32_t number, uint32_t level)
{
	struct rsk_conf_function *f = &b->c->functions[number];
	const struct rsk_cond *conds = b->c->conds;
	uint32_t depth = 0;
	uint64_t cost = 0;
	int rc;

	if (f->depth == UNDER_WAY)
		return rsk_conf_wrong(b, f->name, "refers to itself, by way of others or not");
	if (f->depth)
		return 0;
	if (level >= DEPTH_MOST)
		return rsk_conf_wrong(b, f->name, "more than %u references deep", DEPTH_MOST);
	f->depth = UNDER_WAY;
	for (uint32_t i = f->root; i < conds[f->root].end; i++) {
		cost++;
		if (conds[i].op != RSK_COND_FUNCTION)
			continue;
		rc = weigh(b, conds[i].function, level + 1);
		if (rc < 0)
			return rc;
		cost += b->c->functions[conds[i].function].cost;
		if (b->c->functions[conds[i].function].depth > depth)
			depth = b->c->functions[conds[i].function].depth;
	}
	if (depth >= DEPTH_MOST)
		return rsk_conf_wrong(b, f->name, "more than %u references deep", DEPTH_MOST);
	if (cost > COST_MOST)
		return rsk_conf_wrong(b, f->name, "more than %u conditions, with its references",
				      COST_MOST);
	f->cost = (uint32_t)cost;
	f->depth = depth + 1;
	return 0;
}

static int name_function(struct rsk_conf_build *b, const char *section, unsigned int i,
			 const char *name)
{
	struct rsk_conf_function *f = &b->c->functions[b->c->n_functions];
	char where[RSK_CONF_WHERE];

	snprintf(where, sizeof(where), "%s[%u]", section, i);
	f->name = rsk_conf_dup(b->c, name);
	return f->name ? rsk_conf_name(b, RSK_CONF_FUNCTIONS, where, name, b->c->n_functions++) :
			 -ENOMEM;
}

static int make_room(struct rsk_conf_build *b, size_t n_rules)
{
	const struct rsk_raw_conf *raw = b->raw;
	size_t conds = 1;

	for (unsigned int i = 0; i < raw->n_functions; i++)
		conds += rsk_conf_count_when(raw->functions[i].when);
	for (unsigned int i = 0; i < raw->n_rules; i++)
		conds += rsk_conf_count_when(raw->rules[i].when);
	if (conds > 1u << 24)
		return rsk_conf_wrong(b, "rules", "too many conditions");
	b->c->conds = rsk_conf_alloc(b->c, conds, sizeof(*b->c->conds));
	b->c->functions =
		rsk_conf_alloc(b->c, raw->n_functions + n_rules, sizeof(*b->c->functions));
	b->c->rules = rsk_conf_alloc(b->c, n_rules, sizeof(*b->c->rules));
	return b->c->conds && b->c->functions && b->c->rules ? 0 : -ENOMEM;
}

/* Returns false if the rule's first condition names services and this one is not among them. */
static bool may_hold(const struct rsk_conf *c, const struct rsk_conf_rule *r, uint32_t service)
{
	uint32_t first = c->functions[r->function].root + 1;
	const struct rsk_cond *cond = &c->conds[first];

	if (first == c->conds[first - 1].end || cond->op != RSK_COND_SERVICES)
		return true;
	for (size_t i = 0; i < cond->n; i++)
		if (cond->numbers[i] == service)
			return true;
	return false;
}

/* With many services, most rules are for other services: each service lists those that may hold. */
static int sort_rules(struct rsk_conf *c)
{
	for (uint32_t i = 0; i < c->n_services; i++) {
		struct rsk_conf_service *s = &c->services[i];

		for (uint32_t k = 0; k < c->n_rules; k++)
			s->n_rules += may_hold(c, &c->rules[k], i);
		s->rules = rsk_conf_alloc(c, s->n_rules, sizeof(*s->rules));
		if (!s->rules)
			return -ENOMEM;
		s->n_rules = 0;
		for (uint32_t k = 0; k < c->n_rules; k++)
			if (may_hold(c, &c->rules[k], i))
				s->rules[s->n_rules++] = k;
	}
	return 0;
}

int rsk_conf_build_rules(struct rsk_conf_build *b)
{
	const struct rsk_raw_conf *raw = b->raw;
	char name[] = "registered"; /* applies if there are no rules */
	struct rsk_raw_rule everything = { .name = name };
	struct rsk_raw_conf with = *raw;
	char where[RSK_CONF_WHERE];
	int rc;

	if (!raw->rules) {
		with.rules = &everything;
		with.n_rules = 1;
		b->raw = &with;
	}
	b->c->n_rules = b->raw->n_rules;
	rc = make_room(b, b->raw->n_rules);
	for (unsigned int i = 0; rc == 0 && i < raw->n_functions; i++)
		rc = name_function(b, "functions", i, raw->functions[i].name);
	for (unsigned int i = 0; rc == 0 && i < b->raw->n_rules; i++)
		rc = name_function(b, "rules", i, b->raw->rules[i].name);
	for (unsigned int i = 0; rc == 0 && i < raw->n_functions; i++) {
		snprintf(where, sizeof(where), "functions[%u] (%.64s)", i, raw->functions[i].name);
		rc = take_function(b, where, i, raw->functions[i].when);
	}
	for (unsigned int i = 0; rc == 0 && i < b->raw->n_rules; i++)
		rc = take_rule(b, i);
	for (uint32_t i = 0; rc == 0 && i < b->c->n_functions; i++)
		rc = weigh(b, i, 0);
	b->raw = raw;
	return rc < 0 ? rc : sort_rules(b->c);
}

/* ---- invariants ---- */

static bool conds_are_whole(const struct rsk_conf *c)
{
	for (uint32_t i = 0; i < c->n_functions; i++)
		if (c->functions[i].root >= c->n_conds || !c->functions[i].depth ||
		    c->functions[i].depth > DEPTH_MOST || c->functions[i].cost > COST_MOST)
			return false;
	for (uint32_t i = 0; i < c->n_conds; i++) {
		const struct rsk_cond *cond = &c->conds[i];

		if (cond->end <= i || cond->end > c->n_conds ||
		    (cond->op > RSK_COND_NOT && cond->end != i + 1) ||
		    (cond->op == RSK_COND_NOT && cond->end == i + 1) ||
		    (cond->op == RSK_COND_FUNCTION && cond->function >= c->n_functions))
			return false;
		if (cond->op == RSK_COND_TIME && !cond->week)
			return false;
		for (size_t k = 0; cond->op == RSK_COND_SERVICES && k < cond->n; k++)
			if (cond->numbers[k] >= c->n_services)
				return false;
	}
	return true;
}

bool rsk_conf_validate(const struct rsk_conf *c)
{
	size_t ports = 0;

	for (uint32_t i = 0; i < c->n_rnics; i++)
		if (c->rnics[i].first_port + c->rnics[i].n_ports > c->n_ports ||
		    c->rnics[i].node >= c->n_nodes ||
		    (c->rnics[i].group != RSK_CONF_NONE && c->rnics[i].group >= c->n_groups))
			return false;
	for (uint32_t i = 0; i < c->n_nodes; i++)
		ports += c->nodes[i].n_ports;
	for (uint32_t i = 0; i < c->n_ports; i++)
		if (c->ports[i].rnic >= c->n_rnics || !c->ports[i].n_ips)
			return false;
	for (uint32_t i = 0; i < c->n_aggregates; i++)
		for (size_t k = 0; k < c->aggregates[i].n_ports; k++)
			if (c->aggregates[i].ports[k] >= c->n_ports)
				return false;
	for (uint32_t i = 0; i < 65536; i++)
		if (c->service_at[i] > c->n_services)
			return false;
	for (uint32_t i = 0; i < c->n_services; i++)
		for (uint32_t k = 0; k < c->services[i].n_rules; k++)
			if (c->services[i].rules[k] >= c->n_rules)
				return false;
	for (uint32_t i = 0; i < c->n_rules; i++)
		if (c->rules[i].function >= c->n_functions || !c->rules[i].sides ||
		    c->rules[i].pm_time_s > RSK_PM_TIME_LASTING ||
		    c->rules[i].priority > RSK_CONF_PRIORITY_MOST ||
		    (c->rules[i].group != RSK_CONF_NONE && c->rules[i].group >= c->n_groups))
			return false;
	return ports == c->n_ports && c->own_node < c->n_nodes && c->daemon.n_listen &&
	       conds_are_whole(c);
}
