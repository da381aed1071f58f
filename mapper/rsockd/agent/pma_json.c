// SPDX-License-Identifier: BSD-2-Clause
/* pma_json.c - see pma_json.h. */
#include "pma_json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pm_addr.h"
#include "pm_msg.h"
#include "port_json.h"
#include "verdict.h"

#define RATE_MOST 1000000000000000 /* 1000 Tbit/s, as in the configuration */
#define LEASE_MOST_MS 86400000

json_t *rsk_pma_json_read(const void *bytes, size_t n)
{
	json_error_t error;

	if (n > RSK_PMA_JSON_MOST)
		return NULL;
	return json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &error);
}

/* ---- parts ---- */

static json_t *ip_json(const uint8_t ip[static 16], uint8_t ipv)
{
	char text[INET6_ADDRSTRLEN];

	return json_string(
		inet_ntop(ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET, ip, text, sizeof(text)));
}

static bool ip_of(const char *text, uint8_t ip[static 16], uint8_t *ipv)
{
	memset(ip, 0, 16);
	*ipv = RSK_PM_IPV4;
	if (inet_pton(AF_INET, text, ip) == 1)
		return true;
	memset(ip, 0, 16);
	*ipv = RSK_PM_IPV6;
	return inet_pton(AF_INET6, text, ip) == 1;
}

/* A number with an upper bound, and its key. */
struct number {
	const char *key;
	json_int_t most;
	json_int_t value;
};

static bool numbers_of(json_t *object, struct number *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_object_get(object, numbers[i].key);

		if (!json_is_integer(v))
			return false;
		numbers[i].value = json_integer_value(v);
		if (numbers[i].value < 0 || numbers[i].value > numbers[i].most)
			return false;
	}
	return true;
}

static bool name_of(const json_t *v, char out[static RSK_ASK_NAME])
{
	size_t len = json_is_string(v) ? json_string_length(v) : RSK_ASK_NAME;

	if (len >= RSK_ASK_NAME || len != strlen(json_string_value(v)))
		return false;
	memcpy(out, json_string_value(v), len + 1);
	return true;
}

/* True if @object has no keys except these. */
static bool only(json_t *object, const char *const *keys)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return false;
	json_object_foreach(object, key, value)
	{
		const char *const *k = keys;

		while (*k && strcmp(*k, key) != 0)
			k++;
		if (!*k)
			return false;
	}
	return true;
}

static json_t *said_by(const struct rsk_pma_speaker *who)
{
	char boot[17];

	snprintf(boot, sizeof(boot), "%016" PRIx64, who->boot);
	return json_pack("{s:s,s:s,s:o*}", "node", who->node, "boot", boot, "role",
			 who->role ? json_integer((json_int_t)who->role) : NULL);
}

static bool speaker_of(json_t *body, struct rsk_pma_speaker *who)
{
	const json_t *node = json_object_get(body, "node"), *boot = json_object_get(body, "boot");
	const char *text = json_string_value(boot);
	struct number role = { "role", INT64_MAX, 0 };
	char *end;

	who->node = json_string_value(node);
	if (!who->node || !*who->node || strlen(who->node) >= RSK_ASK_NAME || !text ||
	    strspn(text, "0123456789abcdef") != 16 || text[16])
		return false;
	who->boot = strtoull(text, &end, 16);
	if (json_object_get(body, "role") && (!numbers_of(body, &role, 1) || !role.value))
		return false;
	who->role = (uint64_t)role.value;
	return true;
}

/* The array at @key; NULL if it is missing or has more than @most elements. */
static json_t *list_of(json_t *body, const char *key, size_t most)
{
	json_t *list = json_object_get(body, key);

	return json_is_array(list) && json_array_size(list) <= most ? list : NULL;
}

/* ---- questions ---- */

