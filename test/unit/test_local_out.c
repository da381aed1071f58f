// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_local_out.c - tests a process's queue of messages to rsockd while there is no room, when it
 * tries rsockd again, and the remote address cache.
 */
#include "local_out.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "local.h"
#include "local_say.h"
#include "plain_host.h"
#include "process.h"
#include "remote_addr_cache.h"

#define MOST (1u << 20) /* more than any buffer here takes */

static int a, b;

static void open_pair(void)
{
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	a = pair[0];
	b = pair[1];
}

static int say(struct rsk_local_out *o, uint64_t link)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_UNLINK, .link = link };

	return rsk_local_out_say(o, a, &m, -1);
}

/* Receives the messages from *next on that are there, and checks their order. */
static void hear(uint64_t *next)
{
	struct rsk_local_msg m;
	int fd, rc;

	while ((rc = rsk_local_msg_recv(b, false, &m, &fd)) == 1)
		cr_assert_eq(m.link, (*next)++);
	cr_assert_eq(rc, -EAGAIN);
}

Test(local_out, all_of_it_comes_in_order, .init = open_pair)
{
	struct rsk_local_out o = { 0 };
	uint64_t said = 1, next = 1;

	for (int turn = 0; turn < 3; turn++) {
		int rc;

		while ((rc = say(&o, said)) == 0)
			cr_assert_lt(++said, MOST);
		cr_assert_eq(rc, -EAGAIN, "no more than a bounded number waits");
		cr_assert_gt(o.n, 1000u);
		/* Some room, for some of it: nothing newer overtakes what waits. */
		hear(&next);
		cr_assert_eq(say(&o, said++), 0);
		cr_assert_gt(o.n, 0u);
		while (o.n) {
			hear(&next);
			cr_assert_eq(rsk_local_out_flush(&o, a), 0);
		}
		hear(&next);
		cr_assert_eq(next, said);
	}
}

Test(local_out, a_message_with_a_descriptor_does_not_wait, .init = open_pair)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_HELLO };
	struct rsk_local_out o = { 0 };
	int rc;

	while (!o.n)
		cr_assert_eq(say(&o, 1), 0);
	cr_assert_eq(rsk_local_out_say(&o, a, &m, a), -EAGAIN);
	rsk_local_out_clear(&o);
	close(b);
	rc = say(&o, 1);
	cr_assert(rc == -EPIPE || rc == -ECONNRESET, "%d", rc);
	cr_assert_eq(o.n, 0u);
}

Test(elsewhere, by_address)
{
	struct rsk_tuple t = { .family = AF_INET, .peer = { 10, 9, 0, 2 } };

	cr_assert_not(rsk_remote_addr_cache_has(&t));
	rsk_remote_addr_cache_add(&t);
	t.peer_port = 80;
	cr_assert(rsk_remote_addr_cache_has(&t), "whatever the port");
	for (uint32_t i = 0; i < 256; i++) {
		struct rsk_tuple other = { .family = AF_INET, .peer = { 10, 9, 1, (uint8_t)i } };

		cr_assert_not(rsk_remote_addr_cache_has(&other));
	}
	t.family = AF_INET6;
	cr_assert_not(rsk_remote_addr_cache_has(&t));
}

/* ---- when rsockd is tried again ---- */

#define S 1000000000ull

/* After how many seconds, of those that a pause may have; 0: at once. */
static unsigned int pause_s(uint32_t closed_soon, uint32_t other_version)
{
	const struct rsk_rsockd r = { .fd = -1,
				      .closed_soon = closed_soon,
				      .other_version = other_version,
				      .began_ns = 5 * S };
	unsigned int s = 0;

	while (s < 100 && !rsk_local_may_dial(&r, (5 + s) * S))
		s++;
	return s;
}

Test(local_dial, a_connection_that_lasted)
{
	cr_assert_eq(pause_s(0, 0), 0);
	cr_assert_eq(pause_s(0, 7), 0);
}

Test(local_dial, one_that_closes_at_once)
{
	static const unsigned int pause[] = { 1, 2, 4, 8, 16, 32, 32 };

	for (uint32_t i = 0; i < sizeof(pause) / sizeof(pause[0]); i++)
		cr_assert_eq(pause_s(i + 1, 0), pause[i], "%u", i);
	cr_assert_eq(pause_s(UINT32_MAX, 0), 32);
}

Test(local_dial, one_of_another_version)
{
	cr_assert_eq(pause_s(1, 7), 60);
	cr_assert_eq(pause_s(2, 7), 60);
}

/* Says so, with a message of ours unread or not, and closes. */
static void of_another_version(bool unread)
{
	struct rsk_local_version v = { .magic = RSK_MAGIC(RSK_LOCAL_LETTERS,
							  RSK_LOCAL_VERSION + 1) };
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	rsk_rsockd = (struct rsk_rsockd){ .fd = rsk_own_fd(pair[0]), .began_ns = rsk_tick_ns() };
	cr_assert_geq(rsk_rsockd.fd, 0);
	if (unread)
		cr_assert_eq(send(rsk_rsockd.fd, "x", 1, 0), 1);
	cr_assert_eq(send(pair[1], &v, sizeof(v), 0), sizeof(v));
	close(pair[1]);
}

Test(local_dial, what_it_has_said_before_it_closed)
{
	setenv("RSOCK_DAEMON", "", 1);
	rsk_engine_init(&plain_host);
	for (int i = 0; i < 4; i++) {
		of_another_version(i & 1);
		if (i & 2)
			rsk_local_hear();
		else
			rsk_local_drop(-EPIPE); /* a message could not be sent */
		cr_assert_eq(rsk_rsockd.fd, -1, "%d", i);
		cr_assert_eq(rsk_rsockd.other_version, RSK_LOCAL_VERSION + 1, "%d", i);
		cr_assert_eq(rsk_rsockd.closed_soon, 1, "%d", i);
		cr_assert(rsk_local_is_other_version());
		cr_assert_not(rsk_local_there());
	}
}
