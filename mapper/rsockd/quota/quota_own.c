// SPDX-License-Identifier: BSD-2-Clause
/* quota_own.c - see quota_own.h. */
#include "quota_own.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "claims.h"
#include "clock.h"
#include "quota_lease.h"
#include "quota_own_parts.h"
#include "random.h"
#include "say.h"

#define MS 1000000ull
#define ANSWER_MOST 8192u
/*
 * Offers of one RNIC that are urgent, and others, are this far apart: all hosts hear of each. Ten
 * of the others may be written without a pause, and then one in ten seconds, or in a quarter of the
 * time in which what is used has to be known (docs/adr/cluster.md).
 */
#define NOW_NS (100 * MS)
#define LATER_NS (1000 * MS)
#define LATER_AT_ONCE 10u
#define LATER_EACH_NS (10000 * MS)

/* ---- RNICs ---- */

static struct rsk_quota_rnic *rnic_of(struct rsk_quota_own *o, const char *name)
{
	struct rsk_quota_rnic *r;

	for (r = o->rnics; r; r = r->next)
		if (strcmp(r->name, name) == 0)
			return r;
	r = strlen(name) < RSK_QUOTA_NAME ? calloc(1, sizeof(*r)) : NULL;
	if (!r)
		return NULL;
	if (!rsk_quota_escape(name, r->escaped)) {
		free(r);
		return NULL;
	}
	snprintf(r->name, sizeof(r->name), "%s", name);
	snprintf(r->key, sizeof(r->key), "%s%s", o->capacity_head, r->escaped);
	r->next = o->rnics;
	o->rnics = r;
	HASH_ADD_STR(o->by_escaped, escaped, r);
	return r;
}

/* Of the present configuration. Returns whether there are others than before. */
static bool look_at_rnics(struct rsk_quota_own *o, const struct rsk_pma_rnic_view *views, size_t n)
{
	bool differs = false;

	for (struct rsk_quota_rnic *r = o->rnics; r; r = r->next) {
		bool is_here = false;

		for (size_t i = 0; i < n; i++)
			is_here |= strcmp(views[i].name, r->name) == 0;
		differs |= r->is_here != is_here;
		r->is_here = is_here;
	}
	for (size_t i = 0; i < n; i++) {
		struct rsk_quota_rnic *r = rnic_of(o, views[i].name);

		if (!r)
			continue;
		differs |= !r->is_here;
		r->is_here = true;
	}
	return differs;
}

static const struct rsk_pma_rnic_view *view_of(const struct rsk_quota_rnic *r,
					       const struct rsk_pma_rnic_view *views, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(views[i].name, r->name) == 0)
			return &views[i];
	return NULL;
}

/* ---- writing ---- */

static void forget_writing(struct rsk_quota_rnic *r)
{
	free(r->writing);
	r->writing = NULL;
	rsk_quota_capacity_free(&r->telling);
}

static struct rsk_quota_used *used_by(const struct rsk_quota_capacity *c, const char *holder)
{
	for (size_t i = 0; i < c->n_used; i++)
		if (strcmp(c->used[i].holder, holder) == 0)
			return &c->used[i];
	return NULL;
}

/* A failure after which etcd may have executed the call all the same (etcd.h). */
static bool may_be_executed(int rc)
{
	return rc < 0 && rc != -EHOSTUNREACH && rc != -EACCES && rc != -EREMOTEIO;
}

/*
 * It is not known which of the two etcd has: the larger of each number counts. Of more holders than
 * there can be, some do not: somebody else writes there.
 */
static void merge(struct rsk_quota_capacity *told, const struct rsk_quota_capacity *other)
{
	struct rsk_quota_used *used =
		reallocarray(told->used, told->n_used + other->n_used + 1, sizeof(*used));

	if (other->sessions > told->sessions)
		told->sessions = other->sessions;
	if (!used)
		return;
	told->used = used;
	for (size_t i = 0; i < other->n_used; i++) {
		struct rsk_quota_used *u = used_by(told, other->used[i].holder);

		if (!u && told->n_used >= RSK_CLAIMS_HOLDERS)
			return;
		if (!u)
			told->used[told->n_used++] = other->used[i];
		else if (u->sessions < other->used[i].sessions)
			u->sessions = other->used[i].sessions;
	}
}

void rsk_quota_own_found(struct rsk_quota_own *o, const char *rnic, uint64_t revision,
			 const struct rsk_quota_capacity *offer)
{
	for (struct rsk_quota_rnic *r = o->rnics; r; r = r->next) {
		if (r->text || r->writing || r->found >= revision || strcmp(r->escaped, rnic) != 0)
			continue;
		r->found = revision;
		merge(&r->told, offer);
		rsk_quota_own_claim_soon(o);
	}
}

