/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * childset_threads.c - tests epoll sets that a living child has, too: threads that sleep on the set
 * when it happens, and children that come and go.
 */
#include "childset.h"

#include <setjmp.h>

struct waiter {
	struct app_thread thread;
	struct epoll_event ev;
	int ep, n;
};

static void waits(void *arg)
{
	struct waiter *w = arg;

	w->n = epoll_wait(w->ep, &w->ev, 1, 20000);
}

static void join_all(struct waiter *w, int count)
{
	for (int i = 0; i < count; i++) {
		app_thread_join(&w[i].thread);
		LOG("woken: %d, %d", w[i].n, w[i].ev.events == EPOLLIN && w[i].ev.data.u64 == 1);
	}
}

static void start_all(struct waiter *w, int count, int ep)
{
	for (int i = 0; i < count; i++) {
		w[i].ep = ep;
		app_thread_start(&w[i].thread, waits, &w[i]);
		app_await_asleep(w[i].thread.tid);
	}
}

CASE(asleep_at_fork, DIRECT, "threads that sleep on the set since before the fork")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	struct waiter w[3] = { 0 };
	pid_t pid = -1;

	if (CLI) {
		start_all(w, 3, ep);
		pid = idle_child();
	}
	fd = app_open(WARM);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	app_sync();
	if (SRV)
		SAY(fd, "bytes");
	else
		join_all(w, 3);
	app_sync();
	if (CLI) {
		app_hear(fd, 5);
		wait_say("read", ep, 0);
	}
	app_sync();
	turns(ep, fd, TURNS);
	app_expect_rings(1);
	if (CLI)
		end_child(pid);
	app_sync();
	app_close(fd);
}

CASE(asleep_since, DIRECT, "a thread that has gone to sleep on the set after the fork")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t pid = CLI ? idle_child() : -1;
	struct waiter w[2] = { 0 };

	if (CLI)
		start_all(w, 1, ep);
	fd = app_open(WARM);
	if (CLI) {
		ADD(ep, fd, EPOLLIN, 1);
		start_all(w + 1, 1, ep);
	}
	app_sync();
	if (SRV)
		SAY(fd, "bytes");
	else
		join_all(w, 2);
	app_sync();
	if (CLI) {
		app_hear(fd, 5);
		end_child(pid);
	}
	app_sync();
	if (CLI)
		start_all(w, 2, ep);
	app_sync();
	if (SRV)
		SAY(fd, "again");
	else
		join_all(w, 2);
	app_sync();
	app_expect_rings(1);
	app_close(fd);
}

static sigjmp_buf out;

static void jumps(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

/* Waits where nothing comes, and spends no time on it. */
static void quiet(int ep)
{
	struct timespec began, ended;

	MUST(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began));
	wait_say("quiet", ep, 150);
	MUST(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended));
	LOG("does not spin: %d",
	    (ended.tv_sec - began.tv_sec) * 1000000000 + ended.tv_nsec - began.tv_nsec < 10000000);
}

static void nothing(int sig)
{
	(void)sig;
}

/* A stream in @ep, which a child has, too, goes by the ring, and nobody spins. The child ends. */
static void on_ring_in(int ep, pid_t pid)
{
	int fd = app_open(WARM);

	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns(ep, fd, TURNS);
	app_expect_rings(1);
	if (CLI) {
		quiet(ep);
		end_child(pid);
	}
	app_sync();
	app_close(fd);
}

CASE(closed_under_sleeper, DIRECT,
     "a set is closed while a thread sleeps on it; another set comes in its place")
{
	int old = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), ep = -1;
	struct sigaction act = { .sa_handler = nothing };
	struct waiter w = { 0 };
	pid_t pid = -1;

	if (CLI) {
		MUST(sigaction(SIGUSR1, &act, NULL));
		start_all(&w, 1, old);
		app_close(old);
		ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
		MUST(pthread_kill(w.thread.pthread, SIGUSR1));
		app_thread_join(&w.thread);
		LOG("woken: %d", w.n);
		pid = idle_child();
	}
	on_ring_in(ep, pid);
}

