// SPDX-License-Identifier: BSD-2-Clause
/* rules.c - see rules.h. */
#include "rules.h"

#include <stdio.h>

#include "measures.h"
#include "rnic.h"

static const struct rsk_ledger_account *port_of(const struct rsk_decision *d, uint32_t port)
{
	return &d->ledger->accounts[d->port_account[port]];
}

static uint64_t device_sessions(const struct rsk_decision *d, uint32_t port)
{
	const struct rsk_ledger_account *r = &d->ledger->accounts[port_of(d, port)->rnic];

	return r->sessions - r->rails;
}

/* ---- leaf conditions: whether it holds, and a text with its values ---- */

static bool holds_services(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->numbers[i] == d->service_number)
			return true;
	return false;
}

static void tell_services(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
			  char *text, size_t n)
{
	snprintf(text, n, "services: it is \"%s\"", d->service->name);
}

static bool holds_ports(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	for (size_t i = 0; i < c->n; i++)
		if (d->q->ap_port >= c->ranges[i].first && d->q->ap_port <= c->ranges[i].last)
			return true;
	return false;
}

static void tell_ports(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
		       char *text, size_t n)
{
	snprintf(text, n, "ports: it is %u", d->q->ap_port);
}

static bool holds_users(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->numbers[i] == d->q->uid)
			return d->q->uid != RSK_PMA_NOBODY;
	return false;
}

static void tell_users(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
		       char *text, size_t n)
{
	if (d->q->uid == RSK_PMA_NOBODY)
		snprintf(text, n, "users: the user is not known");
	else
		snprintf(text, n, "users: the user is %u", d->q->uid);
}

static bool within(const struct rsk_decision *d, const struct rsk_cond *c, const uint8_t *ip)
{
	for (size_t i = 0; i < c->n; i++)
		if (rsk_conf_within(&c->prefixes[i], d->q->ipv, ip))
			return true;
	return false;
}

static bool holds_peers(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	return within(d, c, d->peer);
}

static void tell_peers(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
		       char *text, size_t n)
{
	char ip[RSK_DECISION_IP];

	snprintf(text, n, "peers: the peer is %s", rsk_decision_ip(d, d->peer, ip));
}

static bool holds_local(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	return within(d, c, d->local);
}

static void tell_local(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
		       char *text, size_t n)
{
	char ip[RSK_DECISION_IP];

	snprintf(text, n, "local: the address on this side is %s",
		 rsk_decision_ip(d, d->local, ip));
}

static bool holds_time(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	return d->week_minute >= 0 && c->week[d->week_minute / 8] >> d->week_minute % 8 & 1;
}

static void tell_time(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
		      char *text, size_t n)
{
	static const char days[] = "montuewedthufrisatsun";
	int minute = d->week_minute;

	if (minute < 0)
		snprintf(text, n, "time: it is not known");
	else
		snprintf(text, n, "time: it is %.3s %02d:%02d",
			 days + (size_t)(minute / (24 * 60)) * 3, minute / 60 % 24, minute % 60);
}

static bool holds_load(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	return d->load < c->part;
}

static void tell_load(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
		      char *text, size_t n)
{
	snprintf(text, n, "load-below %.3g: the node's load is %.3g", c->part, d->load);
}

static bool holds_sessions(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	return d->ledger->accounts[d->service_account].sessions < c->number;
}

static void tell_sessions(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
			  char *text, size_t n)
{
	snprintf(text, n, "sessions-below %llu: the service has %llu",
		 (unsigned long long)c->number,
		 (unsigned long long)d->ledger->accounts[d->service_account].sessions);
}

/* ---- measurements: one bound each, which holds while the value is unknown ---- */

static double transactions(const struct rsk_decision *d)
{
	return d->transactions;
}

static double rtt(const struct rsk_decision *d)
{
	return d->rtt_ns;
}

static double stream_bytes(const struct rsk_decision *d)
{
	return d->stream_bytes;
}

static const struct measure {
	const char *key, *what, *unit;
	double (*of)(const struct rsk_decision *d);
	double scale; /* factor to the unit */
	bool least;
} measures[] = {
	[RSK_COND_TRANSACTIONS_BELOW] = { "transactions-per-second-below", "the service has", "",
					  transactions, 1, false },
	[RSK_COND_TRANSACTIONS_LEAST] = { "transactions-per-second-at-least", "the service has", "",
					  transactions, 1, true },
	[RSK_COND_RTT_BELOW] = { "rtt-below", "the way to the peer takes", " us", rtt, 1e-3,
				 false },
	[RSK_COND_RTT_LEAST] = { "rtt-at-least", "the way to the peer takes", " us", rtt, 1e-3,
				 true },
	[RSK_COND_STREAM_BYTES_BELOW] = { "stream-bytes-below", "the service's streams have", "",
					  stream_bytes, 1, false },
	[RSK_COND_STREAM_BYTES_LEAST] = { "stream-bytes-at-least", "the service's streams have", "",
					  stream_bytes, 1, true },
};

