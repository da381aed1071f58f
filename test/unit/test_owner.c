// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_owner.c - tests the proof of ownership (sock_diag and /proc) against real sockets, in this
 * process and in a child.
 */
#include "owner.h"
#include "tuple.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rsock/clock.h>

/* A connection over loopback, accepted; family and addresses as requested. */
struct pair {
	int listener;
	int client;
	int server;
};

static socklen_t address(struct sockaddr_storage *ss, int family, const char *text, uint16_t port)
{
	memset(ss, 0, sizeof(*ss));
	ss->ss_family = (sa_family_t)family;
	if (family == AF_INET) {
		struct sockaddr_in *sin = (struct sockaddr_in *)ss;

		sin->sin_port = htons(port);
		cr_assert_eq(inet_pton(AF_INET, text, &sin->sin_addr), 1);
		return sizeof(*sin);
	}
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)ss;

	sin6->sin6_port = htons(port);
	cr_assert_eq(inet_pton(AF_INET6, text, &sin6->sin6_addr), 1);
	return sizeof(*sin6);
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in6 sin6 = { 0 };
	socklen_t len = sizeof(sin6);

	cr_assert_eq(getsockname(fd, (struct sockaddr *)&sin6, &len), 0);
	return ntohs(sin6.sin6_port);
}

static struct pair connected(int server_family, const char *bind_to, int client_family,
			     const char *connect_to)
{
	struct sockaddr_storage ss;
	struct pair p;
	socklen_t len;

	p.listener = socket(server_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_geq(p.listener, 0);
	len = address(&ss, server_family, bind_to, 0);
	cr_assert_eq(bind(p.listener, (struct sockaddr *)&ss, len), 0);
	cr_assert_eq(listen(p.listener, 8), 0);
	p.client = socket(client_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_geq(p.client, 0);
	len = address(&ss, client_family, connect_to, port_of(p.listener));
	cr_assert_eq(connect(p.client, (struct sockaddr *)&ss, len), 0);
	p.server = accept(p.listener, NULL, NULL);
	cr_assert_geq(p.server, 0);
	return p;
}

static void pair_close(struct pair *p)
{
	close(p->listener);
	close(p->client);
	close(p->server);
}

static struct rsk_tuple tuple_of(int fd)
{
	struct rsk_tuple t;

	cr_assert_eq(rsk_tuple_from_fd(fd, &t), 0);
	return t;
}

static uint64_t cookie_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	cr_assert_eq(getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len), 0);
	return cookie;
}

static void check_both_ways(struct pair *p)
{
	struct rsk_tuple client = tuple_of(p->client), server = tuple_of(p->server);
	struct rsk_tuple mirror = rsk_tuple_mirror(&client);
	struct rsk_owner o;
	struct stat st;

	cr_assert(rsk_tuple_equal(&mirror, &server), "the ends mirror each other");
	cr_assert(client.netns, "the kernel tells its network namespace");

	cr_assert_eq(rsk_owner_verify(&client, getpid(), p->server, geteuid(), &o), 0);
	cr_assert_eq(fstat(p->server, &st), 0);
	cr_assert_eq(o.inode, st.st_ino);
	cr_assert_eq(o.cookie, cookie_of(p->server));
	cr_assert_eq(o.uid, geteuid());
	cr_assert_eq(o.state, TCP_ESTABLISHED);

	cr_assert_eq(rsk_owner_verify(&server, getpid(), p->client, geteuid(), &o), 0);
	cr_assert_eq(o.cookie, cookie_of(p->client));
	/* The right process with another of its descriptors is no proof. */
	cr_assert_eq(rsk_owner_verify(&server, getpid(), p->server, geteuid(), &o), -ESTALE);
	cr_assert_eq(rsk_owner_verify(&server, getpid(), p->client, geteuid() + 1, &o), -EPERM);
}

Test(owner, ipv4)
{
	struct pair p = connected(AF_INET, "127.0.0.1", AF_INET, "127.0.0.1");

	check_both_ways(&p);
	pair_close(&p);
}

Test(owner, ipv4_any_address)
{
	struct pair p = connected(AF_INET, "0.0.0.0", AF_INET, "127.9.8.7");

	check_both_ways(&p);
	pair_close(&p);
}

Test(owner, ipv6)
{
	struct pair p = connected(AF_INET6, "::1", AF_INET6, "::1");

	cr_assert_eq(tuple_of(p.client).family, AF_INET6);
	check_both_ways(&p);
	pair_close(&p);
}

Test(owner, v4_mapped_server)
{
	struct pair p = connected(AF_INET6, "::", AF_INET, "127.0.0.1");

	cr_assert_eq(tuple_of(p.server).family, AF_INET);
	check_both_ways(&p);
	pair_close(&p);
}

Test(owner, v4_mapped_client)
{
	struct pair p = connected(AF_INET, "0.0.0.0", AF_INET6, "::ffff:127.0.0.1");

	cr_assert_eq(tuple_of(p.client).family, AF_INET);
	check_both_ways(&p);
	pair_close(&p);
}

