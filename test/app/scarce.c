/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scarce.c - tests waits where the library has no descriptor left, or more doorbells to wait for
 * than the limits allow: a program whose calls need no descriptor sees nothing of it.
 */
#include <rsock/clock.h>

#include "signals.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>

enum {
	SLEEPERS = 10, /* more than a link has doorbells of its own */
	PEERS = 36     /* more links than one poll() once had room for */
};

static int the_fd;

static void limit_fds(rlim_t most)
{
	struct rlimit limit;

	MUST(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = most;
	MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

CASE(poll_at_limit, DIRECT, "poll of as many descriptors as RLIMIT_NOFILE lets it have")
{
	int fds[2];
	struct pollfd pfd[2];

	app_open_more(WARM, fds, 2);
	for (int i = 0; i < 2; i++)
		pfd[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	for (int i = 0; i < 5; i++) {
		if (SRV) {
			limit_fds(2);
			app_flag_set(i, (uint64_t)gettid());
			R(poll(pfd, 2, 10000));
			LOG("%d %d", pfd[0].revents, pfd[1].revents);
			app_hear(fds[i % 2], 4);
			R(poll(pfd, 2, 5));
		} else {
			app_await_asleep((pid_t)app_flag_wait(i));
			SAY(fds[i % 2], "wake");
		}
		app_sync();
	}
	app_sync();
}

CASE(poll_at_limit_cold, 0, "the same with streams that are about to be paired")
{
	int fds[2];
	struct pollfd pfd[2];
	int good = 0;

	app_open_more(COLD, fds, 2);
	for (int i = 0; i < 2; i++)
		pfd[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	if (SRV)
		limit_fds(2);
	for (int i = 0; i < 200; i++) {
		char c = (char)i;

		if (CLI)
			app_write_all(fds[i % 2], &c, 1);
		if (poll(pfd, 2, 10000) == 1 && pfd[i % 2].revents == POLLIN &&
		    read(fds[i % 2], &c, 1) == 1)
			good++;
		if (SRV)
			app_write_all(fds[i % 2], &c, 1);
	}
	LOG("good %d", good);
	app_sync();
}

CASE(poll_at_limit_signal, DIRECT, "100 signals, each ends the poll that it comes into")
{
	int fds[2], ended = 0;
	struct pollfd pfd[2];

	app_open_more(WARM, fds, 2);
	for (int i = 0; i < 2; i++)
		pfd[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	catch_signal(SIGALRM, SA_RESTART);
	limit_fds(2);
	for (int i = 0; i < 100; i++) {
		struct itimerval timer = { .it_value.tv_usec = 3000 + i * 37 };

		MUST(setitimer(ITIMER_REAL, &timer, NULL));
		ended += poll(pfd, 2, 4000) < 0 && errno == EINTR;
	}
	LOG("ended %d, signals %d", ended, signals);
	app_sync();
}

CASE(ppoll_blocks_signals, DIRECT, "a signal that ppoll() blocks does not end it")
{
	int fds[3], ended = 0;
	struct timespec time = { .tv_nsec = 20000000 };
	struct pollfd pfd[3];
	sigset_t mask;

	app_open_more(WARM, fds, 2);
	fds[2] = (int)MUST(eventfd(0, 0));
	for (int i = 0; i < 3; i++)
		pfd[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	catch_signal(SIGALRM, SA_RESTART);
	sigemptyset(&mask);
	sigaddset(&mask, SIGALRM);
	limit_fds(3);
	for (int i = 0; i < 20; i++) {
		struct itimerval timer = { .it_value.tv_usec = 3000 + i * 37 };

		MUST(setitimer(ITIMER_REAL, &timer, NULL));
		ended += ppoll(pfd, 3, &time, &mask) < 0;
	}
	LOG("ended %d, signals %d", ended, signals);
	app_sync();
}

CASE(recv_signal, DIRECT, "signals, each ends the recv with SO_RCVTIMEO that it comes into")
{
	struct timeval time = { .tv_sec = 4 };
	int fd = app_open(WARM), ended = 0;
	char c;

	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)));
	catch_signal(SIGALRM, SA_RESTART);
	limit_fds(1);
	for (int i = 0; i < 100; i++) {
		/* On a busy machine the first may come before the call. */
		struct itimerval timer = { .it_value.tv_usec = 3000 + i * 37,
					   .it_interval.tv_usec = 500000 };

		MUST(setitimer(ITIMER_REAL, &timer, NULL));
		ended += recv(fd, &c, 1, 0) < 0 && errno == EINTR;
	}
	MUST(setitimer(ITIMER_REAL, &(const struct itimerval){ 0 }, NULL));
	LOG("ended %d, at least as many signals %d", ended, signals >= 100);
	app_sync();
}

static int64_t cpu_ms(void)
{
	return (int64_t)(rsk_time_ns(CLOCK_THREAD_CPUTIME_ID) / 1000000);
}

/* With a control message for the socket, which asks for nothing here, the kernel has to send. */
static ssize_t send_by_tcp(int fd, const char *text, size_t len)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SO_TIMESTAMPING } };
	struct iovec iov = { (void *)(uintptr_t)text, len };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	return sendmsg(fd, &msg, 0);
}

