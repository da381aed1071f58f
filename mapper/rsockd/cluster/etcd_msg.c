// SPDX-License-Identifier: BSD-2-Clause
/* etcd_msg.c - see etcd_msg.h. */
#include "etcd_msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"

#define KVS_MOST 65536u /* of one answer */
#define TOKEN_MOST 4096u

/* ---- requests ---- */

static json_t *number_json(uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return json_string(text);
}

static json_t *bytes_json(const void *bytes, size_t n)
{
	char *text = rsk_base64_encode(bytes, n);
	json_t *out = text ? json_string(text) : NULL;

	free(text);
	return out;
}

/* The first key behind all that begin with @key: its last byte is one higher. */
static json_t *end_json(const char *key)
{
	size_t n = strlen(key);
	char *end = n ? strdup(key) : NULL;
	json_t *out;

	if (!end)
		return NULL;
	end[n - 1]++;
	out = bytes_json(end, n);
	free(end);
	return out;
}

/* Sets a member; takes the reference. @ok stays false once it is. */
static void set(json_t *object, const char *key, json_t *value, bool *ok)
{
	if (json_object_set_new(object, key, value) < 0)
		*ok = false;
}

static json_t *whole(json_t *object, bool ok)
{
	if (ok)
		return object;
	json_decref(object);
	return NULL;
}

json_t *rsk_etcd_range(const struct rsk_etcd_range *r)
{
	json_t *out = json_object();
	bool ok = out != NULL;

	set(out, "key", bytes_json(r->key, strlen(r->key)), &ok);
	if (r->is_prefix)
		set(out, "range_end", end_json(r->key), &ok);
	if (r->newest_first || r->last_changed) {
		set(out, "sort_order", json_string("DESCEND"), &ok);
		set(out, "sort_target", json_string(r->last_changed ? "MOD" : "KEY"), &ok);
	}
	if (r->keys_only)
		set(out, "keys_only", json_true(), &ok);
	if (r->limit)
		set(out, "limit", number_json(r->limit), &ok);
	return whole(out, ok);
}

json_t *rsk_etcd_put(const char *key, const void *value, size_t bytes, uint64_t lease)
{
	json_t *out = json_object();
	bool ok = out != NULL;

	set(out, "key", bytes_json(key, strlen(key)), &ok);
	set(out, "value", bytes_json(value, bytes), &ok);
	if (lease)
		set(out, "lease", number_json(lease), &ok);
	return whole(out, ok);
}

json_t *rsk_etcd_delete(const char *key)
{
	return json_pack("{s:o}", "key", bytes_json(key, strlen(key)));
}

json_t *rsk_etcd_delete_range(const char *from, const char *end)
{
	return json_pack("{s:o,s:o}", "key", bytes_json(from, strlen(from)), "range_end",
			 bytes_json(end, strlen(end)));
}

json_t *rsk_etcd_watch(const char *key, bool is_prefix, uint64_t revision)
{
	json_t *out = json_object();
	bool ok = out != NULL;

	set(out, "key", bytes_json(key, strlen(key)), &ok);
	if (is_prefix)
		set(out, "range_end", end_json(key), &ok);
	set(out, "start_revision", number_json(revision), &ok);
	return json_pack("{s:o}", "create_request", whole(out, ok));
}

json_t *rsk_etcd_lease_grant(uint64_t seconds)
{
	return json_pack("{s:o}", "TTL", number_json(seconds));
}

json_t *rsk_etcd_lease(uint64_t lease)
{
	return json_pack("{s:o}", "ID", number_json(lease));
}

json_t *rsk_etcd_authenticate(const char *user, const char *password)
{
	return json_pack("{s:s,s:s}", "name", user, "password", password);
}

json_t *rsk_etcd_txn(void)
{
	return json_pack("{s:[],s:[],s:[]}", "compare", "success", "failure");
}

/* Appends to one of the lists; takes the reference. */
static int append(json_t *txn, const char *list, json_t *one)
{
	return json_array_append_new(json_object_get(txn, list), one) < 0 ? -ENOMEM : 0;
}

int rsk_etcd_txn_compare(json_t *txn, const char *key, uint64_t mod_revision)
{
	return append(txn, "compare",
		      json_pack("{s:s,s:s,s:o,s:o}", "target", "MOD", "result", "EQUAL", "key",
				bytes_json(key, strlen(key)), "mod_revision",
				number_json(mod_revision)));
}

