// SPDX-License-Identifier: BSD-2-Clause
/*
 * load.c - generates load on a PMSP over UDP as any number of PM clients: requests for different
 * connections, as fast as they are answered, and acknowledged unless --forge, which like a flood
 * answers nothing. Prints JSON. Run by mapper.py.
 *
 * 	pmload [options] IP PORT SERVICE
 *
 * 	--requests N, --window N	number of requests; most unanswered ones at a time
 * 	--of N		number of different connections, in an order that no cache
 * 			predicts
 * 	--ap IP		the AP that they name, if it is not the PMSP's own address
 * 	--hosts N	send from N addresses of 127.0.0.0/8, each datagram from the
 * 			next one
 * 	--segments	send like a busy client (load_net.h)
 * 	--sources N	use N sockets with addresses of their own, a batch from each in
 * 			turn, for a PMSP on this host that limits the rate of each
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/clock.h>
#include <rsock/splitmix.h>

#include "load_net.h"
#include "pm_msg.h"

#define LATE_MS 1000 /* without any answer for this time the outstanding requests count as lost */
#define FIRST_SOURCE 0x7f010001u
#define FIRST_HOST 0x7f800000u

static struct {
	uint64_t requests, of;
	unsigned int sources, hosts, window;
	enum net_way way;
	bool forge;
	struct sockaddr_in to;
	struct in_addr ap;
	uint16_t service;
} opt = { .requests = 100000, .sources = 1, .hosts = 1, .window = 256 };

static struct {
	uint64_t sent, accepts, denies, lost, dice;
	unsigned int host;
	struct net *turn; /* the socket whose answers are handled */
} count;

static void put(struct net *net, const struct rsk_pm_msg *m, uint32_t host)
{
	uint8_t bytes[RSK_PM_WIRE_MAPPED_BYTES];
	ssize_t n = rsk_pm_msg_encode(m, bytes, sizeof(bytes));

	if (n > 0)
		net_put(net, bytes, (size_t)n, host);
}

/* Each connection has a CP of its own. */
static void put_request(struct net *net, uint64_t turn)
{
	uint64_t n = opt.of ? turn * 7919 % opt.of : turn;
	struct rsk_pm_msg m = { .op = RSK_PM_REQ,
				.ipv = RSK_PM_IPV4,
				.ap_port = opt.service,
				.cp_port = (uint16_t)(1024 + n % 60000),
				.assoc_handle = rsk_splitmix_next(&count.dice) | 1,
				.cp_ip = { 10, (uint8_t)(n / 60000 >> 16),
					   (uint8_t)(n / 60000 >> 8), (uint8_t)(n / 60000) } };

	memcpy(m.ap_ip, &opt.ap, 4);
	put(net, &m, FIRST_HOST + count.host);
	count.host = count.host + 1 < opt.hosts ? count.host + 1 : 0;
	count.sent++;
}

/* Sends a PMAck for each PMAccept. */
static void answer(const uint8_t *bytes, size_t len, uint32_t host)
{
	struct rsk_pm_msg m, ack;

	if (rsk_pm_msg_decode(bytes, len, &m) < 0)
		return;
	if (m.op == RSK_PM_DENY)
		count.denies++;
	if (m.op != RSK_PM_ACCEPT)
		return;
	count.accepts++;
	if (!opt.forge && rsk_pm_msg_ack(&m, &ack) == 0)
		put(count.turn, &ack, host);
}

static unsigned int hear(struct net *net)
{
	unsigned int n;

	count.turn = net;
	n = net_hear(net, answer);
	net_flush(net);
	return n;
}

static unsigned int next_source(unsigned int turn)
{
	return turn + 1 < opt.sources ? turn + 1 : 0;
}

/* Floods from one source after the other, waiting only for room in the socket. */
static void flood(struct net **nets)
{
	unsigned int turn = 0;

	for (uint64_t n = 0; n < opt.requests; turn = next_source(turn)) {
		struct net *net = nets[turn];

		for (int i = 0; i < NET_BATCH && n < opt.requests; i++, n++)
			put_request(net, n);
		net_flush(net);
		hear(net);
	}
}

