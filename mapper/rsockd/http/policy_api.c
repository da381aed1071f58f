// SPDX-License-Identifier: BSD-2-Clause
/* policy_api.c - see policy_api.h. */
#include "policy_api.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "document_ops.h"
#include "reply.h"

#define SECOND_NS 1000000000ull

/* A request that waits for etcd; one of the last two is not NULL. */
struct waiting {
	struct evhttp_request *req;
	struct rsk_document_op *op;
	struct rsk_member_reading *reading;
};

static void on_done(void *user, int status, json_t *answer)
{
	struct waiting *w = user;

	evhttp_connection_set_closecb(evhttp_request_get_connection(w->req), NULL, NULL);
	rsk_reply(w->req, status, answer);
	free(w);
}

static void on_abandoned(struct evhttp_connection *conn, void *arg)
{
	struct waiting *w = arg;

	if (w->op)
		rsk_document_op_cancel(w->op);
	else
		rsk_member_list_cancel(w->reading);
	free(w);
}

static void start(struct rsk_daemon *d, struct evhttp_request *req, struct rsk_document_args *args)
{
	struct waiting *w = calloc(1, sizeof(*w));
	const char *error = "no memory";
	int status = 503;

	if (w) {
		w->req = req;
		args->done = on_done;
		args->user = w;
		w->op = rsk_document_op_start(&d->cluster->document, args, &status, &error);
	}
	if (!w || !w->op) {
		free(w);
		rsk_refuse(req, status, error);
		return;
	}
	evhttp_connection_set_closecb(evhttp_request_get_connection(req), on_abandoned, w);
}

/* Who asks, and the note that the request may have: one line, to be stored with the document. */
static void sign(struct rsk_daemon *d, struct evhttp_request *req, const char *note,
		 char by[static 256])
{
	struct ucred who = { 0 };

	rsk_peer_of(req, &who);
	snprintf(by, 256, "user %u on %s%s%.*s", who.uid, d->cluster->self.node, *note ? ": " : "",
		 (int)RSK_DOCUMENT_NOTE, note);
	rsk_document_clean(by);
}

/* False: the request was refused. */
static bool is_allowed(struct rsk_daemon *d, struct evhttp_request *req)
{
	if (!rsk_may_change(req))
		rsk_refuse(req, 403, "this is for root and the daemon's own user");
	else if (!d->cluster)
		rsk_refuse(req, HTTP_NOTFOUND, "rsockd.conf has no cluster");
	else
		return true;
	return false;
}

/* The two requests that write. @verb says which of the members have to be there. */
static void write_document(struct rsk_daemon *d, struct evhttp_request *req,
			   enum rsk_document_verb verb)
{
	struct rsk_document_args args = { .verb = verb };
	json_int_t base = -1, revision = 0;
	json_t *body, *text = NULL;
	const char *note = "";
	char by[256];
	bool right;

	if (!is_allowed(d, req))
		return;
	body = rsk_body_of(req);
	right = json_unpack(body, "{s?o,s?I,s?I,s?s}", "text", &text, "revision", &revision, "base",
			    &base, "note", &note) == 0;
	if (verb == RSK_DOCUMENT_PUSH)
		right = right && json_is_string(text);
	else
		right = right && revision > 0;
	if (!right) {
		rsk_refuse(req, HTTP_BADREQUEST,
			   verb == RSK_DOCUMENT_PUSH ?
				   "an object with \"text\" is needed; \"base\" and \"note\" may "
				   "be" :
				   "an object with \"revision\" is needed; \"base\" and \"note\" "
				   "may be");
		json_decref(body);
		return;
	}
	sign(d, req, note, by);
	args.by = by;
	args.has_base = base >= 0;
	args.base = base >= 0 ? (uint64_t)base : 0;
	if (verb == RSK_DOCUMENT_PUSH) {
		args.text = json_string_value(text);
		args.bytes = json_string_length(text);
	} else {
		args.revision = (uint64_t)revision;
	}
	start(d, req, &args);
	json_decref(body);
}

void rsk_policy_push(struct rsk_daemon *d, struct evhttp_request *req)
{
	write_document(d, req, RSK_DOCUMENT_PUSH);
}

void rsk_policy_rollback(struct rsk_daemon *d, struct evhttp_request *req)
{
	write_document(d, req, RSK_DOCUMENT_ROLLBACK);
}

