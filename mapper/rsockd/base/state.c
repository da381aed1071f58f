// SPDX-License-Identifier: BSD-2-Clause
/* state.c - see state.h. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include <rsock/clock.h>

#include "clock.h"

#define FILE_NAME "state"
#define NEW_NAME "state.new"
#define SOON_S 1
#define RETRY_S 5 /* after a failed write, whether anything has changed or not */

/* ---- clocks ---- */

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parses the boot ID, a UUID in text. All zero, which no boot has, if it cannot be read. */
static void read_boot_id(uint8_t out[static 16])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[64];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	size_t digits = 0;

	memset(out, 0, 16);
	for (ssize_t i = 0; i < n && digits < 32; i++) {
		int v = hex(text[i]);

		if (v >= 0) {
			out[digits / 2] = (uint8_t)(out[digits / 2] << 4 | v);
			digits++;
		}
	}
	if (fd >= 0)
		close(fd);
}

static struct rsk_state_clock clock_of(const struct rsk_state *s)
{
	struct rsk_state_clock c = { .boottime_ns = rsk_time_ns(CLOCK_BOOTTIME),
				     .now_ns = rsk_clock_ns() };

	memcpy(c.boot_id, s->boot_id, 16);
	return c;
}

/* ---- reading ---- */

static int read_file(int dir, uint8_t **out, size_t *n)
{
	int fd = openat(dir, FILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	ssize_t got;
	int rc = 0;

	*out = NULL;
	*n = 0;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_size > RSK_STATE_BYTES_MOST)
		rc = -EFBIG;
	else if (!(*out = malloc((size_t)st.st_size + 1)))
		rc = -ENOMEM;
	while (rc == 0 && *n < (size_t)st.st_size) {
		got = read(fd, *out + *n, (size_t)st.st_size - *n);
		if (got < 0)
			rc = -errno;
		if (got <= 0)
			break;
		*n += (size_t)got;
	}
	close(fd);
	return rc;
}

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
	int rc = read_file(s->dir, &bytes, &length);

	if (rc == 0)
		rc = rsk_state_decode(bytes, length, &clock, s->cache, &s->drained, &why);
	free(bytes);
	if (rc == -ENOENT || rc == -ENOMEM)
		return rc == -ENOENT ? 0 : rc;
	if (rc < 0)
		snprintf(note, n, "%s/" FILE_NAME ": %s: nothing is remembered of it", s->path,
			 why ? why : strerror(-rc));
	s->taken = rsk_pm_cache_kept(s->cache, clock.now_ns, NULL, SIZE_MAX);
	drain_all(s);
	return 0;
}

/* ---- writing: the thread ---- */

static int put(int dir, const uint8_t *bytes, size_t n)
{
	int fd = openat(dir, NEW_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int rc = 0;

	if (fd < 0)
		return -errno;
	while (n && rc == 0) {
		ssize_t done = write(fd, bytes, n);

		if (done < 0 && errno != EINTR)
			rc = -errno;
		if (done > 0) {
			bytes += done;
			n -= (size_t)done;
		}
	}
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && renameat(dir, NEW_NAME, dir, FILE_NAME) < 0)
		rc = -errno;
	if (rc == 0 && fsync(dir) < 0)
		rc = -errno;
	return rc;
}

