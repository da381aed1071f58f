// SPDX-License-Identifier: BSD-2-Clause
/* state.c - see state.h. */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include <rsock/clock.h>

#include "clock.h"

#define FILE_NAME "state"
#define SOON_S 1
#define RETRY_S 5 /* after a failed write, whether anything has changed or not */

/* ---- clocks ---- */

static struct rsk_state_clock clock_of(const struct rsk_state *s)
{
	struct rsk_state_clock c = { .boottime_ns = rsk_time_ns(CLOCK_BOOTTIME),
				     .now_ns = rsk_clock_ns() };

	memcpy(c.boot_id, s->boot_id, 16);
	return c;
}

/* ---- reading ---- */

static void drain_all(struct rsk_state *s)
{
	const struct rsk_state_device *d;

	/* A device that is not configured now may be configured again later. */
	LL_FOREACH(s->drained, d)
		rsk_pma_device_set(s->pma, d->name, RSK_PMA_DRAINING);
}

static int take(struct rsk_state *s, char *note, size_t n)
{
	struct rsk_state_clock clock = clock_of(s);
	const char *why = NULL;
	uint8_t *bytes;
	size_t length;
	int rc = rsk_disk_read(s->disk, FILE_NAME, RSK_STATE_BYTES_MOST, &bytes, &length);

	if (rc == 0)
		rc = rsk_state_decode(bytes, length, &clock, s->cache, &s->drained, &why);
	free(bytes);
	if (rc == -ENOENT || rc == -ENOMEM)
		return rc == -ENOENT ? 0 : rc;
	if (rc < 0)
		snprintf(note, n, "%s/" FILE_NAME ": %s: nothing is remembered of it",
			 s->disk->path, why ? why : strerror(-rc));
	s->taken = rsk_pm_cache_kept(s->cache, clock.now_ns, NULL, SIZE_MAX);
	drain_all(s);
	return 0;
}

/* ---- writing ---- */

static bool is_dirty(const struct rsk_state *s)
{
	return s->disk && s->disk->is_started && (s->dirty || s->seen != s->cache->changes);
}

static void note_result(struct rsk_state *s, int rc)
{
	if (rc < 0 && s->why_not != -rc)
		fprintf(stderr, "rsockd: %s/" FILE_NAME " cannot be written: %s\n", s->disk->path,
			strerror(-rc));
	s->why_not = rc < 0 ? -rc : 0;
	if (rc < 0)
		s->failures++;
	else
		s->writes++;
}

/* Hands the state to the writer. If the writer is busy, on_done() tries again. */
static void hand_over(struct rsk_state *s)
{
	struct rsk_state_clock clock = clock_of(s);
	uint8_t *bytes;
	size_t n;

	if (s->file.is_busy || rsk_state_encode(s->cache, s->drained, &clock, &bytes, &n) < 0)
		return;
	if (!rsk_disk_write(&s->file, bytes, n)) {
		free(bytes);
		return;
	}
	s->seen = s->cache->changes;
	s->dirty = false;
}

bool rsk_state_is_pending(const struct rsk_state *s)
{
	return s->file.is_busy || is_dirty(s) || s->why_not;
}

void rsk_state_check(struct rsk_state *s)
{
	const struct timeval soon = { .tv_sec = s->why_not ? RETRY_S : SOON_S };

	if (is_dirty(s) && !event_pending(s->timer, EV_TIMEOUT, NULL))
		event_add(s->timer, &soon);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_state *s = arg;

	if (is_dirty(s))
		hand_over(s);
	rsk_state_check(s); /* there was no memory for it, or the writer was busy */
}

static void on_done(void *ctx, int rc)
{
	struct rsk_state *s = ctx;

	note_result(s, rc);
	if (s->why_not)
		s->dirty = true; /* it is not on the disk; the timer tries again */
	else if (s->dirty)
		hand_over(s);
	rsk_state_check(s);
}

void rsk_state_drained(struct rsk_state *s, const char *device, bool on)
{
	size_t n = rsk_pma_devices(s->pma, NULL, 0), length = strlen(device);
	struct rsk_pma_device_view *view = calloc(n + 1, sizeof(*view));

	/* A name may be an RNIC, but each of its ports can have a state of its own: store ports. */
	if (view)
		rsk_pma_devices(s->pma, view, n);
	for (size_t i = 0; view && i < n; i++)
		if (strncmp(view[i].name, device, length) == 0 &&
		    (!view[i].name[length] || view[i].name[length] == '/'))
			rsk_state_device_set(&s->drained, view[i].name, on);
	free(view);
	s->dirty = true;
	if (is_dirty(s))
		hand_over(s);
	rsk_state_check(s);
}

void rsk_state_reloaded(struct rsk_state *s)
{
	drain_all(s);
}

/* ---- start and end ---- */

int rsk_state_open(struct rsk_state *s, struct event_base *base, struct rsk_disk *disk,
		   struct rsk_pm_cache *cache, struct rsk_pma *pma, char *note, size_t n)
{
	int rc;

	*s = (struct rsk_state){ .cache = cache, .pma = pma, .disk = disk };
	s->file = (struct rsk_disk_file){
		.name = FILE_NAME, .new_name = FILE_NAME ".new", .done = on_done, .ctx = s
	};
	*note = 0;
	rsk_clock_boot_id(s->boot_id);
	if (disk->dir < 0) {
		s->why_not = disk->why_not;
		snprintf(note, n, "%s: %s: nothing outlives the daemon", disk->path,
			 strerror(disk->why_not));
		return 0;
	}
	s->timer = evtimer_new(base, on_timer, s);
	if (!s->timer)
		return -ENOMEM;
	rsk_disk_add(disk, &s->file);
	rc = take(s, note, n);
	s->seen = cache->changes;
	return rc;
}

void rsk_state_close(struct rsk_state *s)
{
	struct rsk_state_clock clock;
	uint8_t *bytes;
	size_t n;

	if (is_dirty(s)) {
		clock = clock_of(s);
		if (rsk_state_encode(s->cache, s->drained, &clock, &bytes, &n) == 0) {
			note_result(s, rsk_disk_write_last(&s->file, bytes, n));
			free(bytes);
		}
	}
	if (s->timer)
		event_free(s->timer);
	rsk_state_devices_free(&s->drained);
	*s = (struct rsk_state){ 0 };
}
