// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_random.c - tests the policy agent with random requests, releases, confirmations,
 * failures, loads and configurations, against an oracle that keeps a list of all reservations and
 * searches it each time: nothing is granted twice, nothing that is possible is refused, and in the
 * end everything is given back.
 */
#include <stdlib.h>

#include "dice.h"
#include "pma_kit.h"

#define MOST 400

/* Two configurations that alternate; the second has other devices, services and limits. */
static const char *const texts[2] = {
	"limits: {sessions: 90, per-cp: 20, per-user: 30}\n"
	"overload: {load: 0.7, device-load: 0.7}\n"
	"rnics:\n"
	"  - {name: a, node: n1, sessions: 20, connections: 24, memory-maps: 40, ports: [\n"
	"     {name: '1', addresses: [10.1.0.1], bandwidth: 1Gbit},\n"
	"     {name: '2', addresses: [10.1.0.2], bandwidth: 2Gbit, reach: [10.0.0.0/9]}]}\n"
	"  - {name: b, node: n1, addresses: [10.1.0.3], sessions: 10, qos: high}\n"
	"  - {name: c, node: n1, addresses: [10.1.0.4], sessions: 6, role: spare}\n"
	"  - {name: d, node: n2, addresses: [10.1.0.5], bandwidth: 1.5Gbit, group: g}\n"
	"  - {name: e, node: n2, addresses: [10.1.0.6], sessions: 5, role: spare}\n"
	"aggregates:\n"
	"  - {address: 10.9.0.1, over: [a, b, c, d, e]}\n"
	"  - {address: 10.9.0.2, over: [d, e, a/2], choose: order}\n"
	"services:\n"
	"  - {name: s0, ports: ['1'], bandwidth: 100Mbit, memory-maps: 3, "
	"high-availability: true,\n"
	"     limits: {sessions: 25, per-cp: 9, per-user: 12}}\n"
	"  - {name: s1, ports: ['2'], priority: 6, connections: 2}\n"
	"  - {name: s2, ports: ['3'], balance: true, bandwidth: 300Mbit}\n"
	"rules:\n"
	"  - {name: A, when: {services: [s0, s1], peers: [10.0.0.0/8], bandwidth-fits: true}}\n"
	"  - {name: B, when: {services: [s2], load-below: 0.5}, map: {group: g}}\n"
	"  - {name: C, when: {services: [s2]}, map: {priority: 7}}\n",
	"limits: {sessions: 60, per-cp: 10}\n"
	"rnics:\n"
	"  - {name: a, node: n1, sessions: 12, ports: [\n"
	"     {name: '2', addresses: [10.1.0.2], bandwidth: 1Gbit},\n"
	"     {name: '3', addresses: [10.1.0.7]}]}\n"
	"  - {name: d, node: n1, addresses: [10.1.0.5], bandwidth: 2Gbit, group: g, order: 1}\n"
	"  - {name: c, node: n2, addresses: [10.1.0.4], sessions: 9, memory-maps: 12}\n"
	"aggregates:\n"
	"  - {address: 10.9.0.1, over: [a, c, d]}\n"
	"services:\n"
	"  - {name: s2, ports: ['3'], bandwidth: 200Mbit, limits: {per-user: 4}}\n"
	"  - {name: s0, ports: ['1'], memory-maps: 1}\n"
	"rules:\n"
	"  - {name: A, when: {services: [s0], peers: [10.0.0.0/8], bandwidth-fits: true}}\n"
	"  - {name: B, when: {services: [s2], load-below: 0.5}, map: {group: g}}\n"
	"  - {name: C, when: {services: [s2]}, map: {priority: 7}}\n",
};

struct record {
	uint64_t id;
	char port[16], rnic[16], service[16];
	enum rsk_pma_side side;
	uint8_t cp[4];
	uint32_t uid;
	uint64_t bps, maps, connections;
	bool used;
};