static json_t *question_json(const struct rsk_ask_item *item)
{
	const struct rsk_ask_key *k = &item->key;
	json_t *q = json_pack("{s:I,s:s,s:o,s:o,s:i,s:b}", "id", (json_int_t)item->id, "side",
			      k->side == RSK_PMA_AP ? "ap" : "cp", "cp", ip_json(k->cp_ip, k->ipv),
			      "ap", ip_json(k->ap_ip, k->ipv), "port", k->ap_port, "one", k->one);

	if (q && k->uid != RSK_PMA_NOBODY)
		json_object_set_new(q, "user", json_integer(k->uid));
	if (q && k->placed)
		json_object_set_new(q, "at", ip_json(k->at_ip, k->ipv));
	return q;
}

static bool side_of(const char *text, uint8_t *side)
{
	*side = text && strcmp(text, "ap") == 0 ? RSK_PMA_AP : RSK_PMA_CP;
	return text && (*side == RSK_PMA_AP || strcmp(text, "cp") == 0);
}

static bool question_of(json_t *q, struct rsk_ask_item *out)
{
	struct number n[] = { { "id", INT64_MAX, 0 }, { "port", UINT16_MAX, 0 } };
	struct number user = { "user", UINT32_MAX - 1, 0 };
	const char *cp = json_string_value(json_object_get(q, "cp"));
	const char *ap = json_string_value(json_object_get(q, "ap"));
	const json_t *at = json_object_get(q, "at"), *one = json_object_get(q, "one");
	struct rsk_ask_key *k = &out->key;
	uint8_t ipv;

	*out = (struct rsk_ask_item){ .key.uid = RSK_PMA_NOBODY };
	if (!numbers_of(q, n, 2) || !n[0].value || !n[1].value || !cp || !ap ||
	    !json_is_boolean(one) ||
	    !side_of(json_string_value(json_object_get(q, "side")), &k->side) ||
	    !ip_of(cp, k->cp_ip, &k->ipv) || !ip_of(ap, k->ap_ip, &ipv) || ipv != k->ipv)
		return false;
	if (json_object_get(q, "user")) {
		if (!numbers_of(q, &user, 1))
			return false;
		k->uid = (uint32_t)user.value;
	}
	if (at) {
		if (!json_is_string(at) || !ip_of(json_string_value(at), k->at_ip, &ipv) ||
		    ipv != k->ipv)
			return false;
		k->placed = 1;
	}
	out->id = (uint64_t)n[0].value;
	k->ap_port = (uint16_t)n[1].value;
	k->one = json_is_true(one);
	return true;
}

#define QUESTION "id", "side", "cp", "ap", "port", "one", "user", "at"
static const char *const question_keys[] = { QUESTION, NULL };
static const char *const held_keys[] = { QUESTION,	"ip",	"bps", "memory_maps",
					 "connections", "used", NULL };

json_t *rsk_pma_json_questions(const struct rsk_pma_speaker *who, const struct rsk_ask_item *items,
			       size_t n)
{
	json_t *body = said_by(who), *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, question_json(&items[i]));
	json_object_set_new(body, "questions", list);
	return body;
}

int rsk_pma_json_take_questions(json_t *body, struct rsk_pma_speaker *who,
				struct rsk_ask_item items[static RSK_ASK_BATCH])
{
	static const char *const keys[] = { "node", "boot", "role", "questions", NULL };
	json_t *list, *q;
	size_t i;

	if (!only(body, keys) || !speaker_of(body, who) ||
	    !(list = list_of(body, "questions", RSK_ASK_BATCH)))
		return -EBADMSG;
	json_array_foreach(list, i, q) if (!only(q, question_keys) ||
					   !question_of(q, &items[i])) return -EBADMSG;
	return (int)json_array_size(list);
}

/* ---- answers ---- */

