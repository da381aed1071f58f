/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exit.c - tests threads that go on while another one is in exit(): for them nothing changes until
 * the process is gone.
 */
#define _GNU_SOURCE
#include "app.h"

enum {
	STREAMS = 4,
	TURNS = 200
};

static int fds[STREAMS], the_ep;
static struct app_thread thread[STREAMS];
static int served[STREAMS], foreign;
static void (*at_the_end)(void);

static ssize_t end_write(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	(void)text;
	if (at_the_end)
		at_the_end();
	at_the_end = NULL;
	return (ssize_t)len;
}

/*
 * Calls exit() so that @fn runs late in it: an unflushed FILE is flushed when all handlers and the
 * destructors of all libraries have run.
 */
static void exit_through(void (*fn)(void))
{
	static const cookie_io_functions_t io = { .write = end_write };
	FILE *f = fopencookie(NULL, "w", io);

	if (!f)
		app_die("no cookie");
	at_the_end = fn;
	fputs("unflushed", f);
	exit(0);
}

/*
 * Answers each turn that the client begins; the set must return the user data that was registered,
 * and nothing else.
 */
static void serve_epoll(void *arg)
{
	(void)arg;
	while (served[0] + served[1] < 2 * TURNS) {
		struct epoll_event ev[4];
		char text[4];
		int n = epoll_wait(the_ep, ev, 4, 10000);

		if (n <= 0)
			return;
		for (int i = 0; i < n; i++) {
			uint64_t which = ev[i].data.u64;

			if (which >= 2) {
				foreign++;
				continue;
			}
			if (read(fds[which], text, sizeof(text)) != sizeof(text))
				return;
			app_write_all(fds[which], text, sizeof(text));
			served[which]++;
		}
	}
}

static void serve_poll(void *arg)
{
	struct pollfd p = { .fd = fds[2], .events = POLLIN };
	char text[4];

	(void)arg;
	while (served[2] < TURNS && poll(&p, 1, 10000) == 1 &&
	       read(fds[2], text, sizeof(text)) == sizeof(text)) {
		app_write_all(fds[2], text, sizeof(text));
		served[2]++;
	}
}

static void serve_recv(void *arg)
{
	char text[4];

	(void)arg;
	while (served[3] < TURNS && read(fds[3], text, sizeof(text)) == sizeof(text)) {
		app_write_all(fds[3], text, sizeof(text));
		served[3]++;
	}
}

static void (*const serve[])(void *) = { serve_epoll, serve_poll, serve_recv };

static void start_serving(void)
{
	the_ep = (int)MUST(epoll_create1(0));
	for (unsigned int i = 0; i < 2; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.u64 = i };

		MUST(epoll_ctl(the_ep, EPOLL_CTL_ADD, fds[i], &ev));
	}
	for (int i = 0; i < 3; i++) {
		app_thread_start(&thread[i], serve[i], NULL);
		app_await_asleep(thread[i].tid);
	}
}

static void serve_to_the_end(void)
{
	app_flag_set(1, 1);
	for (int i = 0; i < 3; i++)
		app_thread_join(&thread[i]);
	for (int i = 0; i < STREAMS; i++)
		LOG("served %d", served[i]);
	LOG("foreign %d", foreign);
}

static void ask(void)
{
	int good[STREAMS] = { 0 };

	for (uint32_t turn = 0; turn < TURNS; turn++)
		for (int i = 0; i < STREAMS; i++)
			good[i] += app_pingpong(fds[i], 1, true) == 1;
	for (int i = 0; i < STREAMS; i++) {
		LOG("%d: good %d", i, good[i]);
		R(read(fds[i], &(char){ 0 }, 1));
	}
}

CASE(threads_go_on, DIRECT,
     "threads asleep in epoll_wait, poll and recv when exit() runs: they serve on")
{
	app_open_more(WARM | NODELAY, fds, STREAMS);
	if (SRV) {
		start_serving();
		app_sync();
		exit_through(serve_to_the_end);
	}
	app_sync();
	app_flag_wait(1);
	ask();
}

CASE(threads_go_on_exit_raw, DIRECT,
     "the same threads, busy, and _exit: the peers see the end, and nothing else")
{
	app_open_more(WARM | NODELAY, fds, STREAMS);
	if (SRV) {
		start_serving();
		app_sync();
		app_flag_wait(2);
		_exit(0);
	}
	app_sync();
	for (int i = 0; i < STREAMS; i++)
		LOG("%d: good %d", i, app_pingpong(fds[i], 50, true));
	app_flag_set(2, 1);
	for (int i = 0; i < STREAMS; i++)
		R(read(fds[i], &(char){ 0 }, 1));
}

static void open_and_close(void)
{
	char text[4];

	serve_to_the_end();
	int copy = (int)MUST(dup(fds[3]));

	R(close(the_ep));
	R(close(fds[3]));
	app_flag_set(2, 1);
	R(read(copy, text, sizeof(text)));
	app_write_all(copy, text, sizeof(text));
	R(close(copy));
	R(close(fds[0]));
	the_ep = (int)MUST(epoll_create1(0));
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 };

	MUST(epoll_ctl(the_ep, EPOLL_CTL_ADD, fds[1], &ev));
	app_flag_set(3, 1);
	ev.data.u64 = 0;
	R(epoll_wait(the_ep, &ev, 1, 10000));
	LOG("data %d", (int)ev.data.u64);
	R(read(fds[1], text, sizeof(text)));
	app_write_all(fds[1], text, sizeof(text));
}

CASE(handlers_go_on, DIRECT, "fds are closed, copied and watched anew late in exit()")
{
	app_open_more(WARM | NODELAY, fds, STREAMS);
	if (SRV) {
		start_serving();
		app_sync();
		exit_through(open_and_close);
	}
	app_sync();
	app_flag_wait(1);
	for (uint32_t turn = 0; turn < TURNS; turn++)
		for (int i = 0; i < STREAMS; i++)
			app_pingpong(fds[i], 1, true);
	app_flag_wait(2);
	LOG("copy %d", app_pingpong(fds[3], 1, true));
	R(read(fds[3], &(char){ 0 }, 1));
	R(read(fds[0], &(char){ 0 }, 1));
	app_flag_wait(3);
	LOG("anew %d", app_pingpong(fds[1], 1, true));
	R(read(fds[1], &(char){ 0 }, 1));
	R(read(fds[2], &(char){ 0 }, 1));
}