static bool holds_measure(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	double v = measures[c->op].of(d);

	return v < 0 || (v >= (double)c->number) == measures[c->op].least;
}

static void tell_measure(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
			 char *text, size_t n)
{
	const struct measure *m = &measures[c->op];
	double v = m->of(d);

	if (v < 0)
		snprintf(text, n, "%s: it is not measured yet", m->key);
	else
		snprintf(text, n, "%s %.6g%s: %s %.6g%s", m->key, (double)c->number * m->scale,
			 m->unit, m->what, v * m->scale, m->unit);
}

/* ---- devices ---- */

static bool holds_device_load(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	return rsk_rnic_load(d, port) < c->part;
}

static void tell_device_load(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
			     char *text, size_t n)
{
	snprintf(text, n, "device-load-below %.3g: it is %.3g", c->part, rsk_rnic_load(d, port));
}

static bool holds_device_sessions(const struct rsk_decision *d, const struct rsk_cond *c,
				  uint32_t port)
{
	return device_sessions(d, port) < c->number;
}

static void tell_device_sessions(const struct rsk_decision *d, const struct rsk_cond *c,
				 uint32_t port, char *text, size_t n)
{
	snprintf(text, n, "device-sessions-below %llu: the RNIC has %llu",
		 (unsigned long long)c->number, (unsigned long long)device_sessions(d, port));
}

/*
 * x2 - x3 of rule R1: the port's bandwidth less what is booked by us or used by others; the bus of
 * its RNIC may leave less.
 */
static uint64_t bandwidth_free(const struct rsk_decision *d, uint32_t port)
{
	const struct rsk_ledger_account *p = port_of(d, port);
	const struct rsk_ledger_account *r = &d->ledger->accounts[p->rnic];
	uint64_t left = p->bps_max, bus = r->bps_max;

	if (bus != UINT64_MAX)
		bus = bus > r->bps ? bus - r->bps : 0;
	if (left == UINT64_MAX)
		return bus;
	left = left > p->bps ? left - p->bps : 0;
	left = left > p->others_bps ? left - p->others_bps : 0;
	return left < bus ? left : bus;
}

static bool holds_fits(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	return d->service->bps <= bandwidth_free(d, port);
}

static void tell_fits(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
		      char *text, size_t n)
{
	const struct rsk_ledger_account *p = port_of(d, port);
	uint64_t bus = d->ledger->accounts[p->rnic].bps_max;

	snprintf(text, n, "bandwidth-fits: %llu bit/s are needed, %llu of %llu are free",
		 (unsigned long long)d->service->bps, (unsigned long long)bandwidth_free(d, port),
		 (unsigned long long)(bus < p->bps_max ? bus : p->bps_max));
}

static bool holds_free(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port)
{
	return c->number <= bandwidth_free(d, port);
}

static void tell_free(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
		      char *text, size_t n)
{
	snprintf(text, n, "bandwidth-free %llu: %llu bit/s are", (unsigned long long)c->number,
		 (unsigned long long)bandwidth_free(d, port));
}

static const struct {
	bool (*holds)(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port);
	void (*tell)(const struct rsk_decision *d, const struct rsk_cond *c, uint32_t port,
		     char *text, size_t n);
} leaves[] = {
	[RSK_COND_SERVICES] = { holds_services, tell_services },
	[RSK_COND_PORTS] = { holds_ports, tell_ports },
	[RSK_COND_USERS] = { holds_users, tell_users },
	[RSK_COND_PEERS] = { holds_peers, tell_peers },
	[RSK_COND_LOCAL] = { holds_local, tell_local },
	[RSK_COND_TIME] = { holds_time, tell_time },
	[RSK_COND_LOAD] = { holds_load, tell_load },
	[RSK_COND_SESSIONS] = { holds_sessions, tell_sessions },
	[RSK_COND_TRANSACTIONS_BELOW] = { holds_measure, tell_measure },
	[RSK_COND_TRANSACTIONS_LEAST] = { holds_measure, tell_measure },
	[RSK_COND_RTT_BELOW] = { holds_measure, tell_measure },
	[RSK_COND_RTT_LEAST] = { holds_measure, tell_measure },
	[RSK_COND_STREAM_BYTES_BELOW] = { holds_measure, tell_measure },
	[RSK_COND_STREAM_BYTES_LEAST] = { holds_measure, tell_measure },
	[RSK_COND_DEVICE_LOAD] = { holds_device_load, tell_device_load },
	[RSK_COND_DEVICE_SESSIONS] = { holds_device_sessions, tell_device_sessions },
	[RSK_COND_BANDWIDTH_FITS] = { holds_fits, tell_fits },
	[RSK_COND_BANDWIDTH_FREE] = { holds_free, tell_free },
};