static json_t *answer_json(const struct rsk_ask_item *item)
{
	const struct rsk_ask_answer *a = &item->answer;
	json_t *o = json_pack("{s:I,s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:I,s:I,s:I,s:I,s:I}", "id",
			      (json_int_t)item->id, "verdict", rsk_verdict_name(a->verdict), "rule",
			      a->rule, "device", a->device, "port", a->port, "pm_time",
			      a->pm_time_s, "priority", a->priority, "dscp", a->dscp, "rate",
			      (json_int_t)a->rate_bps, "bps", (json_int_t)a->need.bps,
			      "memory_maps", (json_int_t)a->need.memory_maps, "connections",
			      (json_int_t)a->need.connections, "lease_ms",
			      (json_int_t)(a->lease_ns / 1000000));

	if (o && a->verdict == RSK_PMA_MAP)
		json_object_set_new(o, "ip", ip_json(a->ip, item->key.ipv));
	if (o && a->verdict == RSK_PMA_REDIRECT)
		json_object_set_new(o, "redirect", ip_json(a->redirect_ip, a->redirect_ipv));
	return o;
}

json_t *rsk_pma_json_answers(const struct rsk_ask_item *items, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, answer_json(&items[i]));
	return json_pack("{s:o}", "answers", list);
}

static bool verdict_of(const json_t *v, enum rsk_pma_verdict *out)
{
	for (int i = 0; json_is_string(v) && i <= RSK_PMA_REDIRECT; i++) {
		*out = (enum rsk_pma_verdict)i;
		if (strcmp(json_string_value(v), rsk_verdict_name(*out)) == 0)
			return true;
	}
	return false;
}

static bool need_of(json_t *o, struct rsk_ledger_need *out)
{
	struct number n[] = { { "bps", RATE_MOST, 0 },
			      { "memory_maps", UINT32_MAX, 0 },
			      { "connections", UINT32_MAX, 0 } };

	if (!numbers_of(o, n, 3))
		return false;
	*out = (struct rsk_ledger_need){ .bps = (uint64_t)n[0].value,
					 .memory_maps = (uint32_t)n[1].value,
					 .connections = (uint32_t)n[2].value };
	return true;
}

static bool answer_of(json_t *o, uint64_t *id, struct rsk_ask_answer *out)
{
	static const char *const keys[] = { "id",	   "verdict",  "rule",	   "device",
					    "ip",	   "port",     "pm_time",  "priority",
					    "dscp",	   "rate",     "bps",	   "memory_maps",
					    "connections", "redirect", "lease_ms", NULL };
	struct number n[] = { { "id", INT64_MAX, 0 },
			      { "port", UINT16_MAX, 0 },
			      { "pm_time", 255, 0 },
			      { "priority", 7, 0 },
			      { "dscp", 63, 0 },
			      { "rate", RATE_MOST, 0 },
			      { "lease_ms", LEASE_MOST_MS, 0 } };
	const char *ip = json_string_value(json_object_get(o, "ip"));
	const char *redirect = json_string_value(json_object_get(o, "redirect"));
	uint8_t ipv;

	*out = (struct rsk_ask_answer){ 0 };
	if (!only(o, keys) || !numbers_of(o, n, 7) || !n[0].value ||
	    !verdict_of(json_object_get(o, "verdict"), &out->verdict) ||
	    !name_of(json_object_get(o, "rule"), out->rule) ||
	    !name_of(json_object_get(o, "device"), out->device) || !need_of(o, &out->need) ||
	    (out->verdict == RSK_PMA_MAP && (!ip || !ip_of(ip, out->ip, &ipv))) ||
	    (out->verdict == RSK_PMA_REDIRECT &&
	     (!redirect || !ip_of(redirect, out->redirect_ip, &out->redirect_ipv))))
		return false;
	*id = (uint64_t)n[0].value;
	out->port = (uint16_t)n[1].value;
	out->pm_time_s = (uint8_t)n[2].value;
	out->priority = (uint8_t)n[3].value;
	out->dscp = (uint8_t)n[4].value;
	out->rate_bps = (uint64_t)n[5].value;
	out->lease_ns = (uint64_t)n[6].value * 1000000u;
	return true;
}