/* That etcd is not reached is logged by document.c. */
static void failed(struct rsk_quota_own *o, int rc, const char *why)
{
	char line[512];

	o->count.offer_failures++;
	o->not_before_ns = rsk_clock_ns() + rsk_backoff_ns(++o->failures, rsk_random_u64());
	if (rc == -EHOSTUNREACH || rc == -ETIMEDOUT || rc == -ENOENT || o->is_told)
		return;
	o->is_told = true;
	snprintf(line, sizeof(line), "%s", why);
	rsk_document_clean(line);
	rsk_say("cluster: what this host's RNICs take is not told: %s", line);
}

static void on_written(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_quota_own *o = ctx;
	struct rsk_quota_rnic *r = o->at;
	struct rsk_etcd_answer a = { 0 };

	o->call = NULL;
	o->at = NULL;
	if (rc == 0) {
		why = "an answer of etcd about an offer is not valid";
		rc = rsk_etcd_take_txn(body, &a);
	}
	free(r->text);
	r->text = NULL;
	if (rc == 0 && a.succeeded) {
		r->text = r->writing;
		r->writing = NULL;
		rsk_quota_capacity_free(&r->told);
		r->told = r->telling;
		r->telling = (struct rsk_quota_capacity){ 0 };
		r->lease = r->writing_lease;
		r->revision = a.revision;
		r->is_unsure = false;
		o->count.offers++;
		o->failures = 0;
		o->is_told = false;
	} else {
		/*
		 * Not executed: member.c has written its entry meanwhile, or does not hold it; or
		 * this key has another revision, by a former run, or by a call that got no answer.
		 */
		r->is_unsure |= rc == 0 || may_be_executed(rc);
		if (may_be_executed(rc))
			merge(&r->told, &r->telling);
		else if (rc == 0)
			r->revision = a.n ? a.kvs[0].mod_revision : 0;
		failed(o, rc < 0 ? rc : -ENOENT, why);
	}
	forget_writing(r);
	rsk_etcd_answer_free(&a);
	rsk_quota_own_claim_soon(o);
}

/* What to tell of an RNIC; @view NULL: it is not in the configuration. */
static int describe(const struct rsk_quota_own *o, const struct rsk_quota_rnic *r,
		    const struct rsk_pma_rnic_view *view, struct rsk_quota_capacity *out)
{
	const struct rsk_claims *c = rsk_pma_claims(o->pma);
	uint32_t at = rsk_claims_find(c, r->name);
	struct rsk_claims_offer next;

	*out = (struct rsk_quota_capacity){ .state = RSK_QUOTA_DOWN };
	memcpy(out->run, o->run, sizeof(out->run));
	if (!view || at == RSK_CLAIMS_NONE)
		return 0;
	next = rsk_claims_next(c, at, view->sessions, view->sessions_max);
	out->sessions = next.sessions < RSK_QUOTA_SESSIONS ? next.sessions : RSK_QUOTA_SESSIONS;
	if (view->state == RSK_PMA_UP)
		out->state = next.is_full ? RSK_QUOTA_FULL : RSK_QUOTA_UP;
	else if (view->state == RSK_PMA_DRAINING)
		out->state = RSK_QUOTA_DRAINING;
	for (size_t i = 0; i < view->n_ips; i++)
		out->at.ips[out->at.n++] = *view->ips[i];
	out->used = calloc(c->n_holders + 1, sizeof(*out->used));
	if (!out->used)
		return -ENOMEM;
	for (size_t h = 0; h < c->n_holders; h++) {
		struct rsk_quota_used *u = &out->used[out->n_used];

		u->sessions = rsk_claims_publish(rsk_claims_at(c, at, h), view->sessions_max);
		if (!u->sessions)
			continue;
		snprintf(u->holder, sizeof(u->holder), "%s", c->holders[h]);
		out->n_used++;
	}
	return 0;
}

