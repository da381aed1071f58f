/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * waiting.c - tests threads that wait for a stream while others wait, too, close, shut down,
 * cancel, signal or fork.
 */
#include "app.h"

static char buf[1 << 20];
static int the_fd, the_ep;
static _Atomic int counted;

static void wait_epoll(void *arg)
{
	struct epoll_event ev;
	int n = epoll_wait(the_ep, &ev, 1, 10000);

	(void)arg;
	LOG("epoll thread: %d events %#x", n, n == 1 ? ev.events : 0);
}

CASE(recv_and_epoll, DIRECT, "one thread in recv, one in epoll_wait on the same stream: both wake")
{
	struct app_thread thread;
	struct epoll_event ev = { .events = EPOLLIN };

	the_fd = app_open(WARM);
	if (SRV) {
		the_ep = (int)MUST(epoll_create1(0));
		MUST(epoll_ctl(the_ep, EPOLL_CTL_ADD, the_fd, &ev));
		app_thread_start(&thread, wait_epoll, NULL);
		app_flag_set(1, (uint64_t)thread.tid);
		app_flag_set(0, (uint64_t)gettid());
		ssize_t n = recv(the_fd, buf, 4, 0);

		app_thread_join(&thread);
		LOG("recv %zd", n);
		app_hear(the_fd, 4);
	} else {
		app_await_asleep((pid_t)app_flag_wait(1));
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(the_fd, "12345678");
	}
	app_sync();
	app_close(the_fd);
}

static void blocked_recv(void *arg)
{
	char text[16];
	ssize_t n;

	(void)arg;
	errno = 0;
	n = recv(the_fd, text, sizeof(text), 0);
	LOG("recv thread: %zd %.*s %s", n, n > 0 ? (int)n : 0, text,
	    n < 0 ? app_errname(errno) : "");
	atomic_fetch_add(&counted, 1);
}

CASE(close_under_recv, DIRECT, "close while another thread is in recv: it still gets what comes")
{
	struct app_thread thread;

	the_fd = app_open(WARM);
	if (SRV) {
		app_thread_start(&thread, blocked_recv, NULL);
		app_await_asleep(thread.tid);
		R(close(the_fd));
		app_await_asleep(thread.tid);
		LOG("returned %d", counted);
		app_sync();
		app_thread_join(&thread);
		R(recv(the_fd, buf, 1, 0));
		app_sync();
	} else {
		app_sync();
		SAY(the_fd, "late data");
		app_sync();
		R(read(the_fd, buf, 1));
		app_close(the_fd);
	}
	app_sync();
}

CASE(dup2_under_recv, DIRECT,
     "dup2 over the number that another thread reads: it stays with the old stream")
{
	struct app_thread thread;
	int fds[2];

	app_open_more(WARM, fds, 2);
	the_fd = fds[0];
	if (SRV) {
		app_thread_start(&thread, blocked_recv, NULL);
		app_await_asleep(thread.tid);
		R(dup2(fds[1], fds[0]));
		app_sync();
		app_thread_join(&thread);
		app_sync();
		app_hear(fds[0], 3);
	} else {
		app_sync();
		SAY(fds[0], "old");
		app_sync();
		SAY(fds[1], "new");
		R(read(fds[0], buf, 1));
	}
	app_sync();
}

static void shutdown_under(int how)
{
	struct app_thread thread;

	the_fd = app_open(WARM);
	if (SRV) {
		app_thread_start(&thread, blocked_recv, NULL);
		app_await_asleep(thread.tid);
		int ret = shutdown(the_fd, how);

		app_thread_join(&thread);
		LOG("shutdown %d", ret);
	}
	app_sync();
	app_close(the_fd);
}

CASE(shutdown_rd_under_recv, DIRECT, "SHUT_RD wakes another thread's recv with 0")
{
	shutdown_under(SHUT_RD);
}

CASE(shutdown_rdwr_under_recv, DIRECT, "SHUT_RDWR wakes another thread's recv with 0")
{
	shutdown_under(SHUT_RDWR);
}

