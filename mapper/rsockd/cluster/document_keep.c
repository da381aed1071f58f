// SPDX-License-Identifier: BSD-2-Clause
/*
 * document_keep.c - see document_keep.h. The file is written when the document changes, when it
 * expires, at the end, and now and then between, so that its age is right to a part of the time
 * that is allowed, whatever becomes of the clocks of this host.
 */
#include "document_keep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/clock.h>

#include "clock.h"
#include "say.h"

#define SECOND_NS 1000000000ull
#define RETRY_NS (5 * SECOND_NS)
#define REFRESH_MOST_NS (600 * SECOND_NS)
#define REFRESH_PART 16u

/* ---- ages ---- */

static uint64_t age_ns(const struct rsk_document_age *a)
{
	uint64_t now = rsk_time_ns(CLOCK_BOOTTIME), sum;

	if (__builtin_add_overflow(a->ns, now - a->at_ns, &sum))
		return RSK_DOCUMENT_AGE_UNKNOWN;
	return sum;
}

static struct rsk_document_age age_from(uint64_t ns)
{
	return (struct rsk_document_age){ .ns = ns, .at_ns = rsk_time_ns(CLOCK_BOOTTIME) };
}

uint64_t rsk_document_keep_last_contact_ns(const struct rsk_document_keep *k)
{
	return age_ns(&k->last_contact);
}

bool rsk_document_keep_is_over(const struct rsk_document_keep *k)
{
	return k->expire_ns != UINT64_MAX && age_ns(&k->age) >= k->expire_ns;
}

static struct rsk_document_clock clock_of(const struct rsk_document_keep *k)
{
	struct rsk_document_clock c = { .boottime_ns = rsk_time_ns(CLOCK_BOOTTIME),
					.time_ns = rsk_time_ns(CLOCK_REALTIME) };

	memcpy(c.boot_id, k->boot_id, 16);
	return c;
}

/* ---- the file ---- */

static bool may_write(const struct rsk_document_keep *k)
{
	return k->file.disk && k->file.disk->is_started;
}

static int encode(const struct rsk_document_keep *k, uint8_t **bytes, size_t *n)
{
	const struct rsk_document_clock clock = clock_of(k);
	const struct rsk_document_file f = { .cluster = k->cluster,
					     .cluster_bytes = k->cluster_bytes,
					     .revision = k->revision,
					     .age_ns = age_ns(&k->age),
					     .text = k->text,
					     .bytes = k->bytes };

	return rsk_document_file_encode(&f, &clock, bytes, n);
}

static void note_result(struct rsk_document_keep *k, int rc)
{
	if (rc < 0 && k->why_not != -rc)
		rsk_say("%s/" RSK_DOCUMENT_KEEP_FILE " cannot be written: %s", k->file.disk->path,
			strerror(-rc));
	k->why_not = rc < 0 ? -rc : 0;
	k->failures += rc < 0;
	if (rc < 0)
		k->is_dirty = true; /* the timer tries again */
	else
		k->on_disk = k->handed;
}

/* If the writer is busy, on_done() tries again. */
static void write_file(struct rsk_document_keep *k)
{
	uint8_t *bytes;
	size_t n;

	k->is_dirty = true;
	if (!may_write(k) || k->file.is_busy || encode(k, &bytes, &n) < 0)
		return;
	if (!rsk_disk_write(&k->file, bytes, n)) {
		free(bytes);
		return;
	}
	k->is_dirty = false;
	k->handed = k->revision;
	k->handed_ns = rsk_time_ns(CLOCK_BOOTTIME);
}

/* ---- the timer ---- */

/* How often the age is written. */
static uint64_t refresh_ns(const struct rsk_document_keep *k)
{
	uint64_t part = k->expire_ns / REFRESH_PART;

	if (part > REFRESH_MOST_NS)
		return REFRESH_MOST_NS;
	return part < SECOND_NS ? SECOND_NS : part;
}

static uint64_t left(uint64_t all, uint64_t gone)
{
	return gone < all ? all - gone : 0;
}

/* @least_ns: not before; for what has just failed. */
static void arm(struct rsk_document_keep *k, uint64_t least_ns)
{
	uint64_t ns = UINT64_MAX, one;
	struct timeval tv;

	if (k->is_dirty && may_write(k))
		ns = k->why_not ? RETRY_NS : SECOND_NS;
	if (k->is_in_force && k->expire_ns != UINT64_MAX) {
		one = left(k->expire_ns, age_ns(&k->age));
		ns = one < ns ? one : ns;
	}
	if (k->is_in_force && k->revision && may_write(k) && !k->is_dirty) {
		one = left(refresh_ns(k), rsk_time_ns(CLOCK_BOOTTIME) - k->handed_ns);
		ns = one < ns ? one : ns;
	}
	if (ns == UINT64_MAX) {
		event_del(k->timer);
		return;
	}
	/* The clock of ages goes on while the host is suspended, that of timers does not. */
	if (ns > REFRESH_MOST_NS)
		ns = REFRESH_MOST_NS;
	if (ns < least_ns)
		ns = least_ns;
	ns += 1000; /* rounded up, so that a time is over when its timer is */
	tv.tv_sec = (time_t)(ns / SECOND_NS);
	tv.tv_usec = (suseconds_t)(ns % SECOND_NS / 1000);
	event_add(k->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_document_keep *k = arg;
	bool failed = false;

	if (k->is_in_force && rsk_document_keep_is_over(k)) {
		failed = k->expired(k->ctx) < 0;
		if (!failed)
			rsk_document_keep_leave(k);
	}
	if (k->is_dirty || (k->is_in_force && k->revision &&
			    rsk_time_ns(CLOCK_BOOTTIME) - k->handed_ns >= refresh_ns(k)))
		write_file(k);
	arm(k, failed ? RETRY_NS : 0);
}

static void on_done(void *ctx, int rc)
{
	struct rsk_document_keep *k = ctx;

	note_result(k, rc);
	if (k->is_dirty && !k->why_not)
		write_file(k);
	arm(k, 0);
}

/* ---- what is in force ---- */

static void forget_text(struct rsk_document_keep *k)
{
	free(k->text);
	k->text = NULL;
	k->bytes = 0;
	k->revision = 0;
}

static int take_text(struct rsk_document_keep *k, uint64_t revision, const char *text, size_t bytes)
{
	char *copy = malloc(bytes + 1);

	forget_text(k);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, bytes);
	k->text = copy;
	k->bytes = bytes;
	k->revision = revision;
	return 0;
}