int rsk_etcd_txn_unchanged(json_t *txn, const char *prefix, uint64_t revision)
{
	return append(txn, "compare",
		      json_pack("{s:s,s:s,s:o,s:o,s:o}", "target", "MOD", "result", "LESS", "key",
				bytes_json(prefix, strlen(prefix)), "range_end", end_json(prefix),
				"mod_revision", number_json(revision + 1)));
}

int rsk_etcd_txn_range(json_t *txn, json_t *request)
{
	return append(txn, "success", json_pack("{s:o}", "request_range", request));
}

int rsk_etcd_txn_put(json_t *txn, json_t *request)
{
	return append(txn, "success", json_pack("{s:o}", "request_put", request));
}

int rsk_etcd_txn_delete(json_t *txn, json_t *request)
{
	return append(txn, "success", json_pack("{s:o}", "request_delete_range", request));
}

int rsk_etcd_txn_else_range(json_t *txn, json_t *request)
{
	return append(txn, "failure", json_pack("{s:o}", "request_range", request));
}

/* ---- answers ---- */

int rsk_etcd_number(const json_t *object, const char *key, uint64_t *out)
{
	const json_t *v = json_object_get(object, key);
	const char *text = json_string_value(v);
	uint64_t sum = 0;

	*out = 0;
	if (!v || json_is_null(v))
		return 0;
	if (json_is_integer(v) && json_integer_value(v) >= 0) {
		*out = (uint64_t)json_integer_value(v);
		return 0;
	}
	if (!text || !*text)
		return -EPROTO;
	for (; *text; text++)
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(sum, 10, &sum) ||
		    __builtin_add_overflow(sum, (uint64_t)(*text - '0'), &sum))
			return -EPROTO;
	*out = sum;
	return 0;
}

static int take_bytes(const json_t *object, const char *key, char **out, size_t *n)
{
	const json_t *v = json_object_get(object, key);

	if (v && !json_is_string(v))
		return -EPROTO;
	*out = rsk_base64_decode(v ? json_string_value(v) : "", n);
	return *out ? 0 : -EPROTO;
}

/* @kv is freed with the answer, whatever this returns. */
static int take_kv(const json_t *from, struct rsk_etcd_kv *kv)
{
	int rc = json_is_object(from) ? 0 : -EPROTO;

	if (rc == 0)
		rc = take_bytes(from, "key", &kv->key, &kv->key_bytes);
	if (rc == 0)
		rc = take_bytes(from, "value", &kv->value, &kv->value_bytes);
	if (rc == 0)
		rc = rsk_etcd_number(from, "mod_revision", &kv->mod_revision);
	if (rc == 0)
		rc = rsk_etcd_number(from, "create_revision", &kv->create_revision);
	if (rc == 0)
		rc = rsk_etcd_number(from, "version", &kv->version);
	return rc < 0 ? rc : rsk_etcd_number(from, "lease", &kv->lease);
}

/* Room for @more further keys. */
static int grow(struct rsk_etcd_answer *a, size_t more)
{
	struct rsk_etcd_kv *kvs;

	if (more > KVS_MOST || a->n + more > KVS_MOST)
		return -EPROTO;
	kvs = realloc(a->kvs, (a->n + more + 1) * sizeof(*kvs));
	if (!kvs)
		return -ENOMEM;
	memset(kvs + a->n, 0, (more + 1) * sizeof(*kvs));
	a->kvs = kvs;
	return 0;
}

static int take_kvs(const json_t *body, struct rsk_etcd_answer *a)
{
	const json_t *list = json_object_get(body, "kvs");
	int rc;

	if (!json_is_object(body) || (list && !json_is_array(list)))
		return -EPROTO;
	rc = grow(a, json_array_size(list));
	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++)
		rc = take_kv(json_array_get(list, i), &a->kvs[a->n++]);
	return rc;
}

static int take_header(const json_t *body, struct rsk_etcd_answer *a)
{
	const json_t *header = json_object_get(body, "header");

	*a = (struct rsk_etcd_answer){ 0 };
	return json_is_object(header) ? rsk_etcd_number(header, "revision", &a->revision) : -EPROTO;
}

static int finish(struct rsk_etcd_answer *a, int rc)
{
	if (rc < 0)
		rsk_etcd_answer_free(a);
	return rc;
}

