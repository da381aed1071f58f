// SPDX-License-Identifier: BSD-2-Clause
/*
 * load.c - PM clients without number against a PMSP over UDP: so many requests, each for another connection, as fast as
 * they are answered, and acknowledged unless --forge, which answers to nothing as a flood does. JSON to stdout.
 *
 *	pmload [--requests N] [--sources N] [--window N] [--first N] [--ap IP] [--forge] IP PORT SERVICE
 *
 * --ap: the AP that the requests name, if that is not the PMSP's own address. --sources: so many source addresses of
 * 127.0.0.0/8, for a PMSP on this host that has a rate for each.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pm_msg.h"

#define BATCH 64
#define LATE_MS 200 /* without an answer: those that are under way are lost */

static struct {
	uint64_t requests, first;
	unsigned int sources, window;
	bool forge;
	struct sockaddr_in to;
	struct in_addr ap;
	uint16_t service;
} opt = { .requests = 100000, .sources = 1, .window = 256 };

static struct {
	uint64_t sent, accepts, denies, lost, dice;
} count;

static struct batch {
	struct mmsghdr head[BATCH];
	struct iovec iov[BATCH];
	uint8_t bytes[BATCH][RSK_PM_WIRE_MAPPED_BYTES];
	unsigned int n;
} out, in;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t roll(void)
{
	uint64_t z = count.dice += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static void die(const char *what)
{
	fprintf(stderr, "pmload: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void put(const struct rsk_pm_msg *m)
{
	ssize_t n = rsk_pm_msg_encode(m, out.bytes[out.n], sizeof(out.bytes[0]));

	if (n < 0)
		return;
	out.iov[out.n] = (struct iovec){ out.bytes[out.n], (size_t)n };
	out.head[out.n].msg_hdr = (struct msghdr){ .msg_iov = &out.iov[out.n], .msg_iovlen = 1 };
	out.n++;
}

static void flush(int fd)
{
	unsigned int done = 0;

	while (done < out.n) {
		int rc = sendmmsg(fd, out.head + done, out.n - done, 0);

		if (rc < 0 && errno != EINTR && errno != ECONNREFUSED)
			die("sendmmsg");
		done += rc > 0 ? (unsigned int)rc : 0;
	}
	out.n = 0;
}

/* Connection @n: a CP of its own. */
static void put_request(uint64_t n)
{
	struct rsk_pm_msg m = { .op = RSK_PM_REQ,
				.ipv = RSK_PM_IPV4,
				.ap_port = opt.service,
				.cp_port = (uint16_t)(1024 + n % 60000),
				.assoc_handle = roll() | 1,
				.cp_ip = { 10, (uint8_t)(n / 60000 >> 16),
					   (uint8_t)(n / 60000 >> 8), (uint8_t)(n / 60000) } };

	memcpy(m.ap_ip, &opt.ap, 4);
	put(&m);
	count.sent++;
}

/* Takes what is there; a PMAck for each PMAccept. How many answers. */
static unsigned int hear(int fd)
{
	struct rsk_pm_msg m, ack;
	int n;

	for (int i = 0; i < BATCH; i++) {
		in.iov[i] = (struct iovec){ in.bytes[i], sizeof(in.bytes[0]) };
		in.head[i].msg_hdr = (struct msghdr){ .msg_iov = &in.iov[i], .msg_iovlen = 1 };
	}
	n = recvmmsg(fd, in.head, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		if (rsk_pm_msg_decode(in.bytes[i], in.head[i].msg_len, &m) < 0)
			continue;
		if (m.op == RSK_PM_DENY)
			count.denies++;
		if (m.op != RSK_PM_ACCEPT)
			continue;
		count.accepts++;
		if (!opt.forge && rsk_pm_msg_ack(&m, &ack) == 0)
			put(&ack);
	}
	flush(fd);
	return n > 0 ? (unsigned int)n : 0;
}

static int source(unsigned int i)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	static const int large = 4 << 20;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0)
		die("socket");
	if (opt.sources > 1)
		at.sin_addr.s_addr = htonl(0x7f010001u + i);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof(large));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    connect(fd, (struct sockaddr *)&opt.to, sizeof(opt.to)) < 0)
		die("bind and connect");
	return fd;
}

static unsigned int next_source(unsigned int turn)
{
	return turn + 1 < opt.sources ? turn + 1 : 0;
}

/* A flood: one source after the other, nothing waited for but room in the socket. */
static void flood(const int *fds)
{
	unsigned int turn = 0;

	for (uint64_t n = 0; n < opt.requests; turn = next_source(turn)) {
		int fd = fds[turn];

		for (; out.n < BATCH && n < opt.requests; n++)
			put_request(opt.first + n);
		flush(fd);
		hear(fd);
	}
}

static void transact(const int *fds)
{
	uint64_t n = 0, open = 0;

	for (unsigned int turn = 0; n < opt.requests || open; turn = next_source(turn)) {
		int fd = fds[turn];
		unsigned int got;

		for (; out.n < BATCH && n < opt.requests && open < opt.window; n++, open++)
			put_request(opt.first + n);
		flush(fd);
		got = hear(fd);
		open -= got < open ? got : open;
		if (got || opt.sources > 1)
			continue;
		if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, LATE_MS) == 0) {
			count.lost += open;
			open = 0;
		}
	}
}

static const struct option options[] = {
	{ "requests", required_argument, NULL, 'r' },
	{ "sources", required_argument, NULL, 's' },
	{ "window", required_argument, NULL, 'w' },
	{ "first", required_argument, NULL, 'i' },
	{ "ap", required_argument, NULL, 'a' },
	{ "forge", no_argument, NULL, 'f' },
	{ 0 },
};

int main(int argc, char **argv)
{
	uint64_t began;
	double seconds;
	int c, *fds;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'r')
			opt.requests = strtoull(optarg, NULL, 10);
		else if (c == 's')
			opt.sources = (unsigned int)strtoul(optarg, NULL, 10);
		else if (c == 'w')
			opt.window = (unsigned int)strtoul(optarg, NULL, 10);
		else if (c == 'i')
			opt.first = strtoull(optarg, NULL, 10);
		else if (c == 'f')
			opt.forge = true;
		else if (c != 'a' || inet_pton(AF_INET, optarg, &opt.ap) != 1)
			return 2;
	}
	opt.to.sin_family = AF_INET;
	if (argc - optind != 3 || !opt.sources || !opt.window ||
	    inet_pton(AF_INET, argv[optind], &opt.to.sin_addr) != 1) {
		fputs("usage: pmload [options] IP PORT SERVICE\n", stderr);
		return 2;
	}
	if (!opt.ap.s_addr)
		opt.ap = opt.to.sin_addr;
	opt.to.sin_port = htons((uint16_t)strtoul(argv[optind + 1], NULL, 10));
	opt.service = (uint16_t)strtoul(argv[optind + 2], NULL, 10);
	count.dice = now_ns();
	fds = calloc(opt.sources, sizeof(int));
	if (!fds)
		die("sources");
	for (unsigned int i = 0; i < opt.sources; i++)
		fds[i] = source(i);
	began = now_ns();
	if (opt.forge)
		flood(fds);
	else
		transact(fds);
	seconds = (double)(now_ns() - began) / 1e9;
	printf("{\"requests\": %lu, \"accepts\": %lu, \"denies\": %lu, \"lost\": %lu, \"seconds\": %.4f}\n",
	       (unsigned long)count.sent, (unsigned long)count.accepts, (unsigned long)count.denies,
	       (unsigned long)count.lost, seconds);
	free(fds);
	return 0;
}
