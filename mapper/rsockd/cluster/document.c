// SPDX-License-Identifier: BSD-2-Clause
/*
 * document.c - see document.h. First the document is read; the answer has the revision of the
 * store, and the watch begins behind it, so that no change is missed. Whatever fails, it is read
 * again, after a while that grows. Beside the watch, the key is looked at now and then, since a
 * watch of which nothing is heard may be dead.
 */
#include "document.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backoff.h"
#include "random.h"
#include "say.h"

#define CHECK_S 10
/* Base64, and what is around it */
#define ANSWER_MOST (RSK_CONF_DOCUMENT_MOST / 3 * 4 + 8192)

static void read_it(struct rsk_document *d);

void rsk_document_clean(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

/* ---- whether etcd is reached ---- */

static void stop(struct rsk_document *d)
{
	rsk_etcd_cancel(d->read);
	rsk_etcd_cancel(d->watch);
	rsk_etcd_cancel(d->check);
	d->read = d->watch = d->check = NULL;
	d->is_watched = false;
	event_del(d->timer);
}

static void after_ns(struct rsk_document *d, uint64_t ns)
{
	const struct timeval tv = { .tv_sec = (time_t)(ns / 1000000000u),
				    .tv_usec = (suseconds_t)(ns % 1000000000u / 1000) };

	event_add(d->timer, &tv);
}

static void reached(struct rsk_document *d)
{
	if (!d->is_reached && (d->was_reached || *d->why_unreached))
		rsk_say("etcd is reached again");
	d->is_reached = d->was_reached = true;
	d->failures = 0;
	*d->why_unreached = 0;
}

/* Reads again later. The first failure of several is logged. */
static void failed(struct rsk_document *d, const char *why)
{
	char line[sizeof(d->why_unreached)];

	snprintf(line, sizeof(line), "%s", why);
	rsk_document_clean(line);
	stop(d);
	if (d->is_reached || !*d->why_unreached) {
		d->count.outages++;
		rsk_say("etcd is not reached: %s; %s", line,
			d->running ? "the last document stays in force" :
				     "this host's own configuration is in force");
	}
	d->is_reached = false;
	memcpy(d->why_unreached, line, sizeof(line));
	after_ns(d, rsk_backoff_ns(++d->failures, rsk_random_u64()));
}

/* ---- a revision ---- */

static void refuse(struct rsk_document *d, uint64_t revision)
{
	rsk_document_clean(d->why_refused);
	if (d->told == revision)
		return;
	d->told = revision;
	d->count.refused++;
	rsk_say("revision %llu of the cluster's document is refused: %s",
		(unsigned long long)revision, d->why_refused);
}

/* @kv NULL: there is no document. */
static void consider(struct rsk_document *d, const struct rsk_etcd_kv *kv)
{
	int rc;

	if (!kv) {
		d->newest = 0;
		*d->why_refused = 0;
		if (d->running) {
			snprintf(d->why_refused, sizeof(d->why_refused),
				 "the document was deleted; the last one stays in force");
			refuse(d, 0);
		}
		return;
	}
	d->newest = kv->mod_revision;
	if (d->newest == d->running) {
		*d->why_refused = 0;
		return;
	}
	rc = d->take(d->ctx, kv->value, kv->value_bytes, true, d->why_refused,
		     sizeof(d->why_refused));
	if (rc < 0) {
		refuse(d, d->newest);
		return;
	}
	*d->why_refused = 0;
	d->running = d->newest;
	d->told = UINT64_MAX;
	d->count.applied++;
	rsk_say("revision %llu of the cluster's document is in force",
		(unsigned long long)d->running);
}

/* ---- the watch ---- */

static void read_again(struct rsk_document *d)
{
	stop(d);
	read_it(d);
}

static void on_event(void *ctx, const json_t *result)
{
	struct rsk_document *d = ctx;
	struct rsk_etcd_answer a = { 0 };
	const struct rsk_etcd_kv *last;

	if (rsk_etcd_take_watch(result, &a) < 0) {
		failed(d, "an event of etcd is not valid");
		return;
	}
	last = a.n ? &a.kvs[a.n - 1] : NULL;
	d->is_watched |= a.created;
	if (last)
		consider(d, last->is_deleted ? NULL : last);
	if (a.canceled && a.compact_revision) {
		d->count.compactions++;
		read_again(d);
	} else if (a.canceled) {
		failed(d, "etcd has ended the watch");
	}
	rsk_etcd_answer_free(&a);
}

static void on_watch_end(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_document *d = ctx;

	d->watch = NULL;
	if (rc == -EFBIG)
		read_again(d);
	else
		failed(d, why);
}

static void watch_from(struct rsk_document *d, uint64_t revision)
{
	const struct rsk_etcd_question q = { .method = RSK_ETCD_WATCH,
					     .body = rsk_etcd_watch(d->current, false, revision),
					     .answer_most = ANSWER_MOST,
					     .done = on_watch_end,
					     .event = on_event,
					     .ctx = d };

	d->watch = rsk_etcd_ask(d->etcd, &q);
	if (d->watch)
		after_ns(d, CHECK_S * 1000000000ull);
	else
		failed(d, "no memory");
}

/* ---- reading ---- */

static struct rsk_etcd_call *ask(struct rsk_document *d, bool keys_only, rsk_etcd_done *done)
{
	const struct rsk_etcd_range range = { .key = d->current, .keys_only = keys_only };
	const struct rsk_etcd_question q = { .method = RSK_ETCD_RANGE,
					     .body = rsk_etcd_range(&range),
					     .answer_most = ANSWER_MOST,
					     .done = done,
					     .ctx = d };
	struct rsk_etcd_call *call = rsk_etcd_ask(d->etcd, &q);

	if (!call)
		failed(d, "no memory");
	return call;
}

/* Converts an answer. Returns 0, or -errno after failed(). */
static int take(struct rsk_document *d, int rc, const json_t *body, const char *why,
		struct rsk_etcd_answer *a)
{
	if (rc == 0) {
		why = "an answer of etcd is not valid";
		rc = rsk_etcd_take_range(body, a);
	}
	if (rc < 0)
		failed(d, why);
	return rc;
}

/* The document is too large to be received; only its revision was asked for. */
static void on_revision(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_document *d = ctx;
	struct rsk_etcd_answer a = { 0 };

	d->read = NULL;
	if (take(d, rc, body, why, &a) < 0)
		return;
	reached(d);
	d->newest = a.n ? a.kvs[0].mod_revision : 0;
	snprintf(d->why_refused, sizeof(d->why_refused), "it is larger than %u bytes",
		 RSK_CONF_DOCUMENT_MOST);
	refuse(d, d->newest);
	watch_from(d, a.revision + 1);
	rsk_etcd_answer_free(&a);
}

static void on_document(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_document *d = ctx;
	struct rsk_etcd_answer a = { 0 };

	d->read = NULL;
	if (rc == -EFBIG) {
		d->read = ask(d, true, on_revision);
		return;
	}
	if (take(d, rc, body, why, &a) < 0)
		return;
	reached(d);
	consider(d, a.n ? &a.kvs[0] : NULL);
	watch_from(d, a.revision + 1);
	rsk_etcd_answer_free(&a);
}

static void read_it(struct rsk_document *d)
{
	d->read = ask(d, false, on_document);
}

static void on_check(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_document *d = ctx;
	struct rsk_etcd_answer a = { 0 };

	d->check = NULL;
	if (take(d, rc, body, why, &a) < 0)
		return;
	if (!d->is_watched)
		failed(d, "etcd has not begun the watch");
	else if ((a.n ? a.kvs[0].mod_revision : 0) != d->newest)
		read_again(d);
	else
		after_ns(d, CHECK_S * 1000000000ull);
	rsk_etcd_answer_free(&a);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_document *d = arg;

	if (d->watch)
		d->check = ask(d, true, on_check);
	else
		read_it(d);
}

void rsk_document_retry(struct rsk_document *d)
{
	/* Not in here, since the caller is changing the configuration; without a watch, anyway. */
	if (*d->why_refused && d->watch) {
		stop(d);
		after_ns(d, 0);
	}
}

/* ---- start and end ---- */

int rsk_document_open(struct rsk_document *d, struct event_base *base, struct rsk_etcd *etcd,
		      const char *prefix, rsk_document_take *take_it, void *ctx)
{
	*d = (struct rsk_document){
		.base = base, .etcd = etcd, .take = take_it, .ctx = ctx, .told = UINT64_MAX
	};
	snprintf(d->current, sizeof(d->current), "%s/config/current", prefix);
	snprintf(d->history, sizeof(d->history), "%s/config/history/", prefix);
	d->timer = evtimer_new(base, on_timer, d);
	if (!d->timer)
		return -ENOMEM;
	read_it(d);
	return 0;
}

void rsk_document_close(struct rsk_document *d)
{
	if (!d->timer)
		return;
	stop(d);
	event_free(d->timer);
	d->timer = NULL;
}