static void changed(struct rsk_document_keep *k)
{
	write_file(k);
	arm(k, 0);
}

void rsk_document_keep_heard(struct rsk_document_keep *k)
{
	k->last_contact = age_from(0);
	if (k->is_in_force)
		k->age = k->last_contact;
}

void rsk_document_keep_put(struct rsk_document_keep *k, uint64_t revision, const char *text,
			   size_t bytes)
{
	if (take_text(k, revision, text, bytes) < 0)
		rsk_say("no memory to keep the cluster's document");
	k->is_in_force = true;
	rsk_document_keep_heard(k);
	changed(k);
}

bool rsk_document_keep_is(const struct rsk_document_keep *k, uint64_t revision, const char *text,
			  size_t bytes)
{
	return k->text && k->revision == revision && k->bytes == bytes &&
	       memcmp(k->text, text, bytes) == 0;
}

void rsk_document_keep_use(struct rsk_document_keep *k)
{
	k->is_in_force = true;
	arm(k, 0);
}

void rsk_document_keep_forget(struct rsk_document_keep *k)
{
	if (!k->revision)
		return;
	forget_text(k);
	changed(k);
}

void rsk_document_keep_leave(struct rsk_document_keep *k)
{
	k->is_in_force = false;
	changed(k);
}

/* ---- start and end ---- */

int rsk_document_keep_load(struct rsk_document_keep *k, const char **why)
{
	const struct rsk_document_clock clock = clock_of(k);
	struct rsk_document_file f = { .cluster = k->cluster, .cluster_bytes = k->cluster_bytes };
	uint8_t *bytes;
	size_t n;
	int rc;

	*why = NULL;
	if (k->file.disk->dir < 0)
		return 0;
	rc = rsk_disk_read(k->file.disk, RSK_DOCUMENT_KEEP_FILE, RSK_DOCUMENT_FILE_MOST, &bytes,
			   &n);
	if (rc == 0)
		rc = rsk_document_file_decode(bytes, n, &clock, &f, why);
	if (rc < 0 && !*why)
		*why = strerror(-rc);
	if (rc == 0 && f.revision) {
		rc = take_text(k, f.revision, f.text, f.bytes);
		*why = "no memory";
		k->age = k->last_contact = age_from(f.age_ns);
		k->on_disk = k->revision;
	}
	free(bytes);
	if (rc == 0 && k->revision && rsk_document_keep_is_over(k))
		return -ETIME;
	return rc == -ENOENT ? 0 : rc;
}

/* The prefix and the endpoints, which all have their limits. */
static void name_cluster(struct rsk_document_keep *k, const struct rsk_conf_cluster *conf)
{
	size_t room = sizeof(k->cluster);

	k->cluster_bytes = (size_t)snprintf(k->cluster, room, "%s\n", conf->prefix);
	for (size_t i = 0; i < conf->n_endpoints && k->cluster_bytes < room; i++)
		k->cluster_bytes += (size_t)snprintf(k->cluster + k->cluster_bytes,
						     room - k->cluster_bytes, "%s\n",
						     conf->endpoints[i].url);
	if (k->cluster_bytes >= room)
		k->cluster_bytes = room - 1;
}

int rsk_document_keep_open(struct rsk_document_keep *k, struct event_base *base,
			   struct rsk_disk *disk, const struct rsk_conf_cluster *conf,
			   rsk_document_expired *expired, void *ctx)
{
	*k = (struct rsk_document_keep){ .expired = expired,
					 .ctx = ctx,
					 .expire_ns = conf->expire_ns,
					 .why_not = disk->why_not };
	k->age = k->last_contact = age_from(0);
	name_cluster(k, conf);
	rsk_clock_boot_id(k->boot_id);
	k->timer = evtimer_new(base, on_timer, k);
	if (!k->timer)
		return -ENOMEM;
	k->file = (struct rsk_disk_file){ .name = RSK_DOCUMENT_KEEP_FILE,
					  .new_name = RSK_DOCUMENT_KEEP_FILE ".new",
					  .done = on_done,
					  .ctx = k };
	rsk_disk_add(disk, &k->file);
	return 0;
}

void rsk_document_keep_close(struct rsk_document_keep *k)
{
	uint8_t *bytes;
	size_t n;

	if (!k->timer)
		return;
	if (may_write(k) && (k->is_dirty || (k->is_in_force && k->revision)) &&
	    encode(k, &bytes, &n) == 0) {
		k->handed = k->revision;
		note_result(k, rsk_disk_write_last(&k->file, bytes, n));
		free(bytes);
	}
	event_free(k->timer);
	free(k->text);
	*k = (struct rsk_document_keep){ 0 };
}
