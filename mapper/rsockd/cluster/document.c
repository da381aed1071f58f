// SPDX-License-Identifier: BSD-2-Clause
/*
 * document.c - see document.h. First the document is read; the answer has the revision of the
 * store, and the watch begins behind it, so that no change is missed. Whatever fails, it is read
 * again, after a while that grows. Beside the watch, the key is looked at now and then, since a
 * watch of which nothing is heard may be dead, or be at a node that is cut off from the others.
 */
#include "document.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backoff.h"
#include "random.h"
#include "say.h"

#define SECOND_NS 1000000000ull
#define CHECK_MOST_NS (10 * SECOND_NS)
#define CHECK_PART 3u /* of the time after which a document expires */
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
	d->is_watched = d->is_settled = false;
	event_del(d->timer);
}

static void after_ns(struct rsk_document *d, uint64_t ns)
{
	const struct timeval tv = { .tv_sec = (time_t)(ns / SECOND_NS),
				    .tv_usec = (suseconds_t)(ns % SECOND_NS / 1000) };

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
			!d->running ? "this host's own configuration is in force" :
			d->keep.expire_ns == UINT64_MAX ?
				      "the last document stays in force" :
				      "the last document stays in force until it expires");
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

/*
 * Puts this host's own configuration in force alone. Its file was valid when it was read, but the
 * host's devices may have changed since. Returns 0, or -errno: the document stays in force.
 */
static int leave(struct rsk_document *d)
{
	char error[400];
	int rc = d->take(d->ctx, NULL, 0, true, error, sizeof(error));

	if (rc == 0) {
		*d->why_refused = 0;
		d->running = 0;
		d->is_stuck = false;
		return 0;
	}
	snprintf(d->why_refused, sizeof(d->why_refused),
		 "the document stays in force, since this host's own configuration is wrong: %s",
		 error);
	rsk_document_clean(d->why_refused);
	if (!d->is_stuck)
		rsk_say("%s", d->why_refused);
	d->is_stuck = true;
	return rc;
}

/* etcd has said what the document is. */
static void answered(struct rsk_document *d, uint64_t revision)
{
	d->is_from_disk = d->is_expired = d->is_stuck = false;
	d->newest = revision;
}

/* What is refused leaves nothing for the next start, if nothing is in force. */
static void refuse_newest(struct rsk_document *d)
{
	refuse(d, d->newest);
	if (!d->running)
		rsk_document_keep_forget(&d->keep);
}

/*
 * There is no document. A deletion is no order: what is in force stays so, unless it is known from
 * the disk only.
 */
static void consider_none(struct rsk_document *d)
{
	bool is_from_disk = d->is_from_disk;

	answered(d, 0);
	*d->why_refused = 0;
	rsk_document_keep_forget(&d->keep);
	if (!d->running)
		return;
	if (is_from_disk) {
		if (leave(d) == 0) {
			rsk_document_keep_leave(&d->keep);
			rsk_say("the cluster has no document any more; this host's own "
				"configuration is in force");
		} else {
			d->is_from_disk = true; /* once more at the next answer */
		}
		return;
	}
	snprintf(d->why_refused, sizeof(d->why_refused),
		 "the document was deleted; the last one stays in force");
	refuse(d, 0);
}

/* @kv NULL: there is no document. */
static void consider(struct rsk_document *d, const struct rsk_etcd_kv *kv)
{
	int rc;

	if (!kv) {
		consider_none(d);
		return;
	}
	answered(d, kv->mod_revision);
	/* An etcd that has lost its data gives the same numbers to other documents. */
	if (d->newest == d->running &&
	    rsk_document_keep_is(&d->keep, d->newest, kv->value, kv->value_bytes)) {
		*d->why_refused = 0;
		return;
	}
	rc = d->take(d->ctx, kv->value, kv->value_bytes, true, d->why_refused,
		     sizeof(d->why_refused));
	if (rc < 0) {
		refuse_newest(d);
		return;
	}
	*d->why_refused = 0;
	d->running = d->newest;
	d->told = UINT64_MAX;
	d->count.applied++;
	rsk_document_keep_put(&d->keep, d->running, kv->value, kv->value_bytes);
	rsk_say("revision %llu of the cluster's document is in force",
		(unsigned long long)d->running);
}

/* ---- without etcd ---- */

static int on_expired(void *ctx)
{
	struct rsk_document *d = ctx;
	uint64_t revision = d->running;
	int rc = leave(d);

	if (rc < 0)
		return rc;
	d->is_from_disk = false;
	d->is_expired = true;
	d->count.expirations++;
	rsk_say("etcd was not heard for %llu s: revision %llu of the cluster's document has "
		"expired; this host's own configuration is in force",
		(unsigned long long)(d->keep.expire_ns / SECOND_NS), (unsigned long long)revision);
	return 0;
}

