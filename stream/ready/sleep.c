// SPDX-License-Identifier: BSD-2-Clause
/* sleep.c - see sleep.h. */
#include "sleep.h"

#include <errno.h>
#include <limits.h>

#include "wait.h"

static __thread uint32_t asleep;
static __thread int asleep_fd; /* of the innermost call */

bool rsk_wait_asleep(void)
{
	return asleep;
}

bool rsk_sleeps_on(int fd)
{
	return asleep && fd == asleep_fd;
}

static uint64_t left(uint64_t until_ns)
{
	uint64_t now = rsk_now_ns();

	return until_ns > now ? until_ns - now : 0;
}

int rsk_sleep_begin(int fd)
{
	int outer_fd = asleep_fd;

	asleep_fd = fd;
	asleep++;
	return outer_fd;
}

void rsk_sleep_end(int outer_fd)
{
	asleep--;
	asleep_fd = outer_fd;
}

/* @rc: of the call; returns the same, or -errno. */
static int get_up(int rc, int outer_fd, int saved_errno)
{
	rsk_sleep_end(outer_fd);
	if (rc < 0)
		rc = -errno;
	errno = saved_errno;
	return rc;
}

int rsk_sleep_on(struct rsk_wait *w, struct pollfd *fds, nfds_t n, uint64_t until_ns)
{
	int saved = errno, outer_fd, rc;
	struct timespec ts;
	sigset_t mask;

	if (until_ns != UINT64_MAX) {
		uint64_t ns = left(until_ns);

		ts.tv_sec = (time_t)(ns / 1000000000u);
		ts.tv_nsec = (long)(ns % 1000000000u);
	}
	outer_fd = rsk_sleep_begin(w->fd);
	rc = rsk_host->ppoll(fds, n, until_ns == UINT64_MAX ? NULL : &ts,
			     rsk_by_time_mask(&w->by_time, &mask));
	return get_up(rc, outer_fd, saved);
}

int rsk_sleep_on_set(struct rsk_wait *w, struct pollfd fds[static 2], uint64_t until_ns)
{
	int saved = errno, ms = -1, outer_fd, rc;
	struct epoll_event ev[3];

	if (until_ns != UINT64_MAX) {
		uint64_t n = (left(until_ns) + 999999) / 1000000;

		ms = n < INT_MAX ? (int)n : INT_MAX;
	}
	outer_fd = rsk_sleep_begin(w->fd);
	rc = rsk_host->epoll_pwait(w->set, ev, 3, ms, NULL);
	rc = get_up(rc, outer_fd, saved);
	/* A call that no hook sees has closed it, or the number is another file's. */
	if (rc == -EBADF || rc == -EINVAL)
		return rsk_sleep_on(w, fds, 2, until_ns);
	for (int i = 0; i < rc; i++)
		fds[ev[i].data.u64 == RSK_SLEEP_SET_RUNG].revents = POLLIN;
	return rc;
}

int rsk_sleep_by_time(struct rsk_wait *w, struct pollfd *tcp, uint64_t until_ns)
{
	uint64_t check_ns = rsk_by_time_check(until_ns);
	int rc;

	rc = rsk_sleep_on(w, tcp, 1, check_ns);
	if (rc != -EINVAL)
		return rc;
	tcp->revents = tcp->events;
	return rsk_sleep_on(w, NULL, 0, check_ns);
}