int rsk_etcd_take_range(const json_t *body, struct rsk_etcd_answer *out)
{
	int rc = take_header(body, out);

	if (rc == 0)
		rc = rsk_etcd_number(body, "count", &out->count);
	if (rc == 0)
		rc = take_kvs(body, out);
	return finish(out, rc);
}

int rsk_etcd_take_txn(const json_t *body, struct rsk_etcd_answer *out)
{
	const json_t *list = json_object_get(body, "responses");
	int rc = take_header(body, out);

	out->succeeded = json_is_true(json_object_get(body, "succeeded"));
	if (rc == 0 && list && !json_is_array(list))
		rc = -EPROTO;
	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
		const json_t *one = json_object_get(json_array_get(list, i), "response_range");

		if (one)
			rc = take_kvs(one, out);
	}
	return finish(out, rc);
}

static int take_event(const json_t *event, struct rsk_etcd_kv *kv)
{
	const char *type = json_string_value(json_object_get(event, "type"));

	kv->is_deleted = type && strcmp(type, "DELETE") == 0;
	return take_kv(json_object_get(event, "kv"), kv);
}

int rsk_etcd_take_watch(const json_t *result, struct rsk_etcd_answer *out)
{
	const json_t *list = json_object_get(result, "events");
	int rc = take_header(result, out);

	out->created = json_is_true(json_object_get(result, "created"));
	out->canceled = json_is_true(json_object_get(result, "canceled"));
	if (rc == 0)
		rc = rsk_etcd_number(result, "compact_revision", &out->compact_revision);
	if (rc == 0 && list && !json_is_array(list))
		rc = -EPROTO;
	if (rc == 0)
		rc = grow(out, json_array_size(list));
	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++)
		rc = take_event(json_array_get(list, i), &out->kvs[out->n++]);
	return finish(out, rc);
}

void rsk_etcd_answer_free(struct rsk_etcd_answer *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free(a->kvs[i].key);
		free(a->kvs[i].value);
	}
	free(a->kvs);
	*a = (struct rsk_etcd_answer){ 0 };
}

int rsk_etcd_take_lease(const json_t *body, uint64_t *lease, uint64_t *seconds)
{
	const json_t *result = json_object_get(body, "result"); /* keepalive: a stream's object */
	int rc;

	result = result ? result : body;
	*seconds = 0;
	rc = rsk_etcd_number(result, "ID", lease);
	if (rc == 0)
		rc = rsk_etcd_number(result, "TTL", seconds);
	return rc == 0 && *lease ? 0 : -EPROTO;
}

const char *rsk_etcd_take_token(const json_t *body)
{
	const char *token = json_string_value(json_object_get(body, "token"));

	if (!token || !*token || strlen(token) > TOKEN_MOST)
		return NULL;
	for (const char *p = token; *p; p++)
		if (*p <= ' ' || *p > '~')
			return NULL;
	return token;
}

/* {"error": "text", "code": 16, "message": "text"}, or in a stream {"error": {"message", ...}}. */
const char *rsk_etcd_take_error(const json_t *body, int *code)
{
	const json_t *error = json_object_get(body, "error"), *number;
	const char *text = json_string_value(error);

	*code = -1;
	if (json_is_object(error)) {
		text = json_string_value(json_object_get(error, "message"));
		number = json_object_get(error, "grpc_code");
	} else {
		if (!text)
			text = json_string_value(json_object_get(body, "message"));
		number = json_object_get(body, "code");
	}
	if (json_is_integer(number) && json_integer_value(number) >= 0 &&
	    json_integer_value(number) < 100)
		*code = (int)json_integer_value(number);
	return text ? text : "an error without a message";
}

/* ---- a stream of objects ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

ssize_t rsk_json_split(struct rsk_json_split *s, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char c = bytes[i];

		if (s->in_string) {
			if (!s->is_escaped && c == '"')
				s->in_string = false;
			s->is_escaped = !s->is_escaped && c == '\\';
			continue;
		}
		if (!s->depth && c != '{') {
			if (is_blank(c))
				continue;
			return -EPROTO;
		}
		if (c == '"')
			s->in_string = true;
		else if (c == '{' || c == '[')
			s->depth++;
		else if ((c == '}' || c == ']') && !--s->depth)
			return (ssize_t)i + 1;
	}
	return 0;
}
