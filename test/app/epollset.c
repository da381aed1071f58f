/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epollset.c - tests epoll: errors, user data, nesting, copies of descriptors, masks, loops. One
 * thread waits.
 */
#include "epoll_say.h"
#include "signals.h"

#include <sys/eventfd.h>
#include <sys/select.h>

static char buf[1 << 20];

CASE(ctl_errors, DIRECT, "EEXIST, ENOENT, EPERM, EBADF, EINVAL, EFAULT, ELOOP")
{
	int fd = app_open(WARM);
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	int other = (int)MUST(epoll_create(1));
	int file = (int)MUST(open(app_self(), O_RDONLY));
	struct epoll_event ev = { .events = EPOLLIN };

	MOD(ep, fd, EPOLLIN, 1);
	DEL(ep, fd);
	ADD(ep, fd, EPOLLIN, 1);
	ADD(ep, fd, EPOLLIN, 1);
	ADD(ep, file, EPOLLIN, 1);
	ADD(ep, -1, EPOLLIN, 1);
	ADD(ep, 900000, EPOLLIN, 1);
	ADD(-1, fd, EPOLLIN, 1);
	ADD(fd, fd, EPOLLIN, 1);
	ADD(file, fd, EPOLLIN, 1);
	ADD(ep, ep, EPOLLIN, 1);
	R(epoll_ctl(ep, 77, fd, &ev));
	R(epoll_ctl(ep, EPOLL_CTL_MOD, fd, (struct epoll_event *)8));
	ADD(ep, other, EPOLLIN, 2);
	ADD(other, ep, EPOLLIN, 3);
	MOD(ep, fd, EPOLLIN | EPOLLEXCLUSIVE, 1);
	DEL(ep, fd);
	ADD(ep, fd, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 1);
	ADD(ep, fd, EPOLLIN | EPOLLEXCLUSIVE, 1);
	MOD(ep, fd, EPOLLIN, 1);
	R(epoll_wait(ep, &ev, 0, 0));
	R(epoll_wait(ep, &ev, -1, 0));
	R(epoll_wait(fd, &ev, 1, 0));
	R(epoll_wait(-1, &ev, 1, 0));
	R(epoll_create(0));
	R(epoll_create1(77));
	R(epoll_wait(ep, &ev, 1, 0));
	app_sync();
	app_close(file);
	app_close(other);
	app_close(ep);
	app_close(fd);
}

CASE(wait_efault, DIRECT, "epoll_wait into a bad buffer")
{
	int fd = app_open(WARM);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fd, EPOLLOUT, 1);
	R(epoll_wait(ep, (struct epoll_event *)8, 1, 0));
	wait_say("still ready", ep, 0);
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(data_kept, DIRECT, "all 64 bits of the user's data come back")
{
	static const uint64_t data[] = { 0,
					 ~0ull,
					 0x8000000000000000ull,
					 0xdeadbeefcafef00dull,
					 0x7fffffffffffffffull,
					 0x525330434b000001ull };
	int fds[6];

	app_open_more(COLD, fds, 6);
	app_warm(fds[0]);
	app_expect_rings(1);
	int ep = (int)MUST(epoll_create1(0));

	for (int i = 0; i < 6; i++)
		ADD(ep, fds[i], EPOLLOUT, data[i]);
	wait_say("all", ep, 0);
	app_sync();
	for (int i = 0; i < 6; i++)
		MOD(ep, fds[i], EPOLLIN, data[5 - i]);
	if (CLI) {
		for (int i = 0; i < 6; i++)
			SAY(fds[i], "x");
	} else {
		for (int i = 0; i < 6; i++)
			app_await_inq(fds[i], 1);
		wait_say("all", ep, 5000);
	}
	app_sync();
}

