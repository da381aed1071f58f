// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_sleep_set.c - tests the sets on which calls sleep that come back to one stream: which stream
 * gets one, what they report, and that none reports of a socket that it was not made for.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doorbell.h"
#include "engine.h"
#include "link.h"
#include "plain_host.h"
#include "process.h"
#include "sockets.h"

static struct rsk_link *l;

static void make_link(void)
{
	rsk_engine_init(&plain_host);
	l = rsk_link_new(true);
	cr_assert_not_null(l);
	cr_assert_eq(rsk_link_make_doorbells(l), 0);
}

static uint64_t cookie_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	cr_assert_eq(getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len), 0);
	return cookie;
}

static int set_for(uint32_t i, int fd)
{
	return rsk_sleep_set_for(l, i, cookie_of(fd), fd);
}

/* What the set shows at once: RSK_SLEEP_SET_*, or 0. */
static int shows(int set)
{
	struct epoll_event ev[3];
	int n = epoll_wait(set, ev, 3, 0), is = 0;

	cr_assert_geq(n, 0);
	for (int i = 0; i < n; i++)
		is |= (int)ev[i].data.u64;
	return is;
}

Test(sleep_set, the_second_sleep_in_succession_gets_one)
{
	int a[2], b[2], set;

	make_link();
	tcp_pair(a);
	tcp_pair(b);
	cr_assert_eq(set_for(0, a[0]), -1);
	set = set_for(0, a[0]);
	cr_assert_geq(set, 0);
	cr_assert_eq(set_for(0, a[0]), set);
	/* Streams that take turns: nothing is made again, and the first one keeps it. */
	for (int i = 0; i < 5; i++) {
		cr_assert_eq(set_for(0, b[0]), -1);
		cr_assert_eq(set_for(0, a[0]), set);
	}
	/* Another doorbell has its own. */
	cr_assert_eq(set_for(1, a[0]), -1);
	cr_assert_neq(set_for(1, a[0]), set);
	/* One that comes back takes it over. */
	cr_assert_eq(set_for(0, b[0]), -1);
	set = set_for(0, b[0]);
	cr_assert_geq(set, 0);
	cr_assert_eq(send(a[1], "x", 1, 0), 1);
	cr_assert_eq(shows(set), 0, "the former stream's socket is in it");
	cr_assert_eq(send(b[1], "x", 1, 0), 1);
	cr_assert_eq(shows(set), RSK_SLEEP_SET_TCP);
}

Test(sleep_set, each_notification_is_one_event_and_the_socket_is_level)
{
	int a[2], set;
	char byte;

	make_link();
	tcp_pair(a);
	set_for(3, a[0]);
	set = set_for(3, a[0]);
	shows(set); /* a doorbell shows when it is added */
	cr_assert_eq(shows(set), 0);
	for (int i = 0; i < 3; i++) {
		rsk_doorbell_ring(l->doorbell[3]);
		cr_assert_eq(shows(set), RSK_SLEEP_SET_RUNG, "%d", i);
		cr_assert_eq(shows(set), 0, "%d", i);
	}
	rsk_doorbell_ring(l->doorbell[2]);
	cr_assert_eq(shows(set), 0, "another doorbell");
	/* A thread that closes the number wakes the sleeper. */
	rsk_link_strike(l, UINT64_C(1) << 3);
	cr_assert_eq(shows(set), RSK_SLEEP_SET_RUNG);
	cr_assert_eq(send(a[1], "x", 1, 0), 1);
	cr_assert_eq(shows(set), RSK_SLEEP_SET_TCP);
	cr_assert_eq(shows(set), RSK_SLEEP_SET_TCP, "unread");
	cr_assert_eq(recv(a[0], &byte, 1, 0), 1);
	cr_assert_eq(shows(set), 0);
	close(a[1]);
	cr_assert_eq(shows(set), RSK_SLEEP_SET_TCP, "the end");
}

/* The same number, but another socket: its set would never show anything of it. */
Test(sleep_set, a_number_that_is_used_again)
{
	int a[2], b[2], number, set;

	make_link();
	tcp_pair(a);
	number = a[0];
	set_for(0, number);
	cr_assert_geq(set_for(0, number), 0);
	tcp_pair(b);
	cr_assert_eq(dup2(b[0], number), number);
	cr_assert_eq(set_for(0, number), -1);
	set = set_for(0, number);
	cr_assert_geq(set, 0);
	shows(set);
	cr_assert_eq(send(b[1], "x", 1, 0), 1);
	cr_assert_eq(shows(set), RSK_SLEEP_SET_TCP);
}

/* The same socket under the same number, which named nothing for a while. */
Test(sleep_set, a_socket_that_comes_back)
{
	int a[2], number, other, set;

	make_link();
	tcp_pair(a);
	number = a[0];
	set_for(0, number);
	set = set_for(0, number);
	other = dup(number);
	close(number);
	cr_assert_eq(dup2(other, number), number);
	cr_assert_eq(set_for(0, number), set);
	shows(set);
	cr_assert_eq(send(a[1], "x", 1, 0), 1);
	cr_assert_eq(shows(set), RSK_SLEEP_SET_TCP);
}

/* The number is given to another file just before the set is made, and taken back. */
Test(sleep_set, the_wrong_file_is_noticed)
{
	int a[2], b[2], number, saved, set;
	uint64_t cookie;

	make_link();
	tcp_pair(a);
	tcp_pair(b);
	number = a[0];
	cookie = cookie_of(number);
	cr_assert_eq(rsk_sleep_set_for(l, 0, cookie, number), -1);
	saved = dup(number);
	cr_assert_eq(dup2(b[0], number), number);
	cr_assert_eq(rsk_sleep_set_for(l, 0, cookie, number), -1);
	cr_assert_eq(dup2(saved, number), number);
	set = rsk_sleep_set_for(l, 0, cookie, number);
	cr_assert_geq(set, 0);
	shows(set);
	cr_assert_eq(send(a[1], "x", 1, 0), 1);
	cr_assert_eq(shows(set), RSK_SLEEP_SET_TCP);
}

Test(sleep_set, none_without_what_it_needs)
{
	int a[2];

	make_link();
	tcp_pair(a);
	/* The kernel did not say which socket it is. */
	for (int i = 0; i < 3; i++)
		cr_assert_eq(rsk_sleep_set_for(l, 0, 0, a[0]), -1);
	/* A number that is closed. */
	for (int i = 0; i < 3; i++)
		cr_assert_eq(rsk_sleep_set_for(l, 0, 77, 1000), -1);
	cr_assert_eq(set_for(0, a[0]), -1);
	cr_assert_geq(set_for(0, a[0]), 0);
}

Test(sleep_set, they_end_with_the_link)
{
	uint32_t before;
	int a[2], set;

	make_link();
	tcp_pair(a);
	before = open_files();
	for (uint32_t i = 0; i < RSK_SEG_SHARED_DOORBELL; i++) {
		set_for(i, a[0]);
		cr_assert_geq(set_for(i, a[0]), 0);
	}
	cr_assert_eq(open_files(), before + RSK_SEG_SHARED_DOORBELL);
	rsk_sleep_sets_close(l);
	cr_assert_eq(open_files(), before);
	/* ... and a forked child has none of them. */
	cr_assert_eq(set_for(0, a[0]), -1);
	set = set_for(0, a[0]);
	cr_assert_geq(fcntl(set, F_GETFD), 0);
	rsk_link_forked(l, false);
	cr_assert_eq(fcntl(set, F_GETFD), -1);
}
