// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_document_keep.c - tests how long the cluster's document is in force without etcd, over
 * restarts and boots, with a real file, and with clocks that the test sets.
 */
#include "document_keep.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "say.h"

#define S 1000000000ull
#define HOUR (3600 * S)
#define TEXT "services: []\n"

static struct {
	uint64_t boottime_ns, time_ns;
	uint8_t boot;
} clocks;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	uint64_t ns = clock == CLOCK_BOOTTIME ? clocks.boottime_ns : clocks.time_ns;

	if (clock != CLOCK_BOOTTIME && clock != CLOCK_REALTIME)
		return __real_clock_gettime(clock, out);
	*out = (struct timespec){ .tv_sec = (time_t)(ns / S), .tv_nsec = (long)(ns % S) };
	return 0;
}

void rsk_clock_boot_id(uint8_t out[static 16])
{
	memset(out, clocks.boot, 16);
}

void rsk_say(const char *format, ...)
{
}

static int no_filter(void)
{
	return 0;
}

static void pass(uint64_t ns)
{
	clocks.boottime_ns += ns;
	clocks.time_ns += ns;
}

/* A daemon's part, from its start to its end, and the answer of on_expired(). */
struct run {
	struct event_base *base;
	struct rsk_disk disk;
	struct rsk_document_keep keep;
	int answer;
	unsigned int expired;
};

static char folder[] = "/tmp/document_keep_XXXXXX";

static int on_expired(void *ctx)
{
	struct run *r = ctx;

	r->expired++;
	return r->answer;
}

static void begin(struct run *r, uint64_t expire_ns)
{
	static struct rsk_conf_endpoint endpoint = { .url = "http://10.0.0.1:1" };
	const struct rsk_conf_cluster conf = {
		.prefix = "/rsock", .endpoints = &endpoint, .n_endpoints = 1, .expire_ns = expire_ns
	};

	*r = (struct run){ .base = event_base_new() };
	cr_assert_eq(rsk_disk_open(&r->disk, r->base, folder), 0);
	cr_assert_eq(rsk_document_keep_open(&r->keep, r->base, &r->disk, &conf, on_expired, r), 0);
	cr_assert_eq(rsk_disk_start(&r->disk, no_filter), 0);
}

static void end(struct run *r)
{
	rsk_disk_stop(&r->disk);
	rsk_document_keep_close(&r->keep);
	rsk_disk_close(&r->disk);
	event_base_free(r->base);
}

/* The timer's time has come, whatever it is. */
static void tick(struct run *r)
{
	event_active(r->keep.timer, EV_TIMEOUT, 0);
	event_base_loop(r->base, EVLOOP_NONBLOCK);
}

static void start(void)
{
	clocks.boottime_ns = 1000 * S;
	clocks.time_ns = 1700000000 * S;
	clocks.boot = 1;
	cr_assert_not_null(mkdtemp(folder));
}

static void finish(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/" RSK_DOCUMENT_KEEP_FILE, folder);
	unlink(path);
	cr_assert_eq(rmdir(folder), 0, "nothing else is left in it");
}

TestSuite(document_keep, .init = start, .fini = finish);

Test(document_keep, expires_when_etcd_is_not_heard)
{
	struct run r;

	begin(&r, HOUR);
	rsk_document_keep_put(&r.keep, 7, TEXT, strlen(TEXT));
	for (int i = 0; i < 3; i++) {
		pass(HOUR - 1);
		tick(&r);
		cr_assert(!r.expired && r.keep.is_in_force);
		rsk_document_keep_heard(&r.keep);
	}
	cr_assert_eq(rsk_document_keep_last_contact_ns(&r.keep), 0);
	pass(HOUR);
	tick(&r);
	cr_assert(r.expired == 1 && !r.keep.is_in_force);
	cr_assert_eq(rsk_document_keep_last_contact_ns(&r.keep), HOUR);
	pass(HOUR);
	tick(&r);
	cr_assert_eq(r.expired, 1, "once");
	rsk_document_keep_put(&r.keep, 8, TEXT, strlen(TEXT));
	pass(HOUR);
	tick(&r);
	cr_assert_eq(r.expired, 2, "another one");
	end(&r);
}

/* The host cannot do without it: it stays in force, and that is tried again. */
Test(document_keep, a_host_that_cannot_leave_it)
{
	struct run r;

	begin(&r, HOUR);
	r.answer = -EINVAL;
	rsk_document_keep_put(&r.keep, 7, TEXT, strlen(TEXT));
	pass(HOUR);
	for (unsigned int i = 1; i <= 3; i++) {
		tick(&r);
		cr_assert(r.expired == i && r.keep.is_in_force);
		cr_assert(event_pending(r.keep.timer, EV_TIMEOUT, NULL));
	}
	r.answer = 0;
	tick(&r);
	cr_assert(r.expired == 4 && !r.keep.is_in_force);
	end(&r);
}