CASE(nested, DIRECT, "an epoll in an epoll, in poll and in select")
{
	int fd = app_open(WARM);
	int inner = (int)MUST(epoll_create1(0)), outer = (int)MUST(epoll_create1(0));
	struct pollfd pfd = { .fd = inner, .events = POLLIN };
	fd_set rd;

	ADD(inner, fd, EPOLLIN, 1);
	ADD(outer, inner, EPOLLIN, 2);
	wait_say("outer quiet", outer, 0);
	R(poll(&pfd, 1, 0));
	app_sync();
	for (int i = 0; i < 2; i++) {
		if (CLI) {
			app_await_asleep((pid_t)app_flag_wait(i));
			SAY(fd, "data");
		} else {
			app_flag_set(i, (uint64_t)gettid());
			if (i) {
				pfd.fd = outer;
				R(poll(&pfd, 1, 10000));
			}
			wait_say("outer", outer, 10000);
			wait_say("inner", inner, 0);
			pfd.fd = inner;
			R(poll(&pfd, 1, 0));
			FD_ZERO(&rd);
			FD_SET(outer, &rd);
			R(select(outer + 1, &rd, NULL, NULL, &(struct timeval){ 0, 0 }));
			app_hear(fd, 4);
			wait_say("outer drained", outer, 0);
			R(poll(&pfd, 1, 0));
		}
		app_sync();
	}
	app_close(inner);
	app_close(outer);
	app_close(fd);
}

CASE(nested_edge, DIRECT, "an edge registration of an epoll in an epoll")
{
	int fd = app_open(WARM | NODELAY);
	int inner = (int)MUST(epoll_create1(0)), outer = (int)MUST(epoll_create1(0));

	ADD(inner, fd, EPOLLIN, 1);
	ADD(outer, inner, EPOLLIN | EPOLLET, 2);
	app_sync();
	for (int i = 0; i < 2; i++) {
		if (CLI) {
			SAY(fd, "data");
		} else {
			app_await_inq(fd, 4);
			wait_say("outer", outer, 5000);
			wait_say("outer again", outer, 0);
			wait_say("inner", inner, 0);
			app_hear(fd, 4);
			wait_say("inner drained", inner, 0);
		}
		app_sync();
	}
	app_close(inner);
	app_close(outer);
	app_close(fd);
}

CASE(dup_in_epoll, DIRECT,
     "a descriptor and its dup in one epoll; closing one leaves its registration")
{
	int fd = app_open(WARM | NODELAY);
	int ep = (int)MUST(epoll_create1(0));
	int two = (int)R(dup(fd));

	ADD(ep, fd, EPOLLIN, 1);
	ADD(ep, two, EPOLLIN, 2);
	app_sync();
	if (CLI) {
		SAY(fd, "data");
		app_sync();
	} else {
		app_await_inq(fd, 4);
		wait_say("both", ep, 5000);
		R(close(fd));
		wait_say("one closed, both registered", ep, 0);
		DEL(ep, fd);
		MOD(ep, two, EPOLLIN | EPOLLOUT, 3);
		wait_say("modified", ep, 0);
		R(close(two));
		wait_say("all closed", ep, 0);
		app_sync();
	}
	app_sync();
	app_close(ep);
}

CASE(two_epolls, DIRECT, "one descriptor in two epolls, level and edge")
{
	int fd = app_open(WARM);
	int a = (int)MUST(epoll_create1(0)), b = (int)MUST(epoll_create1(0));

	ADD(a, fd, EPOLLIN, 0xa);
	ADD(b, fd, EPOLLIN | EPOLLET, 0xb);
	app_sync();
	if (CLI) {
		SAY(fd, "data");
	} else {
		app_await_inq(fd, 4);
		wait_say("a", a, 5000);
		wait_say("b", b, 5000);
		wait_say("a", a, 0);
		wait_say("b", b, 0);
		DEL(a, fd);
		wait_say("a", a, 0);
		app_hear(fd, 4);
	}
	app_sync();
	app_close(a);
	app_close(b);
	app_close(fd);
}