static void use_kept(struct rsk_document *d)
{
	const struct rsk_document_keep *k = &d->keep;

	d->is_from_disk = true;
	d->newest = k->revision;
	if (d->take(d->ctx, k->text, k->bytes, true, d->why_refused, sizeof(d->why_refused)) < 0) {
		refuse(d, d->newest);
		return;
	}
	*d->why_refused = 0;
	d->running = d->newest;
	d->told = UINT64_MAX;
	rsk_document_keep_use(&d->keep);
	rsk_say("revision %llu of the cluster's document, which was kept, is in force until etcd "
		"is reached",
		(unsigned long long)d->running);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_document *d = arg;

	if (d->is_from_disk && !d->running && !rsk_document_keep_is_over(&d->keep))
		use_kept(d);
}

void rsk_document_start(struct rsk_document *d)
{
	const char *why;
	int rc = rsk_document_keep_load(&d->keep, &why);

	if (rc == 0 && d->keep.revision) {
		use_kept(d);
	} else if (rc == -ETIME) {
		d->is_expired = true;
		rsk_say("revision %llu of the cluster's document, which was kept, has expired%s; "
			"this host's own configuration is in force",
			(unsigned long long)d->keep.revision,
			rsk_document_keep_last_contact_ns(&d->keep) == RSK_DOCUMENT_AGE_UNKNOWN ?
				", since the time of day was set back" :
				"");
	} else if (rc < 0) {
		rsk_say("%s/" RSK_DOCUMENT_KEEP_FILE ": %s: it is not used",
			d->keep.file.disk->path, why);
	}
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
	rsk_document_keep_heard(&d->keep);
	last = a.n ? &a.kvs[a.n - 1] : NULL;
	d->is_watched |= a.created;
	/*
	 * What is older, a document or a deletion, is taken from an answer only: etcd has another
	 * store then.
	 */
	if (last && last->mod_revision > d->seen) {
		d->seen = last->mod_revision;
		consider(d, last->is_deleted ? NULL : last);
	}
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
	if (rc == -EFBIG) {
		read_again(d);
	} else if (!d->was_short) {
		/* Perhaps that node has ended only. Reading shows whether etcd is reached. */
		d->was_short = !d->is_settled;
		stop(d);
		after_ns(d, rsk_backoff_ns(1, rsk_random_u64()));
	} else {
		failed(d, why);
	}
}

static void watch_from(struct rsk_document *d, uint64_t revision)
{
	const struct rsk_etcd_question q = { .method = RSK_ETCD_WATCH,
					     .body = rsk_etcd_watch(d->current, false, revision),
					     .answer_most = ANSWER_MOST,
					     .done = on_watch_end,
					     .event = on_event,
					     .ctx = d };

	d->seen = revision - 1;
	d->watch = rsk_etcd_ask(d->etcd, &q);
	if (d->watch)
		after_ns(d, rsk_backoff_first_ns(d->check_ns, rsk_random_u64()));
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
	else
		rsk_document_keep_heard(&d->keep);
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
	answered(d, a.n ? a.kvs[0].mod_revision : 0);
	snprintf(d->why_refused, sizeof(d->why_refused), "it is larger than %u bytes",
		 RSK_CONF_DOCUMENT_MOST);
	refuse_newest(d);
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
	if (!d->is_watched) {
		failed(d, "etcd has not begun the watch");
	} else if ((a.n ? a.kvs[0].mod_revision : 0) != d->newest || d->is_expired ||
		   rsk_etcd_was_left(d->watch)) {
		read_again(d);
	} else {
		d->is_settled = true;
		d->was_short = false;
		after_ns(d, d->check_ns);
	}
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
	if (d->is_from_disk && !d->running)
		event_active(d->again, EV_TIMEOUT, 0);
}

/* ---- start and end ---- */

int rsk_document_open(struct rsk_document *d, struct event_base *base, struct rsk_etcd *etcd,
		      struct rsk_disk *disk, const struct rsk_conf_cluster *conf,
		      rsk_document_take *take_it, void *ctx)
{
	uint64_t part = conf->expire_ns / CHECK_PART;

	*d = (struct rsk_document){ .base = base,
				    .etcd = etcd,
				    .take = take_it,
				    .ctx = ctx,
				    .told = UINT64_MAX,
				    .history_most = conf->history_most,
				    .check_ns = part < CHECK_MOST_NS ? part : CHECK_MOST_NS };
	snprintf(d->current, sizeof(d->current), "%s/config/current", conf->prefix);
	snprintf(d->history, sizeof(d->history), "%s/config/history/", conf->prefix);
	d->timer = evtimer_new(base, on_timer, d);
	d->again = evtimer_new(base, on_again, d);
	if (!d->timer || !d->again ||
	    rsk_document_keep_open(&d->keep, base, disk, conf, on_expired, d) < 0)
		return -ENOMEM;
	read_it(d);
	return 0;
}

void rsk_document_close(struct rsk_document *d)
{
	if (d->timer) {
		stop(d);
		event_free(d->timer);
	}
	if (d->again)
		event_free(d->again);
	rsk_document_keep_close(&d->keep);
	d->timer = d->again = NULL;
}