static void run_transactions(struct net **nets)
{
	uint64_t n = 0, open = 0;

	for (unsigned int turn = 0; n < opt.requests || open; turn = next_source(turn)) {
		struct net *net = nets[turn];
		unsigned int got;

		for (int i = 0; i < NET_BATCH && n < opt.requests && open < opt.window; i++) {
			put_request(net, n++);
			open++;
		}
		net_flush(net);
		got = hear(net);
		open -= got < open ? got : open;
		if (got || opt.sources > 1)
			continue;
		if (poll(&(struct pollfd){ .fd = net_fd(net), .events = POLLIN }, 1, LATE_MS) ==
		    0) {
			count.lost += open;
			open = 0;
		}
	}
}

static const struct option options[] = {
	{ "requests", required_argument, NULL, 'r' },
	{ "sources", required_argument, NULL, 's' },
	{ "hosts", required_argument, NULL, 'h' },
	{ "segments", no_argument, NULL, 'g' },
	{ "window", required_argument, NULL, 'w' },
	{ "of", required_argument, NULL, 'i' },
	{ "ap", required_argument, NULL, 'a' },
	{ "forge", no_argument, NULL, 'f' },
	{ 0 },
};

static unsigned int number(const char *text)
{
	return (unsigned int)strtoul(text, NULL, 10);
}

static bool option(int c)
{
	switch (c) {
	case 'r':
		opt.requests = strtoull(optarg, NULL, 10);
		return true;
	case 's':
		opt.sources = number(optarg);
		return true;
	case 'h':
		opt.hosts = number(optarg);
		opt.way = NET_HOSTS;
		return true;
	case 'g':
		opt.way = NET_SEGMENTS;
		return true;
	case 'w':
		opt.window = number(optarg);
		return true;
	case 'i':
		opt.of = strtoull(optarg, NULL, 10);
		return true;
	case 'f':
		opt.forge = true;
		return true;
	default:
		return c == 'a' && inet_pton(AF_INET, optarg, &opt.ap) == 1;
	}
}

static int usage(void)
{
	fputs("usage: pmload [options] IP PORT SERVICE\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct net **nets;
	uint64_t began;
	double seconds;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (!option(c))
			return usage();
	opt.to.sin_family = AF_INET;
	if (argc - optind != 3 || !opt.sources || !opt.window || !opt.hosts ||
	    opt.hosts > 1u << 23 || (opt.hosts > 1 && opt.sources > 1) ||
	    inet_pton(AF_INET, argv[optind], &opt.to.sin_addr) != 1)
		return usage();
	if (!opt.ap.s_addr)
		opt.ap = opt.to.sin_addr;
	opt.to.sin_port = htons((uint16_t)number(argv[optind + 1]));
	opt.service = (uint16_t)number(argv[optind + 2]);
	count.dice = rsk_monotonic_ns();
	nets = calloc(opt.sources, sizeof(struct net *));
	for (unsigned int i = 0; nets && i < opt.sources; i++)
		nets[i] = net_open(opt.way, &opt.to, opt.sources > 1 ? FIRST_SOURCE + i : 0);
	if (!nets)
		return 1;
	began = rsk_monotonic_ns();
	if (opt.forge)
		flood(nets);
	else
		run_transactions(nets);
	seconds = (double)(rsk_monotonic_ns() - began) / 1e9;
	printf("{\"requests\": %lu, \"accepts\": %lu, \"denies\": %lu, \"lost\": %lu, "
	       "\"seconds\": %.4f}\n",
	       (unsigned long)count.sent, (unsigned long)count.accepts, (unsigned long)count.denies,
	       (unsigned long)count.lost, seconds);
	for (unsigned int i = 0; i < opt.sources; i++)
		net_close(nets[i]);
	free(nets);
	return 0;
}
