// SPDX-License-Identifier: BSD-2-Clause
/* quota_take.c - see quota_take.h: for one RNIC at a time, reads what etcd has, and writes. */
#include "quota_take.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "document.h"
#include "random.h"
#include "say.h"

#define SMALL_MOST 8192u
/* A transaction is not executed so long after its answer was given up. */
#define UNSURE_NS 30000000000ull
/* All quotas of one RNIC have some 200 bytes each; some may have more. */
#define ANSWER_MOST (8u << 20)
/* More than can be held at one RNIC: then nothing is taken. */
#define KEYS_MOST (RSK_CLAIMS_HOLDERS + 1)

static void capacity_key(const struct rsk_quota_take *t, char *key, size_t n)
{
	snprintf(key, n, "%s%s", t->capacity_head, t->tail);
}

/* All quotas of the RNIC; ours has our name behind that. */
static void quota_head(const struct rsk_quota_take *t, char *key, size_t n)
{
	snprintf(key, n, "%s/ledger/quota/%s/", t->prefix, t->tail);
}

static struct rsk_quota_remote *remote(struct rsk_quota_take *t)
{
	struct rsk_quota_remote *r;

	HASH_FIND(hh, t->remotes.remotes, t->tail, strlen(t->tail), r);
	return r;
}

/* That etcd is not reached is logged by document.c. */
static void failed(struct rsk_quota_take *t, int rc)
{
	struct rsk_quota_remote *r = remote(t);

	t->count.failures++;
	if (rc == -ENOENT)
		rsk_quota_lease_look(t->lease);
	if (!r)
		return;
	r->is_to_look = true;
	r->not_before_ns = rsk_quota_now_ns() + rsk_backoff_ns(++r->failures, rsk_random_u64());
}

static void ask(struct rsk_quota_take *t, enum rsk_etcd_method method, json_t *txn, size_t most,
		rsk_etcd_done *done)
{
	const struct rsk_etcd_question q = {
		.method = method, .body = txn, .answer_most = most, .done = done, .ctx = t
	};

	t->call = rsk_etcd_ask(t->etcd, &q);
	if (!t->call)
		failed(t, -ENOMEM);
}

/* ---- writing ---- */

static void on_written(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_quota_take *t = ctx;
	struct rsk_quota_remote *r = remote(t);
	struct rsk_etcd_answer a = { 0 };

	t->call = NULL;
	if (rc == 0)
		rc = rsk_etcd_take_txn(body, &a);
	if (rc < 0 || !r) {
		if (r)
			r->unsure_until_ns = rsk_quota_now_ns() + UNSURE_NS;
		failed(t, rc);
	} else if (!a.succeeded) {
		t->count.beaten++;
		r->is_to_look = true;
		r->not_before_ns =
			rsk_quota_now_ns() + rsk_backoff_ns(++r->failures, rsk_random_u64());
	} else if (t->writing_lease == t->lease->lease) {
		rsk_quota_seen(&r->q, t->writing);
		r->failures = 0;
		r->not_before_ns = 0;
		r->looked_ns = rsk_quota_now_ns();
		if (t->writing) /* the key has another revision now, so nothing late is executed */
			r->unsure_until_ns = 0;
	}
	rsk_etcd_answer_free(&a);
	rsk_quota_take_step(t);
}

/* @read: the store's revision of what was read; @offer, @own: revisions of keys, 0: no such key. */
static void write_quota(struct rsk_quota_take *t, struct rsk_quota_remote *r, uint64_t sessions,
			uint64_t read, uint64_t offer, uint64_t own)
{
	struct rsk_quota_entry e = { .sessions = sessions, .at = t->at };
	char head[RSK_DOCUMENT_KEY + 3 * RSK_QUOTA_NAME], key[sizeof(head) + RSK_QUOTA_NAME],
		capacity[sizeof(head)], *text;
	bool is_more = sessions > r->q.held; /* etcd may have more */
	json_t *txn = rsk_etcd_txn();
	int rc;

	memcpy(e.run, t->run, sizeof(e.run));
	quota_head(t, head, sizeof(head));
	capacity_key(t, capacity, sizeof(capacity));
	snprintf(key, sizeof(key), "%s%s", head, t->node);
	text = rsk_quota_entry_text(&e);
	rc = text ? rsk_etcd_txn_compare(txn, t->member->key, t->member->held) : -ENOMEM;
	if (rc == 0)
		rc = rsk_etcd_txn_compare(txn, key, own);
	if (rc == 0 && is_more)
		rc = rsk_etcd_txn_compare(txn, capacity, offer);
	if (rc == 0 && is_more)
		rc = rsk_etcd_txn_unchanged(txn, head, read);
	if (rc == 0)
		rc = sessions ? rsk_etcd_txn_put(txn, rsk_etcd_put(key, text, strlen(text),
								   t->lease->lease)) :
				rsk_etcd_txn_delete(txn, rsk_etcd_delete(key));
	free(text);
	if (rc < 0) {
		json_decref(txn);
		failed(t, rc);
		return;
	}
	*(is_more ? &t->count.taken : &t->count.given) += 1;
	rsk_quota_write(&r->q, sessions);
	t->writing = sessions;
	t->writing_lease = t->lease->lease;
	ask(t, RSK_ETCD_TXN, txn, SMALL_MOST, on_written);
}

