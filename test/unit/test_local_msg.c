// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_local_msg.c - tests each rule for a message between a process and rsockd, and the descriptor
 * that comes with it.
 */
#include "local_msg.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rsock/clock.h>
#include <rsock/port_table.h>
#include <rsock/reason.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
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
	if (type == RSK_LOCAL_PORT_TABLE)
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
		[RSK_LOCAL_RENDEZVOUS] = true,
		[RSK_LOCAL_ANSWER] = true,
		[RSK_LOCAL_PORT_TABLE] = true,
		[RSK_LOCAL_QOS] = true,
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

Test(local_msg, a_number_at_a_port_table)
{
	struct rsk_local_msg m = message(RSK_LOCAL_PORT_TABLE);

	m.port = RSK_PORT_TABLE_OWNER - 1;
	cr_assert_eq(check(&m, OF_RSOCKD), 0);
	m.port = RSK_PORT_TABLE_OWNER;
	cr_assert_eq(check(&m, OF_RSOCKD), -EPROTO, "rsockd's own");
	m.port = 0;
	cr_assert_eq(check(&m, OF_RSOCKD), -EPROTO);
}

/* Takes a valid message of a type, applies @what, and expects a refusal. */
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

Test(local_msg, differentiated_service)
{
	RIGHT(RSK_LOCAL_QOS, OF_RSOCKD, m.qos.rate_bps = UINT64_MAX);
	RIGHT(RSK_LOCAL_QOS, OF_RSOCKD, m.qos.dscp = RSK_QOS_DSCP_MOST);
	WRONG(RSK_LOCAL_QOS, OF_RSOCKD, m.qos.dscp = RSK_QOS_DSCP_MOST + 1);
	RIGHT(RSK_LOCAL_QOS, OF_RSOCKD, m.qos.priority = RSK_QOS_PRIORITY_MOST);
	WRONG(RSK_LOCAL_QOS, OF_RSOCKD, m.qos.priority = RSK_QOS_PRIORITY_MOST + 1);
	WRONG(RSK_LOCAL_QOS, OF_RSOCKD, m.link = 0);
}

Test(local_msg, of_every_message)
{
	struct rsk_local_msg hello = message(RSK_LOCAL_HELLO);

	for (size_t n = 0; n < 3 * sizeof(hello); n++)
		cr_assert_eq(rsk_local_msg_check(&hello, n, OF_PROCESS),
			     n == sizeof(hello) ? 0 : -EPROTO);
	WRONG(RSK_LOCAL_HELLO, OF_PROCESS, m.type = 0);
	WRONG(RSK_LOCAL_HELLO, OF_PROCESS, m.magic ^= 1);
	WRONG(RSK_LOCAL_HELLO, OF_PROCESS, m.flags = 2);
	WRONG(RSK_LOCAL_RENDEZVOUS, OF_RSOCKD, m.flags = UINT32_MAX);
	RIGHT(RSK_LOCAL_RENDEZVOUS, OF_RSOCKD, m.flags = RSK_LOCAL_CONNECTING);
	RIGHT(RSK_LOCAL_LOOKUP, OF_PROCESS, m.flags = RSK_LOCAL_CONNECTING);
	RIGHT(RSK_LOCAL_LOOKUP, OF_PROCESS, m.flags = RSK_LOCAL_CONNECTING | RSK_LOCAL_NO_SHM);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.flags = RSK_LOCAL_NO_SHM);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.flags = RSK_LOCAL_CONNECTING | RSK_LOCAL_PAIR);
	WRONG(RSK_LOCAL_LISTEN, OF_PROCESS, m.flags = RSK_LOCAL_CONNECTING);
	RIGHT(RSK_LOCAL_RESOLVE, OF_PROCESS, m.flags = RSK_LOCAL_QUIET);
	RIGHT(RSK_LOCAL_RESOLVE, OF_PROCESS, m.tuple.local_port = 0);
	WRONG(RSK_LOCAL_RESOLVE, OF_PROCESS, m.flags = RSK_LOCAL_CONNECTING);
	WRONG(RSK_LOCAL_RESOLVE, OF_PROCESS, m.tuple.peer_port = 0);
	WRONG(RSK_LOCAL_RESOLVE, OF_PROCESS, m.tuple.family = 0);
	WRONG(RSK_LOCAL_ANSWER, OF_RSOCKD, m.reason = RSK_REASON_MOST + 1);
	WRONG(RSK_LOCAL_HELLO, OF_PROCESS, m.reason = UINT32_MAX);
	RIGHT(RSK_LOCAL_ANSWER, OF_RSOCKD, m.reason = RSK_REASON_MOST); /* of a later release */
}

