// SPDX-License-Identifier: BSD-2-Clause
/* role_json.c - see role_json.h. */
#include "role_json.h"

#include <errno.h>
#include <string.h>

#include "conf_value.h"
#include "pm_msg.h"

const char *const
	rsk_role_names[RSK_ROLE_KINDS] = { [RSK_ROLE_PMA] = "pma", [RSK_ROLE_PMSP] = "pmsp" };

/* Kind and node, as the key has them. */
static bool take_key(const char *key, size_t n, struct rsk_role *out)
{
	for (size_t kind = 0; kind < RSK_ROLE_KINDS; kind++) {
		size_t head = strlen(rsk_role_names[kind]) + 1;

		if (n <= head || n - head >= RSK_ROLE_NODE || key[head - 1] != '/' ||
		    memcmp(key, rsk_role_names[kind], head - 1) != 0)
			continue;
		for (size_t i = head; i < n; i++)
			if (key[i] < ' ' || key[i] > '~')
				return false;
		out->kind = (enum rsk_role_kind)kind;
		memcpy(out->node, key + head, n - head);
		out->node[n - head] = 0;
		return true;
	}
	return false;
}

/* A string without a zero in it, which would hide what follows. */
static const char *text_of(const json_t *from, const char *key)
{
	const json_t *v = json_object_get(from, key);
	const char *text = json_string_value(v);

	return text && strlen(text) == json_string_length(v) ? text : NULL;
}

static bool take_value(const json_t *from, struct rsk_role *out)
{
	const char *node = text_of(from, "node"), *address = text_of(from, "address");
	json_int_t port = json_integer_value(json_object_get(from, "port"));

	if (!node || strcmp(node, out->node) != 0 || !address ||
	    rsk_conf_ip(address, &out->at) < 0 || port < 1 || port > UINT16_MAX)
		return false;
	out->at.port = (uint16_t)port;
	return rsk_pm_addr_is_for_others(&out->at);
}

int rsk_role_take(const struct rsk_etcd_kv *kv, size_t head, struct rsk_role *out)
{
	json_error_t error;
	json_t *from;
	bool ok;

	*out = (struct rsk_role){ 0 };
	if (!kv->lease || kv->value_bytes > RSK_ROLE_BYTES || kv->key_bytes <= head ||
	    !take_key(kv->key + head, kv->key_bytes - head, out))
		return -EPROTO;
	from = json_loadb(kv->value, kv->value_bytes, JSON_REJECT_DUPLICATES, &error);
	ok = take_value(from, out);
	json_decref(from);
	return ok ? 0 : -EPROTO;
}

char *rsk_role_text(const struct rsk_role *r)
{
	char ip[RSK_PM_IP_TEXT], *text;
	json_t *all = json_pack("{s:s,s:s,s:i}", "node", r->node, "address",
				rsk_pm_ip_text(r->at.ipv, r->at.ip, ip), "port", (int)r->at.port);

	text = all ? json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	json_decref(all);
	return text;
}