CASE(comes_home, DIRECT, "the child ends while a thread sleeps on the set since before the fork")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fds[2];
	struct waiter w = { 0 };
	pid_t pid = -1;

	app_open_more(WARM, fds, 2);
	if (CLI) {
		pid = idle_child();
		ADD(ep, fds[0], EPOLLIN, 1);
		start_all(&w, 1, ep);
		end_child(pid);
		ADD(ep, fds[1], EPOLLIN, 1);
	}
	app_sync();
	if (SRV)
		SAY(fds[0], "bytes");
	else
		join_all(&w, 1);
	app_sync();
	if (CLI)
		app_hear(fds[0], 5);
	app_sync();
	for (int i = 0; i < 2; i++)
		turns(ep, fds[i], TURNS);
	app_expect_rings(2);
	if (CLI)
		quiet(ep);
	app_sync();
	for (int i = 0; i < 2; i++)
		app_close(fds[i]);
}

CASE(jumped_out, DIRECT, "a handler has left a sleep on the set by siglongjmp() before the fork")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	struct itimerval soon = { .it_value.tv_usec = 50000 };
	struct epoll_event ev;
	pid_t pid = -1;

	if (CLI) {
		signal(SIGALRM, jumps);
		if (!sigsetjmp(out, 1)) {
			MUST(setitimer(ITIMER_REAL, &soon, NULL));
			epoll_wait(ep, &ev, 1, 20000);
			app_die("no signal");
		}
		pid = idle_child();
	}
	on_ring_in(ep, pid);
}

#define STREAMS 4

/* Children come and go; each lives some milliseconds. */
static void churns(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < 30; i++) {
		pid_t pid = (pid_t)MUST(fork());

		if (!pid) {
			app_pause_ms((int)(i * 7 % 11));
			_exit(0);
		}
		app_pause_ms((int)(i * 5 % 13));
		MUST(waitpid(pid, NULL, 0));
	}
}

/* Answers each word with the next one until the other end is shut. */
static void answers(void *arg)
{
	int ep = *(int *)arg;
	struct epoll_event ev;
	uint32_t word;
	int n;

	while ((n = epoll_wait(ep, &ev, 1, 20000)) == 1 || (n < 0 && errno == EINTR)) {
		int fd = (int)ev.data.u64;

		if (n < 0)
			continue;
		n = (int)read(fd, &word, sizeof(word));
		if (n != sizeof(word)) {
			LOG("end: %d", n);
			return;
		}
		word++;
		app_write_all(fd, &word, sizeof(word));
		ev.events = EPOLLIN | EPOLLONESHOT;
		MUST(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
	}
	app_die("no word comes");
}

CASE(churn, LONG_RUN, "two threads wait on one set while children come and go")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fds[STREAMS];
	struct app_thread threads[3] = { 0 };
	uint32_t word;

	app_open_more(COLD, fds, STREAMS);
	if (CLI) {
		for (int i = 0; i < STREAMS; i++)
			ADD(ep, fds[i], EPOLLIN | EPOLLONESHOT, (uint64_t)fds[i]);
		for (int i = 0; i < 2; i++)
			app_thread_start(&threads[i], answers, &ep);
		app_thread_start(&threads[2], churns, NULL);
		app_thread_join(&threads[2]);
		app_flag_set(CHILD_ENDS, 1);
		app_thread_join(&threads[0]);
		app_thread_join(&threads[1]);
	}
	for (uint32_t i = 0; SRV && !app_flag_is_set(CHILD_ENDS); i++)
		for (int k = 0; k < STREAMS; k++) {
			app_write_all(fds[k], &i, sizeof(i));
			if (app_read_full(fds[k], &word, sizeof(word)) != sizeof(word) ||
			    word != i + 1)
				app_die("a wrong word");
		}
	if (SRV)
		MUST(shutdown(fds[0], SHUT_WR));
	if (SRV)
		MUST(shutdown(fds[1], SHUT_WR));
	app_sync();
	for (int k = 0; k < STREAMS; k++)
		app_close(fds[k]);
}
