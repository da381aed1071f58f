// SPDX-License-Identifier: BSD-2-Clause
/* test_local_msg.c - each rule that a message between a process and rsockd has to obey, and what comes with one. */
#include "local_msg.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <rsock/board.h>
#include <rsock/reason.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fdmsg.h"

#define OF_PROCESS false
#define OF_RSOCKD true

static struct rsk_local_msg message(enum rsk_local_type type)
{
	struct rsk_local_msg m = { .magic = RSK_LOCAL_MAGIC, .type = type, .link = 5 };

	m.tuple = (struct rsk_tuple){
		.netns = 1, .local_port = 80, .peer_port = 4000, .family = AF_INET
	};
	memcpy(m.tuple.local, "\x7f\0\0\1", 4);
	memcpy(m.tuple.peer, "\x7f\0\0\1", 4);
	if (type == RSK_LOCAL_BOARD)
		m.port = 1;
	if (type == RSK_LOCAL_LINK) {
		m.port = 4000;
		m.ipv = 4;
		m.ip[3] = m.from_ip[0] = 9;
	}
	return m;
}

static int check(const struct rsk_local_msg *m, bool from_rsockd)
{
	return rsk_local_msg_check(m, sizeof(*m), from_rsockd);
}

Test(local_msg, who_may_say_what)
{
	static const bool of_rsockd[RSK_LOCAL_TYPES] = {
		[RSK_LOCAL_MEET] = true, [RSK_LOCAL_ANSWER] = true, [RSK_LOCAL_BOARD] = true
	};

	for (uint32_t type = 1; type < RSK_LOCAL_TYPES; type++)
		for (int from_rsockd = 0; from_rsockd < 2; from_rsockd++) {
			struct rsk_local_msg m = message((enum rsk_local_type)type);

			cr_assert_eq(check(&m, from_rsockd),
				     of_rsockd[type] == from_rsockd ? 0 : -EPROTO, "type %u", type);
		}
	for (uint32_t type = RSK_LOCAL_TYPES; type; type *= 2) {
		struct rsk_local_msg m = message((enum rsk_local_type)type);

		cr_assert_eq(check(&m, OF_PROCESS), -EPROTO);
		cr_assert_eq(check(&m, OF_RSOCKD), -EPROTO);
	}
}

Test(local_msg, a_number_at_a_board)
{
	struct rsk_local_msg m = message(RSK_LOCAL_BOARD);

	m.port = RSK_BOARD_OWNER - 1;
	cr_assert_eq(check(&m, OF_RSOCKD), 0);
	m.port = RSK_BOARD_OWNER;
	cr_assert_eq(check(&m, OF_RSOCKD), -EPROTO, "rsockd's own");
	m.port = 0;
	cr_assert_eq(check(&m, OF_RSOCKD), -EPROTO);
}

