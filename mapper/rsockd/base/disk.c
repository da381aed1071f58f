// SPDX-License-Identifier: BSD-2-Clause
/* disk.c - see disk.h. */
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

/* ---- reading ---- */

int rsk_disk_read(const struct rsk_disk *d, const char *name, size_t most, uint8_t **out, size_t *n)
{
	int fd = openat(d->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	ssize_t got;
	int rc = 0;

	*out = NULL;
	*n = 0;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode) || (size_t)st.st_size > most)
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

/* ---- writing: the thread ---- */

static int put(int dir, const struct rsk_disk_file *f, const uint8_t *bytes, size_t n)
{
	int fd = openat(dir, f->new_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
			0600);
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
	if (rc == 0 && renameat(dir, f->new_name, dir, f->name) < 0)
		rc = -errno;
	if (rc == 0 && fsync(dir) < 0)
		rc = -errno;
	return rc;
}

static struct rsk_disk_file *next_file(const struct rsk_disk *d)
{
	struct rsk_disk_file *f;

	LL_FOREACH(d->files, f)
		if (f->bytes)
			break;
	return f;
}

static void *write_on(void *arg)
{
	struct rsk_disk *d = arg;
	static const uint64_t one = 1;
	struct rsk_disk_file *f;
	int rc;

	/*
	 * Starting a thread takes system calls that the filter does not allow; so it confines
	 * itself now.
	 */
	rc = d->confine();
	pthread_mutex_lock(&d->lock);
	d->up = true;
	d->confined = rc;
	pthread_cond_broadcast(&d->wake);
	while (d->confined == 0) {
		while (!(f = next_file(d)) && !d->ends)
			pthread_cond_wait(&d->wake, &d->lock);
		if (!f)
			break;
		pthread_mutex_unlock(&d->lock);
		rc = put(d->dir, f, f->bytes, f->n);
		pthread_mutex_lock(&d->lock);
		free(f->bytes);
		f->bytes = NULL;
		f->result = rc;
		f->is_ended = true;
		/* An eventfd is a counter: any number may be added. */
		if (write(d->told, &one, sizeof(one)) < 0)
			f->result = -errno;
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

/* ---- writing: the loop ---- */

static void deliver(struct rsk_disk *d)
{
	struct rsk_disk_file *f;

	LL_FOREACH(d->files, f) {
		bool is_ended;
		int rc;

		pthread_mutex_lock(&d->lock);
		is_ended = f->is_ended;
		f->is_ended = false;
		rc = f->result;
		pthread_mutex_unlock(&d->lock);
		if (!is_ended)
			continue;
		f->is_busy = false;
		f->done(f->ctx, rc);
	}
}

static void on_told(evutil_socket_t fd, short what, void *arg)
{
	uint64_t n;

	if (read(fd, &n, sizeof(n)) >= 0)
		deliver(arg);
}

void rsk_disk_add(struct rsk_disk *d, struct rsk_disk_file *f)
{
	f->disk = d;
	LL_APPEND(d->files, f);
}

bool rsk_disk_write(struct rsk_disk_file *f, uint8_t *bytes, size_t n)
{
	struct rsk_disk *d = f->disk;

	if (f->is_busy || !d->is_started || d->is_stopped)
		return false;
	pthread_mutex_lock(&d->lock);
	f->bytes = bytes;
	f->n = n;
	f->is_busy = true;
	pthread_cond_signal(&d->wake);
	pthread_mutex_unlock(&d->lock);
	return true;
}

int rsk_disk_write_last(struct rsk_disk_file *f, const uint8_t *bytes, size_t n)
{
	return put(f->disk->dir, f, bytes, n);
}

/* ---- start and end ---- */

int rsk_disk_open(struct rsk_disk *d, struct event_base *base, const char *path)
{
	*d = (struct rsk_disk){ .dir = -1, .told = -1 };
	d->path = strdup(path); /* a reload frees the configuration's string */
	if (!d->path)
		return -ENOMEM;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->wake, NULL);
	d->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->dir < 0) {
		d->why_not = errno;
		return 0;
	}
	d->told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->told < 0)
		return -errno;
	d->on_told = event_new(base, d->told, EV_READ | EV_PERSIST, on_told, d);
	return d->on_told && event_add(d->on_told, NULL) == 0 ? 0 : -ENOMEM;
}

int rsk_disk_start(struct rsk_disk *d, int (*confine)(void))
{
	sigset_t all, before;
	int rc;

	if (d->dir < 0)
		return 0;
	d->confine = confine;
	sigfillset(&all); /* signals are handled by the event loop */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&d->writer, NULL, write_on, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	d->is_started = rc == 0;
	pthread_mutex_lock(&d->lock);
	while (d->is_started && !d->up)
		pthread_cond_wait(&d->wake, &d->lock);
	pthread_mutex_unlock(&d->lock);
	return rc ? -rc : d->confined;
}

void rsk_disk_stop(struct rsk_disk *d)
{
	if (!d->is_started || d->is_stopped)
		return;
	pthread_mutex_lock(&d->lock);
	d->ends = true;
	pthread_cond_signal(&d->wake);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->writer, NULL);
	d->is_stopped = true;
	deliver(d);
}

void rsk_disk_close(struct rsk_disk *d)
{
	rsk_disk_stop(d);
	if (d->on_told)
		event_free(d->on_told);
	if (d->told > 0)
		close(d->told);
	if (d->dir > 0)
		close(d->dir);
	free(d->path);
	*d = (struct rsk_disk){ .dir = -1, .told = -1 };
}