int rsk_pma_json_take_answers(json_t *body, uint64_t ids[static RSK_ASK_BATCH],
			      struct rsk_ask_answer answers[static RSK_ASK_BATCH])
{
	static const char *const keys[] = { "answers", NULL };
	json_t *list = list_of(body, "answers", RSK_ASK_BATCH), *o;
	size_t i;

	if (!only(body, keys) || !list)
		return -EBADMSG;
	json_array_foreach(list, i, o) if (!answer_of(o, &ids[i], &answers[i])) return -EBADMSG;
	return (int)json_array_size(list);
}

/* ---- lists of ids ---- */

json_t *rsk_pma_json_ids(const struct rsk_pma_speaker *who, const struct rsk_ask_item *items,
			 size_t n)
{
	json_t *body = said_by(who), *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer((json_int_t)items[i].id));
	json_object_set_new(body, "ids", list);
	return body;
}

int rsk_pma_json_take_ids(json_t *body, struct rsk_pma_speaker *who,
			  uint64_t ids[static RSK_ASK_IDS])
{
	static const char *const keys[] = { "node", "boot", "role", "ids", NULL };
	json_t *list, *v;
	size_t i;

	if (!only(body, keys) || !speaker_of(body, who) ||
	    !(list = list_of(body, "ids", RSK_ASK_IDS)))
		return -EBADMSG;
	json_array_foreach(list, i, v)
	{
		if (!json_is_integer(v) || json_integer_value(v) <= 0)
			return -EBADMSG;
		ids[i] = (uint64_t)json_integer_value(v);
	}
	return (int)json_array_size(list);
}

/* ---- reports ---- */

static const char *const states[] = {
	[RSK_PMA_UP] = "up",
	[RSK_PMA_DOWN] = "down",
	[RSK_PMA_DRAINING] = "draining",
};

static json_t *device_json(const struct rsk_central_device *d)
{
	json_t *o = json_pack("{s:s,s:o,s:s,s:I,s:I,s:I,s:I,s:I}", "name", d->name, "ip",
			      ip_json(d->ip, d->ipv), "state", states[d->state], "sessions",
			      (json_int_t)d->sessions, "sessions_max", (json_int_t)d->sessions_max,
			      "bps", (json_int_t)d->bps, "bps_max", (json_int_t)d->bps_max,
			      "others_bps", (json_int_t)d->others_bps);

	rsk_port_json_put(o, &d->report);
	return o;
}

static bool device_of(json_t *o, struct rsk_central_device *out)
{
	static const char *const keys[] = { "name",	"ip",		"state",
					    "sessions", "sessions_max", "bps",
					    "bps_max",	"others_bps",	RSK_PORT_JSON_KEYS,
					    NULL };
	struct number n[] = { { "sessions", INT64_MAX, 0 },
			      { "sessions_max", INT64_MAX, 0 },
			      { "bps", INT64_MAX, 0 },
			      { "bps_max", INT64_MAX, 0 },
			      { "others_bps", INT64_MAX, 0 } };
	const char *ip = json_string_value(json_object_get(o, "ip"));
	const char *state = json_string_value(json_object_get(o, "state"));
	int s;

	if (!only(o, keys) || !numbers_of(o, n, 5) || !ip || !state ||
	    !name_of(json_object_get(o, "name"), out->name) || !ip_of(ip, out->ip, &out->ipv))
		return false;
	for (s = RSK_PMA_UP; s <= RSK_PMA_DRAINING && strcmp(state, states[s]) != 0; s++)
		;
	out->state = (enum rsk_pma_device_state)s;
	out->sessions = (uint64_t)n[0].value;
	out->sessions_max = (uint64_t)n[1].value;
	out->bps = (uint64_t)n[2].value;
	out->bps_max = (uint64_t)n[3].value;
	out->others_bps = (uint64_t)n[4].value;
	return s <= RSK_PMA_DRAINING && rsk_port_json_take(o, &out->report);
}

