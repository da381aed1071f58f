/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heir.c - tests a child that goes on alone with a stream which its parent had on the ring: it is
 * paired with the same peer, which takes back the pairing with the parent.
 */
#include "epoll_say.h"

#define BYTES 300000

enum {
	CHILD_LIVES = 1, /* flags, and one more for the other side */
	PARENT_CLOSED = 3,
	CHILD_DONE = 5
};

/* Bytes in both directions at once, more than a ring has. */
static void exchange(int fd, unsigned int seed)
{
	for (int i = 0; i < 2; i++) {
		if (SRV == i)
			R(app_send_pattern(fd, BYTES, 10000, seed));
		else
			R(app_recv_pattern(fd, BYTES, 10000, seed));
	}
}

/* By both ends, with nothing unread: the stream gets on the ring, and carries what it should. */
static void on_ring_again(int fd)
{
	app_sync();
	for (int i = 0; i < 4; i++)
		app_warm(fd);
	app_expect_rings(1);
	exchange(fd, 3);
	app_sync();
}

/* @fd goes to a child that goes on by @run, when the parent has closed it. */
static void bequeath(int fd, void (*run)(int fd))
{
	pid_t pid = (pid_t)MUST(fork());

	if (pid) {
		app_close(fd);
		app_flag_set(PARENT_CLOSED + app_side, 1);
		app_reap(pid, "child");
		return;
	}
	app_flag_wait(PARENT_CLOSED + app_side);
	run(fd);
	app_close(fd);
	exit(0);
}

static void to_children(bool server, bool client, void (*run)(int fd))
{
	int fd = app_open(WARM);

	exchange(fd, 1);
	if (SRV ? server : client) {
		bequeath(fd, run);
		return;
	}
	run(fd);
	app_close(fd);
}

CASE(of_server, DIRECT | LONG_RUN, "the server's child goes on alone")
{
	to_children(true, false, on_ring_again);
}

CASE(of_client, DIRECT | LONG_RUN, "the client's child goes on alone")
{
	to_children(false, true, on_ring_again);
}

CASE(of_both, DIRECT | LONG_RUN, "both ends' children go on alone")
{
	to_children(true, true, on_ring_again);
}

static void once_more(int fd)
{
	on_ring_again(fd);
	if (CLI) {
		on_ring_again(fd);
		return;
	}
	pid_t pid = (pid_t)MUST(fork());

	if (!pid) {
		on_ring_again(fd);
		_exit(0);
	}
	app_close(fd);
	app_reap(pid, "grandchild");
	_exit(0);
}

CASE(of_child, DIRECT | LONG_RUN, "the child's child goes on after it")
{
	to_children(true, false, once_more);
}

static void waits_and_answers(int fd)
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), edge;
	uint32_t word, right = 0;
	struct epoll_event ev;

	edge = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	ADD(ep, fd, EPOLLIN, 1);
	ADD(edge, fd, EPOLLIN | EPOLLET, 1);
	app_sync();
	for (uint32_t i = 0; i < 1000; i++) {
		if (CLI)
			app_write_all(fd, &i, sizeof(i));
		if (epoll_wait(i % 2 ? ep : edge, &ev, 1, 5000) != 1)
			break;
		right += app_read_full(fd, &word, sizeof(word)) == sizeof(word) && word == i;
		if (SRV)
			app_write_all(fd, &i, sizeof(i));
	}
	LOG("right: %u", right);
	wait_say("level", ep, 0);
	app_expect_rings(1);
	app_sync();
}

CASE(in_sets, DIRECT | LONG_RUN, "both ends wait on epoll sets meanwhile")
{
	to_children(true, false, waits_and_answers);
}

static int kept_set;

