// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_fds.c - tests the fd table and the registrations in epoll sets against a model: random calls
 * as a program makes them, on real TCP connections between two ends in this process, which are
 * paired meanwhile.
 *
 * The model knows what every end has unread and which registration is armed, and so what a level
 * triggered wait returns.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dice.h"
#include "engine.h"
#include "epollset.h"
#include "stream.h"
#include "hooked.h"
#include "plain_host.h"

enum {
	ENDS = 12,
	SETS = 3,
	NUMBERS = 2, /* an end and its dup */
	STEPS = 50000
};

static struct end {
	int fd[NUMBERS]; /* -1: closed */
	uint32_t unread;
	struct {
		bool in, armed;
		uint32_t events;
		uint64_t data;
	} reg[SETS][NUMBERS];
} ends[ENDS]; /* 2 i and 2 i + 1 are the ends of one connection */
static int sets[SETS];
static uint64_t dice, next_data;
static uint32_t told, paired_told;

static uint32_t roll(uint32_t n)
{
	return (uint32_t)(dice_roll(&dice) % n);
}

/* ---- what the hooks do ---- */

static void close_fd(int fd)
{
	cr_assert_eq(rsk_fd_closing(fd), 0);
	cr_assert_eq(close(fd), 0);
}

static void connect_pair(struct end *a, struct end *b)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	uintptr_t before;

	cr_assert_eq(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&sa, &len), 0);
	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	a->fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	a->fd[1] = b->fd[1] = -1;
	/*
	 * The socket is known from socket(), or not; with a dup from before it was connected, or
	 * without.
	 */
	if (roll(3))
		rsk_fd_socket(a->fd[0], true, false);
	else
		rsk_fd_new(a->fd[0]);
	if (rsk_fd_word(a->fd[0]) && roll(2)) {
		a->fd[1] = dup(a->fd[0]);
		cr_assert_geq(a->fd[1], 0);
		rsk_fd_dup(a->fd[0], a->fd[1]);
		cr_assert(rsk_fdtab_validate());
	}
	if (roll(2))
		rsk_fd_socket(listener, true, false);
	before = rsk_fd_word(listener);
	cr_assert_eq(connect(a->fd[0], (struct sockaddr *)&sa, sizeof(sa)), 0);
	rsk_fd_connected(a->fd[0], (struct sockaddr *)&sa, sizeof(sa));
	b->fd[0] = accept(listener, NULL, NULL);
	cr_assert_geq(b->fd[0], 0);
	rsk_fd_accepted(b->fd[0], false, listener, before);
	setsockopt(a->fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(b->fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close_fd(listener);
}

/* ---- steps ---- */

static void say(uint32_t i)
{
	char buf[64] = "";
	uint32_t len = 1 + roll(sizeof(buf));
	int inq = 0;

	if (ends[i ^ 1].unread > 8192)
		return;
	cr_assert_eq(hooked_fall_back(ends[i].fd[0], true, buf, len), (ssize_t)len);
	ends[i ^ 1].unread += len;
	/* TCP takes time to deliver, and the model has no time. */
	for (int tries = 0; tries < 1000; tries++) {
		struct rsk_op op;
		int fd = ends[i ^ 1].fd[0];

		bool engine = rsk_op_begin(&op, fd, RSK_OP_CTL) == RSK_ENGINE;

		if (!engine || roll(2) || !rsk_op_inq_alone(&op, &inq)) {
			cr_assert_eq(ioctl(fd, FIONREAD, &inq), 0);
			if (engine)
				rsk_op_inq(&op, &inq);
		}
		rsk_op_end(&op, 0);
		if ((uint32_t)inq == ends[i ^ 1].unread)
			return;
	}
	cr_assert_fail("%d of %u bytes arrived", inq, ends[i ^ 1].unread);
}

static void hear(uint32_t i)
{
	char buf[256];
	uint32_t want = 1 + roll(sizeof(buf));
	ssize_t n = hooked_fall_back(ends[i].fd[0], false, buf, want);

	if (!ends[i].unread) {
		cr_assert_eq(n, -EAGAIN, "%zd", n);
		return;
	}
	cr_assert(n > 0 && (uint32_t)n <= ends[i].unread, "%zd of %u", n, ends[i].unread);
	ends[i].unread -= (uint32_t)n;
}

static void control(uint32_t i, uint32_t k, uint32_t set)
{
	static const int ops[] = { EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL };
	int op = ops[roll(3)], rc, want = 0;
	struct epoll_event ev = { .events = EPOLLIN | (roll(2) ? EPOLLONESHOT : 0) |
					    (roll(4) ? 0 : EPOLLOUT),
				  .data.u64 = ++next_data };

	if (ends[i].fd[k] < 0)
		return;
	if (op == EPOLL_CTL_ADD && ends[i].reg[set][k].in)
		want = -EEXIST;
	else if (op != EPOLL_CTL_ADD && !ends[i].reg[set][k].in)
		want = -ENOENT;
	rc = rsk_epoll_ctl(sets[set], op, ends[i].fd[k], &ev);
	cr_assert_eq(rc, want, "op %d: %d, not %d", op, rc, want);
	if (rc < 0)
		return;
	ends[i].reg[set][k].in = op != EPOLL_CTL_DEL;
	ends[i].reg[set][k].armed = true;
	ends[i].reg[set][k].events = ev.events;
	ends[i].reg[set][k].data = ev.data.u64;
}

/*
 * Adds or closes the dup. The registration of a closed number remains, and cannot be named any
 * more.
 */
static void dup_or_close(uint32_t i)
{
	if (ends[i].fd[1] < 0) {
		for (uint32_t set = 0; set < SETS; set++)
			if (ends[i].reg[set][1].in)
				return;
		ends[i].fd[1] = dup(ends[i].fd[0]);
		cr_assert_geq(ends[i].fd[1], 0);
		rsk_fd_dup(ends[i].fd[0], ends[i].fd[1]);
	} else {
		close_fd(ends[i].fd[1]);
		ends[i].fd[1] = -1;
	}
}

static void renew(uint32_t pair)
{
	for (uint32_t i = 2 * pair; i < 2 * pair + 2; i++)
		for (uint32_t k = 0; k < NUMBERS; k++)
			if (ends[i].fd[k] >= 0)
				close_fd(ends[i].fd[k]);
	connect_pair(&ends[2 * pair], &ends[2 * pair + 1]);
}

static void look(uint32_t set)
{
	struct epoll_event evs[ENDS * NUMBERS + 1];
	const struct timespec now = { 0 };
	int n = rsk_epoll_wait(sets[set], evs, ENDS * NUMBERS + 1, &now, NULL), want = 0;

	cr_assert_geq(n, 0);
	for (uint32_t i = 0; i < ENDS; i++)
		for (uint32_t k = 0; k < NUMBERS; k++) {
			/* There is always room for output: no end has that much unread. */
			uint32_t events = (ends[i].unread ? EPOLLIN : 0) |
					  (ends[i].reg[set][k].events & EPOLLOUT);
			int seen = 0,
			    due = ends[i].reg[set][k].in && ends[i].reg[set][k].armed && events;

			for (int j = 0; j < n; j++)
				seen += ends[i].reg[set][k].in &&
					evs[j].data.u64 == ends[i].reg[set][k].data &&
					evs[j].events == events;
			cr_assert_eq(seen, due,
				     "end %u.%u in set %u: told %d times, due %d, %u unread", i, k,
				     set, seen, due, ends[i].unread);
			want += due;
			if (due && (ends[i].reg[set][k].events & EPOLLONESHOT))
				ends[i].reg[set][k].armed = false;
		}
	cr_assert_eq(n, want, "%d events, %d of them due", n, want);
	told += (uint32_t)n;
	paired_told += rsk_epoll_of(sets[set])->tagged ? (uint32_t)n : 0;
}

static void check(void)
{
	cr_assert(rsk_fdtab_validate());
	for (uint32_t set = 0; set < SETS; set++)
		cr_assert(rsk_epoll_validate(rsk_epoll_of(sets[set])), "set %u", set);
}

/* What the fd table records of a socket without a stream, and what removes it. */
static void tags(void)
{
	struct rsk_stream *s;
	int fd = socket(AF_INET, SOCK_STREAM, 0), copy;

	rsk_fd_socket(fd, true, false);
	cr_assert(rsk_fd_marked(rsk_fd_word(fd)));
	cr_assert(!rsk_fd_tracked(fd) && !rsk_stream_of(fd));
	rsk_fd_set_nonblock(fd, true);
	cr_assert_eq(rsk_fd_word(fd), RSK_FD_TCP | RSK_FD_MODE | RSK_FD_NONBLOCK);
	rsk_fd_set_nonblock(fd, false);
	cr_assert_eq(rsk_fd_word(fd), RSK_FD_TCP | RSK_FD_MODE);
	copy = dup(fd);
	rsk_fd_dup(fd, copy);
	rsk_fd_set_nonblock(copy, true);
	cr_assert_eq(rsk_fd_word(fd), RSK_FD_TCP | RSK_FD_DUPPED);
	cr_assert_eq(rsk_fd_word(copy), RSK_FD_TCP | RSK_FD_DUPPED);
	close_fd(fd);
	cr_assert_eq(rsk_fd_word(fd), 0);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	rsk_fd_socket(fd, false, true);
	cr_assert_eq(rsk_fd_word(fd), 0);
	close_fd(fd);
	/*
	 * Added to an epoll set before it is connected: it gets a stream, found by either number.
	 */
	fd = dup(copy);
	rsk_fd_dup(copy, fd);
	rsk_fd_watched(copy);
	s = rsk_stream_of(copy);
	cr_assert(s);
	cr_assert(rsk_fd_names(fd, s));
	cr_assert_eq(atomic_load(&s->fds), 2);
	rsk_stream_unpin(s);
	cr_assert(rsk_fdtab_validate());
	close_fd(copy);
	close_fd(fd);
}

Test(fds, table_and_registrations, .timeout = 110)
{
	uint32_t phases = 0;

	dice = dice_seed("fds");
	rsk_engine_init(&plain_host);
	for (uint32_t set = 0; set < SETS; set++) {
		sets[set] = epoll_create1(EPOLL_CLOEXEC);
		rsk_fd_epoll(sets[set]);
	}
	tags();
	for (uint32_t pair = 0; pair < ENDS / 2; pair++)
		connect_pair(&ends[2 * pair], &ends[2 * pair + 1]);
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t i = roll(ENDS);

		switch (roll(16)) {
		case 0 ... 4:
			say(i);
			break;
		case 5 ... 9:
			hear(i);
			break;
		case 10 ... 11:
			control(i, roll(NUMBERS), roll(SETS));
			break;
		case 12:
			dup_or_close(i);
			break;
		case 13:
			if (!roll(200))
				renew(i / 2);
			break;
		default:
			look(roll(SETS));
		}
		if (step % 16 == 0)
			check();
		if (step == STEPS - 1)
			for (i = 0; i < ENDS; i++) {
				struct rsk_stream *s = rsk_stream_of(ends[i].fd[0]);

				phases += rsk_stream_phase(s) == RSK_PHASE_PAIRED;
				rsk_stream_unpin(s);
			}
	}
	printf("fds: %u events told, %u of them where streams were paired; %u ends paired\n", told,
	       paired_told, phases);
	cr_assert_gt(told, 1000);
	cr_assert_gt(paired_told, 500, "nothing was paired");
}