struct oracle {
	struct rsk_pma *a;
	struct rsk_conf *c; /* a copy of the current configuration */
	struct record held[MOST];
	size_t n;
	enum rsk_pma_device_state state[16]; /* by name[0] and port: see state_of() */
	double load;
	uint64_t dice, maps, refusals;
};

static uint64_t roll(struct oracle *o, uint64_t below)
{
	return dice_roll(&o->dice) % below;
}

/* Maps "a/1", "b" to an index. */
static enum rsk_pma_device_state *state_of(struct oracle *o, const char *port)
{
	return &o->state[port[1] ? 8 + port[2] - '0' : port[0] - 'a'];
}

/* ---- the naive view ---- */

struct sums {
	uint64_t sessions, bps, maps, connections;
};

static struct sums of_port(const struct oracle *o, const char *port)
{
	struct sums s = { 0 };

	for (size_t i = 0; i < o->n; i++)
		if (strcmp(o->held[i].port, port) == 0) {
			s.sessions++;
			s.bps += o->held[i].bps;
		}
	return s;
}

static struct sums of_rnic(const struct oracle *o, const char *rnic)
{
	struct sums s = { 0 };

	for (size_t i = 0; i < o->n; i++)
		if (strcmp(o->held[i].rnic, rnic) == 0) {
			s.sessions++;
			s.maps += o->held[i].maps;
			s.connections += o->held[i].connections;
		}
	return s;
}

static uint64_t count(const struct oracle *o, const struct rsk_pma_question *q, const char *service,
		      bool cp, bool user)
{
	uint64_t n = 0;

	if (user && q->uid == RSK_PMA_NOBODY)
		return 0;
	for (size_t i = 0; i < o->n; i++) {
		const struct record *r = &o->held[i];

		n += r->side == q->side && (!service || strcmp(r->service, service) == 0) &&
		     (!cp || memcmp(r->cp, q->cp_ip, 4) == 0) && (!user || r->uid == q->uid);
	}
	return n;
}

static bool below(uint64_t has, uint32_t most)
{
	return !most || has < most;
}

static bool is_limited(const struct oracle *o, const struct rsk_pma_question *q,
		       const struct rsk_conf_service *s)
{
	return !(below(count(o, q, s->name, false, false), s->limits.sessions) &&
		 below(count(o, q, s->name, true, false), s->limits.per_cp) &&
		 below(count(o, q, s->name, false, true), s->limits.per_user) &&
		 below(count(o, q, NULL, false, false), o->c->limits.sessions) &&
		 below(count(o, q, NULL, true, false), o->c->limits.per_cp) &&
		 below(count(o, q, NULL, false, true), o->c->limits.per_user));
}

/* After a reload a limit may be lower than what is booked; who needs nothing still fits. */
static bool fits(uint64_t need, uint64_t booked, uint64_t most)
{
	return !need || !most || booked + need <= most;
}

static bool has_room(const struct oracle *o, const struct rsk_conf_service *s, uint32_t port)
{
	const struct rsk_conf_port *p = &o->c->ports[port];
	const struct rsk_conf_rnic *r = &o->c->rnics[p->rnic];
	struct sums on_port = of_port(o, p->name), on_rnic = of_rnic(o, r->name);

	return fits(s->bps, on_port.bps, p->bps) && below(on_rnic.sessions, r->sessions) &&
	       fits(s->memory_maps, on_rnic.maps, r->memory_maps) &&
	       fits(s->connections, on_rnic.connections, r->connections);
}

/* The rules by their names, written as C conditions. */
static bool holds(const struct oracle *o, const struct rsk_pma_question *q, char rule,
		  const char *service, uint8_t peer)
{
	switch (rule) {
	case 'A':
		return strcmp(service, "s2") != 0 && peer == 10;
	case 'B':
		return strcmp(service, "s2") == 0 && o->load < 0.5;
	default:
		return strcmp(service, "s2") == 0;
	}
}