Test(owner, both_v4_mapped)
{
	struct pair p = connected(AF_INET6, "::ffff:127.0.0.1", AF_INET6, "::ffff:127.0.0.1");

	check_both_ways(&p);
	pair_close(&p);
}

Test(owner, no_such_socket)
{
	struct pair p = connected(AF_INET, "127.0.0.1", AF_INET, "127.0.0.1");
	struct rsk_tuple t = tuple_of(p.client), wrong;
	struct rsk_owner o;

	wrong = rsk_tuple_mirror(&t);
	wrong.peer_port ^= 1;
	/* The listener has this local address and port, but is not an end of the connection. */
	cr_assert_eq(rsk_owner_lookup(&wrong, &o), -ENOENT);
	wrong = t;
	wrong.peer[3] = 77;
	cr_assert_eq(rsk_owner_lookup(&wrong, &o), -ENOENT);
	pair_close(&p);
}

Test(owner, connected_but_not_accepted)
{
	struct pair p = connected(AF_INET, "127.0.0.1", AF_INET, "127.0.0.1");
	struct sockaddr_storage ss;
	socklen_t len = address(&ss, AF_INET, "127.0.0.1", port_of(p.listener));
	int waiting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct rsk_tuple t;
	struct rsk_owner o;

	cr_assert_eq(connect(waiting, (struct sockaddr *)&ss, len), 0);
	t = tuple_of(waiting);
	/* The kernel has that end, in the backlog; no process holds it. */
	cr_assert_eq(rsk_owner_verify(&t, getpid(), p.server, geteuid(), &o), -ESTALE);
	cr_assert_eq(o.inode, 0);
	close(waiting);
	pair_close(&p);
}

