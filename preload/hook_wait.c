/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_wait.c - hooks of poll() and select(). The engine is called only if a tracked fd is in the
 * set.
 */
#include <time.h>

#define RSK_EXPORT_wait 1
#include <sys/resource.h>

#include "export.h"
#include "hook.h"

#define RSK_POLLFDS_A_PAGE (RSK_TOUCH_PAGE / sizeof(struct pollfd))

/* More entries than there can be fds: the kernel returns EINVAL, and the array may end earlier. */
static __attribute__((noinline)) bool rsk_poll_large(const struct pollfd *fds, nfds_t n)
{
	struct rlimit lim;

	if (n > 1024 && (getrlimit(RLIMIT_NOFILE, &lim) < 0 || n > lim.rlim_cur))
		return false;
	return rsk_touch_reads(fds, n * sizeof(*fds));
}

/* Checks one byte per page of what poll() writes. */
static inline bool rsk_poll_writable(struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = RSK_POLLFDS_A_PAGE; i < n; i += RSK_POLLFDS_A_PAGE)
		if (!rsk_touch_write_byte(&fds[i].revents))
			return false;
	return rsk_touch_write_byte(&fds->revents) && rsk_touch_write_byte(&fds[n - 1].revents);
}

/* If the kernel would refuse the set (EFAULT, EINVAL), the real call is made. */
bool rsk_poll_is_ours(const struct pollfd *fds, nfds_t n)
{
	if (!n || !rsk_touch_ready || (uintptr_t)fds < 4096 || rsk_direct)
		return false;
	if (rsk_unlikely(n > RSK_POLLFDS_A_PAGE) ?
		    !rsk_poll_large(fds, n) :
		    !rsk_touch_read_byte(fds) || !rsk_touch_read_byte(&fds[n - 1].revents))
		return false;
	return rsk_poll_concerns(fds, n);
}

int rsk_poll_ours(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		  const sigset_t *mask)
{
	/* The kernel finds out after its wait. */
	if (!rsk_poll_writable(fds, n))
		return (int)rsk_result(-EFAULT);
	return (int)rsk_result(rsk_poll(fds, n, timeout, mask));
}

int rsk_hook_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec ts;

	if (!rsk_poll_is_ours(fds, n))
		return rsk_real.poll(fds, n, timeout);
	return rsk_poll_ours(fds, n, rsk_ms_timespec(timeout, &ts), NULL);
}

int rsk_hook___poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
	rsk_chk_room(n, room / sizeof(*fds));
	return rsk_hook_poll(fds, n, timeout);
}

int rsk_hook_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		   const sigset_t *mask)
{
	if (!rsk_touch_ready || !rsk_timespec_valid(timeout) || !rsk_mask_valid(mask) ||
	    !rsk_poll_is_ours(fds, n))
		return rsk_real.ppoll(fds, n, timeout, mask);
	return rsk_poll_ours(fds, n, timeout, mask);
}

int rsk_hook___ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			 const sigset_t *mask, size_t room)
{
	rsk_chk_room(n, room / sizeof(*fds));
	return rsk_hook_ppoll(fds, n, timeout, mask);
}

static bool rsk_select_set(fd_set *set, size_t bytes)
{
	return !set || rsk_writes(set, bytes);
}

bool rsk_select_is_ours(int n, fd_set *r, fd_set *w, fd_set *e)
{
	size_t bytes = ((size_t)n + 63) / 64 * 8;

	if (n <= 0 || !rsk_touch_ready || rsk_direct || !rsk_select_set(r, bytes) ||
	    !rsk_select_set(w, bytes) || !rsk_select_set(e, bytes))
		return false;
	return rsk_select_concerns(n, r, w, e);
}

/* Linux stores the remaining time in @timeout; so does this hook, whatever the result. */
int rsk_hook_select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	struct timespec ts, start, end;
	int64_t left_ns;
	int ret;

	n = rsk_select_n(n);
	if (!rsk_touch_ready ||
	    (timeout && (!rsk_readable(timeout) || timeout->tv_sec < 0 || timeout->tv_usec < 0)) ||
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

	/* The elapsed time fits 64 bits of nanoseconds; the timeout need not. */
	left_ns = (end.tv_sec - start.tv_sec) * 1000000000LL + end.tv_nsec - start.tv_nsec;
	ts.tv_sec -= left_ns / 1000000000LL;
	ts.tv_nsec -= left_ns % 1000000000LL;
	if (ts.tv_nsec < 0) {
		ts.tv_nsec += 1000000000L;
		ts.tv_sec--;
	}
	if (ts.tv_sec < 0)
		ts = (struct timespec){ 0 };
	if (!rsk_writable(timeout)) /* read-only: the kernel ignores it too */
		return (int)rsk_result(ret);
	timeout->tv_sec = ts.tv_sec;
	timeout->tv_usec = ts.tv_nsec / 1000;
	return (int)rsk_result(ret);
}

int rsk_hook_pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
		     const sigset_t *mask)
{
	n = rsk_select_n(n);
	if (!rsk_touch_ready || !rsk_timespec_valid(timeout) || !rsk_mask_valid(mask) ||
	    !rsk_select_is_ours(n, r, w, e))
		return rsk_real.pselect(n, r, w, e, timeout, mask);
	return (int)rsk_result(rsk_select(n, r, w, e, timeout, mask));
}
