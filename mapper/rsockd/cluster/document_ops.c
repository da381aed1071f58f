// SPDX-License-Identifier: BSD-2-Clause
/* document_ops.c - see document_ops.h. */
#include "document_ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A document may begin with a comment that says who has pushed it, and when. */
#define MARK "#rsock: "
#define KEY_MOST 1024 /* a key of the history in an answer */
#define ONE_MOST (RSK_CONF_DOCUMENT_MOST / 3 * 4 + 8192)

struct rsk_document_op {
	struct rsk_document *of;
	struct rsk_document_op *prev, *next;
	struct rsk_etcd_call *call;
	enum rsk_document_verb verb;
	uint64_t revision, base;
	bool has_base;
	/* The former document is too large to be read, and is not kept */
	bool former_is_too_large;
	char *text, *by; /* owned */
	size_t bytes;
	rsk_document_done *done;
	void *user;
};

static void remove_op(struct rsk_document_op *o)
{
	if (o->prev)
		o->prev->next = o->next;
	else
		o->of->ops = o->next;
	if (o->next)
		o->next->prev = o->prev;
	o->of->n_ops--;
	rsk_etcd_cancel(o->call);
	free(o->text);
	free(o->by);
	free(o);
}

/* Takes the reference of @answer. */
static void answer(struct rsk_document_op *o, int status, json_t *body)
{
	rsk_document_done *done = o->done;
	void *user = o->user;

	remove_op(o);
	done(user, status, body);
}

__attribute__((format(printf, 3, 4))) static void fail(struct rsk_document_op *o, int status,
						       const char *format, ...)
{
	char line[640];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	rsk_document_clean(line);
	answer(o, status, json_pack("{s:s}", "error", line));
}

static void fail_by_etcd(struct rsk_document_op *o, int rc, const char *why)
{
	fail(o, rc == -EACCES ? 403 : 503, "%s", why ? why : strerror(-rc));
}

/* ---- keys ---- */

static void history_key(const struct rsk_document *d, uint64_t revision,
			char key[static RSK_DOCUMENT_KEY + 24])
{
	snprintf(key, RSK_DOCUMENT_KEY + 24, "%s%020llu", d->history, (unsigned long long)revision);
}

/* The revision that an entry of the history is of; 0: it is none. */
static uint64_t revision_of(const struct rsk_document *d, const struct rsk_etcd_kv *kv)
{
	size_t head = strlen(d->history);
	uint64_t revision = 0;

	if (kv->key_bytes != head + 20 || memcmp(kv->key, d->history, head) != 0)
		return 0;
	for (const char *p = kv->key + head; *p; p++) {
		if (*p < '0' || *p > '9' || __builtin_mul_overflow(revision, 10, &revision) ||
		    __builtin_add_overflow(revision, (uint64_t)(*p - '0'), &revision))
			return 0;
	}
	return revision;
}

static bool is_current(const struct rsk_document *d, const struct rsk_etcd_kv *kv)
{
	return kv->key_bytes == strlen(d->current) &&
	       memcmp(kv->key, d->current, kv->key_bytes) == 0;
}

static const struct rsk_etcd_kv *find(const struct rsk_document *d, const struct rsk_etcd_answer *a,
				      uint64_t revision)
{
	for (size_t i = 0; i < a->n; i++)
		if (revision == (is_current(d, &a->kvs[i]) ? a->kvs[i].mod_revision :
							     revision_of(d, &a->kvs[i])))
			return &a->kvs[i];
	return NULL;
}

static const struct rsk_etcd_kv *find_current(const struct rsk_document *d,
					      const struct rsk_etcd_answer *a)
{
	for (size_t i = 0; i < a->n; i++)
		if (is_current(d, &a->kvs[i]))
			return &a->kvs[i];
	return NULL;
}

/* ---- what the answers are made of ---- */