/* ---- functions ---- */

static enum rsk_rules_value contrary(enum rsk_rules_value v)
{
	static const enum rsk_rules_value of[] = { [RSK_RULES_FALSE] = RSK_RULES_TRUE,
						   [RSK_RULES_TRUE] = RSK_RULES_FALSE,
						   [RSK_RULES_DEPENDS] = RSK_RULES_DEPENDS };

	return of[v];
}

static enum rsk_rules_value leaf(const struct rsk_decision *d, const struct rsk_cond *c,
				 uint32_t port)
{
	if (port == RSK_CONF_NONE && c->op >= RSK_COND_DEVICE_LOAD)
		return RSK_RULES_DEPENDS;
	return leaves[c->op].holds(d, c, port) ? RSK_RULES_TRUE : RSK_RULES_FALSE;
}

/*
 * The configuration bounds the recursion: the nesting of the text times the depth of references
 * (conf_rules.c).
 */
static enum rsk_rules_value value_of(const struct rsk_decision *d, uint32_t i, uint32_t port)
{
	const struct rsk_cond *conds = d->conf->conds, *c = &conds[i];
	enum rsk_rules_value v, one, decides;

	if (c->op >= RSK_COND_SERVICES)
		return leaf(d, c, port);
	if (c->op == RSK_COND_FUNCTION)
		return value_of(d, d->conf->functions[c->function].root, port);
	if (c->op == RSK_COND_NOT)
		return contrary(value_of(d, i + 1, port));
	v = c->op == RSK_COND_ANY ? RSK_RULES_FALSE : RSK_RULES_TRUE;
	decides = contrary(v);
	for (uint32_t k = i + 1; k < c->end; k = conds[k].end) {
		one = conds[k].op >= RSK_COND_SERVICES ? leaf(d, &conds[k], port) :
							 value_of(d, k, port);
		if (one == decides)
			return one;
		if (one == RSK_RULES_DEPENDS)
			v = one;
	}
	return v;
}

enum rsk_rules_value rsk_rules_ask(const struct rsk_decision *d, uint32_t function, uint32_t port)
{
	return value_of(d, d->conf->functions[function].root, port);
}

enum rsk_pma_verdict rsk_rules_refusal(const struct rsk_decision *d, uint32_t function,
				       uint32_t port)
{
	struct rsk_decision other = *d;

	if (d->load > 0) {
		other.load = 0;
		if (rsk_rules_ask(&other, function, port) != RSK_RULES_FALSE)
			return RSK_PMA_OVERLOAD;
		other.load = d->load;
	}
	other.rtt_ns = other.stream_bytes = RSK_NOT_MEASURED;
	if (d->rtt_ns >= 0 || d->stream_bytes >= 0)
		if (rsk_rules_ask(&other, function, port) != RSK_RULES_FALSE)
			return RSK_PMA_NOT_WORTH;
	return RSK_PMA_NO_RULE;
}

/* Describes the cause: @i is a condition whose value is not the wanted one. */
static void tell(const struct rsk_decision *d, uint32_t i, uint32_t port,
		 enum rsk_rules_value wanted, char *text, size_t n)
{
	const struct rsk_cond *c = &d->conf->conds[i];
	int used;

	switch (c->op) {
	case RSK_COND_FUNCTION:
		used = snprintf(text, n, "%s: ", d->conf->functions[c->function].name);
		if (used > 0 && (size_t)used < n)
			tell(d, d->conf->functions[c->function].root, port, wanted, text + used,
			     n - (size_t)used);
		return;
	case RSK_COND_NOT:
		used = snprintf(text, n, "not: ");
		if (used > 0 && (size_t)used < n)
			tell(d, i + 1, port, contrary(wanted), text + used, n - (size_t)used);
		return;
	case RSK_COND_ALL:
	case RSK_COND_ANY:
		for (uint32_t k = i + 1; k < c->end; k = d->conf->conds[k].end)
			if (value_of(d, k, port) == contrary(wanted)) {
				tell(d, k, port, wanted, text, n);
				return;
			}
		snprintf(text, n, "it always holds");
		return;
	default:
		if (port == RSK_CONF_NONE && c->op >= RSK_COND_DEVICE_LOAD)
			snprintf(text, n, "it asks for a device, and there is none");
		else
			leaves[c->op].tell(d, c, port, text, n);
	}
}

void rsk_rules_why_not(const struct rsk_decision *d, uint32_t function, uint32_t port, char *text,
		       size_t n)
{
	*text = 0;
	tell(d, d->conf->functions[function].root, port, RSK_RULES_TRUE, text, n);
}