static void blocked_send(void *arg)
{
	size_t len = 64u << 20;
	char *big = calloc(1, len);

	(void)arg;
	ssize_t n = send(the_fd, big, len, MSG_NOSIGNAL);

	LOG("send thread: part %d", n > 0 && n < (ssize_t)len);
	n = send(the_fd, big, 1, MSG_NOSIGNAL);
	LOG("send thread: %zd %s", n, app_errname(errno));
	free(big);
}

CASE(shutdown_wr_under_send, DIRECT, "SHUT_WR wakes another thread's blocked send")
{
	struct app_thread thread;

	the_fd = app_open(WARM);
	if (SRV) {
		app_thread_start(&thread, blocked_send, NULL);
		app_await_asleep(thread.tid);
		int ret = shutdown(the_fd, SHUT_WR);

		app_thread_join(&thread);
		LOG("shutdown %d", ret);
		app_sync();
	} else {
		ssize_t n;

		app_sync();
		while ((n = read(the_fd, buf, sizeof(buf))) > 0)
			;
		LOG("ends with %zd", n);
	}
	app_sync();
	app_close(the_fd);
}

static void blocked_poll(void *arg)
{
	struct pollfd pfd = { .fd = the_fd, .events = POLLIN };
	int n = poll(&pfd, 1, *(int *)arg);

	LOG("poll thread: %d %#x", n, (unsigned int)pfd.revents);
}

CASE(shutdown_under_poll, DIRECT, "shutdown here wakes another thread's poll")
{
	struct app_thread thread;
	int ms = 10000;

	the_fd = app_open(WARM);
	if (SRV) {
		app_thread_start(&thread, blocked_poll, &ms);
		app_await_asleep(thread.tid);
		int ret = shutdown(the_fd, SHUT_RD);

		app_thread_join(&thread);
		LOG("shutdown %d", ret);
	}
	app_sync();
	app_close(the_fd);
}

CASE(close_under_poll, DIRECT, "close while another thread is in poll: it still sees what comes")
{
	struct app_thread thread;
	int ms = 10000;

	the_fd = app_open(WARM);
	if (SRV) {
		app_thread_start(&thread, blocked_poll, &ms);
		app_await_asleep(thread.tid);
		R(close(the_fd));
		app_sync();
		app_thread_join(&thread);
	} else {
		app_sync();
		SAY(the_fd, "late");
	}
	app_sync();
}

static void big_send(void *arg)
{
	size_t len = 16u << 20;
	char *big = malloc(len);

	(void)arg;
	app_pattern(big, len, 0, 3);
	LOG("send thread: all %d", send(the_fd, big, len, MSG_NOSIGNAL) == (ssize_t)len);
	free(big);
}

CASE(close_under_send, DIRECT, "close while another thread's send is blocked: all of it goes out")
{
	struct app_thread thread;

	the_fd = app_open(WARM);
	if (SRV) {
		app_thread_start(&thread, big_send, NULL);
		app_await_asleep(thread.tid);
		R(close(the_fd));
		app_sync();
		app_thread_join(&thread);
	} else {
		app_sync();
		R(app_recv_pattern(the_fd, 16u << 20, 50000, 3));
		R(read(the_fd, buf, 1));
	}
	app_sync();
}

CASE(close_under_epoll, DIRECT, "close while another thread is in epoll_wait: no event any more")
{
	struct app_thread thread;
	struct epoll_event ev = { .events = EPOLLIN };
	int fds[2];

	app_open_more(WARM, fds, 2);
	the_fd = fds[0];
	if (SRV) {
		the_ep = (int)MUST(epoll_create1(0));
		for (int i = 0; i < 2; i++) {
			ev.data.fd = i;
			MUST(epoll_ctl(the_ep, EPOLL_CTL_ADD, fds[i], &ev));
		}
		app_thread_start(&thread, wait_epoll, NULL);
		app_await_asleep(thread.tid);
		R(close(fds[0]));
		app_sync();
		app_thread_join(&thread);
	} else {
		app_sync();
		R(read(fds[0], buf, 1));
		SAY(fds[1], "other");
	}
	app_sync();
}

