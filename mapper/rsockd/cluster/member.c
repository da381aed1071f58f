// SPDX-License-Identifier: BSD-2-Clause
/*
 * member.c - see member.h. One step at a time: without a lease one is asked for; when a third of
 * its time is over it is kept alive; when the entry is not in etcd, or says something else than it
 * should, it is written. Each third time that the lease is kept alive the entry is looked at as
 * well, since somebody may have deleted it. Whatever fails, the same step is tried again, after a
 * while that grows.
 */
#include "member.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "clock.h"
#include "member_json.h"
#include "random.h"
#include "say.h"

#define MS 1000000ull
#define SECOND_NS (1000 * MS)
/* The entry comes with an answer that says that it is another's */
#define ANSWER_MOST (2 * RSK_MEMBER_BYTES)
#define SMALL_MOST 8192u
/*
 * Changes that come together are written together; and a new document is a change of all hosts, so
 * each waits for up to two seconds, by chance.
 */
#define SETTLE_NS (200 * MS)
#define SETTLE_MOST_NS (2 * SECOND_NS)
#define REVOKE_NS (200 * MS)
#define RENEWALS 3u

static void step(struct rsk_member *m);

static void after_ns(struct rsk_member *m, uint64_t ns)
{
	const struct timeval tv = { .tv_sec = (time_t)(ns / SECOND_NS),
				    .tv_usec = (suseconds_t)(ns % SECOND_NS / 1000) };

	event_add(m->timer, &tv);
}

bool rsk_member_is_registered(const struct rsk_member *m)
{
	return m->written && rsk_clock_ns() < m->valid_until_ns;
}

/* ---- what becomes of a step ---- */

static void succeeded(struct rsk_member *m)
{
	m->failures = 0;
	if (m->write_failures)
		return; /* why is not over */
	m->is_told = m->is_told && m->conflicts;
	if (!m->conflicts)
		*m->why = 0;
}

static void forget_lease(struct rsk_member *m)
{
	free(m->written);
	m->written = NULL;
	m->lease = m->held = 0;
}

/* That etcd is not reached is logged by document.c. */
static void tell(struct rsk_member *m, int rc, const char *why)
{
	snprintf(m->why, sizeof(m->why), "%s", why);
	rsk_document_clean(m->why);
	if (rc != -EHOSTUNREACH && rc != -ETIMEDOUT && !m->is_told) {
		m->is_told = true;
		rsk_say("this host%s among the cluster's members: %s",
			m->written ? "'s entry is not up to date" : " is not entered", m->why);
	}
}

static void failed(struct rsk_member *m, int rc, const char *why)
{
	tell(m, rc, why);
	after_ns(m, rsk_backoff_ns(++m->failures, rsk_random_u64()));
}

/* etcd may have no space for the entry; the lease is to be kept alive all the same, and in time. */
static void not_written(struct rsk_member *m, int rc, const char *why)
{
	uint64_t now = rsk_clock_ns(), wait = rsk_backoff_ns(++m->write_failures, rsk_random_u64());
	uint64_t left = m->renew_ns > now ? m->renew_ns - now : 0;

	tell(m, rc, why);
	after_ns(m, wait < left ? wait : left);
}

/*
 * The lease is gone, and the next step asks for another one: at once, unless this one was of no use
 * either.
 */
static void lapsed(struct rsk_member *m)
{
	bool was_entered = m->written != NULL;

	m->count.lapses++;
	forget_lease(m);
	if (was_entered)
		step(m);
	else
		after_ns(m, rsk_backoff_ns(++m->failures, rsk_random_u64()));
}

/*
 * Another daemon holds the name. It may be a former run of this one, whose lease has not ended yet:
 * so it is logged only if it lasts longer than two leases.
 */
static void yield_to(struct rsk_member *m)
{
	uint64_t now = rsk_clock_ns(), wait;

	free(m->written);
	m->written = NULL;
	m->held = 0;
	if (!m->conflicts++)
		m->conflict_ns = now;
	m->count.conflicts++;
	m->failures = m->write_failures = 0;
	snprintf(m->why, sizeof(m->why),
		 "another daemon holds the name %s; this one is entered when that entry is gone",
		 m->self->node);
	if (now - m->conflict_ns > 2 * m->wanted_ns && !m->is_told) {
		m->is_told = true;
		rsk_say("cluster: %s", m->why);
	}
	wait = rsk_backoff_ns(m->conflicts, rsk_random_u64());
	after_ns(m, wait < m->wanted_ns ? wait : m->wanted_ns);
}