static void in_kept_set(int fd)
{
	struct epoll_event ev;
	uint32_t word, right = 0;

	app_sync();
	for (uint32_t i = 0; i < 1000; i++) {
		if (SRV) {
			app_write_all(fd, &i, sizeof(i));
			right += app_read_full(fd, &word, sizeof(word)) == sizeof(word) &&
				 word == i;
			continue;
		}
		if (epoll_wait(kept_set, &ev, 1, 5000) != 1 || ev.data.u64 != 9)
			break;
		right += app_read_full(fd, &word, sizeof(word)) == sizeof(word) && word == i;
		app_write_all(fd, &i, sizeof(i));
	}
	LOG("right: %u", right);
	app_expect_rings(1);
	app_sync();
}

CASE(peer_keeps_its_set, DIRECT | LONG_RUN, "the peer has the stream in a set all the time")
{
	int fd = app_open(WARM);

	if (SRV) {
		bequeath(fd, in_kept_set);
		return;
	}
	kept_set = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	ADD(kept_set, fd, EPOLLIN, 9);
	in_kept_set(fd);
	app_close(fd);
	wait_say("closed", kept_set, 0);
}

CASE(child_keeps_its_set, DIRECT | LONG_RUN,
     "the child goes on in the set in which its parent had it")
{
	int fd = app_open(WARM);

	if (SRV) {
		in_kept_set(fd);
		app_close(fd);
		return;
	}
	kept_set = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	ADD(kept_set, fd, EPOLLIN, 9);
	bequeath(fd, in_kept_set);
}

CASE(parent_exits, DIRECT | LONG_RUN, "the parent ends without having closed it")
{
	pid_t pid = (pid_t)MUST(fork());
	int fd;

	if (pid) {
		MUST(waitpid(pid, NULL, 0));
		app_flag_wait(CHILD_DONE + app_side);
		return;
	}
	fd = app_open(WARM);
	if (SRV && MUST(fork()))
		exit(0);
	on_ring_again(fd);
	app_close(fd);
	app_flag_set(CHILD_DONE + app_side, 1);
	_exit(0);
}

CASE(parent_killed, LONG_RUN, "the parent is killed")
{
	pid_t pid = (pid_t)MUST(fork());
	int fd;

	if (pid) {
		MUST(waitpid(pid, NULL, 0));
		app_flag_wait(CHILD_DONE + app_side);
		return;
	}
	fd = app_open(WARM);
	if (SRV && MUST(fork()))
		kill(getpid(), SIGKILL);
	exchange(fd, 1);
	app_warm(fd);
	exchange(fd, 2);
	app_close(fd);
	app_flag_set(CHILD_DONE + app_side, 1);
	_exit(0);
}

CASE(parent_goes_on_first, LONG_RUN, "the parent uses it for a while, then closes it")
{
	int fd = app_open(WARM);
	pid_t pid;

	if (CLI) {
		exchange(fd, 1);
		exchange(fd, 2);
		app_warm(fd);
		exchange(fd, 3);
		app_sync();
		app_close(fd);
		return;
	}
	pid = (pid_t)MUST(fork());
	if (!pid) {
		app_flag_wait(PARENT_CLOSED);
		exchange(fd, 2);
		app_warm(fd);
		exchange(fd, 3);
		app_sync();
		_exit(0);
	}
	exchange(fd, 1);
	app_close(fd);
	app_flag_set(PARENT_CLOSED, 1);
	app_reap(pid, "child");
}

struct copier {
	struct app_thread thread;
	int fd;
	bool right;
};

static void hears_all(void *arg)
{
	struct copier *c = arg;

	c->right = app_recv_pattern(c->fd, 20 * BYTES, 10000, 5);
}

static void full_duplex(int fd)
{
	struct copier c = { .fd = fd };

	app_sync();
	app_thread_start(&c.thread, hears_all, &c);
	R(app_send_pattern(fd, 20 * BYTES, 10000, 5));
	app_thread_join(&c.thread);
	LOG("heard: %d", c.right);
	app_sync();
}

CASE(full_duplex, LONG_RUN, "each end has a thread that reads and one that writes")
{
	to_children(true, false, full_duplex);
}
