// SPDX-License-Identifier: BSD-2-Clause
/* pma_central.c - see pma_central.h. */
#include "pma_central.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "pm_hash.h"

struct grant_key {
	const struct rsk_central_node *node;
	uint64_t id;
};

struct rsk_central_grant {
	struct grant_key key;
	uint64_t reservation;
	struct rsk_central_grant *prev, *next; /* list of its node */
	UT_hash_handle hh;
};

static struct rsk_central_node *of_timer(struct rsk_deadline *d)
{
	return (struct rsk_central_node *)(void *)((char *)d -
						   offsetof(struct rsk_central_node, timer));
}

void rsk_central_init(struct rsk_central *c, const struct rsk_central_config *config,
		      struct rsk_pma *pma, uint64_t now_ns)
{
	*c = (struct rsk_central){ .config = *config,
				   .pma = pma,
				   .grace_until_ns = now_ns + config->lost_ns };
}

/* ---- grants ---- */

static struct rsk_central_grant *grant_of(const struct rsk_central *c,
					  const struct rsk_central_node *node, uint64_t id)
{
	struct grant_key key = { node, id };
	struct rsk_central_grant *g;

	HASH_FIND(hh, c->table, &key, sizeof(key), g);
	return g;
}

static struct rsk_central_grant *grant_add(struct rsk_central *c, struct rsk_central_node *node,
					   uint64_t id)
{
	struct rsk_central_grant *g = c->n_grants < c->config.max_leases ? calloc(1, sizeof(*g)) :
									   NULL;

	if (!g)
		return NULL;
	g->key = (struct grant_key){ node, id };
	HASH_ADD(hh, c->table, key, sizeof(g->key), g);
	DL_APPEND(node->grants, g);
	node->n_grants++;
	c->n_grants++;
	return g;
}

/* Removes the record only; the caller releases the reservation. */
static void grant_remove(struct rsk_central *c, struct rsk_central_grant *g)
{
	struct rsk_central_node *node = (struct rsk_central_node *)(void *)g->key.node;

	HASH_DEL(c->table, g);
	DL_DELETE(node->grants, g);
	node->n_grants--;
	c->n_grants--;
	free(g);
}

void rsk_central_release(struct rsk_central *c, struct rsk_central_node *node, uint64_t id)
{
	struct rsk_central_grant *g = grant_of(c, node, id);

	if (!g)
		return;
	c->count.released++;
	rsk_pma_release(c->pma, g->reservation);
	grant_remove(c, g);
}

void rsk_central_confirm(struct rsk_central *c, struct rsk_central_node *node, uint64_t id)
{
	const struct rsk_central_grant *g = grant_of(c, node, id);

	if (g)
		rsk_pma_confirm(c->pma, g->reservation);
}

/* Returns the question that a node's key stands for. */
static struct rsk_pma_question question_of(const struct rsk_ask_key *key, uint64_t now_ns)
{
	struct rsk_pma_question q = { .side = key->side ? RSK_PMA_AP : RSK_PMA_CP,
				      .ipv = key->ipv,
				      .cp_port = key->one,
				      .ap_port = key->ap_port,
				      .uid = key->uid,
				      .placed = key->placed,
				      .listens = true, /* its own agent has checked that */
				      .now_ns = now_ns };

	memcpy(q.cp_ip, key->cp_ip, 16);
	memcpy(q.ap_ip, key->ap_ip, 16);
	memcpy(q.at_ip, key->at_ip, 16);
	return q;
}

static void say(struct rsk_ask_answer *out, const struct rsk_pma_answer *a, uint64_t lease_ns)
{
	*out = (struct rsk_ask_answer){ .verdict = a->verdict,
					.port = a->port,
					.pm_time_s = a->pm_time_s,
					.priority = a->priority,
					.dscp = a->dscp,
					.redirect_ipv = a->redirect_ipv,
					.rate_bps = a->rate_bps,
					.need = a->need };
	memcpy(out->ip, a->ip, 16);
	memcpy(out->redirect_ip, a->redirect_ip, 16);
	snprintf(out->rule, sizeof(out->rule), "%s", a->rule ? a->rule : "");
	snprintf(out->device, sizeof(out->device), "%s", a->device ? a->device : "");
	/* What is used up now may be released in a moment, so a refusal is not kept. */
	if (a->verdict == RSK_PMA_MAP)
		out->lease_ns = lease_ns;
}

