/* SPDX-License-Identifier: BSD-2-Clause */
/* pool.c - tests several threads on one epoll set or listener, and one thread for each stream. */
#include "app.h"

static char buf[64];
static int the_fd, the_ep;
static _Atomic int counted, answered, stop;

static int pool_fds[4];
static uint32_t pool_flags;

/* Answers each 8-byte message that the set reports, until stop. */
static void pool_worker(void *arg)
{
	(void)arg;
	while (!stop) {
		struct epoll_event ev;
		char text[8];

		if (epoll_wait(the_ep, &ev, 1, 50) != 1)
			continue;
		atomic_fetch_add(&counted, 1);
		int fd = pool_fds[ev.data.u64];

		if (recv(fd, text, sizeof(text), MSG_DONTWAIT) == sizeof(text)) {
			app_write_all(fd, text, sizeof(text));
			atomic_fetch_add(&answered, 1);
		}
		if (pool_flags & EPOLLONESHOT) {
			ev.events = EPOLLIN | pool_flags;
			MUST(epoll_ctl(the_ep, EPOLL_CTL_MOD, fd, &ev));
		}
	}
}

static void pool(uint32_t flags, bool exact)
{
	struct app_thread thread[4];
	int rounds = 300, good = 0;

	pool_flags = flags;
	app_open_more(WARM | NODELAY, pool_fds, 4);
	if (SRV) {
		the_ep = (int)MUST(epoll_create1(0));
		for (int i = 0; i < 4; i++) {
			struct epoll_event ev = { .events = EPOLLIN | flags,
						  .data.u64 = (uint64_t)i };

			MUST(epoll_ctl(the_ep, EPOLL_CTL_ADD, pool_fds[i], &ev));
		}
		for (int i = 0; i < 4; i++)
			app_thread_start(&thread[i], pool_worker, NULL);
		app_sync();
		app_sync();
		stop = 1;
		for (int i = 0; i < 4; i++)
			app_thread_join(&thread[i]);
		LOG("answered %d", answered);
		if (exact)
			LOG("events %d", counted);
	} else {
		app_sync();
		for (int r = 0; r < rounds; r++) {
			char text[8];
			int fd = pool_fds[r % 4];

			snprintf(text, sizeof(text), "m%06d", r);
			app_write_all(fd, text, sizeof(text));
			app_read_full(fd, buf, sizeof(text));
			good += !memcmp(text, buf, sizeof(text));
		}
		LOG("good %d", good);
		app_sync();
	}
	app_sync();
}

CASE(pool_level, DIRECT, "four threads in one epoll, level: each message is answered once")
{
	pool(0, false);
}

CASE(pool_edge, DIRECT, "four threads in one epoll, edge: one event a message")
{
	pool(EPOLLET, true);
}

CASE(pool_oneshot, DIRECT, "four threads in one epoll, oneshot and MOD: one event a message")
{
	pool(EPOLLONESHOT, true);
}

CASE(pool_oneshot_edge, DIRECT, "four threads in one epoll, oneshot and edge: one event a message")
{
	pool(EPOLLONESHOT | EPOLLET, true);
}

static int exclusive_ep[3];

static void exclusive_worker(void *arg)
{
	int ep = exclusive_ep[*(int *)arg];

	while (!stop) {
		struct epoll_event ev;
		char text[8];

		if (epoll_wait(ep, &ev, 1, 50) != 1)
			continue;
		if (recv(the_fd, text, sizeof(text), MSG_DONTWAIT) == sizeof(text)) {
			app_write_all(the_fd, text, sizeof(text));
			atomic_fetch_add(&answered, 1);
		}
	}
}

CASE(exclusive, DIRECT,
     "three epolls with EPOLLEXCLUSIVE on one stream: each message wakes someone")
{
	struct app_thread thread[3];
	int which[3] = { 0, 1, 2 };

	the_fd = app_open(WARM | NODELAY);
	if (SRV) {
		for (int i = 0; i < 3; i++) {
			struct epoll_event ev = { .events = EPOLLIN | EPOLLEXCLUSIVE };

			exclusive_ep[i] = (int)MUST(epoll_create1(0));
			R(epoll_ctl(exclusive_ep[i], EPOLL_CTL_ADD, the_fd, &ev));
			app_thread_start(&thread[i], exclusive_worker, &which[i]);
		}
		app_sync();
		app_sync();
		stop = 1;
		for (int i = 0; i < 3; i++)
			app_thread_join(&thread[i]);
		LOG("answered %d", answered);
	} else {
		app_sync();
		for (int r = 0; r < 200; r++) {
			app_write_all(the_fd, "exclusiv", 8);
			if (app_read_full(the_fd, buf, 8) != 8)
				break;
		}
		app_sync();
	}
	app_sync();
	app_close(the_fd);
}

static int many_fds[8];

static void many_pingpong(void *arg)
{
	int fd = many_fds[*(int *)arg], good = 0;

	for (uint32_t i = 0; i < 500; i++) {
		uint32_t got = ~i;

		if (CLI)
			MUST(write(fd, &i, sizeof(i)));
		if (app_read_full(fd, &got, sizeof(got)) != sizeof(got))
			break;
		if (SRV)
			MUST(write(fd, &got, sizeof(got)));
		good += got == i;
	}
	atomic_fetch_add(&answered, good);
}

