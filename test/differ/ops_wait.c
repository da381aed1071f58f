/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ops_wait.c - the worker's operations for readiness: poll, select and epoll in their forms, and
 * waiting until a stream is in the expected state.
 */
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);

#define MOST 16

static int poll_once(long form, struct pollfd *p, nfds_t n, int timeout)
{
	struct timespec ts = { timeout / 1000, timeout % 1000 * 1000000L };

	switch (form) {
	case 1:
		return ppoll(p, n, timeout < 0 ? NULL : &ts, NULL);
	case 2:
		return __poll_chk(p, n, timeout, MOST * sizeof(*p));
	case 3:
#ifdef SYS_poll /* not on aarch64 */
		return (int)syscall(SYS_poll, p, n, timeout);
#else
		return (int)syscall(SYS_ppoll, p, n, timeout < 0 ? NULL : &ts, NULL, 0);
#endif
	default:
		return poll(p, n, timeout);
	}
}

static void select_once(struct op *op, long form, struct pollfd *p, int n, int timeout)
{
	struct timespec ts = { timeout / 1000, timeout % 1000 * 1000000L };
	struct timeval tv = { timeout / 1000, timeout % 1000 * 1000L };
	fd_set r, w, e;
	int top = 0, ret;

	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	for (int i = 0; i < n; i++) {
		if (p[i].fd < 0)
			continue;
		if (p[i].events & POLLIN)
			FD_SET(p[i].fd, &r);
		if (p[i].events & POLLOUT)
			FD_SET(p[i].fd, &w);
		FD_SET(p[i].fd, &e);
		top = p[i].fd >= top ? p[i].fd + 1 : top;
	}
	ret = form == 4 ? select(top, &r, &w, &e, &tv) : pselect(top, &r, &w, &e, &ts, NULL);
	say_result(op, ret);
	for (int i = 0; ret >= 0 && i < n; i++)
		if (p[i].fd >= 0)
			say(op, "%s%s%s, ", FD_ISSET(p[i].fd, &r) ? "r" : "",
			    FD_ISSET(p[i].fd, &w) ? "w" : "", FD_ISSET(p[i].fd, &e) ? "e" : "");
}

/* poll FORM TIMEOUT H EVENTS H EVENTS ... */
void op_poll(struct op *op)
{
	struct pollfd p[MOST];
	int n = 0, ret;

	for (int i = 2; i + 1 < op->count - 1 && n < MOST; i += 2, n++)
		p[n] = (struct pollfd){ .fd = handle(op->arg[i]), .events = (short)op->arg[i + 1] };
	if (op->arg[0] >= 4) {
		select_once(op, op->arg[0], p, n, (int)op->arg[1]);
		return;
	}
	ret = poll_once(op->arg[0], p, (nfds_t)n, (int)op->arg[1]);
	say_result(op, ret);
	for (int i = 0; ret >= 0 && i < n; i++)
		say(op, "%x, ", (unsigned)p[i].revents);
}

/*
 * settle H BYTES EVENTS: waits until so many bytes can be read and these events are reported. On a
 * loopback both are there when the peer's call has returned, unless a kernel thread was busy. If
 * they do not come, the answer is what is there in the end.
 */
void op_settle(struct op *op)
{
	struct timespec pause = { .tv_nsec = 200000 };
	int64_t until = now_ms() + PATIENCE_MS;
	int fd = handle(op->arg[0]), n = -1;
	short want = (short)op->arg[2];

	for (int i = 0;; i++) {
		struct pollfd p = { .fd = fd, .events = (short)(want | POLLIN | POLLRDHUP) };

		if (ioctl(fd, FIONREAD, &n))
			n = -1;
		poll(&p, 1, 0);
		if ((op->arg[1] < 0 || n == op->arg[1]) && (p.revents & want) == want)
			break;
		if (now_ms() > until) {
			say(op, "inq %d of %ld, events %x of %x", n, op->arg[1],
			    (unsigned)p.revents, (unsigned)want);
			return;
		}
		if (i > 20)
			nanosleep(&pause, NULL);
	}
	say(op, "settled");
}

/* epnew H */
void op_epoll_new(struct op *op)
{
	handle_set(op, op->arg[0], epoll_create1(EPOLL_CLOEXEC));
}

/* epctl SET OP H EVENTS FORM */
void op_epoll_ctl(struct op *op)
{
	struct epoll_event ev = { .events = (uint32_t)op->arg[3] };
	int set = handle(op->arg[0]), fd = handle(op->arg[2]);

	ev.data.u64 = (uint64_t)op->arg[2];
	say_result(op, op->arg[4] ? syscall(SYS_epoll_ctl, set, op->arg[1], fd, &ev) :
				    epoll_ctl(set, (int)op->arg[1], fd, &ev));
}

/*
 * epwait SET FORM MAX TIMEOUT ORDER: 0: reports events as they come, 1: sorted by handle, 2: none
 */
void op_epoll_wait(struct op *op)
{
	struct epoll_event ev[MOST], swap;
	int set = handle(op->arg[0]), max = (int)op->arg[2], timeout = (int)op->arg[3], n;
	struct timespec ts = { timeout / 1000, timeout % 1000 * 1000000L };

	switch (op->arg[1]) {
	case 1:
		n = epoll_pwait(set, ev, max, timeout, NULL);
		break;
	case 2:
		n = epoll_pwait2(set, ev, max, timeout < 0 ? NULL : &ts, NULL);
		break;
	case 3:
		n = (int)syscall(SYS_epoll_pwait, set, ev, max, timeout, NULL, 8);
		break;
	default:
		n = epoll_wait(set, ev, max, timeout);
		break;
	}
	if (op->arg[4] == 2 && n >= 0) {
		say(op, "waited");
		return;
	}
	say_result(op, n);
	for (int i = 0; op->arg[4] && i < n; i++)
		for (int j = i + 1; j < n; j++)
			if (ev[j].data.u64 < ev[i].data.u64) {
				swap = ev[i];
				ev[i] = ev[j];
				ev[j] = swap;
			}
	for (int i = 0; i < n; i++)
		say(op, "%lu:%x ", (unsigned long)ev[i].data.u64, ev[i].events);
}