static bool fits_rule(struct oracle *o, const struct rsk_pma_question *q,
		      const struct rsk_conf_service *s, char rule, uint32_t port)
{
	const struct rsk_conf_port *p = &o->c->ports[port];
	const struct rsk_conf_rnic *r = &o->c->rnics[p->rnic];
	const uint8_t *peer = q->side == RSK_PMA_AP ? q->cp_ip : q->ap_ip;
	bool high = rule == 'C' || s->priority >= RSK_CONF_PRIORITY_HIGH;

	return holds(o, q, rule, s->name, peer[0]) &&
	       (!p->n_reach || (peer[0] == 10 && peer[1] < 128)) &&
	       (rule != 'B' || r->group == 0) && (r->qos == RSK_CONF_QOS_ANY || high);
}

/* The ports that the address on this side allows, and whether it is a port's own address. */
static size_t candidates(const struct oracle *o, const struct rsk_pma_question *q,
			 const uint32_t **ports, uint32_t *own)
{
	const struct rsk_conf *c = o->c;
	const uint8_t *local = q->side == RSK_PMA_AP ? q->ap_ip : q->cp_ip;
	uint32_t n;

	*own = RSK_CONF_NONE;
	for (uint32_t i = 0; i < c->n_aggregates; i++)
		if (memcmp(c->aggregates[i].address.ip, local, 16) == 0) {
			*ports = c->aggregates[i].ports;
			return c->aggregates[i].n_ports;
		}
	for (uint32_t i = 0; i < c->n_ports; i++)
		if (memcmp(c->ports[i].ips[0].ip, local, 16) == 0)
			*own = i;
	if (*own == RSK_CONF_NONE && q->side == RSK_PMA_AP)
		return 0;
	n = *own == RSK_CONF_NONE ? c->own_node : c->rnics[c->ports[*own].rnic].node;
	*ports = c->nodes[n].ports;
	return c->nodes[n].n_ports;
}

/* Could an active port take it, by any rule? Spares are only checked where an answer uses one. */
static bool could_be_mapped(struct oracle *o, const struct rsk_pma_question *q,
			    const struct rsk_conf_service *s)
{
	const uint32_t *ports;
	uint32_t own;
	size_t n = candidates(o, q, &ports, &own);

	if (is_limited(o, q, s))
		return false;
	for (const char *at = "ABC"; *at; at++) {
		char rule = *at;
		bool fixed = own != RSK_CONF_NONE && q->side == RSK_PMA_AP && !s->balance &&
			     !o->c->rnics[o->c->ports[own].rnic].spare &&
			     *state_of(o, o->c->ports[own].name) == RSK_PMA_UP &&
			     fits_rule(o, q, s, rule, own);

		for (size_t i = 0; i < n; i++)
			if (!o->c->rnics[o->c->ports[ports[i]].rnic].spare &&
			    (!fixed || ports[i] == own) &&
			    *state_of(o, o->c->ports[ports[i]].name) == RSK_PMA_UP &&
			    fits_rule(o, q, s, rule, ports[i]) && has_room(o, s, ports[i]))
				return true;
	}
	return false;
}

static void check_map(struct oracle *o, const struct rsk_pma_question *q,
		      const struct rsk_conf_service *s, const struct rsk_pma_answer *out)
{
	uint32_t port = rsk_conf_find(o->c, RSK_CONF_PORTS, out->device), own;
	const uint32_t *ports;
	size_t n = candidates(o, q, &ports, &own), at = n, failed = 0;

	cr_assert_neq(port, RSK_CONF_NONE);
	for (size_t i = 0; i < n; i++) {
		const struct rsk_conf_port *p = &o->c->ports[ports[i]];

		if (ports[i] == port)
			at = i;
		failed += !o->c->rnics[p->rnic].spare && *state_of(o, p->name) != RSK_PMA_UP &&
			  fits_rule(o, q, s, *out->rule, ports[i]);
	}
	cr_assert_lt(at, n, "%s is no candidate", out->device);
	cr_assert_not(is_limited(o, q, s));
	cr_assert_eq(*state_of(o, out->device), RSK_PMA_UP);
	cr_assert(fits_rule(o, q, s, *out->rule, port));
	cr_assert(has_room(o, s, port), "%s is oversubscribed", out->device);
	cr_assert_eq(memcmp(out->ip, o->c->ports[port].ips[0].ip, 16), 0);
	cr_assert(!o->c->rnics[o->c->ports[port].rnic].spare || (s->high_availability && failed));
}

