// SPDX-License-Identifier: BSD-2-Clause
/* service_json.c - see service_json.h. */
#include "service_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf_value.h"
#include "pm_msg.h"

/* ---- texts, addresses, numbers ---- */

static bool is_printable(char c)
{
	return c >= ' ' && c <= '~';
}

void rsk_service_put_text(char *to, size_t room, const char *from)
{
	snprintf(to, room, "%s", from);
	for (; *to; to++)
		if (!is_printable(*to))
			*to = '?';
}

static bool take_text(const json_t *from, const char *key, char *to, size_t room)
{
	const json_t *v = json_object_get(from, key);
	const char *text = json_string_value(v);
	size_t n = json_string_length(v);

	if (!text || !n || n >= room)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_printable(text[i]))
			return false;
	memcpy(to, text, n + 1);
	return true;
}

static bool take_number(const json_t *from, const char *key, uint64_t least, uint64_t most,
			uint64_t *out)
{
	const json_t *v = json_object_get(from, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return false;
	*out = (uint64_t)json_integer_value(v);
	return *out >= least && *out <= most;
}

static bool take_address(const json_t *from, const char *address, const char *port, uint64_t least,
			 struct rsk_pm_addr *out)
{
	const json_t *v = json_object_get(from, address);
	const char *text = json_string_value(v);
	uint64_t number;

	/* A zero within the text would hide what follows. */
	if (!text || strlen(text) != json_string_length(v) || rsk_conf_ip(text, out) < 0 ||
	    !take_number(from, port, least, UINT16_MAX, &number))
		return false;
	out->port = (uint16_t)number;
	return true;
}

/* ---- reading ---- */

static bool take_service(const json_t *from, struct rsk_service *s)
{
	return take_address(from, "address", "port", 1, &s->at) &&
	       take_address(from, "rdma", "rdma-port", 0, &s->rdma) && s->at.ipv == s->rdma.ipv &&
	       rsk_pm_addr_is_for_others(&s->at) && rsk_pm_addr_is_for_others(&s->rdma) &&
	       take_text(from, "name", s->name, sizeof(s->name)) &&
	       take_text(from, "device", s->device, sizeof(s->device)) &&
	       take_text(from, "since", s->since, sizeof(s->since));
}

static int take_services(const json_t *list, struct rsk_service_entry *e)
{
	size_t n = json_array_size(list);

	if (!json_is_array(list) || n > RSK_SERVICE_MOST)
		return -EPROTO;
	e->services = calloc(n + 1, sizeof(*e->services));
	if (!e->services)
		return -ENOMEM;
	for (e->n = 0; e->n < n; e->n++)
		if (!take_service(json_array_get(list, e->n), &e->services[e->n]))
			return -EPROTO;
	return 0;
}

static int take_listens(const json_t *list, struct rsk_service_entry *e)
{
	size_t n = json_array_size(list);

	if (!json_is_array(list) || n > RSK_SERVICE_LISTENS)
		return -EPROTO;
	for (e->n_listens = 0; e->n_listens < n; e->n_listens++)
		if (!take_address(json_array_get(list, e->n_listens), "address", "port", 1,
				  &e->listens[e->n_listens]))
			return -EPROTO;
	return 0;
}

int rsk_service_entry_take(const struct rsk_etcd_kv *kv, size_t head, struct rsk_service_entry *out)
{
	json_error_t error;
	json_t *from;
	int rc = -EPROTO;

	*out = (struct rsk_service_entry){ 0 };
	if (kv->value_bytes > RSK_SERVICE_BYTES || kv->key_bytes <= head)
		return -EPROTO;
	from = json_loadb(kv->value, kv->value_bytes, JSON_REJECT_DUPLICATES, &error);
	if (take_text(from, "node", out->node, sizeof(out->node)) &&
	    strlen(out->node) == kv->key_bytes - head &&
	    memcmp(out->node, kv->key + head, kv->key_bytes - head) == 0 &&
	    take_number(from, "left-out", 0, INT64_MAX, &out->left_out))
		rc = take_listens(json_object_get(from, "listens"), out);
	if (rc == 0)
		rc = take_services(json_object_get(from, "services"), out);
	json_decref(from);
	if (rc < 0)
		rsk_service_entry_free(out);
	return rc;
}

void rsk_service_entry_free(struct rsk_service_entry *e)
{
	free(e->services);
	*e = (struct rsk_service_entry){ 0 };
}

/* ---- writing ---- */

json_t *rsk_service_object(const struct rsk_service *s)
{
	char at[RSK_PM_IP_TEXT], rdma[RSK_PM_IP_TEXT];

	return json_pack("{s:s,s:s,s:i,s:s,s:s,s:i,s:s}", "name", s->name, "address",
			 rsk_pm_ip_text(s->at.ipv, s->at.ip, at), "port", (int)s->at.port, "device",
			 s->device, "rdma", rsk_pm_ip_text(s->rdma.ipv, s->rdma.ip, rdma),
			 "rdma-port", (int)s->rdma.port, "since", s->since);
}

char *rsk_service_entry_text(const struct rsk_service_entry *e)
{
	json_t *services = json_array(), *listens = json_array(), *all;
	char ip[RSK_PM_IP_TEXT], *text = NULL;
	bool ok = true;

	for (size_t i = 0; i < e->n; i++)
		ok &= json_array_append_new(services, rsk_service_object(&e->services[i])) == 0;
	for (size_t i = 0; i < e->n_listens; i++) {
		const struct rsk_pm_addr *a = &e->listens[i];

		ok &= json_array_append_new(listens, json_pack("{s:s,s:i}", "address",
							       rsk_pm_ip_text(a->ipv, a->ip, ip),
							       "port", (int)a->port)) == 0;
	}
	all = json_pack("{s:s,s:o,s:o,s:I}", "node", e->node, "listens", listens, "services",
			services, "left-out", (json_int_t)e->left_out);
	if (ok && all)
		text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(all);
	return text;
}