Test(local_msg, of_those_that_name_a_connection)
{
	WRONG(RSK_LOCAL_LOOKUP, OF_PROCESS, m.tuple.family = 0);
	WRONG(RSK_LOCAL_LOOKUP, OF_PROCESS, m.tuple.family = AF_UNIX);
	WRONG(RSK_LOCAL_LOOKUP, OF_PROCESS, m.tuple.local_port = 0);
	WRONG(RSK_LOCAL_LOOKUP, OF_PROCESS, m.tuple.peer_port = 0);
	WRONG(RSK_LOCAL_LOOKUP, OF_PROCESS, m.tuple.pad = 1);
	WRONG(RSK_LOCAL_LOOKUP, OF_PROCESS, m.tuple.pad2 = 1);
	for (int i = 4; i < 16; i++) {
		WRONG(RSK_LOCAL_LOOKUP, OF_PROCESS, m.tuple.local[i] = 1);
		WRONG(RSK_LOCAL_LOOKUP, OF_PROCESS, m.tuple.peer[i] = 1);
	}
	RIGHT(RSK_LOCAL_LOOKUP, OF_PROCESS,
	      (m.tuple.family = AF_INET6, memset(m.tuple.peer, 0xff, 16)));
	RIGHT(RSK_LOCAL_LOOKUP, OF_PROCESS, m.tuple.scope = 7);
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
	WRONG(RSK_LOCAL_RENDEZVOUS, OF_RSOCKD, m.link = 0);
	WRONG(RSK_LOCAL_LOST, OF_PROCESS, m.link = 0);
	WRONG(RSK_LOCAL_UNLINK, OF_PROCESS, m.link = 0);
	RIGHT(RSK_LOCAL_LOOKUP, OF_PROCESS, m.link = 0);
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
	WRONG(RSK_LOCAL_LOOKUP, OF_PROCESS, m.flags = RSK_LOCAL_AGAIN);
	RIGHT(RSK_LOCAL_LINK, OF_PROCESS,
	      (m.flags = RSK_LOCAL_CONNECTING | RSK_LOCAL_REFUSED, m.port = 0, m.ipv = 0));
	WRONG(RSK_LOCAL_LINK, OF_PROCESS, m.flags = RSK_LOCAL_REFUSED);
	WRONG(RSK_LOCAL_LINK, OF_PROCESS,
	      m.flags = RSK_LOCAL_CONNECTING | RSK_LOCAL_REFUSED | RSK_LOCAL_AGAIN);
	WRONG(RSK_LOCAL_LOOKUP, OF_PROCESS, m.flags = RSK_LOCAL_REFUSED);
	WRONG(RSK_LOCAL_UNLINK, OF_PROCESS, m.flags = RSK_LOCAL_REFUSED);
}

/* ---- over a socket ---- */

static int a, b;

static int memory; /* a descriptor that may be passed to rsockd */

static void open_pair(void)
{
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
	a = fds[0];
	b = fds[1];
	if (memory <= 0)
		memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_geq(memory, 0);
}

/* Number of open descriptors of this process. */
static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

Test(local_msg, sent_and_received, .init = open_pair)
{
	struct rsk_local_msg m = message(RSK_LOCAL_LOOKUP), got;
	int fd;

	m.magic = 0; /* filled in by the send */
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

	cr_assert_eq(rsk_local_msg_send(a, &m, memory), 0);
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), 1);
	cr_assert(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	cr_assert_eq(count_fds(), before + 1);
	close(fd);
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), -EAGAIN);
}

