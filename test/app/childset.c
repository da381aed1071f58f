/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * childset.c - tests epoll sets that a living child of fork() has, too, with streams that it does
 * not have: they go by the ring, and waits on the set report them beside what both processes have.
 */
#include "epoll_say.h"
#include "held.h"

#include <setjmp.h>
#include <sys/eventfd.h>

#define TURNS 200

enum {
	CHILD_ENDS = 1, /* flags */
	CHILD_LIVES,
	CHILD_WAITS,
	CHILD_HEARD
};

/* A child that has what the caller has, and uses nothing of it. */
static pid_t idle_child(void)
{
	pid_t pid = (pid_t)MUST(fork());

	if (pid) {
		app_flag_wait(CHILD_LIVES);
		return pid;
	}
	app_flag_set(CHILD_LIVES, 1);
	app_flag_wait(CHILD_ENDS);
	_exit(0);
}

static void end_child(pid_t pid)
{
	app_flag_set(CHILD_ENDS, 1);
	app_reap(pid, "child");
}

/* The server speaks first; the client, which waits on @ep, answers. Both count what was right. */
static void turns(int ep, int fd, int count)
{
	struct epoll_event ev = { 0 };
	uint32_t word = 0, right = 0;

	for (uint32_t i = 0; i < (uint32_t)count; i++) {
		if (SRV) {
			app_write_all(fd, &i, sizeof(i));
			right += app_read_full(fd, &word, sizeof(word)) == sizeof(word) &&
				 word == i + 1;
			continue;
		}
		if (epoll_wait(ep, &ev, 1, 20000) != 1 || ev.data.u64 != 1) {
			LOG("turn %u: events %x, data %llx", i, ev.events,
			    (unsigned long long)ev.data.u64);
			break;
		}
		right += app_read_full(fd, &word, sizeof(word)) == sizeof(word) && word == i;
		word++;
		app_write_all(fd, &word, sizeof(word));
	}
	LOG("turns: %u", right);
	app_sync();
}

/* @events: of the registration. */
static void with_a_child(uint32_t events)
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t pid = CLI ? idle_child() : -1;

	fd = app_open(COLD);
	if (CLI)
		ADD(ep, fd, events, 1);
	turns(ep, fd, TURNS);
	turns(ep, fd, TURNS);
	app_expect_rings(1);
	if (CLI) {
		wait_say("nothing", ep, 0);
		end_child(pid);
	}
	app_sync();
	turns(ep, fd, TURNS);
	app_expect_rings(1);
	app_close(ep);
	app_close(fd);
}

CASE(level, DIRECT, "a set that an idle child has, too: a stream is promoted in it, and stays so")
{
	with_a_child(EPOLLIN);
}

CASE(edge, DIRECT, "the same of edges")
{
	with_a_child(EPOLLIN | EPOLLET);
}

CASE(added_on_ring, DIRECT, "a stream on the ring is put into such a set, out of it, and again")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t pid = CLI ? idle_child() : -1;

	fd = app_open(WARM);
	for (int i = 0; i < 3; i++) {
		if (CLI)
			ADD(ep, fd, EPOLLIN | (i == 1 ? EPOLLET : 0), 1);
		turns(ep, fd, 20);
		if (CLI) {
			MOD(ep, fd, EPOLLIN | EPOLLOUT, 1);
			wait_say("room", ep, 0);
			DEL(ep, fd);
			wait_say("deleted", ep, 0);
		}
		app_sync();
	}
	app_expect_rings(1);
	if (CLI)
		end_child(pid);
	app_sync();
	app_close(fd);
	if (CLI)
		wait_say("closed", ep, 0);
	app_close(ep);
}

CASE(beside_others, DIRECT,
     "what both processes have is reported beside the stream, whoever sets it")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd, event = -1;
	uint64_t one = 1;
	pid_t pid = -1;

	if (CLI) {
		event = (int)MUST(eventfd(0, EFD_NONBLOCK));
		ADD(ep, event, EPOLLIN, 7);
		pid = (pid_t)MUST(fork());
		if (!pid) {
			app_flag_set(CHILD_LIVES, 1);
			app_flag_wait(CHILD_WAITS);
			wait_say("child", ep, 20000);
			R(read(event, &one, sizeof(one)));
			wait_say("child, read", ep, 0);
			app_flag_set(CHILD_HEARD, 1);
			app_flag_wait(CHILD_ENDS);
			one = 1;
			MUST(write(event, &one, sizeof(one)));
			_exit(0);
		}
		app_flag_wait(CHILD_LIVES);
	}
	fd = app_open(COLD);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns(ep, fd, 2 * TURNS);
	app_expect_rings(1);
	if (CLI) {
		MUST(write(event, &one, sizeof(one)));
		app_flag_set(CHILD_WAITS, 1);
		app_flag_wait(CHILD_HEARD);
		wait_say("the child has read it", ep, 0);
		R(write(event, &one, sizeof(one)));
		wait_say("written here", ep, 1000);
		wait_say("level", ep, 0);
	}
	app_sync();
	if (SRV)
		SAY(fd, "bytes");
	else
		app_await_inq(fd, 5);
	app_sync();
	if (CLI) {
		struct epoll_event ev;

		wait_say("both", ep, 1000);
		R(epoll_wait(ep, &ev, 1, 0));
		app_hear(fd, 5);
		R(read(event, &one, sizeof(one)));
		wait_say("none", ep, 0);
		app_flag_set(CHILD_ENDS, 1);
		wait_say("by the child", ep, 20000);
		app_reap(pid, "child");
	}
	app_sync();
	app_close(fd);
}

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