void rsk_policy_read(struct rsk_daemon *d, struct evhttp_request *req)
{
	struct rsk_document_args args = { .verb = RSK_DOCUMENT_READ };
	json_int_t revision = 0;
	json_t *body;

	if (!is_allowed(d, req))
		return;
	body = rsk_body_of(req);
	if (json_unpack(body, "{s?I}", "revision", &revision) < 0 || revision < 0) {
		rsk_refuse(req, HTTP_BADREQUEST, "an object is needed; \"revision\" is a number");
	} else {
		args.revision = (uint64_t)revision;
		start(d, req, &args);
	}
	json_decref(body);
}

void rsk_policy_history(struct rsk_daemon *d, struct evhttp_request *req)
{
	struct rsk_document_args args = { .verb = RSK_DOCUMENT_HISTORY_LIST };

	if (is_allowed(d, req))
		start(d, req, &args);
}

void rsk_policy_members(struct rsk_daemon *d, struct evhttp_request *req)
{
	struct waiting *w;

	if (!is_allowed(d, req))
		return;
	w = calloc(1, sizeof(*w));
	if (w) {
		w->req = req;
		w->reading = rsk_member_list_read(&d->cluster->list, on_done, w);
	}
	if (!w || !w->reading) {
		free(w);
		rsk_refuse(req, 503, "too many operations at the same time");
		return;
	}
	evhttp_connection_set_closecb(evhttp_request_get_connection(req), on_abandoned, w);
}

/* Known here, so etcd is not asked. It is a long list, though: for those who may ask etcd. */
static void reply_list(struct evhttp_request *req, json_t *list)
{
	if (list)
		rsk_reply(req, HTTP_OK, list);
	else
		rsk_refuse(req, 503, "no memory");
}

void rsk_policy_services(struct rsk_daemon *d, struct evhttp_request *req)
{
	if (is_allowed(d, req))
		reply_list(req, rsk_services_list(&d->cluster->services));
}

void rsk_policy_roles(struct rsk_daemon *d, struct evhttp_request *req)
{
	if (is_allowed(d, req))
		reply_list(req, rsk_roles_list(&d->cluster->roles));
}

void rsk_policy_ledger(struct rsk_daemon *d, struct evhttp_request *req)
{
	json_t *list;

	if (!is_allowed(d, req))
		return;
	if (!d->quotas) {
		rsk_refuse(req, HTTP_NOTFOUND, "rsockd.conf has no ledger for the cluster");
		return;
	}
	list = rsk_quotas_list(d->quotas);
	if (list)
		rsk_reply(req, HTTP_OK, list);
	else
		rsk_refuse(req, 503, "no memory");
}

/* ---- status and metrics ---- */

static json_t *member_status(const struct rsk_cluster *c)
{
	return json_pack("{s:s,s:b,s:s?}", "node", c->self.node, "registered",
			 (int)rsk_member_is_registered(&c->member), "error",
			 *c->member.why ? c->member.why : NULL);
}

static json_t *services_status(const struct rsk_services *s)
{
	return json_pack("{s:I,s:I,s:I,s:b,s:s?}", "offered", (json_int_t)s->self.entry.n, "known",
			 (json_int_t)s->table.n_services, "nodes",
			 (json_int_t)rsk_services_table_nodes(&s->table), "in-sync",
			 (int)s->watch.is_in_sync, "error", *s->watch.why ? s->watch.why : NULL);
}

static json_t *roles_status(const struct rsk_roles *r)
{
	const struct rsk_roles_entry *agent = rsk_roles_table_agent(&r->table);

	return json_pack("{s:I,s:s?,s:b,s:b,s:s?,s:s?}", "known", (json_int_t)r->table.n, "agent",
			 agent ? agent->role.node : NULL, "agent-here",
			 (int)(rsk_roles_agent_here(r) != 0), "in-sync", (int)r->watch.is_in_sync,
			 "error", *r->watch.why ? r->watch.why : NULL, "not-told",
			 rsk_roles_publish_why(&r->publish));
}

/* Sessions of remote RNICs that this host holds, and uses. */
static void sum_quotas(const struct rsk_quotas *q, uint64_t *held, uint64_t *used)
{
	*held = *used = 0;
	for (const struct rsk_quota_remote *r = q->take.remotes.remotes; r; r = r->hh.next) {
		*held += r->q.held;
		*used += r->q.used;
	}
}

