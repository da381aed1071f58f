// SPDX-License-Identifier: BSD-2-Clause
/*
 * range_watch.c - see range_watch.h. The entries are read, and the watch begins behind the
 * revision of that answer, so that no change is missed. Whatever fails, they are read again, after
 * a while that grows. Beside the watch etcd is asked now and then how many keys there are and which
 * one was changed last, since a watch of which nothing is heard may be dead. An answer that differs
 * from the table may only be ahead of the watch, so the entries are read again at the second one.
 */
#include "range_watch.h"

#include <errno.h>
#include <stdio.h>

#include "backoff.h"
#include "clock.h"
#include "document.h"
#include "random.h"
#include "say.h"

#define SECOND_NS 1000000000ull
#define SUSPECT_S 1
/* A table that was full is read again when there may be room, and so often. */
#define FULL_NS (300 * SECOND_NS)
/* An entry has one or two KiB; some may have all that they are allowed. */
#define ANSWER_MOST (16u << 20)
#define SMALL_MOST 8192u

static void read_all(struct rsk_range_watch *w);

static void after_ns(struct rsk_range_watch *w, uint64_t ns)
{
	const struct timeval tv = { .tv_sec = (time_t)(ns / SECOND_NS),
				    .tv_usec = (suseconds_t)(ns % SECOND_NS / 1000) };

	event_add(w->timer, &tv);
}

/* ---- whether it works ---- */

static void stop(struct rsk_range_watch *w)
{
	rsk_etcd_cancel(w->read);
	rsk_etcd_cancel(w->watch);
	rsk_etcd_cancel(w->check);
	w->read = w->watch = w->check = NULL;
	w->is_in_sync = w->is_suspect = false;
	event_del(w->timer);
}

/* Reads again later. That etcd is not reached is logged by document.c. */
static void failed(struct rsk_range_watch *w, int rc, const char *why)
{
	if (w->is_in_sync || !*w->why)
		w->count.outages++;
	stop(w);
	snprintf(w->why, sizeof(w->why), "%s", why);
	rsk_document_clean(w->why);
	if (rc != -EHOSTUNREACH && rc != -ETIMEDOUT && !w->is_told) {
		w->is_told = true;
		rsk_say("the %s of the cluster's hosts are not watched: %s", w->to->what, w->why);
	}
	after_ns(w, rsk_backoff_ns(++w->failures, rsk_random_u64()));
}

static void changed(struct rsk_range_watch *w)
{
	if (w->to->changed)
		w->to->changed(w->table);
}

static void read_again(struct rsk_range_watch *w)
{
	stop(w);
	read_all(w);
}

/* ---- the watch ---- */

/* Returns 0, or -ENOMEM after failed(). */
static int take_all(struct rsk_range_watch *w, const struct rsk_etcd_answer *a,
		    int (*put)(void *table, const struct rsk_etcd_kv *kv))
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < a->n; i++)
		rc = put(w->table, &a->kvs[i]);
	if (rc < 0)
		failed(w, rc, "no memory");
	return rc;
}

static void on_event(void *ctx, const json_t *result)
{
	struct rsk_range_watch *w = ctx;
	struct rsk_etcd_answer a = { 0 };
	int rc = rsk_etcd_take_watch(result, &a);

	if (rc < 0) {
		failed(w, rc, "an event of etcd is not valid");
		return;
	}
	w->count.events += a.n;
	for (size_t i = 0; i < a.n; i++)
		w->has_room |= a.kvs[i].is_deleted;
	if (take_all(w, &a, w->to->event) < 0) {
		rsk_etcd_answer_free(&a);
		return;
	}
	if (a.revision > w->revision)
		w->revision = a.revision;
	if (a.created && !a.canceled) {
		w->is_in_sync = true;
		w->is_told = false;
		w->failures = 0;
		*w->why = 0;
	}
	if (a.n)
		changed(w);
	if (a.canceled && a.compact_revision) {
		w->count.compactions++;
		read_again(w);
	} else if (a.canceled) {
		failed(w, -EREMOTEIO, "etcd has ended the watch");
	}
	rsk_etcd_answer_free(&a);
}

static void on_watch_end(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_range_watch *w = ctx;

	w->watch = NULL;
	if (rc == -EFBIG)
		read_again(w);
	else
		failed(w, rc, why);
}

