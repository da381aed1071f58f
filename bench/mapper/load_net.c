// SPDX-License-Identifier: BSD-2-Clause
/* load_net.c - see load_net.h. */
#include "load_net.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DATAGRAM_BYTES 64
#define HEARD_BYTES 8192 /* of one buffer: the most that the kernel combines of such datagrams */
#define CONTROL_BYTES 64

struct side {
	struct mmsghdr head[NET_BATCH];
	struct iovec iov[NET_BATCH];
	_Alignas(struct cmsghdr) uint8_t control[NET_BATCH][CONTROL_BYTES];
};

struct net {
	enum net_way way;
	int fd;
	struct sockaddr_in to;
	struct side out;
	uint8_t bytes[NET_BATCH][DATAGRAM_BYTES];
	unsigned int n;
	size_t segment; /* bytes of each datagram in the batch (NET_SEGMENTS) */
};

/* Receive side, shared by all sockets, since only one is read at a time. */
static struct side in;
static uint8_t heard[NET_BATCH][HEARD_BYTES];

static void die(const char *what)
{
	fprintf(stderr, "pmload: %s: %s\n", what, strerror(errno));
	exit(1);
}

struct net *net_open(enum net_way way, const struct sockaddr_in *to, uint32_t from)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(from) };
	static const int large = 4 << 20, on = 1;
	struct net *n = calloc(1, sizeof(*n));

	if (!n)
		die("memory");
	n->way = way;
	n->to = *to;
	n->fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (n->fd < 0)
		die("socket");
	setsockopt(n->fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof(large));
	if (bind(n->fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		die("bind");
	if (way == NET_HOSTS) {
		if (setsockopt(n->fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) < 0)
			die("IP_PKTINFO");
	} else if (connect(n->fd, (const struct sockaddr *)to, sizeof(*to)) < 0) {
		die("connect");
	}
	if (way == NET_SEGMENTS && setsockopt(n->fd, SOL_UDP, UDP_GRO, &on, sizeof(on)) < 0)
		die("UDP_GRO");
	return n;
}

void net_close(struct net *n)
{
	close(n->fd);
	free(n);
}

int net_fd(const struct net *n)
{
	return n->fd;
}

/* ---- sending ---- */

static void *control(struct msghdr *h, void *room, int level, int type, size_t bytes)
{
	struct cmsghdr *c = room;

	h->msg_control = room;
	h->msg_controllen = CMSG_SPACE(bytes);
	memset(room, 0, CONTROL_BYTES);
	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(bytes);
	return CMSG_DATA(c);
}

void net_put(struct net *n, const void *bytes, size_t len, uint32_t host)
{
	struct msghdr *h;

	if (n->n == NET_BATCH || (n->way == NET_SEGMENTS && n->n && len != n->segment))
		net_flush(n);
	n->segment = len;
	if (n->way == NET_SEGMENTS) {
		memcpy(n->bytes[0] + n->n++ * len, bytes, len);
		return;
	}
	memcpy(n->bytes[n->n], bytes, len);
	n->out.iov[n->n] = (struct iovec){ n->bytes[n->n], len };
	h = &n->out.head[n->n].msg_hdr;
	*h = (struct msghdr){ .msg_iov = &n->out.iov[n->n], .msg_iovlen = 1 };
	if (n->way == NET_HOSTS) {
		struct in_pktinfo from = { .ipi_spec_dst.s_addr = htonl(host) };

		h->msg_name = &n->to;
		h->msg_namelen = sizeof(n->to);
		memcpy(control(h, n->out.control[n->n], IPPROTO_IP, IP_PKTINFO, sizeof(from)),
		       &from, sizeof(from));
	}
	n->n++;
}

/* Sends the whole batch as one buffer. */
static unsigned int together(struct net *n)
{
	uint16_t segment = (uint16_t)n->segment;

	n->out.iov[0] = (struct iovec){ n->bytes[0], n->n * n->segment };
	n->out.head[0].msg_hdr = (struct msghdr){ .msg_iov = &n->out.iov[0], .msg_iovlen = 1 };
	memcpy(control(&n->out.head[0].msg_hdr, n->out.control[0], SOL_UDP, UDP_SEGMENT,
		       sizeof(segment)),
	       &segment, sizeof(segment));
	return 1;
}

void net_flush(struct net *n)
{
	unsigned int done = 0, heads = n->n;

	if (n->way == NET_SEGMENTS && n->n)
		heads = together(n);
	while (done < heads) {
		int rc = sendmmsg(n->fd, n->out.head + done, heads - done, 0);

		if (rc < 0 && errno != EINTR && errno != ECONNREFUSED)
			die("sendmmsg");
		done += rc > 0 ? (unsigned int)rc : 0;
	}
	n->n = 0;
}

/* ---- receiving ---- */

/*
 * Reads the control data of a buffer: the destination address, or the length of each datagram in
 * it.
 */
static void beside(struct msghdr *h, uint32_t *host, size_t *segment)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo to;

			memcpy(&to, CMSG_DATA(c), sizeof(to));
			*host = ntohl(to.ipi_addr.s_addr);
		} else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			int bytes;

			memcpy(&bytes, CMSG_DATA(c), sizeof(bytes));
			*segment = (size_t)bytes;
		}
	}
}

unsigned int net_hear(struct net *n, net_take *take)
{
	unsigned int taken = 0;
	int got;

	for (int i = 0; i < NET_BATCH; i++) {
		in.iov[i] = (struct iovec){ heard[i], HEARD_BYTES };
		in.head[i].msg_hdr = (struct msghdr){ .msg_iov = &in.iov[i],
						      .msg_iovlen = 1,
						      .msg_control = in.control[i],
						      .msg_controllen = CONTROL_BYTES };
	}
	got = recvmmsg(n->fd, in.head, NET_BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < got; i++) {
		size_t len = in.head[i].msg_len, segment = len;
		uint32_t host = 0;

		beside(&in.head[i].msg_hdr, &host, &segment);
		for (size_t at = 0; at < len; at += segment, taken++)
			take(heard[i] + at, len - at < segment ? len - at : segment, host);
	}
	return taken;
}