/* ---- steps ---- */

static void put_down(struct oracle *o, size_t at, const struct rsk_pma_question *q,
		     const struct rsk_conf_service *s, const struct rsk_pma_answer *out, bool used)
{
	struct record *r = &o->held[at];
	uint32_t port = rsk_conf_find(o->c, RSK_CONF_PORTS, out->device);

	*r = (struct record){ .id = out->reservation,
			      .side = q->side,
			      .uid = q->uid,
			      .bps = s->bps,
			      .maps = s->memory_maps,
			      .connections = s->connections,
			      .used = used };
	snprintf(r->port, sizeof(r->port), "%s", out->device);
	snprintf(r->rnic, sizeof(r->rnic), "%s", o->c->rnics[o->c->ports[port].rnic].name);
	snprintf(r->service, sizeof(r->service), "%s", s->name);
	memcpy(r->cp, q->cp_ip, 4);
}

static void forget(struct oracle *o, size_t at)
{
	o->held[at] = o->held[--o->n];
}

static struct rsk_pma_question any_question(struct oracle *o)
{
	static const uint8_t ours[8][4] = { { 10, 9, 0, 1 }, { 10, 9, 0, 2 }, { 10, 1, 0, 1 },
					    { 10, 1, 0, 2 }, { 10, 1, 0, 5 }, { 10, 1, 0, 4 },
					    { 10, 1, 0, 3 }, { 10, 1, 0, 99 } };
	const uint8_t theirs[4] = { roll(o, 8) ? 10 : 11, roll(o, 4) ? 0 : 200, 0,
				    (uint8_t)roll(o, 6) };
	struct rsk_pma_question q = { .side = roll(o, 3) ? RSK_PMA_AP : RSK_PMA_CP,
				      .ipv = 4,
				      .ap_port = (uint16_t)(1 + roll(o, 4)),
				      .uid = roll(o, 3) ? (uint32_t)roll(o, 4) : RSK_PMA_NOBODY };
	const uint8_t *here = ours[roll(o, 8)];

	memcpy(q.side == RSK_PMA_AP ? q.ap_ip : q.cp_ip, here, 4);
	memcpy(q.side == RSK_PMA_AP ? q.cp_ip : q.ap_ip, theirs, 4);
	return q;
}

static void hear(void *ctx, const char *line)
{
	cr_assert(*line);
}

static void ask(struct oracle *o, bool again)
{
	struct rsk_pma_question q = any_question(o);
	const struct rsk_conf_service *s = NULL;
	size_t at = again && o->n ? roll(o, o->n) : o->n;
	struct record was = { 0 };
	struct rsk_pma_answer out, dry;

	if (at == MOST)
		return;
	if (o->c->service_at[q.ap_port])
		s = &o->c->services[o->c->service_at[q.ap_port] - 1];
	if (at < o->n) {
		was = o->held[at];
		q.held = was.id;
		forget(o, at);
	}
	rsk_pma_explain(o->a, &q, &dry, hear, NULL);
	rsk_pma_decide(o->a, &q, &out);
	cr_assert_eq(out.verdict, dry.verdict);
	cr_assert(out.device == dry.device && out.rule == dry.rule);
	if (out.verdict == RSK_PMA_MAP) {
		check_map(o, &q, s, &out);
		cr_assert_neq(out.reservation, 0);
		for (size_t i = 0; i < o->n; i++)
			cr_assert_neq(o->held[i].id, out.reservation);
		put_down(o, o->n++, &q, s, &out, was.used);
		o->maps++;
	} else {
		cr_assert_eq(out.reservation, 0);
		cr_assert(!s || !could_be_mapped(o, &q, s), "verdict %d", out.verdict);
		if (was.id)
			o->held[o->n++] = was;
		o->refusals++;
	}
}