/* A valid message of each type, and what is wrong with it afterwards. */
#define WRONG(type, from, what)                                                                    \
	do {                                                                                       \
		struct rsk_local_msg m = message(type);                                            \
		cr_assert_eq(check(&m, from), 0);                                                  \
		what;                                                                              \
		cr_assert_eq(check(&m, from), -EPROTO, #type ": " #what);                          \
	} while (0)
#define RIGHT(type, from, what)                                                                    \
	do {                                                                                       \
		struct rsk_local_msg m = message(type);                                            \
		what;                                                                              \
		cr_assert_eq(check(&m, from), 0, #type ": " #what);                                \
	} while (0)

Test(local_msg, of_every_message)
{
	struct rsk_local_msg hello = message(RSK_LOCAL_HELLO);

	for (size_t n = 0; n < 3 * sizeof(hello); n++)
		cr_assert_eq(rsk_local_msg_check(&hello, n, OF_PROCESS),
			     n == sizeof(hello) ? 0 : -EPROTO);
	WRONG(RSK_LOCAL_HELLO, OF_PROCESS, m.type = 0);
	WRONG(RSK_LOCAL_HELLO, OF_PROCESS, m.magic ^= 1);
	WRONG(RSK_LOCAL_HELLO, OF_PROCESS, m.flags = 2);
	WRONG(RSK_LOCAL_MEET, OF_RSOCKD, m.flags = UINT32_MAX);
	RIGHT(RSK_LOCAL_MEET, OF_RSOCKD, m.flags = RSK_LOCAL_CONNECTING);
	RIGHT(RSK_LOCAL_SEEK, OF_PROCESS, m.flags = RSK_LOCAL_CONNECTING);
	RIGHT(RSK_LOCAL_SEEK, OF_PROCESS, m.flags = RSK_LOCAL_CONNECTING | RSK_LOCAL_APART);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.flags = RSK_LOCAL_APART);
	WRONG(RSK_LOCAL_LISTEN, OF_PROCESS, m.flags = RSK_LOCAL_CONNECTING);
	RIGHT(RSK_LOCAL_ASK, OF_PROCESS, m.flags = RSK_LOCAL_QUIET);
	RIGHT(RSK_LOCAL_ASK, OF_PROCESS, m.tuple.local_port = 0);
	WRONG(RSK_LOCAL_ASK, OF_PROCESS, m.flags = RSK_LOCAL_CONNECTING);
	WRONG(RSK_LOCAL_ASK, OF_PROCESS, m.tuple.peer_port = 0);
	WRONG(RSK_LOCAL_ASK, OF_PROCESS, m.tuple.family = 0);
	WRONG(RSK_LOCAL_ANSWER, OF_RSOCKD, m.reason = RSK_REASON_COUNT);
	WRONG(RSK_LOCAL_HELLO, OF_PROCESS, m.reason = UINT32_MAX);
	RIGHT(RSK_LOCAL_ANSWER, OF_RSOCKD, m.reason = RSK_REASON_COUNT - 1);
}

Test(local_msg, of_those_that_name_a_connection)
{
	WRONG(RSK_LOCAL_SEEK, OF_PROCESS, m.tuple.family = 0);
	WRONG(RSK_LOCAL_SEEK, OF_PROCESS, m.tuple.family = AF_UNIX);
	WRONG(RSK_LOCAL_SEEK, OF_PROCESS, m.tuple.local_port = 0);
	WRONG(RSK_LOCAL_SEEK, OF_PROCESS, m.tuple.peer_port = 0);
	WRONG(RSK_LOCAL_SEEK, OF_PROCESS, m.tuple.pad = 1);
	WRONG(RSK_LOCAL_SEEK, OF_PROCESS, m.tuple.pad2 = 1);
	for (int i = 4; i < 16; i++) {
		WRONG(RSK_LOCAL_SEEK, OF_PROCESS, m.tuple.local[i] = 1);
		WRONG(RSK_LOCAL_SEEK, OF_PROCESS, m.tuple.peer[i] = 1);
	}
	RIGHT(RSK_LOCAL_SEEK, OF_PROCESS,
	      (m.tuple.family = AF_INET6, memset(m.tuple.peer, 0xff, 16)));
	RIGHT(RSK_LOCAL_SEEK, OF_PROCESS, m.tuple.scope = 7);
}

Test(local_msg, of_listen)
{
	WRONG(RSK_LOCAL_LISTEN, OF_PROCESS, m.tuple.family = 0);
	WRONG(RSK_LOCAL_LISTEN, OF_PROCESS, m.tuple.local_port = 0);
	WRONG(RSK_LOCAL_LISTEN, OF_PROCESS, m.tuple.pad = 1);
	RIGHT(RSK_LOCAL_LISTEN, OF_PROCESS, m.tuple.peer_port = 0);
}

Test(local_msg, of_those_that_name_a_link)
{
	WRONG(RSK_LOCAL_MEET, OF_RSOCKD, m.link = 0);
	WRONG(RSK_LOCAL_LOST, OF_PROCESS, m.link = 0);
	WRONG(RSK_LOCAL_UNLINK, OF_PROCESS, m.link = 0);
	RIGHT(RSK_LOCAL_SEEK, OF_PROCESS, m.link = 0);
	RIGHT(RSK_LOCAL_RDMA, OF_PROCESS, m.link = 0);
	RIGHT(RSK_LOCAL_HELLO, OF_PROCESS, m.flags = RSK_LOCAL_ABLE);
	RIGHT(RSK_LOCAL_HELLO, OF_PROCESS, (memset(&m.tuple, 0xff, sizeof(m.tuple)), m.link = 0));
}

Test(local_msg, of_link)
{
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.link = 0);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.flags = RSK_LOCAL_QUIET);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.tuple.peer_port = 0);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.tuple.local_port = 0);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.port = 0);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.ipv = 6);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.ipv = 0);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.ip[4] = 1);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.from_ip[15] = 1);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, (m.flags = RSK_LOCAL_CONNECTING, m.from_ip[15] = 1));
	RIGHT(RSK_LOCAL_LINK, OF_PROCESS,
	      (m.flags = RSK_LOCAL_CONNECTING | RSK_LOCAL_AGAIN, m.port = 0, m.ipv = 0));
	RIGHT(RSK_LOCAL_LINK, OF_PROCESS, m.flags = RSK_LOCAL_AGAIN);
	RIGHT(RSK_LOCAL_LINK, OF_PROCESS,
	      (m.tuple.family = AF_INET6, m.ipv = 6, m.ip[15] = m.from_ip[15] = 1));
	WRONG(RSK_LOCAL_SEEK, OF_PROCESS, m.flags = RSK_LOCAL_AGAIN);
}