CASE(closed_fd_leaves, DIRECT,
     "the last close takes a registration out; a new socket of this number is new")
{
	int fds[2];

	app_open_more(WARM, fds, 2);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fds[0], EPOLLOUT, 1);
	ADD(ep, fds[1], EPOLLOUT, 2);
	wait_say("both", ep, 0);
	app_sync();
	R(close(fds[0]));
	wait_say("one", ep, 0);
	int fresh = (int)R(socket(AF_INET, SOCK_STREAM, 0));

	MOD(ep, fresh, EPOLLOUT, 3);
	ADD(ep, fresh, EPOLLOUT, 3);
	wait_say("fresh", ep, 0);
	app_sync();
}

CASE(mixture, DIRECT, "streams with an eventfd, a pipe and a listener")
{
	int fd = app_open(WARM);
	int ep = (int)MUST(epoll_create1(0)), ev = (int)MUST(eventfd(0, 0)), p[2];
	int ls = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	MUST(pipe(p));
	MUST(listen(ls, 1));
	ADD(ep, fd, EPOLLIN, 1);
	ADD(ep, ev, EPOLLIN, 2);
	ADD(ep, p[0], EPOLLIN, 3);
	ADD(ep, ls, EPOLLIN, 4);
	wait_say("quiet", ep, 0);
	app_sync();
	if (CLI) {
		SAY(fd, "data");
	} else {
		SAY(p[1], "x");
		MUST(eventfd_write(ev, 1));
		app_await_inq(fd, 4);
		wait_say("three", ep, 5000);
		app_hear(fd, 4);
		wait_say("two", ep, 0);
	}
	app_sync();
}

