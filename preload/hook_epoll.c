/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_epoll.c - hooks of epoll. Sets stay the kernel's; the engine adds the rings to a set that
 * holds a paired stream.
 */
#define RSK_EXPORT_epoll 1
#include "export.h"
#include "signal_trampoline.h"
#include "hook.h"

static int rsk_after_epoll(int fd)
{
	if (fd >= 0 && rsk_begins()) {
		rsk_fd_new(fd);
		rsk_fd_epoll(fd);
	}
	return fd;
}

int rsk_hook_epoll_create(int size)
{
	return rsk_after_epoll(rsk_real.epoll_create(size));
}

int rsk_hook_epoll_create1(int flags)
{
	return rsk_after_epoll(rsk_real.epoll_create1(flags));
}

/*
 * So far no handler catches a fault. The engine reads each event, and there may be many calls:
 * installs the handler at the first one.
 */
static rsk_noinline int rsk_epoll_ctl_first(int epfd, int op, int fd, struct epoll_event *ev)
{
	if (!rsk_live() || rsk_kernel_only())
		return rsk_counted(rsk_real.epoll_ctl(epfd, op, fd, ev));
	rsk_trampoline_faults();
	if (op != EPOLL_CTL_DEL && !rsk_readable(ev))
		return rsk_counted(rsk_real.epoll_ctl(epfd, op, fd, ev));
	return (int)rsk_result(rsk_epoll_ctl(epfd, op, fd, ev));
}

/* Always passed to the engine: a socket may be registered before it has a stream. */
int rsk_hook_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	if (rsk_unlikely(!rsk_touch_ready))
		return rsk_epoll_ctl_first(epfd, op, fd, ev);
	/* The kernel refuses an invalid address before all else. */
	if (rsk_direct || rsk_kernel_only() ||
	    (op != EPOLL_CTL_DEL && ((uintptr_t)ev < 4096 || !rsk_touch_reads(ev, sizeof(*ev)))))
		return rsk_counted(rsk_real.epoll_ctl(epfd, op, fd, ev));
	return (int)rsk_result(rsk_epoll_ctl(epfd, op, fd, ev));
}

int rsk_hook_epoll_wait(int epfd, struct epoll_event *evs, int max, int timeout)
{
	struct timespec ts;

	if (!rsk_tracked_epoll(epfd) || max <= 0)
		return rsk_real.epoll_wait(epfd, evs, max, timeout);
	return (int)rsk_result(rsk_epoll_wait(epfd, evs, max, rsk_ms_timespec(timeout, &ts), NULL));
}

int rsk_hook_epoll_pwait(int epfd, struct epoll_event *evs, int max, int timeout,
			 const sigset_t *mask)
{
	struct timespec ts;

	if (!rsk_tracked_epoll(epfd) || max <= 0 || !rsk_mask_valid(mask))
		return rsk_real.epoll_pwait(epfd, evs, max, timeout, mask);
	return (int)rsk_result(rsk_epoll_wait(epfd, evs, max, rsk_ms_timespec(timeout, &ts), mask));
}

int rsk_hook_epoll_pwait2(int epfd, struct epoll_event *evs, int max,
			  const struct timespec *timeout, const sigset_t *mask)
{
	if (!rsk_tracked_epoll(epfd) || max <= 0 || !rsk_timespec_valid(timeout) ||
	    !rsk_mask_valid(mask))
		return rsk_real.epoll_pwait2(epfd, evs, max, timeout, mask);
	return (int)rsk_result(rsk_epoll_wait(epfd, evs, max, timeout, mask));
}
