// SPDX-License-Identifier: BSD-2-Clause
/* roles.c - see roles.h. */
#include "roles.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "pm_msg.h"

/* ---- what the watch fills ---- */

static struct rsk_roles *of_table(void *table)
{
	return (struct rsk_roles *)(void *)((char *)table - offsetof(struct rsk_roles, table));
}

static int put(void *table, const struct rsk_etcd_kv *kv)
{
	return rsk_roles_table_put(table, kv);
}

static int put_event(void *table, const struct rsk_etcd_kv *kv)
{
	return rsk_roles_table_event(table, kv);
}

static void begin(void *table)
{
	rsk_roles_table_begin(table);
}

static void end(void *table, bool more)
{
	rsk_roles_table_end(table, more);
}

static size_t keys(const void *table)
{
	return ((const struct rsk_roles_table *)table)->n;
}

static uint64_t newest(const void *table)
{
	return rsk_roles_table_newest(table);
}

static bool is_full(const void *table)
{
	return ((const struct rsk_roles_table *)table)->is_full;
}

static void changed(void *table)
{
	struct rsk_roles *r = of_table(table);

	r->changed(r->ctx);
}

static const struct rsk_range_table watched = {
	.what = "roles",
	.keys_most = RSK_ROLES_TABLE_MOST,
	.put = put,
	.event = put_event,
	.begin = begin,
	.end = end,
	.keys = keys,
	.newest = newest,
	.is_full = is_full,
	.changed = changed,
};

/* ---- who is asked ---- */

uint64_t rsk_roles_agent_here(const struct rsk_roles *r)
{
	const struct rsk_roles_entry *e = rsk_roles_table_agent(&r->table);
	const struct rsk_roles_publish *p = &r->publish;

	/* The entry has to be the one that this run of the daemon has written, under this lease. */
	if (!e || strcmp(e->role.node, r->node) != 0 || !p->lease || p->lease != r->member->lease ||
	    e->revision != p->revision)
		return 0;
	/* This daemon was stopped for a while; what has become of its lease is not known yet. */
	if (rsk_clock_ns() >= r->member->valid_until_ns && !r->member->failures)
		return 0;
	return e->created;
}

/* ---- for operators ---- */

static json_t *role_json(const struct rsk_role *role, bool is_asked)
{
	char ip[RSK_PM_IP_TEXT];

	return json_pack("{s:s,s:s,s:s,s:i,s:b}", "role", rsk_role_names[role->kind], "node",
			 role->node, "address", rsk_pm_ip_text(role->at.ipv, role->at.ip, ip),
			 "port", (int)role->at.port, "asked", (int)is_asked);
}

static json_t *key_json(const struct rsk_roles *r, const struct rsk_roles_entry *e)
{
	char text[96];

	snprintf(text, sizeof(text), "%s",
		 e->key_bytes > r->table.head ? e->key + r->table.head : "");
	rsk_document_clean(text);
	return json_string(text);
}

json_t *rsk_roles_list(const struct rsk_roles *r)
{
	const struct rsk_roles_entry *agent = rsk_roles_table_agent(&r->table);
	json_t *roles = json_array(), *unreadable = json_array();
	struct rsk_pm_addr first = { 0 };
	uint64_t cursor = UINT64_MAX;

	rsk_roles_table_pmsp(&r->table, r->node, &cursor, &first);
	for (size_t i = 0; i < r->table.n; i++) {
		const struct rsk_roles_entry *e = &r->table.entries[i];

		if (!e->is_readable)
			json_array_append_new(unreadable, key_json(r, e));
		else
			json_array_append_new(roles,
					      role_json(&e->role,
							e->role.kind == RSK_ROLE_PMA ?
								e == agent :
								rsk_pm_addr_equal(&e->role.at,
										  &first)));
	}
	return json_pack("{s:b,s:s?,s:o,s:o,s:b,s:s?}", "in-sync", (int)r->watch.is_in_sync,
			 "error", *r->watch.why ? r->watch.why : NULL, "roles", roles, "unreadable",
			 unreadable, "more", (int)r->table.is_full, "not-told",
			 rsk_roles_publish_why(&r->publish));
}

/* ---- start and end ---- */

static void written(void *ctx)
{
	struct rsk_roles *r = ctx;

	r->changed(r->ctx);
}

int rsk_roles_open(struct rsk_roles *r, struct event_base *base, struct rsk_etcd *etcd,
		   const struct rsk_conf_daemon *settings, const struct rsk_member *member,
		   const struct rsk_pma *pma, void (*has_changed)(void *ctx), void *ctx)
{
	int rc;

	r->node = member->self->node;
	r->member = member;
	r->changed = has_changed;
	r->ctx = ctx;
	snprintf(r->head, sizeof(r->head), "%s/roles/", settings->cluster.prefix);
	r->table = (struct rsk_roles_table){ .head = strlen(r->head) };
	rc = rsk_range_watch_open(&r->watch, base, etcd, r->head, &watched, &r->table);
	r->publish = (struct rsk_roles_publish){ .etcd = etcd,
						 .member = member,
						 .watch = &r->watch,
						 .table = &r->table,
						 .pma = pma,
						 .written = written,
						 .ctx = r };
	return rc < 0 ? rc : rsk_roles_publish_open(&r->publish, base, r->head, settings, r->node);
}

void rsk_roles_close(struct rsk_roles *r)
{
	rsk_roles_publish_close(&r->publish);
	rsk_range_watch_close(&r->watch);
	rsk_roles_table_fini(&r->table);
}
