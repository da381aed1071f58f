/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uringset.c - tests epoll sets that a program changes, or polls, by io_uring, as libuv does it.
 */
#include "uring.h"

static char buf[1 << 12];

static struct io_uring_sqe epoll_entry(int set, int op, int fd, struct epoll_event *ev)
{
	return (struct io_uring_sqe){ .opcode = IORING_OP_EPOLL_CTL,
				      .fd = set,
				      .len = (uint32_t)op,
				      .off = (uint32_t)fd,
				      .addr = (uintptr_t)ev };
}

/* By the ring if there is one, otherwise by epoll_ctl(): 0 or -errno. */
static int epoll_by(struct ring *ring, int set, int op, int fd, struct epoll_event *ev)
{
	if (ring)
		return ring_one(ring, epoll_entry(set, op, fd, ev));
	return epoll_ctl(set, op, fd, ev) < 0 ? -errno : 0;
}

CASE(epoll_ctl, DIRECT, "epoll_ctl() by io_uring, as libuv does it, then ordinary calls")
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 }, out;
	struct ring made, *ring = &made;
	int set = epoll_create1(EPOLL_CLOEXEC), len = 0;

	if (!ring_open(&made))
		ring = NULL;
	int fd = app_open(WARM | NODELAY);

	if (SRV) {
		int spare = dup(fd);

		LOG("add %d", epoll_by(ring, set, EPOLL_CTL_ADD, fd, &ev));
		LOG("again %s", app_errname(-epoll_by(ring, set, EPOLL_CTL_ADD, fd, &ev)));
		LOG("not there %s", app_errname(-epoll_by(ring, set, EPOLL_CTL_MOD, spare, &ev)));
		LOG("no set %s", app_errname(-epoll_by(ring, fd, EPOLL_CTL_ADD, spare, &ev)));
		close(spare);
		LOG("closed %s", app_errname(-epoll_by(ring, set, EPOLL_CTL_ADD, spare, &ev)));
		LOG("nothing %d", epoll_wait(set, &out, 1, 0));
		app_flag_set(0, 1);
		for (uint32_t i = 0; i < 400; i++) {
			len = epoll_wait(set, &out, 1, -1);
			if (len != 1 || out.data.u64 != 7 + i || !(out.events & EPOLLIN))
				app_die("wait %u: %d, %x", i, len, out.events);
			if (recv(fd, buf, 4, 0) != 4 || send(fd, buf, 4, 0) != 4)
				app_die("message %u: %s", i, app_errname(errno));
			ev.data.u64 = 8 + i;
			ev.events = i & 1 ? EPOLLIN : EPOLLIN | EPOLLET;
			if (epoll_by(ring, set, EPOLL_CTL_MOD, fd, &ev) != 0)
				app_die("mod %u", i);
		}
		LOG("del %d", epoll_by(ring, set, EPOLL_CTL_DEL, fd, NULL));
		LOG("again %s", app_errname(-epoll_by(ring, set, EPOLL_CTL_DEL, fd, NULL)));
		SAY(fd, "now");
		app_hear(fd, 4);
		LOG("nothing %d", epoll_wait(set, &out, 1, 50));
	} else {
		char text[4];
		int good = 0;

		app_flag_wait(0);
		for (uint32_t i = 0; i < 400; i++) {
			memcpy(text, &i, 4);
			app_write_all(fd, text, 4);
			good += app_read_full(fd, text, 4) == 4 && !memcmp(text, &i, 4);
		}
		LOG("good %d", good);
		app_hear(fd, 3);
		SAY(fd, "more");
	}
	app_sync();
	app_close(fd);
	close(set);
}

CASE(epoll_ctl_many, DIRECT, "several registrations by one io_uring_enter(), in order")
{
	struct epoll_event ev[3] = { { .events = EPOLLIN, .data.u64 = 1 },
				     { .events = EPOLLIN | EPOLLOUT, .data.u64 = 2 },
				     { .events = EPOLLIN, .data.u64 = 3 } };
	struct epoll_event out[4];
	struct ring ring;
	int set = epoll_create1(EPOLL_CLOEXEC), pipes[2];
	bool have = ring_open(&ring);
	int fd = app_open(WARM | NODELAY), res[4] = { 0 };

	if (pipe(pipes) < 0)
		app_die("pipe");
	if (SRV) {
		struct io_uring_sqe e[] = { epoll_entry(set, EPOLL_CTL_ADD, fd, &ev[0]),
					    epoll_entry(set, EPOLL_CTL_MOD, fd, &ev[1]),
					    epoll_entry(set, EPOLL_CTL_ADD, pipes[0], &ev[2]),
					    epoll_entry(set, EPOLL_CTL_ADD, fd, &ev[0]) };

		for (uint32_t i = 0; i < 4; i++)
			e[i].user_data = i;
		if (have) {
			ring_submit(&ring, e, 4, res);
		} else {
			res[0] = epoll_by(NULL, set, EPOLL_CTL_ADD, fd, &ev[0]);
			res[1] = epoll_by(NULL, set, EPOLL_CTL_MOD, fd, &ev[1]);
			res[2] = epoll_by(NULL, set, EPOLL_CTL_ADD, pipes[0], &ev[2]);
			res[3] = epoll_by(NULL, set, EPOLL_CTL_ADD, fd, &ev[0]);
		}
		for (int i = 0; i < 4; i++)
			LOG("result %s", app_errname(-res[i]));
		int n = epoll_wait(set, out, 4, 0);

		LOG("%d: %x %d", n, out[0].events, (int)out[0].data.u64);
		if (write(pipes[1], "x", 1) != 1)
			app_die("write");
		LOG("%d", epoll_wait(set, out, 4, 0));
		app_flag_set(0, 1);
		R(app_recv_pattern(fd, 300000, 10000, 1));
	} else {
		app_flag_wait(0);
		R(app_send_pattern(fd, 300000, 10000, 1));
	}
	app_sync();
	app_close(fd);
	close(set);
	close(pipes[0]);
	close(pipes[1]);
}

CASE(polled_set, 0, "a ring polls an epoll set that holds a stream on the ring")
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 5 }, out;
	int set = epoll_create1(EPOLL_CLOEXEC);
	struct ring ring;
	bool have = ring_open(&ring);
	int fd = app_open(WARM | NODELAY);

	if (SRV) {
		struct io_uring_sqe e = { .opcode = IORING_OP_POLL_ADD,
					  .fd = set,
					  .poll32_events = POLLIN };
		struct pollfd p = { .fd = set, .events = POLLIN };

		R(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev));
		app_flag_set(0, 1);
		/* Once too often is allowed: an epoll set in poll() may show what was its own. */
		do {
			if ((have ? ring_one(&ring, e) : poll(&p, 1, -1)) != 1)
				app_die("not ready");
		} while (epoll_wait(set, &out, 1, 0) != 1);
		LOG("event %d", (int)out.data.u64);
		app_hear(fd, 6);
		SAY(fd, "seen");
	} else {
		app_flag_wait(0);
		SAY(fd, "queued");
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
	close(set);
}