static void watch(struct rsk_range_watch *w)
{
	const struct rsk_etcd_question q = { .method = RSK_ETCD_WATCH,
					     .body = rsk_etcd_watch(w->head, true, w->revision + 1),
					     .answer_most = ANSWER_MOST,
					     .done = on_watch_end,
					     .event = on_event,
					     .ctx = w };

	w->watch = rsk_etcd_ask(w->etcd, &q);
	if (w->watch)
		after_ns(w, rsk_backoff_first_ns(RSK_BACKOFF_LOOK_NS, rsk_random_u64()));
	else
		failed(w, -ENOMEM, "no memory");
}

/* ---- reading ---- */

static struct rsk_etcd_call *ask(struct rsk_range_watch *w, const struct rsk_etcd_range *range,
				 size_t most, rsk_etcd_done *done)
{
	const struct rsk_etcd_question q = { .method = RSK_ETCD_RANGE,
					     .body = rsk_etcd_range(range),
					     .answer_most = most,
					     .done = done,
					     .ctx = w };
	struct rsk_etcd_call *call = rsk_etcd_ask(w->etcd, &q);

	if (!call)
		failed(w, -ENOMEM, "no memory");
	return call;
}

/* Converts an answer. Returns 0, or -errno after failed(). */
static int take(struct rsk_range_watch *w, int rc, const json_t *body, const char *why,
		struct rsk_etcd_answer *a)
{
	if (rc == 0) {
		why = "an answer of etcd is not valid";
		rc = rsk_etcd_take_range(body, a);
	}
	if (rc < 0)
		failed(w, rc, why);
	return rc;
}

static void on_read(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_range_watch *w = ctx;
	struct rsk_etcd_answer a = { 0 };

	w->read = NULL;
	if (take(w, rc, body, why, &a) < 0)
		return;
	w->count.reads++;
	w->to->begin(w->table);
	if (take_all(w, &a, w->to->put) == 0) {
		w->to->end(w->table, a.count > a.n);
		w->read_ns = rsk_clock_ns();
		w->has_room = false;
		w->revision = a.revision;
		watch(w);
		changed(w);
	}
	rsk_etcd_answer_free(&a);
}

static void read_all(struct rsk_range_watch *w)
{
	const struct rsk_etcd_range range = { .key = w->head,
					      .is_prefix = true,
					      .limit = w->to->keys_most };

	w->read = ask(w, &range, ANSWER_MOST, on_read);
}

static bool differs(const struct rsk_range_watch *w, const struct rsk_etcd_answer *a)
{
	if (w->to->is_full(w->table))
		return w->has_room || rsk_clock_ns() - w->read_ns >= FULL_NS;
	return a->count != w->to->keys(w->table) ||
	       (a->n ? a->kvs[0].mod_revision : 0) != w->to->newest(w->table);
}

static void on_check(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_range_watch *w = ctx;
	struct rsk_etcd_answer a = { 0 };

	w->check = NULL;
	if (take(w, rc, body, why, &a) < 0)
		return;
	if (!w->is_in_sync) {
		failed(w, -EREMOTEIO, "etcd has not begun the watch");
	} else if (rsk_etcd_was_left(w->watch)) {
		read_again(w); /* its endpoint may be cut off from the others */
	} else if (!differs(w, &a)) {
		w->is_suspect = false;
		after_ns(w, rsk_backoff_look_ns(a.count));
	} else if (!w->is_suspect) {
		w->is_suspect = true;
		after_ns(w, SUSPECT_S * SECOND_NS);
	} else {
		read_again(w);
	}
	rsk_etcd_answer_free(&a);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_range_watch *w = arg;
	const struct rsk_etcd_range range = { .key = w->head,
					      .is_prefix = true,
					      .last_changed = true,
					      .keys_only = true,
					      .limit = 1 };

	if (w->watch)
		w->check = ask(w, &range, SMALL_MOST, on_check);
	else
		read_all(w);
}

/* ---- start and end ---- */

int rsk_range_watch_open(struct rsk_range_watch *w, struct event_base *base, struct rsk_etcd *etcd,
			 const char *head, const struct rsk_range_table *to, void *table)
{
	*w = (struct rsk_range_watch){ .etcd = etcd, .head = head, .to = to, .table = table };
	w->timer = evtimer_new(base, on_timer, w);
	if (!w->timer)
		return -ENOMEM;
	read_all(w);
	return 0;
}

void rsk_range_watch_close(struct rsk_range_watch *w)
{
	if (!w->timer)
		return;
	stop(w);
	event_free(w->timer);
	w->timer = NULL;
}