/* Null: there is no ledger. */
static json_t *ledger_status(const struct rsk_quotas *q)
{
	uint64_t held, used;

	if (!q)
		return json_null();
	sum_quotas(q, &held, &used);
	return json_pack("{s:s,s:I,s:I,s:I}", "state", rsk_quotas_state_name(q->state), "remote",
			 (json_int_t)q->take.remotes.n_there, "held", (json_int_t)held, "used",
			 (json_int_t)used);
}

/* Whole seconds; null: UINT64_MAX. */
static json_t *seconds_json(uint64_t ns)
{
	return ns == UINT64_MAX ? json_null() : json_integer((json_int_t)(ns / SECOND_NS));
}

json_t *rsk_policy_status(const struct rsk_daemon *d)
{
	const struct rsk_document *doc;

	if (!d->cluster)
		return NULL;
	doc = &d->cluster->document;
	return json_pack("{s:I,s:I,s:s?,s:b,s:s?,s:s,s:I,s:b,s:o,s:o,s:I,s:s?,s:o,s:o,s:o,s:o}",
			 "revision", (json_int_t)doc->running, "newest", (json_int_t)doc->newest,
			 "refused", *doc->why_refused ? doc->why_refused : NULL, "reached",
			 (int)doc->is_reached, "error",
			 *doc->why_unreached ? doc->why_unreached : NULL, "endpoint",
			 rsk_etcd_endpoint(d->cluster->etcd), "compactions",
			 (json_int_t)doc->count.compactions, "expired", (int)doc->is_expired,
			 "last_contact_s",
			 seconds_json(rsk_document_keep_last_contact_ns(&doc->keep)), "expire_s",
			 seconds_json(doc->keep.expire_ns), "kept", (json_int_t)doc->keep.on_disk,
			 "kept_error", doc->keep.why_not ? strerror(doc->keep.why_not) : NULL,
			 "member", member_status(d->cluster), "services",
			 services_status(&d->cluster->services), "roles",
			 roles_status(&d->cluster->roles), "ledger", ledger_status(d->quotas));
}

static void figure(struct evbuffer *out, const char *type, const char *name, const char *help,
		   uint64_t value)
{
	evbuffer_add_printf(out,
			    "# TYPE rsockd_cluster_%s %s\n# HELP rsockd_cluster_%s %s\n"
			    "rsockd_cluster_%s%s %" PRIu64 "\n",
			    name, type, name, help, name, *type == 'c' ? "_total" : "", value);
}

/* The age of a file may not be known, if this host's clock has gone back. */
static void last_contact(struct evbuffer *out, uint64_t ns)
{
	evbuffer_add_printf(
		out, "# TYPE rsockd_cluster_last_contact_seconds gauge\n"
		     "# UNIT rsockd_cluster_last_contact_seconds seconds\n"
		     "# HELP rsockd_cluster_last_contact_seconds since etcd was last heard\n");
	if (ns == UINT64_MAX)
		evbuffer_add_printf(out, "rsockd_cluster_last_contact_seconds NaN\n");
	else
		evbuffer_add_printf(out, "rsockd_cluster_last_contact_seconds %.3f\n",
				    (double)ns / SECOND_NS);
}

static void role_metrics(const struct rsk_roles *r, struct evbuffer *out)
{
	figure(out, "gauge", "roles_known", "entries of central agents and central PMSPs",
	       r->table.n);
	figure(out, "gauge", "roles_agent_here", "1: this is the cluster's central policy agent",
	       rsk_roles_agent_here(r) != 0);
	figure(out, "gauge", "roles_in_sync", "1: the roles that are known are those in etcd",
	       r->watch.is_in_sync);
#define PUT(name, text) figure(out, "counter", "roles_" #name, text, r->watch.count.name);
	RSK_RANGE_WATCH_COUNTERS(PUT)
#undef PUT
#define PUT(name, text) figure(out, "counter", "roles_" #name, text, r->publish.count.name);
	RSK_ROLES_PUBLISH_COUNTERS(PUT)
#undef PUT
}