Test(document_keep, lasts)
{
	struct run r;

	begin(&r, UINT64_MAX);
	rsk_document_keep_put(&r.keep, 7, TEXT, strlen(TEXT));
	pass(1000000 * HOUR);
	tick(&r);
	cr_assert(!r.expired && r.keep.is_in_force);
	end(&r);
}

/* What the next run finds: 1: a document in force; 0: one that has expired; -1: none. */
static int found(uint64_t expire_ns, uint64_t age_ns)
{
	const char *why;
	struct run r;
	int rc;

	begin(&r, expire_ns);
	rc = rsk_document_keep_load(&r.keep, &why);
	cr_assert(rc == 0 || rc == -ETIME, "%s", why);
	if (r.keep.revision) {
		cr_assert_eq(r.keep.revision, 7);
		cr_assert_eq(r.keep.bytes, strlen(TEXT));
		cr_assert_eq(memcmp(r.keep.text, TEXT, strlen(TEXT)), 0);
		cr_assert_eq(rsk_document_keep_last_contact_ns(&r.keep), age_ns);
	} else {
		rc = 1;
	}
	if (rc == 0)
		rsk_document_keep_use(&r.keep);
	end(&r);
	return rc == 0 ? 1 : rc == -ETIME ? 0 : -1;
}

static void keep_one(void)
{
	struct run r;

	begin(&r, HOUR);
	rsk_document_keep_put(&r.keep, 7, TEXT, strlen(TEXT));
	end(&r);
}

Test(document_keep, runs_add_up)
{
	keep_one();
	for (unsigned int i = 1; i < 6; i++) {
		pass(HOUR / 6);
		cr_assert_eq(found(HOUR, i * (HOUR / 6)), 1);
		cr_assert_eq(found(HOUR, i * (HOUR / 6)), 1, "a run itself does not change it");
	}
	pass(HOUR / 6);
	cr_assert_eq(found(HOUR, HOUR), 0);
	cr_assert_eq(found(2 * HOUR, HOUR), 1, "a longer time");
	cr_assert_eq(found(UINT64_MAX, HOUR), 1, "no limit");
}

/* A time of day that goes back after each boot hides what has passed since the last write only. */
Test(document_keep, runs_add_up_over_boots)
{
	uint64_t time_ns = clocks.time_ns;

	keep_one();
	for (unsigned int i = 1; i < 4; i++) {
		clocks.boot++;
		clocks.boottime_ns = S;
		clocks.time_ns = time_ns + i * S; /* for example, an RTC without a battery */
		cr_assert_eq(found(HOUR, i * S), 1);
	}
	clocks.time_ns -= 4 * S;
	clocks.boot++;
	cr_assert_eq(found(HOUR, RSK_DOCUMENT_AGE_UNKNOWN), 0, "it was set back");
	cr_assert_eq(found(UINT64_MAX, RSK_DOCUMENT_AGE_UNKNOWN), 1);
	clocks.time_ns = time_ns + 100 * HOUR;
	cr_assert_eq(found(HOUR, RSK_DOCUMENT_AGE_UNKNOWN), 0, "and stays not known");
}

Test(document_keep, the_age_of_a_long_run_is_written)
{
	struct run r;

	begin(&r, HOUR);
	rsk_document_keep_put(&r.keep, 7, TEXT, strlen(TEXT));
	while (r.keep.on_disk != 7)
		event_base_loop(r.base, EVLOOP_ONCE);
	pass(HOUR / 2);
	tick(&r);
	cr_assert(r.keep.file.is_busy, "it is being written");
	while (r.keep.file.is_busy)
		event_base_loop(r.base, EVLOOP_ONCE);
	tick(&r);
	cr_assert(!r.keep.file.is_busy, "not more often than needed");
	/* It is killed, and the host boots with the time of day that it was last written at. */
	r.keep.is_in_force = false;
	end(&r);
	clocks.boot++;
	clocks.boottime_ns = 0;
	cr_assert_eq(found(HOUR, HOUR / 2), 1);
}

Test(document_keep, forgotten)
{
	struct run r;

	begin(&r, HOUR);
	rsk_document_keep_put(&r.keep, 7, TEXT, strlen(TEXT));
	cr_assert(rsk_document_keep_is(&r.keep, 7, TEXT, strlen(TEXT)));
	cr_assert(!rsk_document_keep_is(&r.keep, 8, TEXT, strlen(TEXT)));
	cr_assert(!rsk_document_keep_is(&r.keep, 7, "services: {}\n", strlen(TEXT)));
	cr_assert(!rsk_document_keep_is(&r.keep, 7, TEXT, strlen(TEXT) - 1));
	rsk_document_keep_forget(&r.keep);
	cr_assert(!rsk_document_keep_is(&r.keep, 0, "", 0));
	pass(HOUR);
	tick(&r);
	cr_assert_eq(r.expired, 1, "it is in force, and expires");
	end(&r);
	cr_assert_eq(found(HOUR, 0), -1);
}