Test(local_msg, more_descriptors_than_wanted_are_refused, .init = open_pair)
{
	struct rsk_local_msg m = message(RSK_LOCAL_HELLO), got;
	int many[RSK_FDMSG_MOST], fd, before = count_fds();

	for (int n = 2; n <= RSK_FDMSG_MOST; n++) {
		for (int i = 0; i < n; i++)
			many[i] = memory;
		cr_assert_eq(rsk_fdmsg_send(a, &m, sizeof(m), many, n), 0);
		cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), -EPROTO);
		cr_assert_eq(fd, -1);
		cr_assert_eq(count_fds(), before);
		rsk_fdmsg_close(b, NULL);
		close(a);
		open_pair();
	}
}

/*
 * From rsockd, which makes socket pairs for two processes, a socket is accepted; to rsockd it is
 * refused.
 */
Test(local_msg, what_is_no_memory_is_refused, .init = open_pair)
{
	struct rsk_local_msg m = message(RSK_LOCAL_HELLO), meet = message(RSK_LOCAL_RENDEZVOUS),
			     got;
	int fd, before = count_fds();

	cr_assert_eq(rsk_local_msg_send(a, &meet, a), 0);
	cr_assert_eq(rsk_local_msg_recv(b, true, &got, &fd), 1);
	cr_assert_eq(count_fds(), before + 1);
	close(fd);
	cr_assert_eq(rsk_local_msg_send(a, &m, a), 0);
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), -EBADMSG);
	cr_assert_eq(fd, -1);
	cr_assert_eq(count_fds(), before);
}

static ssize_t recv_here(int *fd)
{
	struct rsk_local_msg got;
	int n;

	return rsk_fdmsg_recv(b, &got, sizeof(got), RSK_FDMSG_MEMORY, fd, 1, &n);
}

/*
 * A file may be one of FUSE, whose close() may block: such files stay open here, up to a limit, and
 * then nothing is received any more.
 */
Test(local_msg, what_may_be_served_by_anybody, .init = open_pair)
{
	struct rsk_local_msg m = message(RSK_LOCAL_HELLO), got;
	int given[] = { open("/", O_RDONLY | O_DIRECTORY), open("/dev/zero", O_RDWR),
			open("/proc/self/exe", O_RDONLY) };
	int before = count_fds(), fd, i;

	for (i = 0; i < 200 && !rsk_fdmsg_is_full(); i++) {
		cr_assert_eq(rsk_local_msg_send(a, &m, given[i % 3]), 0);
		/* Received by a helper process, which closes it when it ends; and received here. */
		cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), -EBADMSG);
		cr_assert_eq(count_fds(), before + i / 3);
		cr_assert_eq(recv_here(&fd), -EBADMSG);
		cr_assert_eq(count_fds(), before + (i + 1) / 3);
		rsk_fdmsg_close(b, NULL);
		close(a);
		open_pair();
	}
	cr_assert_eq(i, 96);
	cr_assert_eq(rsk_local_msg_send(a, &m, memory), 0);
	cr_assert_eq(recv_here(&fd), -EBUSY);
	cr_assert_eq(count_fds(), before + 32);
}

static double now_s(void)
{
	return (double)rsk_monotonic_ns() / 1e9;
}

/* A TCP socket with bytes that are never received: its last close() waits for the linger time. */
static int lingerer(int *other)
{
	const struct linger long_one = { .l_onoff = 1, .l_linger = 20 };
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);
	static char bytes[65536];

	cr_assert_eq(bind(listener, (struct sockaddr *)&at, len), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&at, len), 0);
	*other = listener; /* never accepted, never read */
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &long_one, sizeof(long_one)), 0);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	return fd;
}