static void change(struct oracle *o)
{
	uint32_t port = (uint32_t)roll(o, o->c->n_ports);
	enum rsk_pma_device_state state = (enum rsk_pma_device_state)roll(o, 3);

	if (roll(o, 4) == 0) {
		o->load = (double)roll(o, 100) / 100;
		rsk_pma_load_set(o->a, o->load);
		return;
	}
	*state_of(o, o->c->ports[port].name) = state;
	cr_assert_eq(rsk_pma_device_set(o->a, o->c->ports[port].name, state), 0);
}

static void reload(struct oracle *o)
{
	const char *text = texts[roll(o, 2)];

	cr_assert_eq(rsk_pma_reload(o->a, pma_conf(text)), 0);
	rsk_conf_free(o->c);
	o->c = pma_conf(text);
	/*
	 * A device that was away, with nothing on it, comes back as new, so the states of all
	 * devices are set.
	 */
	for (uint32_t i = 0; i < o->c->n_ports; i++)
		rsk_pma_device_set(o->a, o->c->ports[i].name, *state_of(o, o->c->ports[i].name));
}

static void compare(struct oracle *o)
{
	struct rsk_pma_device_view v[16];
	size_t n = rsk_pma_devices(o->a, v, 16);

	cr_assert_eq(n, o->c->n_ports);
	cr_assert(rsk_pma_validate(o->a));
	for (size_t i = 0; i < n; i++) {
		struct sums s = of_port(o, v[i].name);
		uint64_t promised = 0;

		for (size_t k = 0; k < o->n; k++)
			promised += !o->held[k].used && strcmp(o->held[k].port, v[i].name) == 0;
		cr_assert(v[i].sessions == s.sessions && v[i].bps == s.bps);
		cr_assert_eq(v[i].promised, promised);
		cr_assert_eq(v[i].state, *state_of(o, v[i].name));
	}
}

Test(pma_random, against_an_oracle)
{
	struct oracle *o = calloc(1, sizeof(*o));
	uint64_t steps = dice_number("RSOCK_PMA_STEPS", 60000);

	o->dice = dice_seed("pma_random");
	o->c = pma_conf(texts[0]);
	o->a = pma_of(texts[0]);
	for (uint64_t i = 0; i < steps; i++) {
		uint64_t what = roll(o, 100);

		if (what < 45) {
			ask(o, false);
		} else if (what < 55) {
			ask(o, true);
		} else if (what < 87 && o->n) {
			size_t at = roll(o, o->n);

			rsk_pma_release(o->a, o->held[at].id);
			forget(o, at);
		} else if (what < 95 && o->n) {
			size_t at = roll(o, o->n);

			rsk_pma_confirm(o->a, o->held[at].id);
			o->held[at].used = true;
		} else if (what < 98) {
			change(o);
		} else if (roll(o, 20) == 0) {
			reload(o);
		}
		if (i % 100 == 0)
			compare(o);
	}
	cr_assert(o->maps > steps / 20 && o->refusals > steps / 20, "%lu maps, %lu refusals",
		  o->maps, o->refusals);
	while (o->n) {
		rsk_pma_release(o->a, o->held[0].id);
		forget(o, 0);
	}
	compare(o);
	rsk_conf_free(o->c);
	rsk_pma_free(o->a);
	free(o);
}