void rsk_central_decide(struct rsk_central *c, struct rsk_central_node *node, uint64_t id,
			const struct rsk_ask_key *key, uint64_t now_ns, struct rsk_ask_answer *out)
{
	struct rsk_central_grant *g = grant_of(c, node, id);
	struct rsk_pma_question q = question_of(key, now_ns);
	struct rsk_pma_answer a;

	c->count.questions++;
	q.held = g ? g->reservation : 0;
	q.elsewhere = true;
	q.load = node->load;
	rsk_pma_decide(c->pma, &q, &a);
	if (a.verdict == RSK_PMA_MAP && !g)
		g = grant_add(c, node, id);
	if (a.verdict == RSK_PMA_MAP && !g) {
		rsk_pma_release(c->pma, a.reservation);
		a = (struct rsk_pma_answer){ .verdict = RSK_PMA_EXHAUSTED };
	}
	if (a.verdict == RSK_PMA_MAP) {
		c->count.granted++;
		g->reservation = a.reservation;
	} else if (g) {
		rsk_pma_release(c->pma, g->reservation);
		grant_remove(c, g);
	}
	say(out, &a, c->config.lease_ns);
}

void rsk_central_resume(struct rsk_central *c, struct rsk_central_node *node,
			const struct rsk_ask_item *item, uint64_t now_ns)
{
	struct rsk_pma_question q = question_of(&item->key, now_ns);
	struct rsk_central_grant *g = grant_of(c, node, item->id);
	enum rsk_pma_verdict why;

	if (g || !(g = grant_add(c, node, item->id)))
		return;
	q.placed = true;
	memcpy(q.at_ip, item->answer.ip, 16);
	g->reservation = rsk_pma_admit(c->pma, &q, &item->answer.need, true, &why);
	if (!g->reservation) {
		grant_remove(c, g);
		return;
	}
	if (item->used)
		rsk_pma_confirm(c->pma, g->reservation);
	c->count.resumed++;
}

/* ---- nodes ---- */

static struct rsk_central_node *named(const struct rsk_central *c, const char *name)
{
	struct rsk_central_node *n;

	LL_FOREACH(c->nodes, n)
		if (strcmp(n->name, name) == 0)
			return n;
	return NULL;
}

/* Releases the node's grants and marks its devices as down, until its next incarnation reports. */
static void forget(struct rsk_central *c, struct rsk_central_node *node)
{
	struct rsk_central_grant *g, *next;

	for (g = node->grants; g && c->table; g = next) {
		next = g->next;
		c->count.expired++;
		rsk_pma_release(c->pma, g->reservation);
		grant_remove(c, g);
	}
	rsk_pma_node_seen(c->pma, node->name, RSK_PMA_DOWN);
	rsk_deadline_clear(&c->timers, &node->timer);
	LL_DELETE(c->nodes, node);
	c->n_nodes--;
	free(node->devices);
	free(node);
}

void rsk_central_fini(struct rsk_central *c)
{
	while (c->nodes)
		forget(c, c->nodes);
}

struct rsk_central_node *rsk_central_find(struct rsk_central *c, const char *name, uint64_t boot)
{
	struct rsk_central_node *n = named(c, name);

	if (n && n->boot == boot && !n->resuming)
		return n;
	c->count.unknown_nodes++;
	return NULL;
}

static struct rsk_central_node *meet(struct rsk_central *c, const char *name, uint64_t boot)
{
	struct rsk_central_node *n = c->n_nodes < c->config.max_nodes ? calloc(1, sizeof(*n)) :
									NULL;

