// SPDX-License-Identifier: BSD-2-Clause
/* member_list.c - see member_list.h. */
#include "member_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd_msg.h"
#include "member_json.h"

/* An entry has one or two KiB; some may have all that they are allowed. */
#define ANSWER_MOST (16u << 20)

struct rsk_member_reading {
	struct rsk_member_list *of;
	struct rsk_member_reading *prev, *next;
	struct rsk_etcd_call *call;
	rsk_member_list_done *done;
	void *user;
};

static void remove_reading(struct rsk_member_reading *r)
{
	if (r->prev)
		r->prev->next = r->next;
	else
		r->of->readings = r->next;
	if (r->next)
		r->next->prev = r->prev;
	r->of->n--;
	rsk_etcd_cancel(r->call);
	free(r);
}

/* Takes the reference of @body. */
static void answer(struct rsk_member_reading *r, int status, json_t *body)
{
	rsk_member_list_done *done = r->done;
	void *user = r->user;

	remove_reading(r);
	done(user, status, body);
}

static void fail(struct rsk_member_reading *r, int rc, const char *why)
{
	char line[512];

	snprintf(line, sizeof(line), "%s", why);
	rsk_document_clean(line);
	answer(r, rc == -EACCES ? 403 : 503, json_pack("{s:s}", "error", line));
}

static bool is_document(const struct rsk_member_list *l, const struct rsk_etcd_kv *kv)
{
	return kv->key_bytes == strlen(l->document->current) &&
	       memcmp(kv->key, l->document->current, kv->key_bytes) == 0;
}

static json_t *list(const struct rsk_member_list *l, const struct rsk_etcd_answer *a)
{
	json_t *all = json_array();
	uint64_t current = 0;

	for (size_t i = 0; i < a->n; i++)
		if (is_document(l, &a->kvs[i]))
			current = a->kvs[i].mod_revision;
	for (size_t i = 0; i < a->n; i++)
		if (!is_document(l, &a->kvs[i]))
			json_array_append_new(all,
					      rsk_member_row(&a->kvs[i], strlen(l->head), current));
	return json_pack("{s:I,s:b,s:o}", "revision", (json_int_t)current, "more",
			 json_array_size(all) >= RSK_MEMBER_LIST_MOST, "members", all);
}

static void on_read(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_member_reading *r = ctx;
	struct rsk_etcd_answer a = { 0 };

	r->call = NULL;
	if (rc == 0) {
		why = "etcd's answer is not valid";
		rc = rsk_etcd_take_txn(body, &a);
	}
	if (rc < 0)
		fail(r, rc, why);
	else
		answer(r, 200, list(r->of, &a));
	rsk_etcd_answer_free(&a);
}

static struct rsk_etcd_call *ask(struct rsk_member_reading *r)
{
	const struct rsk_member_list *l = r->of;
	const struct rsk_etcd_range document = { .key = l->document->current, .keys_only = true };
	const struct rsk_etcd_range members = { .key = l->head,
						.is_prefix = true,
						.limit = RSK_MEMBER_LIST_MOST };
	json_t *txn = rsk_etcd_txn();
	const struct rsk_etcd_question q = { .method = RSK_ETCD_TXN_READ,
					     .body = txn,
					     .answer_most = ANSWER_MOST,
					     .done = on_read,
					     .ctx = r };
	int rc = rsk_etcd_txn_range(txn, rsk_etcd_range(&document));

	if (rc == 0)
		rc = rsk_etcd_txn_range(txn, rsk_etcd_range(&members));
	if (rc == 0)
		return rsk_etcd_ask(l->etcd, &q);
	json_decref(txn);
	return NULL;
}

struct rsk_member_reading *rsk_member_list_read(struct rsk_member_list *l,
						rsk_member_list_done *done, void *user)
{
	struct rsk_member_reading *r = l->n < RSK_MEMBER_LISTS ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return NULL;
	r->of = l;
	r->next = l->readings;
	r->done = done;
	r->user = user;
	if (r->next)
		r->next->prev = r;
	l->readings = r;
	l->n++;
	r->call = ask(r);
	if (r->call)
		return r;
	remove_reading(r);
	return NULL;
}

void rsk_member_list_cancel(struct rsk_member_reading *r)
{
	remove_reading(r);
}

void rsk_member_list_init(struct rsk_member_list *l, struct rsk_etcd *etcd, const char *prefix,
			  const struct rsk_document *document)
{
	*l = (struct rsk_member_list){ .etcd = etcd, .document = document };
	snprintf(l->head, sizeof(l->head), "%s/members/", prefix);
}

void rsk_member_list_fini(struct rsk_member_list *l)
{
	struct rsk_member_reading *next;

	for (struct rsk_member_reading *r = l->readings; r; r = next) {
		next = r->next;
		remove_reading(r);
	}
}