/* The entry is in etcd, with @text, whose ownership is taken. */
static void entered(struct rsk_member *m, char *text)
{
	if (m->conflicts && m->is_told)
		rsk_say("cluster: this host is entered as %s", m->self->node);
	m->conflicts = m->write_failures = 0;
	m->renewals = 0;
	succeeded(m);
	free(m->written);
	m->written = text;
}

/* ---- the lease ---- */

static void take_time(struct rsk_member *m, uint64_t seconds)
{
	m->valid_until_ns = m->begun_ns + seconds * SECOND_NS;
	m->renew_ns = m->begun_ns + seconds * SECOND_NS / 3;
}

/* Converts an answer about the lease. False: it is none, and is dealt with. */
static bool take_lease(struct rsk_member *m, int rc, const json_t *body, const char *why,
		       uint64_t *lease, uint64_t *seconds)
{
	m->call = NULL;
	if (rc == 0) {
		why = "an answer of etcd about a lease is not valid";
		rc = rsk_etcd_take_lease(body, lease, seconds);
		if (rc == 0 && *seconds > UINT32_MAX)
			rc = -EPROTO;
	}
	if (rc == -ENOENT)
		lapsed(m);
	else if (rc < 0)
		failed(m, rc, why);
	return rc == 0;
}

static void on_granted(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_member *m = ctx;
	uint64_t lease, seconds;

	if (!take_lease(m, rc, body, why, &lease, &seconds))
		return;
	if (!seconds) {
		failed(m, -EPROTO, "etcd has granted a lease without time");
		return;
	}
	m->count.grants++;
	m->lease = lease;
	take_time(m, seconds);
	m->renew_ns =
		m->begun_ns + rsk_backoff_first_ns(m->renew_ns - m->begun_ns, rsk_random_u64());
	step(m);
}

static void on_kept(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_member *m = ctx;
	uint64_t lease, seconds;

	if (!take_lease(m, rc, body, why, &lease, &seconds))
		return;
	if (lease != m->lease || !seconds) {
		lapsed(m);
		return;
	}
	m->count.renewals++;
	m->renewals++;
	take_time(m, seconds);
	m->failures = 0; /* of the lease; of the entry there may be others */
	if (m->written || m->conflicts)
		succeeded(m);
	step(m);
}

static void ask(struct rsk_member *m, enum rsk_etcd_method method, json_t *body, size_t most,
		rsk_etcd_done *done)
{
	const struct rsk_etcd_question q = { .method = method,
					     .body = body,
					     .answer_most = most,
					     .limit_ns = m->wanted_ns / 3,
					     .done = done,
					     .ctx = m };

	m->begun_ns = rsk_clock_ns();
	m->call = rsk_etcd_ask(m->etcd, &q);
	if (!m->call)
		failed(m, -ENOMEM, "no memory");
}

/* ---- the entry ---- */

/* The transaction was not executed; @kv is what is there, NULL: nothing. */
static void compare(struct rsk_member *m, const struct rsk_etcd_kv *kv)
{
	bool is_ours = kv && rsk_member_is_of(kv, m->self->id);

	if (kv && !is_ours) {
		yield_to(m);
		return;
	}
	m->held = kv ? kv->mod_revision : 0;
	if (kv && kv->lease == m->lease) {
		/* Written by us; the answer was lost. */
		entered(m, strndup(kv->value, kv->value_bytes));
		step(m);
		return;
	}
	free(m->written);
	m->written = NULL;
	/* Not at once, since it may be deleted again and again. */
	after_ns(m, rsk_backoff_ns(1, rsk_random_u64()));
}

static void on_written(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_member *m = ctx;
	struct rsk_etcd_answer a = { 0 };
	char *text = m->writing;

	m->call = NULL;
	m->writing = NULL;
	if (rc == 0) {
		why = "an answer of etcd about the entry is not valid";
		rc = rsk_etcd_take_txn(body, &a);
	}
	if (rc == -ENOENT) {
		lapsed(m);
	} else if (rc < 0) {
		not_written(m, rc, why);
	} else if (!a.succeeded) {
		compare(m, a.n ? &a.kvs[0] : NULL);
	} else if (text) {
		m->count.writes++;
		m->held = a.revision;
		entered(m, text);
		text = NULL;
		step(m);
	} else {
		m->renewals = m->write_failures = 0;
		succeeded(m);
		step(m);
	}
	rsk_etcd_answer_free(&a);
	free(text);
}

