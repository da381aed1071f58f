/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.h - the few blocking calls that the engine makes by way of libc, because they sleep and must
 * stay cancellation points. preload/ (or a test) passes them in; for everything else the engine
 * calls the kernel through <rsock/sys.h>. All return -1 and set errno, as libc does.
 */
#ifndef RSK_HOST_H
#define RSK_HOST_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <time.h>

struct rsk_host {
	int (*ppoll)(struct pollfd *fds, nfds_t n, const struct timespec *ts, const sigset_t *mask);
	int (*epoll_pwait)(int epfd, struct epoll_event *evs, int max, int timeout_ms,
			   const sigset_t *mask);
	/* getenv and sched_getcpu of libc are called directly: neither is hooked. */
	/* Is this thread in a signal handler? May be NULL: never. */
	bool (*in_handler)(void);
	/* Delivers the signals that were deferred in a section (sigdefer.h). */
	void (*guard_pending)(void);
	/* The process has its first stream (touch.h); may be NULL. */
	void (*streams)(void);
};

extern const struct rsk_host *rsk_host;

#endif