CASE(pwait_mask, DIRECT, "epoll_pwait lets a blocked signal in; epoll_pwait2 has nanoseconds")
{
	int fd = app_open(WARM);
	int ep = (int)MUST(epoll_create1(0));
	struct epoll_event ev;
	struct timespec ts = { 0, 5000000 };
	sigset_t block, empty;

	sigemptyset(&empty);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	catch_signal(SIGUSR1, 0);
	MUST(sigprocmask(SIG_BLOCK, &block, NULL));
	ADD(ep, fd, EPOLLIN, 1);
	MUST(raise(SIGUSR1));
	R(epoll_pwait(ep, &ev, 1, 10, &block));
	R(epoll_pwait(ep, &ev, 1, 10000, &empty));
	LOG("signals %d", signals);
	R(epoll_pwait2(ep, &ev, 1, &ts, NULL));
	MUST(raise(SIGUSR1));
	R(epoll_pwait2(ep, &ev, 1, NULL, &empty));
	LOG("signals %d", signals);
	ts.tv_nsec = 2000000000;
	R(epoll_pwait2(ep, &ev, 1, &ts, NULL));
	app_sync();
	if (CLI) {
		SAY(fd, "data");
	} else {
		app_await_inq(fd, 4);
		R(epoll_pwait2(ep, &ev, 1, NULL, &block));
		LOG("events %#x", ev.events);
	}
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(timeout, DIRECT, "timeouts of epoll_wait")
{
	int fd = app_open(WARM);
	int ep = (int)MUST(epoll_create1(0));
	struct epoll_event ev;
	int64_t start = app_now_ms();

	ADD(ep, fd, EPOLLIN, 1);
	R(epoll_wait(ep, &ev, 1, 0));
	R(epoll_wait(ep, &ev, 1, 50));
	int64_t took = app_now_ms() - start;

	LOG("in time %d", took >= 45 && took < 5000);
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(fair, DIRECT, "30 ready streams, 4 events a call: each is seen soon")
{
	int fds[30];
	unsigned int seen = 0;

	app_open_more(COLD, fds, 30);
	for (int i = 0; i < 3; i++)
		app_warm(fds[i * 9]);
	app_expect_rings(3);
	if (CLI) {
		for (int i = 0; i < 30; i++)
			SAY(fds[i], "x");
		app_sync();
	} else {
		int ep = (int)MUST(epoll_create1(0));

		for (int i = 0; i < 30; i++) {
			MUST(ctl(ep, EPOLL_CTL_ADD, fds[i], EPOLLIN, (uint64_t)i));
			app_await_inq(fds[i], 1);
		}
		for (int turn = 0; turn < 16; turn++) {
			struct epoll_event ev[4];
			int n = epoll_wait(ep, ev, 4, 1000);

			for (int i = 0; i < n; i++)
				seen |= 1u << ev[i].data.u64;
		}
		LOG("all seen %d", seen == (1u << 30) - 1);
		app_sync();
	}
	app_sync();
}

CASE(before_promotion, DIRECT,
     "registered cold, edge triggered, used all the way through the promotion")
{
	int fd = app_open(COLD | NODELAY);
	int ep = (int)MUST(epoll_create1(0));
	uint32_t rounds = 2000 * (uint32_t)app_scale(), good = 0;
	struct epoll_event ev;

	app_set_nonblock(fd, true);
	ADD(ep, fd, EPOLLIN | EPOLLET, 0x1122334455667788ull);
	app_sync();
	for (uint32_t i = 0; i < rounds; i++) {
		uint32_t got = ~i;

		if (CLI)
			MUST(write(fd, &i, sizeof(i)));
		if (epoll_wait(ep, &ev, 1, 10000) != 1 || ev.events != EPOLLIN ||
		    ev.data.u64 != 0x1122334455667788ull ||
		    read(fd, &got, sizeof(got)) != sizeof(got))
			break;
		if (SRV)
			MUST(write(fd, &got, sizeof(got)));
		good += got == i;
	}
	LOG("all good: %d", good == rounds);
	app_sync();
	app_expect_rings(1);
	wait_say("quiet", ep, 0);
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(loop_bulk, DIRECT, "an edge-triggered loop moves 4 MiB each way at once")
{
	int fd = app_open(WARM);
	int ep = (int)MUST(epoll_create1(0));
	uint64_t len = 4u << 20, sent = 0, got = 0;
	bool right = true;
	static char out[16384];

	app_set_nonblock(fd, true);
	ADD(ep, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 1);
	while (sent < len || got < len) {
		struct epoll_event ev;
		ssize_t n = 0;

		if (epoll_wait(ep, &ev, 1, 10000) != 1) {
			LOG("stalls, sent all %d, got all %d", sent == len, got == len);
			break;
		}
		while (got < len && (n = read(fd, buf, 20000)) > 0) {
			right &= app_pattern_ok(buf, (size_t)n, got, (unsigned int)!app_side);
			got += (uint64_t)n;
		}
		while (sent < len) {
			size_t now = len - sent < sizeof(out) ? (size_t)(len - sent) : sizeof(out);

			app_pattern(out, now, sent, (unsigned int)app_side);
			n = write(fd, out, now);
			if (n <= 0)
				break;
			sent += (uint64_t)n;
		}
	}
	LOG("sent %d got %d right %d", sent == len, got == len, right);
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(edge_waitall_bytes, DIRECT, "edge: reading exactly what is there, the next arrival is told")
{
	int fd = app_open(WARM | NODELAY);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fd, EPOLLIN | EPOLLET, 1);
	app_sync();
	for (int i = 1; i <= 20; i++) {
		if (CLI) {
			app_pattern(buf, (size_t)i * 700, 0, 1);
			app_write_all(fd, buf, (size_t)i * 700);
		} else {
			app_await_inq(fd, i * 700);
			if (wait_say("arrival", ep, 5000) != 1)
				break;
			LOG("right %d", read(fd, buf, (size_t)i * 700) == i * 700 &&
						app_pattern_ok(buf, (size_t)i * 700, 0, 1));
			wait_say("quiet", ep, 0);
		}
		app_sync();
	}
	app_close(ep);
	app_close(fd);
}