CASE(peek_waits, DIRECT, "recv(MSG_PEEK | MSG_WAITALL) sleeps over bytes that are not enough")
{
	int fd = app_open(WARM);

	for (int i = 0; i < 2; i++) {
		char text[11] = "";

		if (SRV) {
			int64_t began;

			limit_fds(1);
			app_sync();
			began = cpu_ms();
			R(recv(fd, text, 10, MSG_PEEK | MSG_WAITALL));
			LOG("%s, asleep %d", text, cpu_ms() - began < 100);
			app_hear(fd, 10);
		} else {
			/* The second time the first bytes come by TCP. */
			R(i ? send_by_tcp(fd, "first", 5) : send(fd, "first", 5, 0));
			app_sync();
			usleep(300000);
			SAY(fd, "other");
		}
		app_sync();
	}
	app_close(fd);
}

static void poll_one(void *arg)
{
	struct pollfd pfd = { .fd = the_fd, .events = POLLIN };
	int n;

	(void)arg;
	errno = 0;
	n = poll(&pfd, 1, 20000);
	LOG("poll %d %s, revents %d", n, n < 0 ? app_errname(errno) : "", pfd.revents);
}

static void recv_one(void *arg)
{
	char c = 0;
	ssize_t n;

	(void)arg;
	errno = 0;
	n = recv(the_fd, &c, 1, 0);
	LOG("recv %zd %s %c", n, n < 0 ? app_errname(errno) : "", n > 0 ? c : '-');
}

static void select_one(void *arg)
{
	struct timeval tv = { 20, 0 };
	fd_set set;
	int n;

	(void)arg;
	FD_ZERO(&set);
	FD_SET(the_fd, &set);
	errno = 0;
	n = select(the_fd + 1, &set, NULL, NULL, &tv);
	LOG("select %d %s, set %d", n, n < 0 ? app_errname(errno) : "", !!FD_ISSET(the_fd, &set));
}

static void sleepers(void (*sleeper)(void *arg))
{
	struct app_thread thread[SLEEPERS];

	the_fd = app_open(WARM);
	if (SRV) {
		limit_fds(20);
		for (int i = 0; i < SLEEPERS; i++)
			app_thread_start(&thread[i], sleeper, NULL);
		for (int i = 0; i < SLEEPERS; i++)
			app_await_asleep(thread[i].tid);
		app_sync();
		for (int i = 0; i < SLEEPERS; i++)
			app_thread_join(&thread[i]);
		if (sleeper != recv_one)
			app_hear(the_fd, SLEEPERS);
	} else {
		app_sync();
		SAY(the_fd, "==========");
	}
	app_sync();
	app_close(the_fd);
}

CASE(poll_sleepers, DIRECT, "ten threads poll one stream with no descriptor left")
{
	sleepers(poll_one);
}

CASE(select_sleepers, DIRECT, "ten threads select one stream with no descriptor left")
{
	sleepers(select_one);
}

CASE(recv_sleepers, DIRECT, "ten threads are in recv of one stream with no descriptor left")
{
	sleepers(recv_one);
}

