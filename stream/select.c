// SPDX-License-Identifier: BSD-2-Clause
/* select.c - select(2) as poll(2): the three sets turned into one list and back, as the kernel's tables have it. */
#include <errno.h>
#include <string.h>

#include <rsock/sys.h>

#include "arena.h"
#include "engine.h"

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
		if (rsk_fd_hot(fd) && (is_set(r, fd) || is_set(w, fd) || is_set(e, fd)))
			return true;
	return false;
}

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
	int rc;

	if (n > SMALL_SET) {
		large = rsk_arena_alloc(n * sizeof(*large));
		if (!large)
			return -ENOMEM;
		fds = large;
	}
	to_list(nfds, r, w, e, fds);
	do {
		rc = rsk_poll(fds, n, timeout, mask);
		if (rc < 0)
			return rc;
		rc = from_list(nfds, r, w, e, fds, n);
	} while (rc == 0 && !timeout);
	return rc;
}