/* ---- reading ---- */

/* What an answer has about one RNIC. */
struct found {
	struct rsk_quota_capacity offer;
	uint64_t offer_revision;	/* 0: there is none */
	struct rsk_quota_claim *others; /* allocated */
	size_t n;
	/* A quota that cannot be read may be any; and so may one of too many */
	bool is_unclear;
	struct rsk_quota_entry own;
	uint64_t own_revision, own_lease, own_published;
};

/* Another host's quota, together with what its owner has published as used. */
static void add_other(struct found *f, const char *holder, uint64_t quota)
{
	struct rsk_quota_claim *c = &f->others[f->n++];

	*c = (struct rsk_quota_claim){ .quota = quota };
	for (size_t i = 0; i < f->offer.n_used; i++) {
		if (strcmp(f->offer.used[i].holder, holder) != 0)
			continue;
		c->published = f->offer.used[i].sessions;
		f->offer.used[i].sessions = 0; /* counted */
	}
}

static void find_quota(const struct rsk_quota_take *t, struct found *f,
		       const struct rsk_etcd_kv *kv, size_t head)
{
	bool is_own = kv->key_bytes - head == strlen(t->node) &&
		      memcmp(kv->key + head, t->node, strlen(t->node)) == 0;
	char holder[1][RSK_QUOTA_NAME];
	struct rsk_quota_entry e;

	if (is_own) {
		f->own_revision = kv->mod_revision;
		f->own_lease = kv->lease;
		rsk_quota_entry_take(kv, &f->own);
		return;
	}
	if (!rsk_quota_split(kv->key + head, kv->key_bytes - head, holder, 1) ||
	    rsk_quota_entry_take(kv, &e) < 0) {
		f->is_unclear = true;
		return;
	}
	add_other(f, holder[0], e.sessions);
}

/* The offer is the first in the answer, if there is one. */
static int find_all(const struct rsk_quota_take *t, const struct rsk_etcd_answer *a,
		    struct found *f)
{
	char head[RSK_DOCUMENT_KEY + 3 * RSK_QUOTA_NAME];
	size_t bytes, first = 0;

	*f = (struct found){ 0 };
	quota_head(t, head, sizeof(head));
	bytes = strlen(head);
	f->others = calloc(a->n + RSK_CLAIMS_HOLDERS + 1, sizeof(*f->others));
	if (!f->others)
		return -ENOMEM;
	if (a->n && (a->kvs[0].key_bytes <= bytes || memcmp(a->kvs[0].key, head, bytes) != 0)) {
		first = 1;
		if (rsk_quota_capacity_take(&a->kvs[0], &f->offer) == 0)
			f->offer_revision = a->kvs[0].mod_revision;
	}
	f->is_unclear = a->n - first >= KEYS_MOST;
	for (size_t i = first; i < a->n; i++) {
		if (a->kvs[i].key_bytes <= bytes)
			return -EPROTO;
		find_quota(t, f, &a->kvs[i], bytes);
	}
	/* Used by us, and by hosts that have no quota any more. */
	for (size_t i = 0; i < f->offer.n_used; i++) {
		const struct rsk_quota_used *u = &f->offer.used[i];

		if (strcmp(u->holder, t->node) == 0)
			f->own_published = u->sessions;
		else if (u->sessions)
			f->others[f->n++] = (struct rsk_quota_claim){ .published = u->sessions };
	}
	return 0;
}

static bool is_same_place(const struct rsk_quota_addresses *a, const struct rsk_quota_addresses *b)
{
	return a->n == b->n && memcmp(a->ips, b->ips, a->n * sizeof(a->ips[0])) == 0;
}

/*
 * Where the owner takes no sessions, or is gone, none are held ahead of need. What is in use stays,
 * since an offer that comes back may not have it as published yet.
 */