CASE(many_threads, DIRECT, "eight threads, each with a stream of its own, promoted side by side")
{
	struct app_thread thread[8];
	int which[8];

	app_open_more(COLD | NODELAY, many_fds, 8);
	for (int i = 0; i < 8; i++) {
		which[i] = i;
		app_thread_start(&thread[i], many_pingpong, &which[i]);
	}
	for (int i = 0; i < 8; i++)
		app_thread_join(&thread[i]);
	LOG("good %d", answered);
	for (int i = 0; i < 8; i++)
		for (int done = 0; app_warm_goes_on(many_fds[i], done, 0); done++)
			app_pingpong(many_fds[i], 1, CLI);
	app_sync();
	app_expect_rings(8);
	for (int i = 0; i < 8; i++)
		app_close(many_fds[i]);
}

static int accept_listener;

static void accept_one(void *arg)
{
	int fd = accept(accept_listener, NULL, NULL);

	(void)arg;
	if (fd >= 0) {
		app_write_all(fd, "accepted", 8);
		atomic_fetch_add(&counted, 1);
		close(fd);
	}
}

CASE(accept_threads, 0, "three threads in accept on one listener: each gets one connection")
{
	struct app_thread thread[3];

	if (SRV) {
		accept_listener = app_listen(COLD);
		for (int i = 0; i < 3; i++)
			app_thread_start(&thread[i], accept_one, NULL);
		app_sync();
		for (int i = 0; i < 3; i++)
			app_thread_join(&thread[i]);
		LOG("accepted %d", counted);
	} else {
		app_sync();
		for (int i = 0; i < 3; i++) {
			int fd = app_connect(COLD);

			app_hear(fd, 8);
			R(read(fd, buf, 1));
			app_close(fd);
		}
	}
	app_sync();
}

CASE(oneshot_joins, DIRECT,
     "oneshot registered before the stream is fast: never an event that was not asked for")
{
	int fd = app_open(COLD | NODELAY), early = 0, late = 0;
	bool more = true;
	char text[8] = "";

	if (SRV) {
		struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT, .data.u64 = 7 };

		the_ep = (int)MUST(epoll_create1(0));
		MUST(epoll_ctl(the_ep, EPOLL_CTL_ADD, fd, &ev));
		for (int i = 1; more; i++) {
			if (epoll_wait(the_ep, &ev, 1, 10000) != 1 || ev.data.u64 != 7)
				late++;
			app_read_full(fd, text, sizeof(text));
			app_write_all(fd, text, sizeof(text));
			more = app_warm_goes_on(fd, i, 300);
			/* The next message is there, and the registration is disarmed. */
			if (more)
				app_await_inq(fd, sizeof(text));
			early += epoll_wait(the_ep, &ev, 1, 0);
			ev.events = EPOLLIN | EPOLLONESHOT;
			ev.data.u64 = 7;
			MUST(epoll_ctl(the_ep, EPOLL_CTL_MOD, fd, &ev));
		}
		LOG("early %d, late %d", early, late);
	} else {
		for (int i = 1; more; i++) {
			app_write_all(fd, text, sizeof(text));
			if (app_read_full(fd, text, sizeof(text)) != sizeof(text))
				break;
			more = app_warm_goes_on(fd, i, 300);
		}
	}
	app_expect_rings(1);
	app_sync();
	app_close(fd);
}

enum {
	HALVES = 2,
	PER_HALF = 12,
	HALF_ROUNDS = 400
};
static int half_fds[HALVES * PER_HALF];
static _Atomic int twice, empty;

/* Has a set of its own with half of the streams; reads what it reports. */
static void half_worker(void *arg)
{
	int half = (int)(intptr_t)arg, left = PER_HALF * HALF_ROUNDS;
	int ep = (int)MUST(epoll_create1(0));
	struct epoll_event evs[PER_HALF * 2];

	for (int i = 0; i < PER_HALF; i++) {
		struct epoll_event ev = { .events = EPOLLIN,
					  .data.fd = half_fds[half * PER_HALF + i] };

		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, ev.data.fd, &ev));
	}
	while (left > 0) {
		int n = epoll_wait(ep, evs, PER_HALF * 2, 10000);

		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			char text[8];

			for (int k = 0; k < i; k++)
				twice += evs[k].data.fd == evs[i].data.fd;
			if (recv(evs[i].data.fd, text, sizeof(text), MSG_DONTWAIT) !=
			    sizeof(text)) {
				empty++;
				continue;
			}
			app_write_all(evs[i].data.fd, text, sizeof(text));
			left--;
		}
	}
	if (left)
		LOG("half %d: %d left", half, left);
	close(ep);
}

CASE(paired_by_another, DIRECT,
     "two threads, each with its set: what one is told of can be read, and is told once")
{
	app_open_more(COLD | NODELAY, half_fds, HALVES * PER_HALF);
	if (SRV) {
		struct app_thread thread[HALVES];

		for (int i = 0; i < HALVES; i++)
			app_thread_start(&thread[i], half_worker, (void *)(intptr_t)i);
		for (int i = 0; i < HALVES; i++)
			app_thread_join(&thread[i]);
		LOG("twice %d, empty %d", twice, empty);
	} else {
		char text[8] = "";

		for (int r = 0; r < HALF_ROUNDS; r++) {
			for (int i = 0; i < HALVES * PER_HALF; i++)
				app_write_all(half_fds[i], text, sizeof(text));
			for (int i = 0; i < HALVES * PER_HALF; i++)
				app_read_full(half_fds[i], text, sizeof(text));
		}
	}
	app_expect_rings(HALVES * PER_HALF);
	app_sync();
}