Test(owner, only_my_end_is_here)
{
	struct pair p = connected(AF_INET, "127.0.0.1", AF_INET, "127.0.0.1");
	struct rsk_tuple t = tuple_of(p.client);
	struct rsk_owner o;
	struct linger now = { .l_onoff = 1, .l_linger = 0 };
	struct tcp_info ti;
	socklen_t len = sizeof(ti);
	struct pollfd pfd = { .fd = p.client, .events = POLLIN };

	/* A reset removes both ends at once: then not even our own end is found. */
	cr_assert_eq(setsockopt(p.server, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	close(p.server);
	cr_assert_eq(poll(&pfd, 1, 5000), 1);
	cr_assert_eq(getsockopt(p.client, IPPROTO_TCP, TCP_INFO, &ti, &len), 0);
	cr_assert_eq(ti.tcpi_state, TCP_CLOSE);
	cr_assert_eq(rsk_owner_verify(&t, getpid(), p.server, geteuid(), &o), -EOPNOTSUPP);
	close(p.client);
	close(p.listener);
}

Test(owner, a_closed_end_has_no_holder)
{
	struct pair p = connected(AF_INET, "127.0.0.1", AF_INET, "127.0.0.1");
	struct rsk_tuple t = tuple_of(p.client);
	struct rsk_owner o;
	int err, fd = p.server;

	close(p.server); /* FIN_WAIT2: in the kernel's table, without a process */
	err = rsk_owner_verify(&t, getpid(), fd, geteuid(), &o);
	/* The kernel reports user 0 for a socket without an inode. */
	cr_assert(err == -ESTALE || err == -EPERM, "%d", err);
	close(p.client);
	close(p.listener);
}

Test(owner, wrong_process_or_descriptor)
{
	struct pair p = connected(AF_INET, "127.0.0.1", AF_INET, "127.0.0.1");
	struct stat st;
	uint32_t inode;

	cr_assert_eq(fstat(p.client, &st), 0);
	inode = (uint32_t)st.st_ino;
	cr_assert_eq(rsk_owner_holds(getpid(), p.client, inode), 0);
	cr_assert_eq(rsk_owner_holds(getpid(), p.client, inode + 1), -ESTALE);
	cr_assert_eq(rsk_owner_holds(getpid(), p.client, inode / 10), -ESTALE);
	cr_assert_eq(rsk_owner_holds(getpid(), p.client, 0), -ESTALE);
	cr_assert_eq(rsk_owner_holds(getpid(), 9999, inode), -ESTALE);
	cr_assert_eq(rsk_owner_holds(getpid(), -1, inode), -ESTALE);
	cr_assert_eq(rsk_owner_holds(0, p.client, inode), -ESTALE);
	cr_assert_eq(rsk_owner_holds(-1, p.client, inode), -ESTALE);
	cr_assert_eq(rsk_owner_holds(getppid(), p.client, inode), -ESTALE);
	cr_assert_eq(rsk_owner_holds(INT32_MAX, p.client, inode), -ESTALE);
	pair_close(&p);
}

/* A child accepts and alone holds the other end, until it is told to close it. */
Test(owner, a_child_holds_the_other_end, .timeout = 30)
{
	struct sockaddr_storage ss;
	struct rsk_tuple mine;
	struct rsk_owner o;
	int up[2], down[2], status, fd, client;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = address(&ss, AF_INET, "127.0.0.1", 0);
	char byte = 0;
	pid_t child;

	cr_assert_eq(bind(listener, (struct sockaddr *)&ss, len), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(pipe(up), 0);
	cr_assert_eq(pipe(down), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		close(down[1]);
		fd = accept(listener, NULL, NULL);
		if (write(up[1], &fd, sizeof(fd)) != sizeof(fd))
			_exit(1);
		_exit(read(down[0], &byte, 1) == 0 ? 0 : 2);
	}
	close(down[0]);
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	len = address(&ss, AF_INET, "127.0.0.1", port_of(listener));
	cr_assert_eq(connect(client, (struct sockaddr *)&ss, len), 0);
	cr_assert_eq(read(up[0], &fd, sizeof(fd)), (ssize_t)sizeof(fd));
	mine = tuple_of(client);
	cr_assert_eq(rsk_owner_verify(&mine, child, fd, geteuid(), &o), 0);
	cr_assert_eq(rsk_owner_verify(&mine, child, fd + 1, geteuid(), &o), -ESTALE);
	cr_assert_eq(rsk_owner_verify(&mine, getpid(), fd, geteuid(), &o), -ESTALE);
	close(down[1]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert_neq(rsk_owner_verify(&mine, child, fd, geteuid(), &o), 0);
	close(client);
	close(listener);
}

Test(owner, another_user_holds_it, .timeout = 30)
{
	struct pair p = { 0 };
	struct sockaddr_storage ss;
	struct rsk_tuple mine;
	struct rsk_owner o;
	socklen_t len;
	int status;
	pid_t child;

	if (geteuid() != 0)
		cr_skip("needs to be root to become someone else");
	p.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	len = address(&ss, AF_INET, "127.0.0.1", 0);
	cr_assert_eq(bind(p.listener, (struct sockaddr *)&ss, len), 0);
	cr_assert_eq(listen(p.listener, 1), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		int fd;

		if (setuid(65534))
			_exit(1);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		len = address(&ss, AF_INET, "127.0.0.1", port_of(p.listener));
		if (connect(fd, (struct sockaddr *)&ss, len))
			_exit(2);
		/* Held until the parent closes its end. */
		_exit(read(fd, &status, 1) == 0 ? 0 : 3);
	}
	p.server = accept(p.listener, NULL, NULL);
	cr_assert_geq(p.server, 0);
	mine = tuple_of(p.server);
	cr_assert_eq(rsk_owner_verify(&mine, child, 3, geteuid(), &o), -EPERM);
	cr_assert_eq(o.uid, 65534);
	close(p.server);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(p.listener);
}

Test(owner, another_network_namespace)
{
	struct pair p = connected(AF_INET, "127.0.0.1", AF_INET, "127.0.0.1");
	struct rsk_tuple mine = tuple_of(p.client);
	struct rsk_owner o;

	if (unshare(CLONE_NEWNET))
		cr_skip("needs to be root to make a network namespace");
	/*
	 * The sockets stay in the namespace where they were made; this thread asks in another one.
	 */
	cr_assert_eq(rsk_owner_verify(&mine, getpid(), p.server, geteuid(), &o), -EOPNOTSUPP);
	cr_assert_eq(tuple_of(p.client).netns, mine.netns);
	pair_close(&p);
}

/* No descriptor is left open, whatever the outcome; also measures what a proof costs. */
Test(owner, leaks_nothing)
{
	struct pair p = connected(AF_INET, "127.0.0.1", AF_INET, "127.0.0.1");
	struct rsk_tuple t = tuple_of(p.client), wrong = t;
	uint64_t begun_ns, took_ns;
	struct rsk_owner o;
	int before, after;
	const int rounds = 2000;

	wrong.peer_port ^= 1;
	before = dup(0);
	close(before);
	begun_ns = rsk_monotonic_ns();
	for (int i = 0; i < rounds; i++)
		cr_assert_eq(rsk_owner_verify(&t, getpid(), p.server, geteuid(), &o), 0);
	took_ns = rsk_monotonic_ns() - begun_ns;
	for (int i = 0; i < 100; i++)
		cr_assert_neq(rsk_owner_verify(&wrong, getpid(), p.server, geteuid(), &o), 0);
	after = dup(0);
	close(after);
	cr_assert_eq(before, after);
	printf("a proof takes %.2f us\n", (double)took_ns / 1e3 / rounds);
	pair_close(&p);
}

Test(owner, no_descriptor_left)
{
	struct pair p = connected(AF_INET, "127.0.0.1", AF_INET, "127.0.0.1");
	struct rsk_tuple t = tuple_of(p.client);
	struct rsk_owner o;
	struct rlimit few = { .rlim_cur = 64, .rlim_max = 64 };
	int fds[64], n = 0;

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (n < 64 && (fds[n] = dup(0)) >= 0)
		n++;
	cr_assert_eq(rsk_owner_verify(&t, getpid(), p.server, geteuid(), &o), -EMFILE);
	while (n > 0)
		close(fds[--n]);
	cr_assert_eq(rsk_owner_verify(&t, getpid(), p.server, geteuid(), &o), 0);
	pair_close(&p);
}
