// SPDX-License-Identifier: BSD-2-Clause
/* member_json.c - see member_json.h. */
#include "member_json.h"

#include <stdio.h>
#include <string.h>

/* ---- what is valid ---- */

static bool is_printable(char c)
{
	return c >= ' ' && c <= '~';
}

static bool is_text(const json_t *v)
{
	const char *text = json_string_value(v);

	if (!text || json_string_length(v) >= RSK_MEMBER_TEXT)
		return false;
	while (is_printable(*text))
		text++;
	return !*text;
}

static bool is_text_or_null(const json_t *v)
{
	return json_is_null(v) || is_text(v);
}

static bool is_list(const json_t *v, size_t most, bool (*is_one)(const json_t *))
{
	if (!json_is_array(v) || json_array_size(v) > most)
		return false;
	for (size_t i = 0; i < json_array_size(v); i++)
		if (!is_one(json_array_get(v, i)))
			return false;
	return true;
}

static bool is_number(const json_t *v)
{
	return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool is_listens(const json_t *v)
{
	return is_list(v, RSK_MEMBER_LISTENS, is_text);
}

static bool is_addresses(const json_t *v)
{
	return is_list(v, RSK_MEMBER_ADDRESSES, is_text);
}

/* A member of an object, and what it has to be. */
struct field {
	const char *name;
	bool (*is)(const json_t *v);
};

/* A new object with the fields of @from only; NULL: one is missing or wrong, or no memory. */
static json_t *take(const json_t *from, const struct field *fields, size_t n)
{
	json_t *out = json_object();

	for (size_t i = 0; i < n; i++) {
		json_t *v = json_object_get(from, fields[i].name);

		if (!v || !fields[i].is(v) || json_object_set(out, fields[i].name, v) < 0) {
			json_decref(out);
			return NULL;
		}
	}
	return out;
}

static const struct field rnic_fields[] = {
	{ "name", is_text },  { "state", is_text },	 { "addresses", is_addresses },
	{ "bps", is_number }, { "sessions", is_number },
};

static json_t *take_rnic(const json_t *v)
{
	return take(v, rnic_fields, sizeof(rnic_fields) / sizeof(rnic_fields[0]));
}

static const struct field refused_fields[] = {
	{ "revision", is_number },
	{ "why", is_text },
};

static json_t *take_refused(const json_t *v)
{
	if (json_is_null(v))
		return json_null();
	return take(v, refused_fields, sizeof(refused_fields) / sizeof(refused_fields[0]));
}

static const struct field member_fields[] = {
	{ "node", is_text },	   { "version", is_text }, { "started", is_text },
	{ "listens", is_listens }, { "pma", is_listens },  { "metrics", is_text_or_null },
	{ "revision", is_number },
};

static json_t *take_rnics(const json_t *list)
{
	json_t *out = json_is_array(list) ? json_array() : NULL;

	for (size_t i = 0; out && i < json_array_size(list); i++)
		if (i >= RSK_MEMBER_RNICS ||
		    json_array_append_new(out, take_rnic(json_array_get(list, i))) < 0) {
			json_decref(out);
			out = NULL;
		}
	return out;
}

/* The entry, without what is unknown in it; NULL: it is not valid. */
static json_t *take_member(const json_t *from)
{
	json_t *out = take(from, member_fields, sizeof(member_fields) / sizeof(member_fields[0]));

	if (out &&
	    json_object_set_new(out, "rnics", take_rnics(json_object_get(from, "rnics"))) == 0 &&
	    json_object_set_new(out, "refused", take_refused(json_object_get(from, "refused"))) ==
		    0)
		return out;
	json_decref(out);
	return NULL;
}

/* ---- an entry ---- */

static json_t *load(const struct rsk_etcd_kv *kv)
{
	json_error_t error;

	if (kv->value_bytes > RSK_MEMBER_BYTES)
		return NULL;
	return json_loadb(kv->value, kv->value_bytes, JSON_REJECT_DUPLICATES, &error);
}

/* The node's name in the key, to be printed. */
static void name_of(const struct rsk_etcd_kv *kv, size_t head, char name[static RSK_MEMBER_TEXT])
{
	size_t n = kv->key_bytes > head ? kv->key_bytes - head : 0;

	if (n >= RSK_MEMBER_TEXT)
		n = RSK_MEMBER_TEXT - 1;
	if (n)
		memcpy(name, kv->key + head, n);
	name[n] = 0;
	for (size_t i = 0; i < n; i++)
		if (!is_printable(name[i]))
			name[i] = '?';
}

json_t *rsk_member_row(const struct rsk_etcd_kv *kv, size_t head, uint64_t current)
{
	char name[RSK_MEMBER_TEXT];
	json_t *from = load(kv), *row = take_member(from);
	const char *node = json_string_value(json_object_get(row, "node"));
	json_int_t revision;

	json_decref(from);
	name_of(kv, head, name);
	if (row && strcmp(node, name) != 0) {
		json_decref(row);
		row = NULL;
	}
	if (!row)
		return json_pack("{s:s,s:b}", "node", name, "readable", 0);
	revision = json_integer_value(json_object_get(row, "revision"));
	if (json_object_set_new(row, "readable", json_true()) == 0 &&
	    json_object_set_new(row, "current", json_boolean((uint64_t)revision == current)) == 0)
		return row;
	json_decref(row);
	return NULL;
}

bool rsk_member_is_of(const struct rsk_etcd_kv *kv, const char *id)
{
	json_t *from = load(kv);
	const char *has = json_string_value(json_object_get(from, "id"));
	bool is = has && strcmp(has, id) == 0;

	json_decref(from);
	return is;
}