/* Splits a document into its first comment, if that is ours, and the text behind it. */
static const char *text_of(const struct rsk_etcd_kv *kv, char by[static 256], size_t *bytes)
{
	size_t mark = sizeof(MARK) - 1, line;
	const char *end;

	*by = 0;
	*bytes = kv->value_bytes;
	end = memchr(kv->value, '\n', kv->value_bytes);
	if (!end || kv->value_bytes < mark || memcmp(kv->value, MARK, mark) != 0)
		return kv->value;
	line = (size_t)(end - kv->value) - mark;
	snprintf(by, 256, "%.*s", (int)(line < 255 ? line : 255), kv->value + mark);
	rsk_document_clean(by);
	*bytes = kv->value_bytes - (size_t)(end + 1 - kv->value);
	return end + 1;
}

static json_t *describe(const struct rsk_etcd_kv *kv, uint64_t revision, bool current, bool with)
{
	char by[256];
	size_t bytes;
	const char *text = text_of(kv, by, &bytes);
	json_t *out = json_pack("{s:I,s:s,s:I,s:b}", "revision", (json_int_t)revision, "by", by,
				"bytes", (json_int_t)bytes, "current", (int)current);
	json_t *content = with ? json_stringn(text, bytes) : NULL;

	if (with && !content)
		content = json_null(); /* it is not UTF-8 */
	if (with)
		json_object_set_new(out, "text", content);
	return out;
}

static void list(struct rsk_document_op *o, const struct rsk_etcd_answer *a)
{
	const struct rsk_document *d = o->of;
	json_t *all = json_array();

	for (size_t i = 0; i < a->n; i++) {
		const struct rsk_etcd_kv *kv = &a->kvs[i];
		bool current = is_current(d, kv);
		uint64_t revision = current ? kv->mod_revision : revision_of(d, kv);

		if (revision)
			json_array_append_new(all, describe(kv, revision, current, false));
	}
	answer(o, 200, json_pack("{s:I,s:o}", "running", (json_int_t)d->running, "revisions", all));
}

static void show(struct rsk_document_op *o, const struct rsk_etcd_answer *a)
{
	const struct rsk_etcd_kv *current = find_current(o->of, a), *kv = current;

	if (o->revision)
		kv = find(o->of, a, o->revision);
	if (!kv)
		fail(o, 404, o->revision ? "there is no such revision" : "there is no document");
	else
		answer(o, 200,
		       describe(kv, o->revision ? o->revision : kv->mod_revision, kv == current,
				true));
}

/* ---- the change ---- */

static void on_changed(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_document_op *o = ctx;
	struct rsk_etcd_answer a = { 0 };

	o->call = NULL;
	if (rc == 0) {
		rc = rsk_etcd_take_txn(body, &a);
		why = "etcd's answer is not valid";
	}
	if (rc == -ETIMEDOUT || rc == -EPROTO)
		fail(o, 504,
		     "it is not known whether the document was written; see rsock policy "
		     "history: %s",
		     why);
	else if (rc < 0)
		fail_by_etcd(o, rc, why);
	else if (!a.succeeded)
		fail(o, 409, "another revision was pushed meanwhile; nothing was changed");
	else
		answer(o, 200, json_pack("{s:I}", "revision", (json_int_t)a.revision));
	rsk_etcd_answer_free(&a);
}

/* Where the history's keys begin: behind the current document, and the one to go back to. */
static size_t first_of_history(const struct rsk_document_op *o, const struct rsk_etcd_answer *a)
{
	size_t first = find_current(o->of, a) != NULL;

	if (o->revision && first < a->n && revision_of(o->of, &a->kvs[first]) == o->revision)
		first++;
	return first;
}

/*
 * The key of the history before which all entries go, so that there are no more than configured
 * when one for @added is written (0: none is). The keys are in order, newest first; what is none of
 * ours among them is not counted. False: nothing goes.
 */
static bool oldest_kept(const struct rsk_document_op *o, const struct rsk_etcd_answer *a,
			uint64_t added, char key[static RSK_DOCUMENT_KEY + 24])
{
	const struct rsk_document *d = o->of;
	uint32_t kept = added != 0;

	history_key(d, added, key);
	for (size_t i = first_of_history(o, a); i < a->n && kept < d->history_most; i++) {
		uint64_t revision = revision_of(d, &a->kvs[i]);

		if (!revision)
			continue;
		history_key(d, revision, key);
		kept++;
	}
	return kept == d->history_most;
}

