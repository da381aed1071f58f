/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epollorder.c - tests that one epoll_wait() returns descriptors in the order in which they became
 * ready, whether they go by the ring or by TCP. In each case one connection is warm (when both ends
 * are preloaded: on the ring), others are fresh.
 */
#include "epoll_say.h"

#define ROUNDS 10

/* Records the events in the order returned, by their data. */
static int in_order(const char *what, int ep, int max, int timeout_ms)
{
	struct epoll_event ev[8];
	int n = epoll_wait(ep, ev, max, timeout_ms);
	char text[64] = "";

	for (int i = 0; i < n; i++)
		text[i] = (char)ev[i].data.u64;
	LOG("%s: %d %s", what, n, text);
	return n;
}

struct set {
	int ep, warm, fresh;
};

static struct set open_set(uint32_t how)
{
	struct set s = { .ep = (int)MUST(epoll_create1(0)), .warm = app_open(WARM) };
	int fresh[1];

	app_open_more(COLD, fresh, 1);
	s.fresh = fresh[0];
	if (SRV) {
		ADD(s.ep, s.warm, EPOLLIN | how, 'w');
		ADD(s.ep, s.fresh, EPOLLIN | how, 'f');
	}
	return s;
}

static void say_and_sync(int fd, int inq_of)
{
	if (CLI)
		SAY(fd, "x");
	else
		app_await_inq(inq_of, 1);
	app_sync();
}

static void close_set(struct set *s)
{
	app_sync();
	close(s->ep);
	app_close(s->warm);
	app_close(s->fresh);
}

/* Both have become ready, one after the other, during no wait. */
static void later(uint32_t how, int max)
{
	struct set s = open_set(how);

	for (int i = 0; i < ROUNDS; i++) {
		say_and_sync(s.fresh, s.fresh);
		say_and_sync(s.warm, s.warm);
		if (SRV) {
			int n = in_order("fresh, then warm", s.ep, max, 0);

			while (n > 0 && n < 2 && max == 1 && (how & EPOLLET))
				n += in_order("next", s.ep, max, 0);
			app_hear(s.fresh, 1);
			app_hear(s.warm, 1);
			in_order("none", s.ep, 8,
				 0); /* the kernel takes them off its list only now */
		}
		app_sync();
	}
	close_set(&s);
}

CASE(fresh_first, DIRECT, "a connection on TCP became ready before one on the ring")
{
	later(0, 8);
}

CASE(fresh_first_edge, DIRECT, "the same, EPOLLET")
{
	later(EPOLLET, 8);
}

CASE(fresh_first_one, DIRECT, "the same, one event a call")
{
	later(0, 1);
}

CASE(fresh_first_one_edge, DIRECT, "the same, one event a call, EPOLLET")
{
	later(EPOLLET, 1);
}

/* What the last wait returned is still ready: it comes before what has become ready since. */
static void told_before(bool warm_told)
{
	struct set s = open_set(0);
	int first = warm_told ? s.warm : s.fresh, then = warm_told ? s.fresh : s.warm;

	for (int i = 0; i < ROUNDS; i++) {
		say_and_sync(first, first);
		if (SRV)
			in_order("the first one", s.ep, 8, 1000);
		app_sync();
		say_and_sync(then, then);
		if (SRV) {
			in_order("both", s.ep, 8, 1000);
			in_order("again", s.ep, 8, 1000);
			app_hear(first, 1);
			in_order("the second one", s.ep, 8, 1000);
			app_hear(then, 1);
			in_order("none", s.ep, 8, 0);
		}
		app_sync();
	}
	close_set(&s);
}

CASE(told_warm, DIRECT, "a ring that was told, then TCP becomes ready too")
{
	told_before(true);
}

CASE(told_fresh, DIRECT, "TCP that was told, then a ring becomes ready too")
{
	told_before(false);
}

/* Both have room to send from the beginning: the one registered first is returned first. */
static void registered(uint32_t how)
{
	struct set s = open_set(0);
	int ep;

	if (SRV) {
		ep = (int)MUST(epoll_create1(0));
		ADD(ep, s.warm, EPOLLOUT | how, 'w');
		ADD(ep, s.fresh, EPOLLOUT | how, 'f');
		in_order("warm, fresh", ep, 8, 0);
		in_order("again", ep, 8, 0);
		MOD(ep, s.warm, EPOLLOUT | how, 'x');
		in_order("changed", ep, 8, 0);
		close(ep);
		ep = (int)MUST(epoll_create1(0));
		ADD(ep, s.fresh, EPOLLOUT | how, 'f');
		ADD(ep, s.warm, EPOLLOUT | how, 'w');
		in_order("fresh, warm", ep, 8, 0);
		MOD(ep, s.warm, EPOLLIN, 'w');
		in_order("fresh", ep, 8, 0);
		MOD(ep, s.warm, EPOLLOUT | how, 'w');
		MOD(ep, s.fresh, EPOLLOUT | how, 'f');
		in_order("both", ep, 8, 0);
		close(ep);
	}
	close_set(&s);
}

CASE(registered, DIRECT, "two that can be sent to, in the order of registration")
{
	registered(0);
}

CASE(registered_edge, DIRECT, "the same, EPOLLET")
{
	registered(EPOLLET);
}

CASE(registered_once, DIRECT, "the same, EPOLLONESHOT")
{
	registered(EPOLLONESHOT);
}

/* A stream that is always ready does not keep the other one out, whichever it is. */
static void fair(bool warm_stays)
{
	struct set s = open_set(0);
	int busy = warm_stays ? s.warm : s.fresh, other = warm_stays ? s.fresh : s.warm;
	bool told = false;

	say_and_sync(busy, busy);
	if (SRV)
		for (int i = 0; i < 100; i++) {
			struct epoll_event ev;

			if (epoll_wait(s.ep, &ev, 1, 0) != 1)
				LOG("not told");
		}
	app_sync();
	say_and_sync(other, other);
	if (SRV) {
		int64_t until = app_now_ms() + 5000;

		while (!told && app_now_ms() < until) {
			struct epoll_event ev;

			MUST(epoll_wait(s.ep, &ev, 1, 0));
			told = (ev.data.u64 == 'f') == warm_stays;
		}
		LOG("told: %d", told);
	}
	close_set(&s);
}

CASE(fair_to_fresh, DIRECT,
     "a ring that is ready all the time does not keep TCP out, one event a call")
{
	fair(true);
}

CASE(fair_to_warm, DIRECT,
     "TCP that is ready all the time does not keep a ring out, one event a call")
{
	fair(false);
}
