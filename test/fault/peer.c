/*
 * peer.c - bin/fault_peer PROGRESS-FILE [ADDRESS]: one end of TCP connections. It executes orders,
 * one a line on stdin, and answers each with one line on stdout. The scripts of test/fault and
 * test/rdma (peers.py, hosts.py) kill it, stop it, and compare. ADDRESS, IPv4 or IPv6 (127.0.0.1):
 * where it listens and connects to.
 *
 *   listen PORT            accept SEED            connect PORT SEED [SOURCE-PORT]
 *   flow IO TX RX CHUNK FIN [PAUSE-US]
 *                          moves bytes (TX, RX: a number or "endless"); a pause after each recv
 *   wait HOW               sleeps in recv, poll, select or epoll until 8 bytes come, which are
 *                          a time stamp; with poll2, select2, epoll2 stdin is watched as well,
 *                          and a line there ends the wait
 *   poke                   sends a time stamp
 *   unread                 prints the result of FIONREAD
 *   crowd accept COUNT | connect PORT COUNT | talk ROUNDS BYTES | close
 *                          many connections, besides the single one
 *   close | reset
 *   end | _exit | abandon  (abandon: returns from main with the connection open)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rsock/clock.h>

#include "ctl.h"

static struct conn conn = { .fd = -1 };
static struct progress *progress;
static int listener = -1;
static union {
	struct in_addr v4;
	struct in6_addr v6;
} host;
static sa_family_t host_family;

static __attribute__((noreturn)) void die(const char *what)
{
	printf("error %s: %s\n", what, errno_name(errno));
	fflush(stdout);
	exit(1);
}

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* The given address, or the wildcard address of its family. */
static union address at(unsigned int port, bool given)
{
	union address a = { 0 };

	a.any.sa_family = host_family;
	if (host_family == AF_INET6) {
		a.in6.sin6_port = htons((uint16_t)port);
		a.in6.sin6_addr = given ? host.v6 : in6addr_any;
	} else {
		a.in.sin_port = htons((uint16_t)port);
		a.in.sin_addr.s_addr = given ? host.v4.s_addr : htonl(INADDR_ANY);
	}
	return a;
}

static socklen_t bytes_of(const union address *a)
{
	return a->any.sa_family == AF_INET6 ? sizeof(a->in6) : sizeof(a->in);
}

static unsigned int port_of(const union address *a)
{
	return ntohs(a->any.sa_family == AF_INET6 ? a->in6.sin6_port : a->in.sin_port);
}

static bool host_set(const char *text)
{
	host_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	return inet_pton(host_family, text, &host) == 1;
}

/* A new connection: its two directions have different bytes, and so has each connection. */
static void conn_start(int fd, uint64_t seed, bool server)
{
	union address local = { 0 };
	union address peer = { 0 };
	socklen_t local_bytes = sizeof(local);
	socklen_t peer_bytes = sizeof(peer);

	conn = (struct conn){ .fd = fd,
			      .tx_seed = 2 * seed + server,
			      .rx_seed = 2 * seed + !server };
	*progress = (struct progress){ 0 };
	if (getsockname(fd, &local.any, &local_bytes) || getpeername(fd, &peer.any, &peer_bytes))
		die("names");
	printf("connected %u %u\n", port_of(&local), port_of(&peer));
}

static void do_listen(char *args)
{
	union address address = at((unsigned int)strtoul(args, NULL, 10), true);
	int one = 1;

	listener = socket(host_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(listener, &address.any, bytes_of(&address)) || listen(listener, SOMAXCONN))
		die("listen");
	puts("listening");
}

static int accept_one(void *arg)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	(void)arg;
	if (fd < 0)
		die("accept");
	return fd;
}

static void do_accept(char *args)
{
	conn_start(accept_one(NULL), strtoull(args, NULL, 10), true);
}

static void do_connect(char *args)
{
	union address address = at((unsigned int)strtoul(args, &args, 10), true);
	uint64_t seed = strtoull(args, &args, 10);
	union address source = at((unsigned int)strtoul(args, NULL, 10), false);
	int fd = socket(host_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;

	if (fd < 0)
		die("socket");
	if (port_of(&source) && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
				 bind(fd, &source.any, bytes_of(&source))))
		die("bind");
	if (connect(fd, &address.any, bytes_of(&address)))
		die("connect");
	conn_start(fd, seed, false);
}

static int connect_one(void *arg)
{
	const union address *address = arg;
	int fd = socket(host_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, &address->any, bytes_of(address)))
		die("connect");
	return fd;
}

static void do_crowd(char *args)
{
	char *rest;
	const char *word = strtok_r(args, " ", &rest);
	unsigned long numbers[2] = { 0 };
	union address address;

	for (int i = 0; i < 2; i++) {
		const char *number = strtok_r(NULL, " ", &rest);

		numbers[i] = number ? strtoul(number, NULL, 10) : 0;
	}
	if (word && !strcmp(word, "accept")) {
		crowd_open((uint32_t)numbers[0], accept_one, NULL, true);
		puts("crowd");
	} else if (word && !strcmp(word, "connect")) {
		address = at((unsigned int)numbers[0], true);
		crowd_open((uint32_t)numbers[1], connect_one, &address, false);
		puts("crowd");
	} else if (word && !strcmp(word, "talk")) {
		printf("talked, wrong %llu\n",
		       (unsigned long long)crowd_talk((uint32_t)numbers[0], numbers[1]));
	} else {
		crowd_close();
		puts("closed");
	}
}

static uint64_t amount(char **args)
{
	char *word = strtok_r(NULL, " ", args);

	if (!word)
		die("missing number");
	return strcmp(word, "endless") ? strtoull(word, NULL, 10) : UINT64_MAX;
}