/* The new document; @former goes into the history, and what is too old there goes. */
static json_t *transaction(const struct rsk_document_op *o, const struct rsk_etcd_answer *a,
			   const struct rsk_etcd_kv *former)
{
	const struct rsk_document *d = o->of;
	uint64_t added = former && !o->former_is_too_large ? former->mod_revision : 0;
	char key[RSK_DOCUMENT_KEY + 24];
	json_t *txn = rsk_etcd_txn();
	int rc = rsk_etcd_txn_compare(txn, d->current, former ? former->mod_revision : 0);

	if (rc == 0)
		rc = rsk_etcd_txn_put(txn, rsk_etcd_put(d->current, o->text, o->bytes, 0));
	if (rc == 0 && added) {
		history_key(d, added, key);
		rc = rsk_etcd_txn_put(txn,
				      rsk_etcd_put(key, former->value, former->value_bytes, 0));
	}
	if (rc == 0 && oldest_kept(o, a, added, key))
		rc = rsk_etcd_txn_delete(txn, rsk_etcd_delete_range(d->history, key));
	if (rc == 0)
		return txn;
	json_decref(txn);
	return NULL;
}

/* Puts the comment in front of the text. 0 or -errno. */
static int sign(struct rsk_document_op *o, const char *text, size_t bytes)
{
	time_t now = time(NULL);
	char when[32] = "", *all;
	struct tm tm;
	int head;

	if (gmtime_r(&now, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	all = malloc(bytes + 512);
	if (!all)
		return -ENOMEM;
	head = snprintf(all, 512, MARK "%s %.400s\n", when, o->by);
	memcpy(all + head, text, bytes);
	free(o->text);
	o->text = all;
	o->bytes = (size_t)head + bytes;
	return o->bytes > RSK_CONF_DOCUMENT_MOST ? -EFBIG : 0;
}

/* Signs and validates the new document. False: the operation has failed. */
static bool prepare(struct rsk_document_op *o, const char *text, size_t bytes)
{
	char error[512];
	int rc = sign(o, text, bytes);

	if (rc < 0) {
		fail(o, rc == -EFBIG ? 400 : 503, rc == -EFBIG ? "it is too large" : "no memory");
		return false;
	}
	if (o->of->take(o->of->ctx, o->text, o->bytes, false, error, sizeof(error)) == 0)
		return true;
	fail(o, 400, "%s", error);
	return false;
}

static void change(struct rsk_document_op *o, const struct rsk_etcd_answer *a)
{
	const struct rsk_etcd_kv *former = find_current(o->of, a), *old;
	struct rsk_etcd_question q = {
		.method = RSK_ETCD_TXN, .answer_most = 65536, .done = on_changed, .ctx = o
	};
	const char *text = o->text;
	size_t bytes = o->bytes;
	char by[256];

	if (o->has_base && o->base != (former ? former->mod_revision : 0)) {
		fail(o, 409, "revision %llu is the current one; nothing was changed",
		     (unsigned long long)(former ? former->mod_revision : 0));
		return;
	}
	if (o->verb == RSK_DOCUMENT_ROLLBACK) {
		old = find(o->of, a, o->revision);
		if (!old || old == former) {
			fail(o, old ? 409 : 404,
			     old ? "it is the current revision" : "there is no such revision");
			return;
		}
		text = text_of(old, by, &bytes);
	}
	if (!prepare(o, text, bytes))
		return;
	q.body = transaction(o, a, former);
	o->call = rsk_etcd_ask(o->of->etcd, &q);
	if (!o->call)
		fail(o, 503, "no memory");
}

/* ---- the first look ---- */

static int look(struct rsk_document_op *o);

static void on_look(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_document_op *o = ctx;
	struct rsk_etcd_answer a = { 0 };

	o->call = NULL;
	if (rc == -EFBIG && !o->former_is_too_large &&
	    (o->verb == RSK_DOCUMENT_PUSH || o->verb == RSK_DOCUMENT_ROLLBACK)) {
		o->former_is_too_large = true;
		if (look(o) < 0)
			fail(o, 503, "no memory");
		return;
	}
	if (rc == 0) {
		rc = rsk_etcd_take_txn(body, &a);
		why = "etcd's answer is not valid";
	}
	if (rc < 0)
		fail_by_etcd(o, rc, why);
	else if (o->verb == RSK_DOCUMENT_HISTORY_LIST)
		list(o, &a);
	else if (o->verb == RSK_DOCUMENT_READ)
		show(o, &a);
	else
		change(o, &a);
	rsk_etcd_answer_free(&a);
}

/* Reads what the operation needs, at one revision of the store. */
static int look(struct rsk_document_op *o)
{
	char key[RSK_DOCUMENT_KEY + 24];
	const struct rsk_etcd_range current = { .key = o->of->current,
						.keys_only = o->former_is_too_large };
	struct rsk_etcd_range more = { .key = key };
	const struct rsk_etcd_range kept = { .key = o->of->history,
					     .is_prefix = true,
					     .newest_first = true,
					     .keys_only = true,
					     .limit = o->of->history_most };
	struct rsk_etcd_question q = {
		.method = RSK_ETCD_TXN_READ, .answer_most = ONE_MOST, .done = on_look, .ctx = o
	};
	int rc;

	q.body = rsk_etcd_txn();
	rc = rsk_etcd_txn_range(q.body, rsk_etcd_range(&current));
	history_key(o->of, o->revision, key);
	if (o->verb == RSK_DOCUMENT_HISTORY_LIST) {
		more = (struct rsk_etcd_range){ .key = o->of->history,
						.is_prefix = true,
						.newest_first = true,
						.limit = RSK_DOCUMENT_HISTORY };
		q.answer_most = (RSK_DOCUMENT_HISTORY + 1) * ONE_MOST;
	}
	if (rc == 0 && (o->revision || o->verb == RSK_DOCUMENT_HISTORY_LIST)) {
		rc = rsk_etcd_txn_range(q.body, rsk_etcd_range(&more));
		q.answer_most += ONE_MOST;
	}
	if (rc == 0 && (o->verb == RSK_DOCUMENT_PUSH || o->verb == RSK_DOCUMENT_ROLLBACK)) {
		rc = rsk_etcd_txn_range(q.body, rsk_etcd_range(&kept));
		q.answer_most += o->of->history_most * KEY_MOST;
	}
	if (rc == 0)
		o->call = rsk_etcd_ask(o->of->etcd, &q);
	else
		json_decref(q.body);
	return o->call ? 0 : -ENOMEM;
}

struct rsk_document_op *rsk_document_op_start(struct rsk_document *d,
					      const struct rsk_document_args *args, int *status,
					      const char **error)
{
	static char line[512];
	struct rsk_document_op *o;
	bool ok;

	*status = 503;
	*error = "too many operations at the same time";
	if (d->n_ops >= RSK_DOCUMENT_OPS_MOST)
		return NULL;
	if (args->verb == RSK_DOCUMENT_PUSH &&
	    d->take(d->ctx, args->text, args->bytes, false, line, sizeof(line)) < 0) {
		rsk_document_clean(line);
		*status = 400;
		*error = line;
		return NULL;
	}
	*error = "no memory";
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	*o = (struct rsk_document_op){ .of = d,
				       .next = d->ops,
				       .verb = args->verb,
				       .revision = args->revision,
				       .base = args->base,
				       .has_base = args->has_base,
				       .bytes = args->bytes,
				       .done = args->done,
				       .user = args->user };
	if (o->next)
		o->next->prev = o;
	d->ops = o;
	d->n_ops++;
	o->by = strdup(args->by ? args->by : "");
	o->text = malloc(args->bytes + 1);
	ok = o->by && o->text;
	if (ok && args->bytes)
		memcpy(o->text, args->text, args->bytes);
	if (ok && look(o) == 0)
		return o;
	remove_op(o);
	return NULL;
}

void rsk_document_op_cancel(struct rsk_document_op *o)
{
	remove_op(o);
}

void rsk_document_ops_close(struct rsk_document *d)
{
	struct rsk_document_op *next;

	for (struct rsk_document_op *o = d->ops; o; o = next) {
		next = o->next;
		remove_op(o);
	}
}