static uint64_t wanted(const struct rsk_quota_remote *r, const struct rsk_quota_capacity *offer,
		       bool is_offered, uint64_t now)
{
	bool takes = offer->state == RSK_QUOTA_UP || offer->state == RSK_QUOTA_FULL;

	if (is_offered && takes)
		return rsk_quota_wanted(&r->q, offer->sessions, now);
	return r->q.used < r->q.held ? r->q.used : r->q.held;
}

/*
 * What etcd has for us. A transaction of which no answer has come may still be executed: so less
 * counts, until another one has been, after which that one cannot be.
 */
static void see(struct rsk_quota_remote *r, uint64_t sessions, uint64_t now)
{
	uint64_t held = r->q.held;

	rsk_quota_seen(&r->q, sessions);
	if (now >= r->unsure_until_ns)
		r->unsure_until_ns = 0;
	else if (held < sessions)
		r->q.held = held;
}

static void decide(struct rsk_quota_take *t, struct rsk_quota_remote *r, const struct found *f,
		   uint64_t read)
{
	bool is_ours = f->own_revision && f->own_lease == t->lease->lease;
	uint64_t now = rsk_quota_now_ns(), want, grant, former, left = 0;
	/* It may have been published late, and what is beyond our use be another's by now. */
	uint64_t ours = f->own_published < r->q.used ? f->own_published : r->q.used;
	bool is_behind = f->offer_revision != (r->is_readable ? r->revision : 0);

	see(r, is_ours ? f->own.sessions : 0, now);
	r->is_to_look = false;
	r->looked_ns = now;
	want = wanted(r, &f->offer, f->offer_revision != 0, now);
	if (!f->is_unclear)
		left = rsk_quota_available(f->offer.sessions, ours, f->others, f->n);
	grant = rsk_quota_grant(&r->q, want, left);
	/* What is in use of a former lease's quota may not be published either. */
	former = f->own.sessions < r->q.used ? f->own.sessions : r->q.used;
	if (!is_ours && grant < former)
		grant = former;
	/* While the watch is behind, this RNIC seems to be due all the time. */
	if (want > grant || r->unsure_until_ns || (is_behind && grant == r->q.held)) {
		t->count.shortages += want > grant;
		r->not_before_ns = now + rsk_backoff_ns(++r->failures, rsk_random_u64());
	} else {
		r->failures = 0;
		r->not_before_ns = 0;
	}
	/* What a former run has left is written anew, or deleted. */
	if (grant != r->q.held || (r->unsure_until_ns && grant) || (f->own_revision && !is_ours) ||
	    (is_ours && !is_same_place(&f->own.at, &t->at)))
		write_quota(t, r, grant, read, f->offer_revision, f->own_revision);
}

static void on_read(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_quota_take *t = ctx;
	struct rsk_quota_remote *r = remote(t);
	struct rsk_etcd_answer a = { 0 };
	struct found f = { 0 };

	t->call = NULL;
	if (rc == 0)
		rc = rsk_etcd_take_txn(body, &a);
	if (rc == 0)
		rc = find_all(t, &a, &f);
	if (rc < 0)
		failed(t, rc);
	else if (r && t->lease->lease == t->writing_lease)
		decide(t, r, &f, a.revision);
	rsk_quota_capacity_free(&f.offer);
	free(f.others);
	rsk_etcd_answer_free(&a);
	rsk_quota_take_step(t);
}

static void read_all(struct rsk_quota_take *t, const struct rsk_quota_remote *r)
{
	char capacity[RSK_DOCUMENT_KEY + 3 * RSK_QUOTA_NAME], head[sizeof(capacity)];
	const struct rsk_etcd_range offer = { .key = capacity };
	const struct rsk_etcd_range quotas = { .key = head, .is_prefix = true, .limit = KEYS_MOST };
	json_t *txn = rsk_etcd_txn();
	int rc;

	snprintf(t->tail, sizeof(t->tail), "%s", r->tail);
	capacity_key(t, capacity, sizeof(capacity));
	quota_head(t, head, sizeof(head));
	t->writing_lease = t->lease->lease;
	rc = rsk_etcd_txn_range(txn, rsk_etcd_range(&offer));
	if (rc == 0)
		rc = rsk_etcd_txn_range(txn, rsk_etcd_range(&quotas));
	if (rc == 0) {
		ask(t, RSK_ETCD_TXN_READ, txn, ANSWER_MOST, on_read);
	} else {
		json_decref(txn);
		failed(t, rc);
	}
}