static void ctl_add_out(void *arg)
{
	struct epoll_event ev = { .events = EPOLLOUT };

	app_await_asleep(*(pid_t *)arg);
	R(epoll_ctl(the_ep, EPOLL_CTL_ADD, the_fd, &ev));
}

static void ctl_mod_out(void *arg)
{
	struct epoll_event ev = { .events = EPOLLOUT | EPOLLET };

	app_await_asleep(*(pid_t *)arg);
	R(epoll_ctl(the_ep, EPOLL_CTL_MOD, the_fd, &ev));
}

CASE(ctl_under_wait, DIRECT, "ADD and MOD by another thread wake a blocked epoll_wait")
{
	struct app_thread thread;
	struct epoll_event ev = { .events = EPOLLIN };
	pid_t me = gettid();

	the_fd = app_open(WARM);
	the_ep = (int)MUST(epoll_create1(0));
	app_thread_start(&thread, ctl_add_out, &me);
	int n = epoll_wait(the_ep, &ev, 1, 10000);

	app_thread_join(&thread);
	LOG("after ADD: %d %#x", n, ev.events);
	ev.events = EPOLLIN;
	MUST(epoll_ctl(the_ep, EPOLL_CTL_MOD, the_fd, &ev));
	app_thread_start(&thread, ctl_mod_out, &me);
	n = epoll_wait(the_ep, &ev, 1, 10000);
	app_thread_join(&thread);
	LOG("after MOD: %d %#x", n, ev.events);
	app_sync();
	app_close(the_fd);
}

static void cleanup(void *arg)
{
	(void)arg;
	LOG("cleanup runs");
}

static void cancelled_recv(void *arg)
{
	char text[8];

	pthread_cleanup_push(cleanup, arg);
	ssize_t n = recv(the_fd, text, sizeof(text), 0);

	LOG("recv came back with %zd", n);
	pthread_cleanup_pop(0);
}

CASE(cancel, DIRECT, "a thread cancelled in recv ends; the stream loses nothing")
{
	struct app_thread thread;
	void *result = NULL;

	the_fd = app_open(WARM);
	for (int i = 0; i < 3; i++) {
		if (SRV) {
			app_thread_start(&thread, cancelled_recv, NULL);
			app_await_asleep(thread.tid);
			MUST(-pthread_cancel(thread.pthread));
			pthread_join(thread.pthread, &result);
			LOG("cancelled %d", result == PTHREAD_CANCELED);
			app_sync();
			app_hear(the_fd, 4);
		} else {
			app_sync();
			SAY(the_fd, "data");
		}
		app_sync();
	}
	app_close(the_fd);
}

CASE(fork_with_threads, DIRECT, "fork while a thread is in recv; the child uses another stream")
{
	struct app_thread thread;
	int fds[2];

	app_open_more(WARM, fds, 2);
	the_fd = fds[0];
	if (SRV) {
		app_thread_start(&thread, blocked_recv, NULL);
		app_await_asleep(thread.tid);
		pid_t pid = fork();

		if (!pid) {
			SAY(fds[1], "from the child");
			app_hear(fds[1], 5);
			_exit(0);
		}
		app_reap(pid, "child");
		app_sync();
		app_thread_join(&thread);
	} else {
		app_hear(fds[1], 14);
		SAY(fds[1], "reply");
		app_sync();
		SAY(fds[0], "for thread");
	}
	app_sync();
}

static void on_usr1(int sig)
{
	(void)sig;
}

CASE(thread_signal, DIRECT, "pthread_kill interrupts the one thread it names")
{
	struct app_thread thread;
	struct sigaction act = { .sa_handler = on_usr1 };

	the_fd = app_open(WARM);
	if (SRV) {
		MUST(sigaction(SIGUSR1, &act, NULL));
		app_thread_start(&thread, blocked_recv, NULL);
		app_await_asleep(thread.tid);
		MUST(-pthread_kill(thread.pthread, SIGUSR1));
		app_thread_join(&thread);
	}
	app_sync();
	app_close(the_fd);
}