static void write_offer(struct rsk_quota_own *o, struct rsk_quota_rnic *r)
{
	const struct rsk_etcd_range range = { .key = r->key, .keys_only = true };
	json_t *txn = rsk_etcd_txn();
	const struct rsk_etcd_question q = { .method = RSK_ETCD_TXN,
					     .body = txn,
					     .answer_most = ANSWER_MOST,
					     .done = on_written,
					     .ctx = o };
	int rc = rsk_etcd_txn_compare(txn, o->member->key, o->member->held);

	r->writing_lease = o->member->lease;
	r->written_ns = rsk_clock_ns();
	if (rc == 0)
		rc = rsk_etcd_txn_compare(txn, r->key, r->revision);
	if (rc == 0)
		rc = rsk_etcd_txn_else_range(txn, rsk_etcd_range(&range));
	if (rc == 0)
		rc = rsk_etcd_txn_put(txn, rsk_etcd_put(r->key, r->writing, strlen(r->writing),
							r->writing_lease));
	if (rc == 0)
		o->call = rsk_etcd_ask(o->etcd, &q);
	else
		json_decref(txn);
	if (!o->call) {
		forget_writing(r);
		failed(o, -ENOMEM, "no memory");
		return;
	}
	o->at = r;
	rsk_quota_own_claim(o);
}

static bool is_same_place(const struct rsk_quota_capacity *a, const struct rsk_quota_capacity *b)
{
	return a->at.n == b->at.n &&
	       memcmp(a->at.ips, b->at.ips, a->at.n * sizeof(a->at.ips[0])) == 0;
}

/* Whether @next is to be written, and how soon. */
static enum rsk_claims_due due(const struct rsk_quota_own *o, const struct rsk_quota_rnic *r,
			       const struct rsk_pma_rnic_view *view,
			       const struct rsk_quota_capacity *next)
{
	const struct rsk_claims *c = rsk_pma_claims(o->pma);
	uint32_t at = rsk_claims_find(c, r->name);
	bool was_full = r->told.state == RSK_QUOTA_FULL, is_full = next->state == RSK_QUOTA_FULL;

	if (!r->text || r->lease != o->member->lease || !is_same_place(&r->told, next))
		return RSK_CLAIMS_NOW;
	if (r->told.state != next->state && was_full == is_full)
		return RSK_CLAIMS_NOW;
	if (!view || at == RSK_CLAIMS_NONE)
		return RSK_CLAIMS_FINE;
	return rsk_claims_due(c, at, view->sessions, view->sessions_max,
			      view->state == RSK_PMA_UP ? was_full : is_full);
}

static bool may_write(const struct rsk_quota_own *o, struct rsk_quota_rnic *r,
		      enum rsk_claims_due when, uint64_t now)
{
	uint64_t each = o->hold_ns / 4 < LATER_EACH_NS ? o->hold_ns / 4 : LATER_EACH_NS;

	if (when == RSK_CLAIMS_NOW)
		return now - r->written_ns >= NOW_NS;
	return now - r->written_ns >= LATER_NS &&
	       rsk_bucket_take(&r->paid_ns, now, each, LATER_AT_ONCE);
}

/* Returns true if a call was begun. */
static bool consider(struct rsk_quota_own *o, struct rsk_quota_rnic *r,
		     const struct rsk_pma_rnic_view *view, uint64_t now)
{
	enum rsk_claims_due when;

	if (describe(o, r, view, &r->telling) < 0)
		return false;
	when = due(o, r, view, &r->telling);
	r->writing = when == RSK_CLAIMS_FINE ? NULL : rsk_quota_capacity_text(&r->telling);
	if (!r->writing ||
	    (r->text && r->lease == o->member->lease && strcmp(r->text, r->writing) == 0) ||
	    !may_write(o, r, when, now)) {
		forget_writing(r);
		return false;
	}
	write_offer(o, r);
	return true;
}

/* ---- claims ---- */

static void on_changed(void *ctx)
{
	struct rsk_quota_own *o = ctx;

	if (o->watch.is_in_sync)
		o->heard_ns = rsk_quota_now_ns();
	rsk_quota_own_claim_soon(o);
}

/*
 * Another daemon holds this host's name (member.c), longer than a former run of this one would: the
 * offers are that one's, and the quotas.
 */
static bool is_another_s(const struct rsk_quota_own *o)
{
	const struct rsk_member *m = o->member;

	return m->conflicts && rsk_clock_ns() - m->conflict_ns > 2 * m->wanted_ns;
}

/* What others hold counts while it is known, and for a while; then only what is local. */
static void look_at_the_watch(struct rsk_quota_own *o)
{
	uint64_t now = rsk_quota_now_ns();
	bool was = o->is_claimed;

	if (o->watch.is_in_sync)
		o->heard_ns = now;
	o->is_claimed = o->heard_ns && now - o->heard_ns < o->hold_ns && !is_another_s(o);
	if (was != o->is_claimed)
		rsk_quota_own_claim(o);
}