static void *write_on(void *arg)
{
	struct rsk_state *s = arg;
	static const uint64_t one = 1;
	int rc;

	/*
	 * Starting a thread takes system calls that the filter does not allow; so it confines
	 * itself now.
	 */
	rc = s->confine();
	pthread_mutex_lock(&s->lock);
	s->up = true;
	s->confined = rc;
	pthread_cond_broadcast(&s->wake);
	while (s->confined == 0) {
		while (!s->bytes && !s->ends)
			pthread_cond_wait(&s->wake, &s->lock);
		if (!s->bytes)
			break;
		pthread_mutex_unlock(&s->lock);
		rc = put(s->dir, s->bytes, s->n);
		pthread_mutex_lock(&s->lock);
		free(s->bytes);
		s->bytes = NULL;
		s->result = rc;
		/* An eventfd is a counter: any number may be added. */
		if (write(s->told, &one, sizeof(one)) < 0)
			s->result = -errno;
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- writing: the loop ---- */

static bool is_dirty(const struct rsk_state *s)
{
	return s->started && (s->dirty || s->seen != s->cache->changes);
}

static void note_result(struct rsk_state *s, int rc)
{
	if (rc < 0 && s->why_not != -rc)
		fprintf(stderr, "rsockd: %s/" FILE_NAME " cannot be written: %s\n", s->path,
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

	pthread_mutex_lock(&s->lock);
	if (!s->bytes && rsk_state_encode(s->cache, s->drained, &clock, &bytes, &n) == 0) {
		s->bytes = bytes;
		s->n = n;
		s->seen = s->cache->changes;
		s->dirty = false;
		s->handed = true;
		pthread_cond_signal(&s->wake);
	}
	pthread_mutex_unlock(&s->lock);
}

bool rsk_state_is_pending(const struct rsk_state *s)
{
	return s->handed || is_dirty(s) || s->why_not;
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

static void on_done(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_state *s = arg;
	uint64_t n;

	if (read(fd, &n, sizeof(n)) < 0)
		return;
	pthread_mutex_lock(&s->lock);
	note_result(s, s->result);
	pthread_mutex_unlock(&s->lock);
	s->handed = false;
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

int rsk_state_open(struct rsk_state *s, struct event_base *base, const char *path,
		   struct rsk_pm_cache *cache, struct rsk_pma *pma, char *note, size_t n)
{
	*s = (struct rsk_state){ .cache = cache, .pma = pma, .dir = -1, .told = -1 };
	*note = 0;
	s->path = strdup(path); /* a reload frees the configuration's string */
	if (!s->path)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	read_boot_id(s->boot_id);
	s->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0) {
		s->why_not = errno;
		snprintf(note, n, "%s: %s: nothing outlives the daemon", path, strerror(errno));
		return 0;
	}
	s->told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->told < 0)
		return -errno;
	s->timer = evtimer_new(base, on_timer, s);
	s->done = event_new(base, s->told, EV_READ | EV_PERSIST, on_done, s);
	if (!s->timer || !s->done || event_add(s->done, NULL) < 0)
		return -ENOMEM;
	return take(s, note, n);
}

int rsk_state_start(struct rsk_state *s, int (*confine)(void))
{
	sigset_t all, before;
	int rc;

	if (s->dir < 0)
		return 0;
	s->confine = confine;
	s->seen = s->cache->changes;
	sigfillset(&all); /* signals are handled by the event loop */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&s->writer, NULL, write_on, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	s->started = rc == 0;
	pthread_mutex_lock(&s->lock);
	while (s->started && !s->up)
		pthread_cond_wait(&s->wake, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return rc ? -rc : s->confined;
}

void rsk_state_close(struct rsk_state *s)
{
	struct rsk_state_clock clock;
	uint8_t *bytes;
	size_t n;

	if (s->started) {
		pthread_mutex_lock(&s->lock);
		s->ends = true;
		pthread_cond_signal(&s->wake);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->writer, NULL);
		clock = clock_of(s);
		if ((is_dirty(s) || s->result < 0) &&
		    rsk_state_encode(s->cache, s->drained, &clock, &bytes, &n) == 0) {
			note_result(s, put(s->dir, bytes, n));
			free(bytes);
		}
	}
	s->started = false;
	if (s->timer)
		event_free(s->timer);
	if (s->done)
		event_free(s->done);
	if (s->told > 0)
		close(s->told);
	if (s->dir > 0)
		close(s->dir);
	rsk_state_devices_free(&s->drained);
	free(s->path);
	*s = (struct rsk_state){ .dir = -1, .told = -1 };
}