CASE(recv_no_limit, DIRECT, "recv and send sleep below an RLIMIT_NOFILE of 1, then of 0")
{
	int fd = app_open(WARM);

	for (int i = 0; i < 2; i++) {
		if (SRV) {
			limit_fds(1 - (rlim_t)i);
			app_flag_set(i, (uint64_t)gettid());
			app_hear(fd, 4);
			SAY(fd, "well");
			LOG("received %d", app_recv_pattern(fd, 8u << 20, 70000, 1));
			LOG("sent %d", app_send_pattern(fd, 8u << 20, 90000, 2));
		} else {
			app_await_asleep((pid_t)app_flag_wait(i));
			SAY(fd, "wake");
			app_hear(fd, 4);
			LOG("sent %d", app_send_pattern(fd, 8u << 20, 90000, 1));
			LOG("received %d", app_recv_pattern(fd, 8u << 20, 70000, 2));
		}
		app_sync();
	}
	if (CLI)
		R(shutdown(fd, SHUT_WR));
	else
		LOG("end %zd", read(fd, &fd, 1));
	app_sync();
}

static void peer_of_many(int i)
{
	struct app_addr addr;
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0)), one = 1;
	char c = 0;

	app_addr_make(&addr, COLD, false, app_port());
	MUST(connect(fd, &addr.sa, addr.len));
	MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	if (app_pingpong(fd, 200, true) != 200)
		_exit(1);
	app_flag_wait(0);
	/* The first bytes of a third of them come before the others'. */
	if (i % 3)
		app_flag_wait(1);
	app_write_all(fd, "x", 1);
	_exit(read(fd, &c, 1) == 1 && c == 'y' ? 0 : 1);
}

CASE(poll_many_links, LONG_RUN, "one poll of streams to 36 processes")
{
	int fds[PEERS], good = 0;
	struct pollfd pfd[PEERS];
	pid_t pid[PEERS];

	if (CLI) {
		app_port();
		for (int i = 0; i < PEERS; i++) {
			pid[i] = (pid_t)MUST(fork());
			if (!pid[i])
				peer_of_many(i);
		}
		for (int i = 0; i < PEERS; i++) {
			int status = -1;

			MUST(waitpid(pid[i], &status, 0));
			good += status == 0;
		}
		LOG("good peers %d", good);
		app_sync();
		return;
	}
	limit_fds(8192);
	int listener = app_listen(COLD), one = 1, got = 0;

	for (int i = 0; i < PEERS; i++) {
		fds[i] = app_accept(listener);
		MUST(setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
		good += app_pingpong(fds[i], 200, false) == 200;
		pfd[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	}
	LOG("good %d", good);
	R(poll(pfd, PEERS, 20));
	app_flag_set(0, 1);
	while (got < PEERS) {
		char c;

		if (poll(pfd, PEERS, 10000) <= 0)
			app_die("poll after %d: %s", got, app_errname(errno));
		for (int i = 0; i < PEERS; i++) {
			if (!pfd[i].revents)
				continue;
			if (pfd[i].revents != POLLIN || read(fds[i], &c, 1) != 1 || c != 'x')
				app_die("%d: revents %d", i, pfd[i].revents);
			pfd[i].fd = -1;
			got++;
		}
		if (got == PEERS / 3)
			app_flag_set(1, 1);
	}
	for (int i = 0; i < PEERS; i++)
		app_write_all(fds[i], "y", 1);
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

CASE(dup2_under_send, LONG_RUN,
     "with no descriptor left, dup2 over the number of a blocked send: all goes to the old stream")
{
	struct app_thread thread;
	int fds[2];
	char c;

	app_open_more(COLD, fds, 2);
	the_fd = fds[0];
	if (SRV) {
		limit_fds(20);
		app_thread_start(&thread, big_send, NULL);
		app_await_asleep(thread.tid);
		R(dup2(fds[1], fds[0]));
		app_sync();
		app_thread_join(&thread);
		SAY(fds[0], "new");
		app_sync();
	} else {
		app_sync();
		LOG("received %d", app_recv_pattern(fds[0], 16u << 20, 50000, 3));
		R(read(fds[0], &c, 1));
		app_hear(fds[1], 3);
		app_sync();
	}
	app_sync();
}
