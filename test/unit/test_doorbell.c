/*
 * test_doorbell.c - tests doorbells that the other holder abuses: no notification ever blocks, and
 * each one from an honest holder is an edge.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doorbell.h"

#define PATIENCE_S 10 /* SIGALRM kills a call that blocks */

static int watched(int fd)
{
	struct epoll_event ev = { .events = RSK_DOORBELL_EVENTS };
	int set = epoll_create1(EPOLL_CLOEXEC);

	cr_assert_geq(set, 0);
	cr_assert_eq(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev), 0);
	return set;
}

static int edges(int set)
{
	struct epoll_event ev;

	return epoll_wait(set, &ev, 1, 0);
}

/* What a hostile holder does first: the flags belong to the open file that both share. */
static void make_blocking(int fd)
{
	cr_assert_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
}

Test(doorbell, each_ring_is_an_edge)
{
	int fd = rsk_doorbell_new(), set;

	cr_assert_geq(fd, 0);
	cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	set = watched(fd);
	cr_assert_eq(edges(set), 0, "it rang before anybody did");
	for (int i = 0; i < 1000; i++) {
		rsk_doorbell_ring(fd);
		cr_assert_eq(edges(set), 1);
		cr_assert_eq(edges(set), 0, "one ring, two edges");
	}
	/* Several notifications without a wait are one edge, and the next one is another edge. */
	rsk_doorbell_ring(fd);
	rsk_doorbell_ring(fd);
	cr_assert_eq(edges(set), 1);
	cr_assert_eq(edges(set), 0);
	rsk_doorbell_ring(fd);
	cr_assert_eq(edges(set), 1);
}

Test(doorbell, each_set_hears_it)
{
	int fd = rsk_doorbell_new(), a = watched(fd), b = watched(fd);

	rsk_doorbell_ring(fd);
	cr_assert_eq(edges(a), 1);
	cr_assert_eq(edges(b), 1);
	rsk_doorbell_ring(fd);
	cr_assert_eq(edges(b), 1);
	cr_assert_eq(edges(a), 1);
}

Test(doorbell, filled_and_blocking)
{
	int fd = rsk_doorbell_new(), set = watched(fd);
	uint64_t one = 1;

	alarm(PATIENCE_S);
	rsk_doorbell_ring(fd);
	cr_assert_eq(write(fd, &one, sizeof(one)), sizeof(one));
	cr_assert_eq(write(fd, &one, sizeof(one)), -1, "it was not full");
	make_blocking(fd);
	for (int i = 0; i < 100; i++)
		rsk_doorbell_ring(fd);
	cr_assert_eq(edges(set), 1);
}

/* No honest peer does this: the count is at its maximum, and a read would wait. */
Test(doorbell, emptied_and_blocking)
{
	int fd = eventfd(0, EFD_CLOEXEC), set = watched(fd);

	cr_assert(rsk_doorbell_check(fd), "only the kind counts");
	edges(set);
	alarm(PATIENCE_S);
	for (int i = 0; i < 100; i++)
		rsk_doorbell_ring(fd);
	cr_assert_eq(edges(set), 0);
}

Test(doorbell, wrong_kinds)
{
	int pipes[2], pair[2];

	cr_assert_eq(pipe(pipes), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	cr_assert_not(rsk_doorbell_check(pipes[0]));
	cr_assert_not(rsk_doorbell_check(pipes[1]));
	cr_assert_not(rsk_doorbell_check(pair[0]));
	cr_assert_not(rsk_doorbell_check(socket(AF_INET, SOCK_STREAM, 0)));
	cr_assert_not(rsk_doorbell_check(open("/dev/zero", O_RDWR)));
	cr_assert_not(rsk_doorbell_check(open("/proc/self", O_RDONLY | O_DIRECTORY)));
	cr_assert_not(rsk_doorbell_check(memfd_create("anon_inode:[eventfd]", 0)));
	cr_assert_not(rsk_doorbell_check(epoll_create1(0)));
	cr_assert_not(rsk_doorbell_check(-1));
	cr_assert_not(rsk_doorbell_check(100000));
	cr_assert(rsk_doorbell_check(rsk_doorbell_new()));
}