	if (!n)
		return NULL;
	n->boot = boot;
	n->resuming = true;
	snprintf(n->name, sizeof(n->name), "%s", name);
	LL_PREPEND(c->nodes, n);
	c->n_nodes++;
	return n;
}

/* Devices that are not in the report are down. */
static void see_devices(struct rsk_central *c, const struct rsk_central_node *n)
{
	rsk_pma_node_seen(c->pma, n->name, RSK_PMA_DOWN);
	for (size_t i = 0; i < n->n_devices; i++) {
		const struct rsk_central_device *d = &n->devices[i];

		rsk_pma_port_seen(c->pma, n->name, d->ipv, d->ip, d->state, d->others_bps,
				  &d->report);
	}
}

struct rsk_central_node *rsk_central_report(struct rsk_central *c, const char *name, uint64_t boot,
					    bool resume, uint32_t part, bool last, double load,
					    struct rsk_central_device *devices, size_t n,
					    uint64_t now_ns)
{
	struct rsk_central_node *node = named(c, name);

	if (node && node->boot != boot) {
		forget(c, node);
		node = NULL;
	}
	if (!node && resume && !part)
		node = meet(c, name, boot);
	/*
	 * From the first part on; a part may be repeated, and grants reported twice are recorded
	 * once.
	 */
	if (!node || (resume ? part && part != node->parts : node->resuming)) {
		c->count.unknown_nodes++;
		free(devices);
		return NULL;
	}
	c->count.reports++;
	node->load = load;
	node->heard_ns = now_ns;
	free(node->devices);
	node->devices = devices;
	node->n_devices = n;
	if (resume) {
		node->resuming = !last;
		node->parts = part + 1;
	}
	see_devices(c, node);
	rsk_deadline_set(&c->timers, &node->timer, now_ns + c->config.lost_ns);
	return node;
}

void rsk_central_take_over(struct rsk_central *c, uint64_t now_ns)
{
	c->grace_until_ns = now_ns + c->config.lost_ns;
}

bool rsk_central_in_grace(const struct rsk_central *c, uint64_t now_ns)
{
	return now_ns < c->grace_until_ns;
}

void rsk_central_reloaded(struct rsk_central *c)
{
	const struct rsk_central_node *n;

	/* Nodes that have not reported since our start are down. */
	if (!c->grace_until_ns)
		rsk_pma_node_seen(c->pma, NULL, RSK_PMA_DOWN);
	LL_FOREACH(c->nodes, n)
		see_devices(c, n);
}

uint64_t rsk_central_next(const struct rsk_central *c)
{
	uint64_t next = rsk_deadlines_next(&c->timers);

	return c->grace_until_ns && c->grace_until_ns < next ? c->grace_until_ns : next;
}

void rsk_central_tick(struct rsk_central *c, uint64_t now_ns)
{
	struct rsk_deadline *d;

	if (c->grace_until_ns && now_ns >= c->grace_until_ns) {
		c->grace_until_ns = 0;
		rsk_central_reloaded(c);
	}
	while ((d = rsk_deadlines_take(&c->timers, now_ns))) {
		c->count.lost++;
		forget(c, of_timer(d));
	}
}

bool rsk_central_validate(const struct rsk_central *c)
{
	size_t nodes = 0, grants = 0;
	const struct rsk_central_node *n;
	const struct rsk_central_grant *g;

	LL_FOREACH(c->nodes, n) {
		size_t of_node = 0;

		DL_FOREACH(n->grants, g) {
			if (g->key.node != n || !g->reservation)
				return false;
			of_node++;
		}
		if (of_node != n->n_grants || !rsk_deadline_is_set(&n->timer))
			return false;
		grants += of_node;
		nodes++;
	}
	return nodes == c->n_nodes && grants == c->n_grants && grants == HASH_COUNT(c->table) &&
	       grants <= c->config.max_leases && nodes <= c->config.max_nodes;
}