/* Whatever was sent and in whatever order, neither a receive nor the end waits. */
static void end_does_not_wait(int before, int behind, bool heard)
{
	struct rsk_local_msg m = message(RSK_LOCAL_HELLO), got;
	int other, slow = lingerer(&other), fd, rc = 1;
	double began;

	for (int i = 0; i < before; i++)
		cr_assert_geq(i % 2 ? send(a, "", 0, 0) : rsk_local_msg_send(a, &m, -1), 0);
	cr_assert_eq(rsk_local_msg_send(a, &m, slow), 0);
	for (int i = 0; i < behind; i++)
		cr_assert_eq(rsk_local_msg_send(a, &m, slow), 0);
	close(slow);
	began = now_s();
	while (heard && rc > 0)
		rc = rsk_local_msg_recv(b, false, &got, &fd);
	cr_assert_leq(rc, heard ? 0 : 1);
	rsk_fdmsg_close(b, NULL);
	cr_assert_lt(now_s() - began, 5, "%.1f s", now_s() - began);
	cr_assert_eq(fcntl(b, F_GETFD), -1, "it stayed open");
	cr_assert_eq(send(a, "x", 1, MSG_NOSIGNAL), -1);
	/* The helper is no child that the program could wait for. */
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
	close(other);
}

Test(local_msg, slow_to_close_heard, .init = open_pair)
{
	end_does_not_wait(0, 0, true);
}

Test(local_msg, slow_to_close_unheard, .init = open_pair)
{
	end_does_not_wait(0, 0, false);
}

Test(local_msg, slow_to_close_behind_others, .init = open_pair)
{
	end_does_not_wait(5, 2, false);
}

/*
 * The process of a relay or of another peer may live long: the number of helper processes that it
 * can cause is limited.
 */
Test(local_msg, the_end_of_an_ordinary_one_makes_no_process, .init = open_pair)
{
	struct rsk_local_msg m = message(RSK_LOCAL_HELLO);

	for (int i = 0; i < 20; i++)
		cr_assert_eq(rsk_local_msg_send(a, &m, -1), 0);
	cr_assert_eq(send(a, "", 0, 0), 0);
	rsk_fdmsg_close(b, NULL);
	cr_assert_eq(fcntl(b, F_GETFD), -1);
	errno = 0;
	cr_assert_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	cr_assert_eq(errno, ECHILD);
}

/* Whatever a sender sends with descriptors, none may stay open. */
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
		many[i] = memory;
	c.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
				   .cmsg_type = SCM_RIGHTS,
				   .cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n) };
	memcpy(CMSG_DATA(&c.head), many, sizeof(int) * (size_t)n);
	cr_assert_eq(sendmsg(a, &msg, 0), (ssize_t)bytes);
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), want);
	cr_assert_eq(fd, -1);
	cr_assert_eq(count_fds(), before, "%zu bytes with %d descriptors", bytes, n);
	rsk_fdmsg_close(b, NULL);
	close(a);
	open_pair();
}

Test(local_msg, nonsense_leaves_no_descriptor, .init = open_pair)
{
	struct {
		struct rsk_local_msg m;
		char more[100];
	} big = { .m = message(RSK_LOCAL_HELLO) };
	struct rsk_local_msg wrong = message(RSK_LOCAL_RENDEZVOUS);

	nothing_stays(&big, sizeof(big), 1, -EPROTO);
	nothing_stays(&big, sizeof(big.m) + 1, 16, -EPROTO);
	nothing_stays(&big, sizeof(big.m) - 1, 40, -EPROTO);
	nothing_stays(&big, 1, 3, -EPROTO);
	nothing_stays(&wrong, sizeof(wrong), 2, -EPROTO);
}

/*
 * recvmsg() returns 0 for an empty message, as at the end of stream; it may have brought
 * descriptors all the same.
 */
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

	cr_assert_eq(rsk_local_msg_send(a, &m, memory), 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &few), 0);
	few.rlim_cur = 0;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	cr_assert_eq(rsk_local_msg_recv(b, false, &got, &fd), -EMFILE);
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
