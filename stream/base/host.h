/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.h - the few of libc's own calls that the engine needs by way of libc, because they sleep and
 * must stay cancellation points. Handed in by preload/ (or by a test); everything else the engine asks
 * of the kernel goes through <rsock/sys.h>. All return -1 and set errno, as libc does.
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
	/* libc's getenv and sched_getcpu are used directly: neither is hooked. */
	bool (*in_handler)(void);    /* does this thread run a signal handler? May be NULL: never */
	void (*guard_pending)(void); /* run the signals that met a critical section; sigdefer.h */
	void (*streams)(void);	     /* the process has its first stream; touch.h. May be NULL */
};

extern const struct rsk_host *rsk_host;

#endif
