/* SPDX-License-Identifier: BSD-2-Clause */
/* sigspin.c - tests signals that come while a call spins, before it sleeps. */
#include "signals.h"

#define TRIES 20

static char buf[64];

/* A signal in 2 ms, while the call spins (CMakeLists.txt: 20 ms); in vain, one every 50 ms. */
static void signal_soon(timer_t timer)
{
	struct itimerspec when = { .it_value.tv_nsec = 2000000, .it_interval.tv_nsec = 50000000 };

	MUST(timer_settime(timer, 0, &when, NULL));
}

static long blocked(int kind, int fd, int set)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct epoll_event ev;

	switch (kind) {
	case 0:
		return recv(fd, buf, 4, 0);
	case 1:
		return poll(&p, 1, -1);
	default:
		return epoll_wait(set, &ev, 1, -1);
	}
}

CASE(eintr_at_once, DIRECT, "a handler runs while a blocked call does not sleep yet: EINTR")
{
	int fd = app_open(WARM), set = (int)MUST(epoll_create1(0));
	struct epoll_event ev = { .events = EPOLLIN };
	struct sigevent by = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct itimerspec never = { 0 };
	timer_t timer;

	catch_signal(SIGUSR1, 0);
	MUST(timer_create(CLOCK_MONOTONIC, &by, &timer));
	if (SRV)
		MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev));
	for (int kind = 0; kind < 3; kind++) {
		int eintr = 0, at_once = 0;

		for (int i = 0; i < TRIES; i++) {
			/* Answers come at once: it is worthwhile to spin for them. */
			if (app_pingpong(fd, 200, SRV) != 200)
				LOG("wrong bytes");
			if (CLI) {
				app_hear(fd, 4);
				SAY(fd, "this");
				continue;
			}
			/* So does this kind of call. */
			SAY(fd, "what");
			if (kind)
				MUST(blocked(kind, fd, set));
			app_hear(fd, 4);
			usleep(500); /* the client sleeps now */
			atomic_store(&signals, 0);
			signal_soon(timer);
			eintr += blocked(kind, fd, set) < 0 && errno == EINTR;
			MUST(timer_settime(timer, 0, &never, NULL));
			at_once += atomic_load(&signals) == 1;
		}
		/* A thread that loses its processor begins its call after the signal. */
		if (SRV)
			LOG("%d: EINTR %d, at once %d", kind, eintr == TRIES,
			    at_once > TRIES * 3 / 4);
	}
	MUST(timer_delete(timer));
	app_sync();
	app_close(fd);
}
