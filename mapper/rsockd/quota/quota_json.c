// SPDX-License-Identifier: BSD-2-Clause
/* quota_json.c - see quota_json.h. */
#include "quota_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf_value.h"

static const char *const states[] = { [RSK_QUOTA_UP] = "up",
				      [RSK_QUOTA_FULL] = "full",
				      [RSK_QUOTA_DRAINING] = "draining",
				      [RSK_QUOTA_DOWN] = "down" };
#define STATES (sizeof(states) / sizeof(states[0]))

const char *rsk_quota_state_name(enum rsk_quota_state s)
{
	return states[s];
}

/* ---- keys ---- */

bool rsk_quota_escape(const char *name, char out[static RSK_QUOTA_NAME])
{
	size_t n = 0;

	for (; *name; name++) {
		bool plain = *name != '/' && *name != '%';

		if (n + 4 > RSK_QUOTA_NAME)
			return false;
		if (plain)
			out[n++] = *name;
		else
			n += (size_t)snprintf(out + n, 4, "%%%02X", (unsigned int)*name);
	}
	out[n] = 0;
	return n > 0;
}

static bool take_name(const char *from, size_t bytes, char out[static RSK_QUOTA_NAME])
{
	if (!bytes || bytes >= RSK_QUOTA_NAME)
		return false;
	for (size_t i = 0; i < bytes; i++)
		if (from[i] < ' ' || from[i] > '~' || from[i] == '/')
			return false;
	memcpy(out, from, bytes);
	out[bytes] = 0;
	return true;
}

bool rsk_quota_split(const char *tail, size_t bytes, char (*names)[RSK_QUOTA_NAME], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *slash = memchr(tail, '/', bytes);
		size_t one = slash ? (size_t)(slash - tail) : bytes;

		if ((slash == NULL) != (i + 1 == n) || !take_name(tail, one, names[i]))
			return false;
		tail += one + 1;
		bytes -= slash ? one + 1 : one;
	}
	return true;
}

bool rsk_quota_addresses_have(const struct rsk_quota_addresses *a, uint8_t ipv,
			      const uint8_t ip[static 16])
{
	for (size_t i = 0; i < a->n; i++)
		if (a->ips[i].ipv == ipv && memcmp(a->ips[i].ip, ip, 16) == 0)
			return true;
	return false;
}

/* ---- reading ---- */

/* The text of a member without a zero within it, or NULL. */
static const char *text_of(const json_t *v)
{
	const char *text = json_string_value(v);

	return text && strlen(text) == json_string_length(v) ? text : NULL;
}

static bool take_run(const json_t *from, char out[static 17])
{
	const char *text = text_of(json_object_get(from, "run"));

	if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		return false;
	memcpy(out, text, 17);
	return true;
}

static bool take_sessions(const json_t *v, uint64_t *out)
{
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
	    json_integer_value(v) > (json_int_t)RSK_QUOTA_SESSIONS)
		return false;
	*out = (uint64_t)json_integer_value(v);
	return true;
}

static bool take_addresses(const json_t *list, struct rsk_quota_addresses *out)
{
	size_t n = json_array_size(list);

	if (!json_is_array(list) || n > RSK_QUOTA_ADDRESSES)
		return false;
	for (out->n = 0; out->n < n; out->n++) {
		const char *text = text_of(json_array_get(list, out->n));

		if (!text || rsk_conf_ip(text, &out->ips[out->n]) < 0)
			return false;
	}
	return true;
}

static bool take_state(const json_t *v, enum rsk_quota_state *out)
{
	const char *text = text_of(v);

	for (size_t i = 0; text && i < STATES; i++) {
		*out = (enum rsk_quota_state)i;
		if (strcmp(text, states[i]) == 0)
			return true;
	}
	return false;
}

static int take_used(json_t *from, struct rsk_quota_capacity *out)
{
	size_t n = json_object_size(from);
	const char *name;
	json_t *v;

	if (!json_is_object(from) || n > RSK_CLAIMS_HOLDERS)
		return -EPROTO;
	out->used = calloc(n + 1, sizeof(*out->used));
	if (!out->used)
		return -ENOMEM;
	json_object_foreach(from, name, v)
	{
		struct rsk_quota_used *u = &out->used[out->n_used];

		if (!take_name(name, strlen(name), u->holder) || !take_sessions(v, &u->sessions))
			return -EPROTO;
		out->n_used++;
	}
	return 0;
}

static json_t *load(const struct rsk_etcd_kv *kv)
{
	json_error_t error;

	return kv->value_bytes > RSK_QUOTA_BYTES ?
		       NULL :
		       json_loadb(kv->value, kv->value_bytes, JSON_REJECT_DUPLICATES, &error);
}

int rsk_quota_capacity_take(const struct rsk_etcd_kv *kv, struct rsk_quota_capacity *out)
{
	json_t *from = load(kv);
	int rc = -EPROTO;

	*out = (struct rsk_quota_capacity){ 0 };
	if (take_run(from, out->run) &&
	    take_sessions(json_object_get(from, "sessions"), &out->sessions) &&
	    take_state(json_object_get(from, "state"), &out->state) &&
	    take_addresses(json_object_get(from, "addresses"), &out->at))
		rc = take_used(json_object_get(from, "used"), out);
	json_decref(from);
	if (rc < 0)
		rsk_quota_capacity_free(out);
	return rc;
}

int rsk_quota_entry_take(const struct rsk_etcd_kv *kv, struct rsk_quota_entry *out)
{
	json_t *from = load(kv);
	bool ok;

	*out = (struct rsk_quota_entry){ 0 };
	ok = take_run(from, out->run) &&
	     take_sessions(json_object_get(from, "sessions"), &out->sessions) &&
	     take_addresses(json_object_get(from, "addresses"), &out->at);
	json_decref(from);
	if (!ok)
		*out = (struct rsk_quota_entry){ 0 };
	return ok ? 0 : -EPROTO;
}

void rsk_quota_capacity_free(struct rsk_quota_capacity *c)
{
	free(c->used);
	*c = (struct rsk_quota_capacity){ 0 };
}

/* ---- writing ---- */

static json_t *addresses_json(const struct rsk_quota_addresses *a)
{
	json_t *out = json_array();
	char ip[RSK_PM_IP_TEXT];

	for (size_t i = 0; i < a->n; i++)
		json_array_append_new(out,
				      json_string(rsk_pm_ip_text(a->ips[i].ipv, a->ips[i].ip, ip)));
	return out;
}

static char *dump(json_t *all)
{
	char *text = all ? json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	json_decref(all);
	return text;
}

char *rsk_quota_capacity_text(const struct rsk_quota_capacity *c)
{
	json_t *used = json_object();
	bool ok = used != NULL;

	for (size_t i = 0; i < c->n_used; i++)
		ok &= json_object_set_new(used, c->used[i].holder,
					  json_integer((json_int_t)c->used[i].sessions)) == 0;
	if (!ok) {
		json_decref(used);
		return NULL;
	}
	return dump(json_pack("{s:s,s:I,s:s,s:o,s:o}", "run", c->run, "sessions",
			      (json_int_t)c->sessions, "state", states[c->state], "addresses",
			      addresses_json(&c->at), "used", used));
}

char *rsk_quota_entry_text(const struct rsk_quota_entry *e)
{
	return dump(json_pack("{s:s,s:I,s:o}", "run", e->run, "sessions", (json_int_t)e->sessions,
			      "addresses", addresses_json(&e->at)));
}