static json_t *held_json(const struct rsk_ask_item *item)
{
	json_t *o = question_json(item);
	const struct rsk_ledger_need *n = &item->answer.need;

	if (!o)
		return NULL;
	json_object_set_new(o, "ip", ip_json(item->answer.ip, item->key.ipv));
	json_object_set_new(o, "bps", json_integer((json_int_t)n->bps));
	json_object_set_new(o, "memory_maps", json_integer((json_int_t)n->memory_maps));
	json_object_set_new(o, "connections", json_integer((json_int_t)n->connections));
	json_object_set_new(o, "used", json_boolean(item->used));
	return o;
}

static bool held_of(json_t *o, struct rsk_ask_item *out)
{
	const char *ip = json_string_value(json_object_get(o, "ip"));
	const json_t *used = json_object_get(o, "used");
	uint8_t ipv;

	if (!only(o, held_keys) || !question_of(o, out) || !need_of(o, &out->answer.need) || !ip ||
	    !ip_of(ip, out->answer.ip, &ipv) || ipv != out->key.ipv || !json_is_boolean(used))
		return false;
	out->used = json_is_true(used);
	return true;
}

json_t *rsk_pma_json_report(const struct rsk_pma_speaker *who, bool resume, uint32_t part,
			    bool last, double load, const struct rsk_central_device *devices,
			    size_t n_devices, const struct rsk_ask_item *held, size_t n_held)
{
	json_t *body = said_by(who), *list = json_array(), *keeps = json_array();

	for (size_t i = 0; i < n_devices; i++)
		json_array_append_new(list, device_json(&devices[i]));
	for (size_t i = 0; i < n_held; i++)
		json_array_append_new(keeps, held_json(&held[i]));
	json_object_set_new(body, "resume", json_boolean(resume));
	json_object_set_new(body, "part", json_integer(part));
	json_object_set_new(body, "last", json_boolean(last));
	json_object_set_new(body, "load", json_real(load));
	json_object_set_new(body, "devices", list);
	json_object_set_new(body, "held", keeps);
	return body;
}

int rsk_pma_json_take_report(json_t *body, struct rsk_pma_speaker *who, struct rsk_pma_report *out)
{
	static const char *const keys[] = { "node", "boot", "role",    "resume", "part",
					    "last", "load", "devices", "held",	 NULL };
	const json_t *resume = json_object_get(body, "resume"),
		     *last = json_object_get(body, "last"), *load = json_object_get(body, "load");
	json_t *devices = list_of(body, "devices", RSK_CENTRAL_DEVICES), *o;
	json_t *held = list_of(body, "held", RSK_ASK_BATCH);
	struct number part = { "part", UINT32_MAX - 1, 0 };
	size_t i;

	if (!only(body, keys) || !speaker_of(body, who) || !json_is_boolean(resume) ||
	    !json_is_boolean(last) || !json_is_number(load) || !(json_number_value(load) >= 0) ||
	    !devices || !held || !numbers_of(body, &part, 1))
		return -EBADMSG;
	json_array_foreach(held, i, o) if (!held_of(o, &out->held[i])) return -EBADMSG;
	out->resume = json_is_true(resume);
	out->last = json_is_true(last);
	out->part = (uint32_t)part.value;
	out->load = json_number_value(load);
	out->n_devices = json_array_size(devices);
	out->devices = calloc(out->n_devices + 1, sizeof(*out->devices));
	if (!out->devices)
		return -ENOMEM;
	json_array_foreach(devices, i, o) if (!device_of(o, &out->devices[i]))
	{
		free(out->devices);
		out->devices = NULL;
		return -EBADMSG;
	}
	return (int)json_array_size(held);
}

int rsk_pma_json_take_hold(json_t *body, uint64_t *hold_ns)
{
	static const char *const keys[] = { "hold_ms", NULL };
	struct number n = { "hold_ms", LEASE_MOST_MS, 0 };

	if (!only(body, keys) || !numbers_of(body, &n, 1) || !n.value)
		return -EBADMSG;
	*hold_ns = (uint64_t)n.value * 1000000u;
	return 0;
}
