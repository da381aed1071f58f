/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll_say.h - shared by the epoll families: waits and records events, and registers in one line.
 */
#ifndef APP_EPOLL_SAY_H
#define APP_EPOLL_SAY_H

#include "app.h"

/* Order of the recorded events. */
static inline int by_data(const void *a, const void *b)
{
	const struct epoll_event *x = a, *y = b;

	return x->data.u64 < y->data.u64 ? -1 : x->data.u64 > y->data.u64;
}

static inline int wait_say(const char *what, int ep, int timeout_ms)
{
	struct epoll_event ev[64];
	char text[900];
	int n = epoll_wait(ep, ev, 64, timeout_ms);
	int at =
		snprintf(text, sizeof(text), "%s: %d %s", what, n, n < 0 ? app_errname(errno) : "");

	if (n > 0)
		qsort(ev, (size_t)n, sizeof(ev[0]), by_data);
	for (int i = 0; i < n && at < 800; i++) {
		uint32_t e = ev[i].events;

		at += snprintf(text + at, sizeof(text) - (size_t)at, " %llx[%s%s%s%s%s%s]",
			       (unsigned long long)ev[i].data.u64, e & EPOLLIN ? "I" : "",
			       e & EPOLLOUT ? "O" : "", e & EPOLLPRI ? "P" : "",
			       e & EPOLLRDHUP ? "R" : "", e & EPOLLHUP ? "H" : "",
			       e & EPOLLERR ? "E" : "");
	}
	LOG("%s", text);
	return n;
}

static inline int ctl(int ep, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return epoll_ctl(ep, op, fd, &ev);
}

#define ADD(ep, fd, events, data) R(ctl(ep, EPOLL_CTL_ADD, fd, events, data))
#define MOD(ep, fd, events, data) R(ctl(ep, EPOLL_CTL_MOD, fd, events, data))
#define DEL(ep, fd) R(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL))

#endif