/* ---- steps ---- */

static bool is_due(const struct rsk_quota_take *t, const struct rsk_quota_remote *r, uint64_t now)
{
	if (r->is_own || (!r->is_readable && !r->q.most) || now < r->not_before_ns ||
	    r->tail_bytes >= sizeof(t->tail))
		return false;
	/* Somebody else may have changed what is held. */
	if (r->q.held && now - r->looked_ns >= t->lease->hold_ns)
		return true;
	return r->is_to_look || r->unsure_until_ns || r->q.held != r->q.most ||
	       wanted(r, &r->offer, r->is_readable, now) != r->q.held;
}

void rsk_quota_take_step(struct rsk_quota_take *t)
{
	uint64_t now = rsk_quota_now_ns();

	rsk_quota_remotes_sweep(&t->remotes);
	if (t->call || !rsk_quota_lease_is_valid(t->lease, now) || t->member->is_leaving ||
	    !rsk_member_is_registered(t->member))
		return;
	for (struct rsk_quota_remote *r = t->remotes.remotes; r; r = r->hh.next) {
		if (!is_due(t, r, now))
			continue;
		read_all(t, r);
		if (t->call)
			return;
	}
}

void rsk_quota_take_lapsed(struct rsk_quota_take *t)
{
	for (struct rsk_quota_remote *r = t->remotes.remotes; r; r = r->hh.next) {
		r->is_to_look |= r->q.most || r->q.used;
		rsk_quota_seen(&r->q, 0);
		r->failures = 0;
		r->not_before_ns = 0;
	}
	rsk_quota_take_step(t);
}

/* Where there are too many, owners know this host by the first of them. */
void rsk_quota_take_address(struct rsk_quota_take *t, uint8_t ipv, const uint8_t ip[static 16])
{
	struct rsk_pm_addr *a = &t->at.ips[t->at.n];

	if (t->at.n == RSK_QUOTA_ADDRESSES || rsk_quota_addresses_have(&t->at, ipv, ip))
		return;
	*a = (struct rsk_pm_addr){ .ipv = ipv };
	memcpy(a->ip, ip, 16);
	t->at.n++;
	for (struct rsk_quota_remote *r = t->remotes.remotes; r; r = r->hh.next)
		r->is_to_look |= r->q.most > 0;
}

/* ---- start and end ---- */

int rsk_quota_take_open(struct rsk_quota_take *t, struct event_base *base, struct rsk_etcd *etcd,
			struct rsk_quota_lease *lease, const struct rsk_member *member,
			const char *prefix)
{
	*t = (struct rsk_quota_take){ .etcd = etcd, .lease = lease, .member = member };
	snprintf(t->prefix, sizeof(t->prefix), "%s", prefix);
	if (!rsk_quota_escape(member->self->node, t->node))
		return -ENOMEM; /* no name is that long: member_self.h */
	memcpy(t->run, member->self->id, sizeof(t->run));
	snprintf(t->capacity_head, sizeof(t->capacity_head), "%s/ledger/capacity/", prefix);
	t->remotes = (struct rsk_quota_remotes){ .own = t->node, .head = strlen(t->capacity_head) };
	return rsk_range_watch_open(&t->watch, base, etcd, t->capacity_head,
				    &rsk_quota_remotes_watched, &t->remotes);
}

void rsk_quota_take_close(struct rsk_quota_take *t)
{
	rsk_etcd_cancel(t->call);
	t->call = NULL;
	rsk_range_watch_close(&t->watch);
	rsk_quota_remotes_fini(&t->remotes);
}

/* ---- for operators ---- */

json_t *rsk_quota_take_list(const struct rsk_quota_take *t)
{
	json_t *out = json_array();
	char name[2 * RSK_QUOTA_NAME];

	for (const struct rsk_quota_remote *r = t->remotes.remotes; r; r = r->hh.next) {
		if (r->is_own)
			continue;
		snprintf(name, sizeof(name), "%s", r->tail);
		rsk_document_clean(name);
		json_array_append_new(
			out,
			json_pack("{s:s,s:b,s:s?,s:I,s:I,s:I,s:I}", "rnic", name, "readable",
				  (int)r->is_readable, "state",
				  r->is_readable ? rsk_quota_state_name(r->offer.state) : NULL,
				  "offered", (json_int_t)r->offer.sessions, "quota",
				  (json_int_t)r->q.held, "used", (json_int_t)r->q.used, "published",
				  (json_int_t)rsk_quota_remotes_published(&t->remotes, r)));
	}
	return out;
}