CASE(jumped_out, DIRECT, "a handler has left a sleep on the set by siglongjmp() before the fork")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
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
	fd = app_open(WARM);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns(ep, fd, TURNS);
	app_expect_rings(1);
	if (CLI) {
		struct timespec began, ended;

		MUST(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began));
		wait_say("quiet", ep, 150);
		MUST(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended));
		LOG("does not spin: %d",
		    (ended.tv_sec - began.tv_sec) * 1000000000 + ended.tv_nsec - began.tv_nsec <
			    150000000);
		end_child(pid);
	}
	app_sync();
	app_close(fd);
}

CASE(forks_again, DIRECT, "further forks while the stream is on the ring; the children end")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t first = CLI ? idle_child() : -1, second;

	fd = app_open(COLD);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns(ep, fd, TURNS);
	if (CLI) {
		second = holder(fd, CHILD_HEARD, NULL);
		app_flag_wait(CHILD_HEARD);
	}
	turns(ep, fd, 20);
	if (CLI)
		end_holder(second);
	turns(ep, fd, 2 * TURNS);
	app_expect_rings(1);
	if (CLI)
		end_child(first);
	turns(ep, fd, TURNS);
	app_expect_rings(1);
	app_close(fd);
}

CASE(child_closes_stream, DIRECT, "the child has the stream and the set, and closes the stream")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd = app_open(WARM);
	pid_t pid = -1;

	if (CLI) {
		ADD(ep, fd, EPOLLIN, 1);
		pid = (pid_t)MUST(fork());
		if (!pid) {
			close(fd);
			app_flag_set(CHILD_LIVES, 1);
			app_flag_wait(CHILD_ENDS);
			_exit(0);
		}
		app_flag_wait(CHILD_LIVES);
	}
	turns(ep, fd, 3 * TURNS);
	app_expect_rings(1);
	if (CLI)
		end_child(pid);
	app_sync();
	app_close(fd);
}

CASE(child_changes_stream, 0, "the same; before, it changes the registration")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd = app_open(WARM);
	pid_t pid = -1;

	if (CLI) {
		ADD(ep, fd, EPOLLIN | EPOLLET, 2);
		pid = (pid_t)MUST(fork());
		if (!pid) {
			MOD(ep, fd, EPOLLIN, 1);
			close(fd);
			app_flag_set(CHILD_LIVES, 1);
			app_flag_wait(CHILD_ENDS);
			_exit(0);
		}
		app_flag_wait(CHILD_LIVES);
	}
	app_sync();
	turns(ep, fd, 3 * TURNS);
	if (CLI)
		end_child(pid);
	app_sync();
	app_close(fd);
}

CASE(oneshot, DIRECT, "a oneshot registration that has fired stays silent until it is armed again")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t pid = CLI ? idle_child() : -1;

	fd = app_open(COLD);
	if (CLI)
		ADD(ep, fd, EPOLLOUT | EPOLLONESHOT, 1);
	if (CLI)
		wait_say("fires", ep, 1000);
	app_sync();
	app_warm(fd);
	app_expect_rings(1);
	if (CLI) {
		wait_say("has fired", ep, 0);
		MOD(ep, fd, EPOLLOUT | EPOLLONESHOT, 1);
		wait_say("armed", ep, 0);
		wait_say("has fired", ep, 0);
		end_child(pid);
	}
	app_sync();
	app_close(fd);
}

CASE(watched, 0, "such a set with a stream on the ring is polled, and put into another set")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), outer, fd;
	struct pollfd p = { .fd = ep, .events = POLLIN };
	pid_t pid = CLI ? idle_child() : -1;

	fd = app_open(WARM);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns(ep, fd, 20);
	if (CLI)
		R(poll(&p, 1, 0));
	app_sync();
	if (SRV)
		SAY(fd, "bytes");
	app_sync();
	if (CLI) {
		R(poll(&p, 1, 10000));
		outer = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
		ADD(outer, ep, EPOLLIN, 9);
		wait_say("outer", outer, 10000);
		app_hear(fd, 5);
		R(poll(&p, 1, 0));
		wait_say("outer, read", outer, 0);
	}
	app_sync();
	turns(ep, fd, 20);
	if (CLI)
		end_child(pid);
	turns(ep, fd, 20);
	app_close(fd);
}

CASE(falls_back, DIRECT, "a stream falls back in such a set, with bytes unread")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t pid = CLI ? idle_child() : -1;

	fd = app_open(WARM);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns(ep, fd, 20);
	app_expect_rings(1);
	if (SRV)
		SAY(fd, "bytes");
	else
		app_await_inq(fd, 5);
	app_sync();
	if (CLI) {
		fclose(fdopen((int)MUST(dup(fd)), "r"));
		wait_say("unread", ep, 1000);
		app_hear(fd, 5);
		wait_say("read", ep, 0);
	}
	app_sync();
	turns(ep, fd, 20);
	if (CLI)
		end_child(pid);
	app_sync();
	app_close(fd);
	if (CLI)
		wait_say("closed", ep, 0);
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

CASE(of_the_child, DIRECT, "the child puts a stream of its own into the set, and waits there")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t pid = CLI ? (pid_t)MUST(fork()) : 0;

	if (pid) {
		app_reap(pid, "child");
		wait_say("parent", ep, 0);
		return;
	}
	fd = app_open(COLD);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns(ep, fd, 2 * TURNS);
	app_expect_rings(1);
	app_close(fd);
	if (CLI) {
		wait_say("closed", ep, 0);
		_exit(0);
	}
}