static void do_flow(char *args)
{
	static const char *const names[] = { "block", "poll", "epoll", "edge" };
	char *rest;
	char *how = strtok_r(args, " ", &rest);
	struct flow flow = { .conn = &conn, .progress = progress };
	unsigned int io = 0;

	while (io < 4 && (!how || strcmp(how, names[io])))
		io++;
	if (io == 4)
		die("flow: no such io");
	flow.io = (enum io)io;
	flow.tx_bytes = amount(&rest);
	flow.rx_bytes = amount(&rest);
	flow.chunk_bytes = amount(&rest);
	if (flow.chunk_bytes > FLOW_CHUNK_MOST)
		die("flow: more bytes in a call than it has room for");
	flow.fin = amount(&rest);
	flow.pause_us = *rest ? (uint32_t)amount(&rest) : 0;
	flow_run(&flow);
	printf("{\"sent\": %llu, \"tx_end\": \"%s\", \"received\": %llu, "
	       "\"rx_end\": \"%s\", \"wrong_at\": %lld}\n",
	       (unsigned long long)conn.tx_pos_bytes, flow.tx_end,
	       (unsigned long long)conn.rx_pos_bytes, flow.rx_end, (long long)flow.wrong_at);
}

/*
 * Sleeps until the connection is readable. False: a line on stdin ended the wait (kinds that end in
 * 2).
 */
static bool wait_ready(const char *how)
{
	struct pollfd pfd[2] = { { conn.fd, POLLIN, 0 }, { 0, POLLIN, 0 } };
	bool two = how[strlen(how) - 1] == '2';

	if (!strncmp(how, "poll", 4)) {
		if (poll(pfd, 1 + two, -1) <= 0)
			die("poll");
		return pfd[0].revents;
	}
	if (!strncmp(how, "select", 6)) {
		fd_set set;

		FD_ZERO(&set);
		FD_SET(conn.fd, &set);
		if (two)
			FD_SET(0, &set);
		if (select(conn.fd + 1, &set, NULL, NULL, NULL) <= 0)
			die("select");
		return FD_ISSET(conn.fd, &set);
	}
	if (!strncmp(how, "epoll", 5)) {
		struct epoll_event event = { .events = EPOLLIN };
		int epoll = epoll_create1(EPOLL_CLOEXEC);

		event.data.fd = conn.fd;
		if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, conn.fd, &event))
			die("epoll");
		event.data.fd = 0;
		if (two && epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event))
			die("epoll stdin");
		if (epoll_wait(epoll, &event, 1, -1) != 1)
			die("epoll_wait");
		close(epoll);
		return event.data.fd == conn.fd;
	}
	if (strcmp(how, "recv"))
		die("wait: no such way");
	return true;
}

static void do_wait(char *how)
{
	uint64_t stamp;

	if (!wait_ready(how)) {
		puts("called");
		return;
	}
	if (recv(conn.fd, &stamp, sizeof(stamp), MSG_WAITALL) != sizeof(stamp))
		die("recv");
	printf("woken %llu\n", (unsigned long long)(rsk_monotonic_ns() - stamp));
}

static void do_poke(char *args)
{
	uint64_t stamp = rsk_monotonic_ns();

	(void)args;
	if (send(conn.fd, &stamp, sizeof(stamp), MSG_NOSIGNAL) != sizeof(stamp))
		die("send");
	puts("poked");
}

/*
 * Prints how much can be read now; the harness waits for a number, since loopback may deliver late.
 */
static void do_unread(char *args)
{
	int bytes;

	(void)args;
	if (ioctl(conn.fd, FIONREAD, &bytes))
		die("FIONREAD");
	printf("unread %d\n", bytes);
}

static void do_close(char *args)
{
	(void)args;
	if (close(conn.fd))
		die("close");
	conn.fd = -1;
	puts("closed");
}

static void do_reset(char *args)
{
	struct linger linger = { .l_onoff = 1 };

	if (setsockopt(conn.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)))
		die("linger");
	do_close(args);
}

static void do_exit(char *args)
{
	_exit(args && *args ? atoi(args) : 0);
}

static const struct {
	const char *word;
	void (*act)(char *args);
} orders[] = {
	{ "listen", do_listen }, { "accept", do_accept }, { "connect", do_connect },
	{ "flow", do_flow },	 { "wait", do_wait },	  { "poke", do_poke },
	{ "close", do_close },	 { "reset", do_reset },	  { "unread", do_unread },
	{ "_exit", do_exit },	 { "crowd", do_crowd },
};

static void obey(char *line)
{
	char *args = strchr(line, ' ');

	if (args)
		*args++ = 0;
	for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
		if (!strcmp(line, orders[i].word)) {
			orders[i].act(args ? args : line + strlen(line));
			fflush(stdout);
			return;
		}
	}
	errno = EINVAL;
	die(line);
}

int main(int argc, char **argv)
{
	char line[256];
	int fd;

	if (argc < 2 || argc > 3 || !host_set(argc == 3 ? argv[2] : "127.0.0.1"))
		die("usage: peer PROGRESS-FILE [ADDRESS]");
	fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*progress)))
		die(argv[1]);
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (progress == MAP_FAILED)
		die("mmap");
	close(fd);
	/* Unbuffered: a wait that watches stdin must see each line that was not executed yet. */
	setvbuf(stdin, NULL, _IONBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strcmp(line, "abandon"))
			return 0;
		if (!strcmp(line, "end"))
			break;
		obey(line);
	}
	if (conn.fd >= 0)
		close(conn.fd);
	return 0;
}
