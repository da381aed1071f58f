// SPDX-License-Identifier: BSD-2-Clause
/* pma_show.c - see pma_show.h. */
#include "pma_show.h"

#include <inttypes.h>

#include "clock.h"

static const char *const modes[] = { [RSK_CONF_PMA_LOCAL] = "local",
				     [RSK_CONF_PMA_CENTRAL] = "central",
				     [RSK_CONF_PMA_BOTH] = "both" };

static json_t *central(const struct rsk_daemon *d)
{
	const struct rsk_pma_link *l = &d->link;
	const struct rsk_ask *a = &l->ask;
	json_t *count = json_object();

#define PUT(name, text) json_object_set_new(count, #name, json_integer((json_int_t)a->count.name));
	RSK_ASK_COUNTERS(PUT)
#undef PUT
	json_object_set_new(count, "silent_mapped",
			    json_integer((json_int_t)d->agent.ask.silent_mapped));
	return json_pack("{s:s,s:i,s:b,s:s,s:s,s:s,s:i,s:{s:i,s:i,s:i},s:o}", "ip", l->host, "port",
			 l->central_agent.port, "by_role", (int)d->settings.pma.central_by_role,
			 "mode", modes[l->mode], "if_silent", l->local_if_silent ? "local" : "deny",
			 "state",
			 !l->central_agent.port ? "not known" :
			 a->silent		? "silent" :
			 a->known		? "heard" :
						  "not met",
			 "open", (int)a->questions, "leases", "held", (int)a->held, "idle",
			 (int)a->idle, "ending", (int)a->n_ending, "count", count);
}

static json_t *nodes(const struct rsk_daemon *d)
{
	const struct rsk_central *c = &d->serve_pma.central_agent;
	uint64_t now = rsk_clock_ns();
	json_t *count = json_object(), *list = json_array();

#define PUT(name, text) json_object_set_new(count, #name, json_integer((json_int_t)c->count.name));
	RSK_CENTRAL_COUNTERS(PUT)
#undef PUT
	for (const struct rsk_central_node *n = c->nodes; n; n = n->next)
		json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:I,s:f}", "node", n->name,
						      "heard_ms_ago",
						      (json_int_t)((now - n->heard_ns) / 1000000),
						      "devices", (json_int_t)n->n_devices, "leases",
						      (json_int_t)n->n_grants, "load", n->load));
	json_object_set_new(count, "refused", json_integer((json_int_t)d->serve_pma.count.refused));
	json_object_set_new(count, "malformed",
			    json_integer((json_int_t)d->serve_pma.count.malformed));
	json_object_set_new(count, "stood_by",
			    json_integer((json_int_t)d->serve_pma.count.stood_by));
	return json_pack("{s:o,s:I,s:b,s:o}", "nodes", list, "leases", (json_int_t)c->n_grants,
			 "grace", rsk_central_in_grace(c, now), "count", count);
}

json_t *rsk_pma_show_status(const struct rsk_daemon *d)
{
	return json_pack("{s:o,s:o}", "central", d->link.base ? central(d) : json_null(), "serves",
			 d->serve_pma.http ? nodes(d) : json_null());
}

/* ---- metrics ---- */

static void figure(struct evbuffer *out, const char *type, const char *name, const char *help,
		   uint64_t value)
{
	evbuffer_add_printf(out,
			    "# TYPE rsockd_%s %s\n# HELP rsockd_%s %s\nrsockd_%s%s %" PRIu64 "\n",
			    name, type, name, help, name, *type == 'c' ? "_total" : "", value);
}

void rsk_pma_show_metrics(const struct rsk_daemon *d, struct evbuffer *out)
{
	const struct rsk_ask *a = &d->link.ask;
	const struct rsk_central *c = &d->serve_pma.central_agent;

	if (d->link.base) {
#define PUT(name, text) figure(out, "counter", "pma_ask_" #name, text, a->count.name);
		RSK_ASK_COUNTERS(PUT)
#undef PUT
		figure(out, "counter", "pma_ask_silent_mapped",
		       "requests mapped without the central agent because it was silent",
		       d->agent.ask.silent_mapped);
		figure(out, "gauge", "pma_ask_silent", "1: the central agent does not answer",
		       a->silent);
		figure(out, "gauge", "pma_leases_held", "leases of the central agent in use",
		       a->held);
		figure(out, "gauge", "pma_leases_idle",
		       "its answers that are kept for "
		       "reuse",
		       a->idle);
	}
	if (d->serve_pma.http) {
#define PUT(name, text) figure(out, "counter", "pma_central_" #name, text, c->count.name);
		RSK_CENTRAL_COUNTERS(PUT)
#undef PUT
		figure(out, "counter", "pma_central_refused",
		       "messages of hosts without "
		       "permission",
		       d->serve_pma.count.refused);
		figure(out, "counter", "pma_central_stood_by",
		       "messages for a role that this agent does not have",
		       d->serve_pma.count.stood_by);
		figure(out, "counter", "pma_central_malformed", "messages that are not valid",
		       d->serve_pma.count.malformed);
		figure(out, "gauge", "pma_central_nodes", "nodes that report", c->n_nodes);
		figure(out, "gauge", "pma_central_leases", "leases granted to nodes", c->n_grants);
	}
}