/* ---- over a socket ---- */

static int a, b;

static void open_pair(void)
{
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
	a = fds[0];
	b = fds[1];
}

/* Descriptors of this process. */
static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

Test(local_msg, sent_and_received, .init = open_pair)
{
	struct rsk_local_msg m = message(RSK_LOCAL_SEEK), got;
	int fd;

	m.magic = 0; /* filled in */
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), -EAGAIN);
	cr_assert_eq(rsk_local_msg_send(a, &m, -1), 0);
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), 1);
	cr_assert_eq(fd, -1);
	cr_assert_eq(memcmp(&m, &got, sizeof(m)), 0);
	close(a);
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), 0);
	cr_assert_eq(rsk_local_msg_send(b, &m, -1), -EPIPE);
}

Test(local_msg, a_descriptor_comes_along, .init = open_pair)
{
	struct rsk_local_msg m = message(RSK_LOCAL_HELLO), got;
	int fd, before = count_fds();

	cr_assert_eq(rsk_local_msg_send(a, &m, a), 0);
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), 1);
	cr_assert(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	cr_assert_eq(count_fds(), before + 1);
	close(fd);
}

Test(local_msg, more_descriptors_than_wanted_are_closed, .init = open_pair)
{
	struct rsk_local_msg m = message(RSK_LOCAL_HELLO), got;
	int many[RSK_FDMSG_MOST], fd, before = count_fds();

	for (int i = 0; i < RSK_FDMSG_MOST; i++)
		many[i] = a;
	cr_assert_eq(rsk_fdmsg_send(a, &m, sizeof(m), many, RSK_FDMSG_MOST), 0);
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), 1);
	cr_assert_geq(fd, 0);
	cr_assert_eq(count_fds(), before + 1);
	close(fd);
}

/* What the sender likes to send, with descriptors: none may stay. */
static void nothing_stays(const void *buf, size_t bytes, int n, int want)
{
	struct rsk_local_msg got;
	int many[64], fd, before = count_fds();
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(many))];
	} c = { .space = { 0 } };
	struct iovec iov = { (void *)buf, bytes };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &c,
			      .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n) };

	for (int i = 0; i < n; i++)
		many[i] = a;
	c.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
				   .cmsg_type = SCM_RIGHTS,
				   .cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n) };
	memcpy(CMSG_DATA(&c.head), many, sizeof(int) * (size_t)n);
	cr_assert_eq(sendmsg(a, &msg, 0), (ssize_t)bytes);
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), want);
	cr_assert_eq(fd, -1);
	cr_assert_eq(count_fds(), before, "%zu bytes with %d descriptors", bytes, n);
}

Test(local_msg, nonsense_leaves_no_descriptor, .init = open_pair)
{
	struct {
		struct rsk_local_msg m;
		char more[100];
	} big = { .m = message(RSK_LOCAL_HELLO) };
	struct rsk_local_msg wrong = message(RSK_LOCAL_MEET);

	nothing_stays(&big, sizeof(big), 1, -EPROTO);
	nothing_stays(&big, sizeof(big.m) + 1, 16, -EPROTO);
	nothing_stays(&big, sizeof(big.m) - 1, 40, -EPROTO);
	nothing_stays(&big, 1, 3, -EPROTO);
	nothing_stays(&wrong, sizeof(wrong), 2, -EPROTO);
}

/* recvmsg() says 0 for it, as at the end; it may have brought descriptors all the same. */
Test(local_msg, an_empty_message_leaves_no_descriptor, .init = open_pair)
{
	nothing_stays("", 0, 1, 0);
	nothing_stays("", 0, 16, 0);
	nothing_stays("", 0, 40, 0);
}

Test(local_msg, no_room_for_a_descriptor, .init = open_pair)
{
	struct rsk_local_msg m = message(RSK_LOCAL_HELLO), got;
	struct rlimit few;
	int fd;

	cr_assert_eq(rsk_local_msg_send(a, &m, a), 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &few), 0);
	few.rlim_cur = 0;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), 1, "it comes without");
	cr_assert_eq(fd, -1);
	few.rlim_cur = few.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
}

Test(local_msg, a_full_queue_does_not_block, .init = open_pair)
{
	struct rsk_local_msg m = message(RSK_LOCAL_HELLO);
	int n = 0, rc;

	while ((rc = rsk_local_msg_send(a, &m, -1)) == 0)
		cr_assert_lt(++n, 1 << 20);
	cr_assert_eq(rc, -EAGAIN);
	cr_assert_geq(n, 64, "%d messages", n);
}
