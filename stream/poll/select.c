// SPDX-License-Identifier: BSD-2-Clause
/*
 * select.c - select(2) on sets that contain paired streams: converts the three sets to a poll list
 * and the result back, with the kernel's event tables. The hooks of select() and pselect() call it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include <rsock/sys.h>

#include "arena.h"
#include "engine.h"
#include "numbers.h"
#include "stream.h"

#define SMALL_SET 64
#define IN_SET (POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR)
#define OUT_SET (POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR)

static bool is_set(const fd_set *s, int fd)
{
	return s && (((const unsigned long *)(const void *)s)[fd / 64] >> (fd % 64) & 1);
}

static void put(fd_set *s, int fd)
{
	((unsigned long *)(void *)s)[fd / 64] |= 1ul << (fd % 64);
}

bool rsk_select_concerns(int nfds, const fd_set *r, const fd_set *w, const fd_set *e)
{
	int high = (int)rsk_fd_high();

	for (int fd = 0; fd < nfds && fd < high; fd++)
		if (rsk_fd_tracked(fd) && (is_set(r, fd) || is_set(w, fd) || is_set(e, fd)))
			return true;
	return false;
}

/* ---- how many descriptors the kernel would check ---- */

/*
 * The first size of a process's fd table that the kernel allocates beyond the built-in one; then it
 * doubles.
 */
#define FIRST_TABLE 256
#define ASK_AT_ONCE 256

/*
 * The highest descriptor of the application that was seen here, + 1. It only grows, as the kernel's
 * table does.
 */
static _Atomic(int) seen;

/* As the kernel's alloc_fdtable(); but a whole fd_set is always covered. */
static int table_of(int fds)
{
	int size = FIRST_TABLE;

	while (size < fds)
		size *= 2;
	return size > FD_SETSIZE ? size : FD_SETSIZE;
}

/* *@arg: the highest that is not the library's, + 1. */
static int take(void *arg, int fd, const char *name)
{
	int *high = arg;

	(void)name;
	if (fd >= *high && fd < INT32_MAX && !rsk_fd_ours(fd))
		*high = fd + 1;
	return 0;
}

/* Without /proc: checks the descriptors from @high to @nfds. */
static int highest_asked(int nfds, int high)
{
	struct pollfd fds[ASK_AT_ONCE];

	for (int from = high; from < nfds; from += ASK_AT_ONCE) {
		for (int i = 0; i < ASK_AT_ONCE; i++)
			fds[i] = (struct pollfd){ .fd = from + i };
		rsk_sys_ppoll(fds, ASK_AT_ONCE, &(struct timespec){ 0 }, NULL);
		for (int i = 0; i < ASK_AT_ONCE; i++)
			if (!(fds[i].revents & POLLNVAL) && !rsk_fd_ours(from + i))
				high = from + i + 1;
	}
	return high;
}

static int highest(int nfds, int high)
{
	int dir = rsk_sys_openat(AT_FDCWD, "/proc/thread-self/fd",
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	if (dir < 0)
		return highest_asked(nfds, high);
	rsk_numbers_each(dir, take, &high);
	rsk_sys_close(dir);
	return high;
}

/*
 * The kernel checks no more descriptors than the process's table has room for. Programs that pass
 * getdtablesize() rely on it: their sets are smaller. The library's own descriptors, which have
 * high numbers, have enlarged the table; so this computes the size without them, for the kernel and
 * for us.
 */
int rsk_select_most(int nfds)
{
	int high = atomic_load_explicit(&seen, memory_order_relaxed);

	if (nfds <= FD_SETSIZE || rsk_fd_high() <= FD_SETSIZE)
		return nfds;
	if (nfds > table_of(high)) {
		high = highest(nfds, high);
		atomic_store_explicit(&seen, high, memory_order_relaxed);
	}
	return nfds < table_of(high) ? nfds : table_of(high);
}

/* ---- conversion to a poll list and back ---- */

static nfds_t to_list(int nfds, const fd_set *r, const fd_set *w, const fd_set *e,
		      struct pollfd *out)
{
	nfds_t n = 0;

	for (int fd = 0; fd < nfds; fd++) {
		short events = 0;

		if (is_set(r, fd))
			events |= POLLIN;
		if (is_set(w, fd))
			events |= POLLOUT;
		if (is_set(e, fd))
			events |= POLLPRI;
		if (!events)
			continue;
		if (out)
			out[n] = (struct pollfd){ .fd = fd, .events = events };
		n++;
	}
	return n;
}

static int from_list(int nfds, fd_set *r, fd_set *w, fd_set *e, const struct pollfd *fds, nfds_t n)
{
	size_t bytes = (size_t)(nfds + 63) / 64 * 8;
	int count = 0;

	for (nfds_t i = 0; i < n; i++)
		if (fds[i].revents & POLLNVAL)
			return -EBADF;
	if (r)
		memset(r, 0, bytes);
	if (w)
		memset(w, 0, bytes);
	if (e)
		memset(e, 0, bytes);
	for (nfds_t i = 0; i < n; i++) {
		if ((fds[i].events & POLLIN) && (fds[i].revents & IN_SET)) {
			put(r, fds[i].fd);
			count++;
		}
		if ((fds[i].events & POLLOUT) && (fds[i].revents & OUT_SET)) {
			put(w, fds[i].fd);
			count++;
		}
		if ((fds[i].events & POLLPRI) && (fds[i].revents & POLLPRI)) {
			put(e, fds[i].fd);
			count++;
		}
	}
	return count;
}

/*
 * Removes descriptors that have only an end or an error, which select() was not asked for: poll()
 * would report it again at once.
 */
static void leave_out(struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].revents)
			fds[i].fd = -1;
}

static const struct timespec *rest_of_time(uint64_t end_ns, struct timespec *left)
{
	uint64_t now = rsk_now_ns(), ns = now < end_ns ? end_ns - now : 0;

	*left = (struct timespec){ (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
	return left;
}

static void free_list(struct pollfd **p)
{
	rsk_arena_free(*p);
}

int rsk_select(int nfds, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
	       const sigset_t *mask)
{
	struct pollfd small[SMALL_SET], *fds = small;
	struct pollfd *large __attribute__((cleanup(free_list))) = NULL;
	nfds_t n = to_list(nfds, r, w, e, NULL);
	uint64_t end_ns = timeout ? rsk_until_ns(rsk_now_ns(), timeout) : 0;
	struct timespec left;
	int told, rc;

	if (n > SMALL_SET) {
		large = rsk_arena_alloc(n * sizeof(*large));
		if (!large)
			return -ENOMEM;
		fds = large;
	}
	to_list(nfds, r, w, e, fds);
	for (;;) {
		told = rsk_poll(fds, n, timeout, mask);
		if (told < 0)
			return told;
		rc = from_list(nfds, r, w, e, fds, n);
		if (rc || (timeout && !told))
			return rc;
		leave_out(fds, n);
		if (timeout)
			timeout = rest_of_time(end_ns, &left);
	}
}
