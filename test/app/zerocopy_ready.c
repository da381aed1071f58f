/* SPDX-License-Identifier: BSD-2-Clause */
/* zerocopy_ready.c - tests how completions of MSG_ZEROCOPY show: poll, select, epoll, and wake. */
#include <sys/select.h>

#include "zerocopy_say.h"

/* Whether an answer has EPOLLERR, within @ms; 0: the next one. */
static bool errors(int ep, struct epoll_event *ev, int ms)
{
	int64_t until = app_now_ms() + ms;
	int n;

	do {
		n = MUST(epoll_wait(ep, ev, 1, ms ? 50 : 0));
		if (n == 1 && (ev->events & EPOLLERR))
			return true;
	} while (app_now_ms() < until);
	return false;
}

static void by_epoll(uint32_t how)
{
	int fd = app_open(WARM), ep = -1;
	bool shows;
	struct epoll_event ev = { .events = EPOLLIN | how, .data.u64 = 7 };

	if (CLI) {
		set_zerocopy(fd, ON);
		ep = MUST(epoll_create1(0));
		R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		R(epoll_wait(ep, &ev, 1, 0));
	}
	for (int i = 0; i < 3; i++) {
		if (CLI)
			say(fd, MSG_ZEROCOPY);
		else
			hear(fd, 1);
		if (SRV)
			app_await_inq(fd, 0);
		app_sync();
		if (SRV)
			continue;
		app_await_outq_empty(fd);
		shows = errors(ep, &ev, 10000);
		LOG("shows %d, %#x", shows, ev.events & ~(uint32_t)EPOLLOUT);
		/* An edge was taken; a level stays, until it is read. */
		LOG("shows again %d", errors(ep, &ev, 0));
		if (i == 1)
			continue;
		read_all(fd, (uint32_t)i);
		LOG("read, shows %d", errors(ep, &ev, 0));
	}
	app_sync();
	app_expect_rings(1);
	app_close(fd);
	if (CLI)
		app_close(ep);
}

CASE(level, DIRECT, "epoll, level: EPOLLERR until the completions are read")
{
	by_epoll(0);
}

CASE(edge, DIRECT, "epoll, edges: EPOLLERR for each completion")
{
	by_epoll(EPOLLET);
}

CASE(nested, DIRECT, "an epoll set in another one shows it")
{
	int fd = app_open(WARM), inner, outer;

	if (CLI) {
		struct epoll_event ev = { .events = EPOLLIN };
		struct epoll_event set = { .events = EPOLLIN };

		set_zerocopy(fd, ON);
		inner = MUST(epoll_create1(0));
		outer = MUST(epoll_create1(0));
		MUST(epoll_ctl(inner, EPOLL_CTL_ADD, fd, &ev));
		MUST(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &set));
		R(epoll_wait(outer, &set, 1, 0));
		say(fd, MSG_ZEROCOPY);
		R(epoll_wait(outer, &set, 1, 10000));
		LOG("inner %d", errors(inner, &ev, 10000));
		read_all(fd, 0);
		R(epoll_wait(outer, &set, 1, 0));
		app_close(outer);
		app_close(inner);
	} else {
		hear(fd, 1);
	}
	app_sync();
	app_close(fd);
}

CASE(selected, DIRECT, "select(): readable and writable, not exceptional")
{
	int fd = app_open(WARM);
	fd_set r, w, e;

	if (CLI) {
		set_zerocopy(fd, ON);
		say(fd, MSG_ZEROCOPY);
	} else {
		hear(fd, 1);
	}
	app_sync();
	if (CLI) {
		app_await_poll(fd, 0, 10000);
		for (int i = 0; i < 2; i++) {
			struct timeval zero = { 0 };

			FD_ZERO(&r);
			FD_ZERO(&w);
			FD_ZERO(&e);
			FD_SET(fd, &r);
			FD_SET(fd, &e);
			R(select(fd + 1, &r, &w, &e, &zero));
			LOG("%d %d", !!FD_ISSET(fd, &r), !!FD_ISSET(fd, &e));
			if (!i)
				read_all(fd, 0);
		}
	}
	app_sync();
	app_close(fd);
}

static int the_fd, the_set;

static void poll_for_error(void *arg)
{
	struct pollfd p = { .fd = the_fd, .events = 0 };

	(void)arg;
	LOG("poll %d, revents %d", poll(&p, 1, 20000), p.revents);
}

static void epoll_for_error(void *arg)
{
	struct epoll_event ev = { 0 };

	(void)arg;
	LOG("epoll %d, %#x", epoll_wait(the_set, &ev, 1, 20000), ev.events);
}

/* The other end reads later, which would wake, too. */
static void woken(void (*sleeper)(void *arg))
{
	struct app_thread thread;

	the_fd = app_open(WARM);
	if (CLI) {
		struct epoll_event ev = { .events = EPOLLIN };

		set_zerocopy(the_fd, ON);
		the_set = MUST(epoll_create1(0));
		MUST(epoll_ctl(the_set, EPOLL_CTL_ADD, the_fd, &ev));
		app_thread_start(&thread, sleeper, NULL);
		app_await_asleep(thread.tid);
		app_pattern(buf, BYTES, 0, 3);
		MUST(send(the_fd, buf, BYTES, MSG_ZEROCOPY));
		app_thread_join(&thread);
		read_all(the_fd, 0);
		app_close(the_set);
	}
	app_sync();
	if (SRV)
		hear(the_fd, 1);
	app_sync();
	app_close(the_fd);
}

CASE(wakes_poll, DIRECT, "a thread that sleeps in poll() is woken by another's completion")
{
	woken(poll_for_error);
}

CASE(wakes_epoll, DIRECT, "the same in epoll_wait()")
{
	woken(epoll_for_error);
}
