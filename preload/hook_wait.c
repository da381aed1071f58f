/* SPDX-License-Identifier: BSD-2-Clause */
/* hook_wait.c - poll and select. The engine is asked only where a hot stream is in the set. */
#include <time.h>

#define RSK_EXPORT_wait 1
#include <sys/resource.h>

#include "export.h"
#include "hook.h"

/* A set that the kernel would refuse (EFAULT, EINVAL) is the kernel's to refuse. */
bool rsk_poll_is_ours(const struct pollfd *fds, nfds_t n)
{
	struct rlimit lim;

	if (!n || !rsk_readable(fds) || rsk_direct)
		return false;
	/* More than there can be fds: EINVAL, and perhaps no memory behind it. */
	if (n > 1024 && (getrlimit(RLIMIT_NOFILE, &lim) < 0 || n > lim.rlim_cur))
		return false;
	return rsk_poll_concerns(fds, n);
}

int rsk_hook_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec ts;

	if (!rsk_poll_is_ours(fds, n))
		return rsk_real.poll(fds, n, timeout);
	return (int)rsk_result(rsk_poll(fds, n, rsk_ms_timespec(timeout, &ts), NULL));
}

int rsk_hook___poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
	rsk_chk_room(n, room / sizeof(*fds));
	return rsk_hook_poll(fds, n, timeout);
}

int rsk_hook_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		   const sigset_t *mask)
{
	if (!rsk_timespec_valid(timeout) || !rsk_poll_is_ours(fds, n))
		return rsk_real.ppoll(fds, n, timeout, mask);
	return (int)rsk_result(rsk_poll(fds, n, timeout, mask));
}

int rsk_hook___ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			 const sigset_t *mask, size_t room)
{
	rsk_chk_room(n, room / sizeof(*fds));
	return rsk_hook_ppoll(fds, n, timeout, mask);
}

bool rsk_select_is_ours(int n, const fd_set *r, const fd_set *w, const fd_set *e)
{
	if (n <= 0 || !rsk_fdtab.size || rsk_direct || (r && !rsk_readable(r)) ||
	    (w && !rsk_readable(w)) || (e && !rsk_readable(e)))
		return false;
	return rsk_select_concerns(n, r, w, e);
}

/* Linux leaves the time that was left in @timeout; so do we, whatever the outcome. */
int rsk_hook_select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	struct timespec ts, start, end;
	int64_t left_ns;
	int ret;

	if ((timeout && (!rsk_readable(timeout) || timeout->tv_sec < 0 || timeout->tv_usec < 0)) ||
	    !rsk_select_is_ours(n, r, w, e))
		return rsk_real.select(n, r, w, e, timeout);
	if (!timeout)
		return (int)rsk_result(rsk_select(n, r, w, e, NULL, NULL));

	if (__builtin_add_overflow(timeout->tv_sec, timeout->tv_usec / 1000000, &ts.tv_sec))
		ts.tv_sec = INT64_MAX;
	ts.tv_nsec = timeout->tv_usec % 1000000 * 1000;
	clock_gettime(CLOCK_MONOTONIC, &start);
	ret = rsk_select(n, r, w, e, &ts, NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);

	/* What has passed fits 64 bits of nanoseconds; what was asked for need not. */
	left_ns = (end.tv_sec - start.tv_sec) * 1000000000LL + end.tv_nsec - start.tv_nsec;
	ts.tv_sec -= left_ns / 1000000000LL;
	ts.tv_nsec -= left_ns % 1000000000LL;
	if (ts.tv_nsec < 0) {
		ts.tv_nsec += 1000000000L;
		ts.tv_sec--;
	}
	if (ts.tv_sec < 0)
		ts = (struct timespec){ 0 };
	timeout->tv_sec = ts.tv_sec;
	timeout->tv_usec = ts.tv_nsec / 1000;
	return (int)rsk_result(ret);
}

int rsk_hook_pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
		     const sigset_t *mask)
{
	if (!rsk_timespec_valid(timeout) || !rsk_select_is_ours(n, r, w, e))
		return rsk_real.pselect(n, r, w, e, timeout, mask);
	return (int)rsk_result(rsk_select(n, r, w, e, timeout, mask));
}