/* Writes @text, whose ownership is taken; NULL: looks whether the entry is as it was left. */
static void write_entry(struct rsk_member *m, char *text)
{
	const struct rsk_etcd_range range = { .key = m->key };
	json_t *txn = rsk_etcd_txn();
	int rc = rsk_etcd_txn_compare(txn, m->key, m->held);

	if (rc == 0 && text)
		rc = rsk_etcd_txn_put(txn, rsk_etcd_put(m->key, text, strlen(text), m->lease));
	if (rc == 0)
		rc = rsk_etcd_txn_else_range(txn, rsk_etcd_range(&range));
	if (rc < 0) {
		json_decref(txn);
		free(text);
		failed(m, rc, "no memory");
		return;
	}
	m->writing = text;
	ask(m, text ? RSK_ETCD_TXN : RSK_ETCD_TXN_READ, txn, ANSWER_MOST, on_written);
}

/* ---- steps ---- */

static void step(struct rsk_member *m)
{
	uint64_t now = rsk_clock_ns();
	char *text;

	if (m->call || m->is_leaving)
		return;
	if (!m->lease) {
		ask(m, RSK_ETCD_LEASE_GRANT, rsk_etcd_lease_grant(m->wanted_ns / SECOND_NS),
		    SMALL_MOST, on_granted);
		return;
	}
	if (now >= m->renew_ns) {
		ask(m, RSK_ETCD_LEASE_KEEPALIVE, rsk_etcd_lease(m->lease), SMALL_MOST, on_kept);
		return;
	}
	text = rsk_member_self_text(m->self);
	if (!text) {
		failed(m, -ENOMEM, "no memory");
	} else if (!m->written || strcmp(text, m->written) != 0) {
		write_entry(m, text);
	} else {
		free(text);
		if (m->renewals >= RENEWALS)
			write_entry(m, NULL);
		else
			after_ns(m, m->renew_ns - now);
	}
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_member *m = arg;

	m->is_hurried = false;
	step(m);
}

void rsk_member_changed(struct rsk_member *m)
{
	uint64_t wait;

	/* After a failure, and beside a call, the entry is built anew anyway. */
	if (!m->written || m->call || m->failures || m->write_failures || m->is_hurried ||
	    m->is_leaving)
		return;
	m->is_hurried = true;
	wait = SETTLE_NS + rsk_random_u64() % (SETTLE_MOST_NS - SETTLE_NS + 1);
	/* Where the lease is to be kept alive before that, the entry is looked at then. */
	if (rsk_clock_ns() + wait < m->renew_ns)
		after_ns(m, wait);
}

/* ---- start and end ---- */

static void on_left(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_member *m = ctx;

	m->call = NULL;
	m->left(m->ctx);
}

static void stop(struct rsk_member *m)
{
	rsk_etcd_cancel(m->call);
	m->call = NULL;
	free(m->writing);
	m->writing = NULL;
	event_del(m->timer);
}

bool rsk_member_leave(struct rsk_member *m, rsk_member_left *left, void *ctx)
{
	const struct rsk_etcd_question q = { .method = RSK_ETCD_LEASE_REVOKE,
					     .body = rsk_etcd_lease(m->lease),
					     .answer_most = SMALL_MOST,
					     .limit_ns = REVOKE_NS,
					     .done = on_left,
					     .ctx = m };

	if (!m->lease || m->failures || m->is_leaving) {
		json_decref(q.body);
		return false;
	}
	stop(m);
	m->is_leaving = true;
	m->left = left;
	m->ctx = ctx;
	m->call = rsk_etcd_ask(m->etcd, &q);
	return m->call != NULL;
}

int rsk_member_open(struct rsk_member *m, struct event_base *base, struct rsk_etcd *etcd,
		    const char *prefix, uint64_t lease_ns, const struct rsk_member_self *self)
{
	*m = (struct rsk_member){ .base = base, .etcd = etcd, .self = self, .wanted_ns = lease_ns };
	snprintf(m->key, sizeof(m->key), "%s/members/%s", prefix, self->node);
	m->timer = evtimer_new(base, on_timer, m);
	if (!m->timer)
		return -ENOMEM;
	step(m);
	return 0;
}

void rsk_member_close(struct rsk_member *m)
{
	if (!m->timer)
		return;
	stop(m);
	event_free(m->timer);
	free(m->written);
	m->timer = NULL;
	m->written = NULL;
}