void rsk_quota_own_tick(struct rsk_quota_own *o)
{
	struct rsk_pma_rnic_view views[RSK_CLAIMS_RNICS];
	size_t n = rsk_pma_rnics(o->pma, views, RSK_CLAIMS_RNICS);
	uint64_t now = rsk_clock_ns();

	n = n < RSK_CLAIMS_RNICS ? n : RSK_CLAIMS_RNICS;
	look_at_the_watch(o);
	/* What is to be told is made out of them. */
	if (look_at_rnics(o, views, n) || o->is_due)
		rsk_quota_own_claim(o);
	if (o->call || !o->is_claimed || !o->watch.is_in_sync || o->member->is_leaving ||
	    !rsk_member_is_registered(o->member) || now < o->not_before_ns)
		return;
	for (struct rsk_quota_rnic *r = o->rnics; r; r = r->next)
		if ((r->is_here || r->text) && consider(o, r, view_of(r, views, n), now))
			return;
}

/* ---- start and end ---- */

int rsk_quota_own_open(struct rsk_quota_own *o, struct event_base *base, struct rsk_etcd *etcd,
		       struct rsk_pma *pma, const struct rsk_member *member, const char *prefix,
		       uint64_t hold_ns)
{
	*o = (struct rsk_quota_own){
		.etcd = etcd, .pma = pma, .member = member, .hold_ns = hold_ns
	};
	if (!rsk_quota_escape(member->self->node, o->node))
		return -ENOMEM; /* no name is that long: member_self.h */
	memcpy(o->run, member->self->id, sizeof(o->run));
	snprintf(o->capacity_head, sizeof(o->capacity_head), "%s/ledger/capacity/%s/", prefix,
		 o->node);
	snprintf(o->quota_head, sizeof(o->quota_head), "%s/ledger/quota/%s/", prefix, o->node);
	o->table = (struct rsk_quota_table){ .head = strlen(o->quota_head),
					     .changed = on_changed,
					     .ctx = o };
	if (rsk_quota_own_claims_open(o, base) < 0)
		return -ENOMEM;
	return rsk_range_watch_open(&o->watch, base, etcd, o->quota_head, &rsk_quota_table_watched,
				    &o->table);
}

void rsk_quota_own_close(struct rsk_quota_own *o)
{
	struct rsk_quota_rnic *r, *next;

	rsk_etcd_cancel(o->call);
	o->call = NULL;
	rsk_range_watch_close(&o->watch);
	HASH_CLEAR(hh, o->by_escaped);
	for (r = o->rnics; r; r = next) {
		next = r->next;
		forget_writing(r);
		rsk_quota_capacity_free(&r->told);
		free(r->text);
		free(r);
	}
	o->rnics = NULL;
	rsk_quota_own_claims_close(o);
	rsk_quota_table_fini(&o->table);
}

/* ---- for operators ---- */

static json_t *claims_json(const struct rsk_claims *c, size_t rnic)
{
	json_t *out = json_array();

	for (size_t h = 0; h < c->n_holders; h++) {
		const struct rsk_claim *m = rsk_claims_at(c, rnic, h);

		if (m->quota || m->published || m->used)
			json_array_append_new(out,
					      json_pack("{s:s,s:I,s:I}", "holder", c->holders[h],
							"quota", (json_int_t)m->quota, "used",
							(json_int_t)m->used));
	}
	return out;
}

json_t *rsk_quota_own_list(const struct rsk_quota_own *o)
{
	struct rsk_pma_rnic_view views[RSK_CLAIMS_RNICS];
	size_t n = rsk_pma_rnics(o->pma, views, RSK_CLAIMS_RNICS);
	const struct rsk_claims *c = rsk_pma_claims(o->pma);
	json_t *out = json_array();

	for (size_t i = 0; i < n && i < RSK_CLAIMS_RNICS; i++) {
		uint32_t at = rsk_claims_find(c, views[i].name);
		bool is_claimed = at != RSK_CLAIMS_NONE;

		json_array_append_new(
			out,
			json_pack("{s:s,s:I,s:I,s:I,s:I,s:o}", "rnic", views[i].name, "limit",
				  (json_int_t)views[i].sessions_max, "booked",
				  (json_int_t)views[i].sessions, "offered",
				  (json_int_t)(is_claimed ? c->rnics[at].offered : 0), "kept",
				  (json_int_t)(is_claimed ?
						       rsk_claims_kept(c, c->rnics[at].account) :
						       0),
				  "holders", is_claimed ? claims_json(c, at) : json_array()));
	}
	return out;
}