static void ledger_metrics(const struct rsk_quotas *q, struct evbuffer *out)
{
	uint64_t held, used;

	sum_quotas(q, &held, &used);
	figure(out, "gauge", "ledger_shared", "1: the ledger is as etcd has it",
	       q->state == RSK_QUOTAS_SHARED);
	figure(out, "gauge", "ledger_local", "1: quotas are not valid, only what is local counts",
	       q->state == RSK_QUOTAS_LOCAL);
	figure(out, "gauge", "ledger_held", "sessions of remote RNICs that this host holds", held);
	figure(out, "gauge", "ledger_used", "sessions that this host has at remote RNICs", used);
	figure(out, "counter", "ledger_covered", "questions to other hosts that a quota covered",
	       q->count.covered);
	figure(out, "counter", "ledger_asked", "questions to other hosts without a quota",
	       q->count.asked);
	figure(out, "counter", "ledger_spared",
	       "questions that were not sent, since the other host's RNIC takes no session",
	       q->count.spared);
#define PUT(name, text) figure(out, "counter", "ledger_lease_" #name, text, q->lease.count.name);
	RSK_QUOTA_LEASE_COUNTERS(PUT)
#undef PUT
#define PUT(name, text) figure(out, "counter", "ledger_" #name, text, q->own.count.name);
	RSK_QUOTA_OWN_COUNTERS(PUT)
#undef PUT
#define PUT(name, text) figure(out, "counter", "ledger_" #name, text, q->take.count.name);
	RSK_QUOTA_TAKE_COUNTERS(PUT)
#undef PUT
#define PUT(name, text)                                                                            \
	figure(out, "counter", "ledger_offers_" #name, text, q->take.watch.count.name);
	RSK_RANGE_WATCH_COUNTERS(PUT)
#undef PUT
#define PUT(name, text)                                                                            \
	figure(out, "counter", "ledger_quotas_" #name, text, q->own.watch.count.name);
	RSK_RANGE_WATCH_COUNTERS(PUT)
#undef PUT
}

void rsk_policy_metrics(const struct rsk_daemon *d, struct evbuffer *out)
{
	const struct rsk_document *doc;
	const struct rsk_services *s;
	struct rsk_etcd_counters etcd;

	if (!d->cluster)
		return;
	doc = &d->cluster->document;
	s = &d->cluster->services;
	etcd = rsk_etcd_count(d->cluster->etcd);
	figure(out, "gauge", "reached", "1: etcd is reached", doc->is_reached);
	figure(out, "gauge", "revision", "revision of the cluster's document that is in force",
	       doc->running);
	figure(out, "gauge", "newest", "the newest revision that was seen", doc->newest);
	figure(out, "gauge", "refused", "1: the newest revision is not in force",
	       *doc->why_refused != 0);
	figure(out, "gauge", "expired",
	       "1: the cluster's document has expired, since etcd was not heard", doc->is_expired);
	last_contact(out, rsk_document_keep_last_contact_ns(&doc->keep));
	figure(out, "gauge", "kept", "revision of the cluster's document that is on the disk",
	       doc->keep.on_disk);
	figure(out, "counter", "document_unkept",
	       "times that the cluster's document could not be written to the disk",
	       doc->keep.failures);
	figure(out, "gauge", "registered", "1: this host is entered among the cluster's members",
	       rsk_member_is_registered(&d->cluster->member));
	figure(out, "gauge", "services_offered", "services that this host offers on RDMA",
	       s->self.entry.n);
	figure(out, "gauge", "services_known", "services that the hosts of the cluster offer",
	       s->table.n_services);
	figure(out, "gauge", "services_nodes", "hosts of which services are known, or unreadable",
	       rsk_services_table_nodes(&s->table));
	figure(out, "gauge", "services_in_sync", "1: the services that are known are those in etcd",
	       s->watch.is_in_sync);
	figure(out, "counter", "services_referred",
	       "requests that were redirected to a host that offers the service", s->referred);
#define PUT(name, text) figure(out, "counter", "document_" #name, text, doc->count.name);
	RSK_DOCUMENT_COUNTERS(PUT)
#undef PUT
#define PUT(name, text)                                                                            \
	figure(out, "counter", "member_" #name, text, d->cluster->member.count.name);
	RSK_MEMBER_COUNTERS(PUT)
#undef PUT
#define PUT(name, text) figure(out, "counter", "services_" #name, text, s->watch.count.name);
	RSK_RANGE_WATCH_COUNTERS(PUT)
#undef PUT
#define PUT(name, text) figure(out, "counter", "services_" #name, text, s->publish.count.name);
	RSK_SERVICES_PUBLISH_COUNTERS(PUT)
#undef PUT
	role_metrics(&d->cluster->roles, out);
#define PUT(name, text) figure(out, "counter", "etcd_" #name, text, etcd.name);
	RSK_ETCD_COUNTERS(PUT)
#undef PUT
	if (d->quotas)
		ledger_metrics(d->quotas, out);
}
