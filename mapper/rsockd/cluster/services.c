// SPDX-License-Identifier: BSD-2-Clause
/* services.c - see services.h. */
#include "services.h"

#include <stdio.h>

/* ---- what the watch fills ---- */

static int put(void *table, const struct rsk_etcd_kv *kv)
{
	return rsk_services_table_put(table, kv);
}

static int put_event(void *table, const struct rsk_etcd_kv *kv)
{
	return rsk_services_table_event(table, kv);
}

static void begin(void *table)
{
	rsk_services_table_begin(table);
}

static void end(void *table, bool more)
{
	struct rsk_services_table *t = table;

	rsk_services_table_end(t);
	t->is_full |= more;
}

static size_t keys(const void *table)
{
	return rsk_services_table_nodes(table);
}

static uint64_t newest(const void *table)
{
	return rsk_services_table_newest(table);
}

static bool is_full(const void *table)
{
	return ((const struct rsk_services_table *)table)->is_full;
}

static const struct rsk_range_table watched = {
	.what = "services",
	.keys_most = RSK_SERVICES_TABLE_NODES,
	.put = put,
	.event = put_event,
	.begin = begin,
	.end = end,
	.keys = keys,
	.newest = newest,
	.is_full = is_full,
};

/* ---- start and end ---- */

int rsk_services_open(struct rsk_services *s, struct event_base *base, struct rsk_etcd *etcd,
		      const struct rsk_conf_daemon *conf, const struct rsk_member *member,
		      const struct rsk_services_source *from)
{
	int rc;

	snprintf(s->head, sizeof(s->head), "%s/services/", conf->cluster.prefix);
	rsk_services_self_init(&s->self, from, conf, member->self->node);
	s->table =
		(struct rsk_services_table){ .own = s->self.entry.node, .head = strlen(s->head) };
	rc = rsk_range_watch_open(&s->watch, base, etcd, s->head, &watched, &s->table);
	return rc < 0 ? rc :
			rsk_services_publish_open(&s->publish, base, etcd, s->head, member,
						  &s->watch, &s->self);
}

void rsk_services_close(struct rsk_services *s)
{
	rsk_services_publish_close(&s->publish);
	rsk_range_watch_close(&s->watch);
	rsk_services_table_fini(&s->table);
	rsk_services_self_fini(&s->self);
}

/* ---- for operators ---- */

struct listing {
	json_t *services, *unreadable; /* borrowed */
	uint64_t left_out;
};

static void list_service(struct listing *l, const char *node, const struct rsk_service *service)
{
	json_t *one = rsk_service_object(service);

	json_object_set_new(one, "node", json_string(node));
	json_array_append_new(l->services, one);
}

static void list_node(void *ctx, const char *name, enum rsk_services_kind kind,
		      const struct rsk_service_entry *e)
{
	struct listing *l = ctx;

	if (kind == RSK_SERVICES_UNREADABLE)
		json_array_append_new(l->unreadable, json_string(name));
	for (size_t i = 0; i < e->n; i++)
		list_service(l, name, &e->services[i]);
	/* Anything may be in etcd: the sum must not wrap. */
	if (__builtin_add_overflow(l->left_out, e->left_out, &l->left_out) ||
	    l->left_out > INT64_MAX)
		l->left_out = INT64_MAX;
}

json_t *rsk_services_list(struct rsk_services *s)
{
	struct listing l = { .services = json_array(), .unreadable = json_array() };

	rsk_services_table_each(&s->table, list_node, &l);
	return json_pack("{s:b,s:s?,s:o,s:o,s:I,s:b}", "in-sync", (int)s->watch.is_in_sync, "error",
			 *s->watch.why ? s->watch.why : NULL, "services", l.services, "unreadable",
			 l.unreadable, "left-out", (json_int_t)l.left_out, "more",
			 (int)s->table.is_full);
}
