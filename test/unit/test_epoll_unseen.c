// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_epoll_unseen.c - tests the adding of a paired stream to an epoll set that the library does
 * not know. The source of random numbers is wrapped: without them there is no tag, and so no set
 * that is known.
 */
#include <criterion/criterion.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "epollset.h"
#include "process.h"
#include "remote_kit.h"
#include "upcall.h"

static bool no_random;

int __real_rsk_random(void *to, size_t len);
int __wrap_rsk_random(void *to, size_t len);

int __wrap_rsk_random(void *to, size_t len)
{
	return no_random ? -EAGAIN : __real_rsk_random(to, len);
}

static struct {
	uint32_t times;
	int fd;
	enum rsk_reason why;
} left;

static int leave(int fd, enum rsk_reason why)
{
	left.times++;
	left.fd = fd;
	left.why = why;
	return 0;
}

/* The kernel alone reports what there is in such a set: the stream must not stay on the ring. */
static void leaves(bool no_tag)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 };
	struct rsk_upcalls upcalls;
	struct kit_stream ks;
	struct kit k;
	int set;

	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	ks = kit_stream(&k, true);
	upcalls = *rsk_upcalls;
	upcalls.leave = leave;
	rsk_upcalls = &upcalls;
	set = epoll_create1(EPOLL_CLOEXEC);
	no_random = no_tag;
	if (no_tag)
		rsk_fd_epoll(set);
	cr_assert_null(rsk_epoll_of(set));
	cr_assert_eq(rsk_epoll_ctl(set, EPOLL_CTL_ADD, ks.fd, &ev), 0);
	cr_assert_eq(left.times, 1);
	cr_assert(left.fd == ks.fd && left.why == RSK_REASON_INHERITED);
	cr_assert_eq(epoll_ctl(set, EPOLL_CTL_ADD, ks.fd, &ev), -1, "it is in the kernel's set");
	cr_assert_eq(rsk_epoll_ctl(set, EPOLL_CTL_MOD, ks.fd, &ev), 0);
	cr_assert_eq(rsk_epoll_ctl(set, EPOLL_CTL_DEL, ks.fd, NULL), 0);
	cr_assert_eq(left.times, 1);
	close(set);
}

Test(epoll_unseen, a_set_that_no_hook_saw)
{
	leaves(false);
}

Test(epoll_unseen, a_set_without_a_tag)
{
	leaves(true);
}

/* A socket that is connected later: its stream would be paired while it is in the set. */
Test(epoll_unseen, a_socket_before_its_connect)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct rsk_upcalls upcalls;
	int set, fd;

	kit_init();
	upcalls = *rsk_upcalls;
	upcalls.leave = leave;
	rsk_upcalls = &upcalls;
	set = epoll_create1(EPOLL_CLOEXEC);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	rsk_fd_socket(fd, true, false);
	cr_assert_eq(rsk_epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev), 0);
	cr_assert_eq(left.times, 1);
	cr_assert(left.fd == fd && left.why == RSK_REASON_INHERITED);
	close(fd);
	close(set);
}
