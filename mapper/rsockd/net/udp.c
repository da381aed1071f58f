// SPDX-License-Identifier: BSD-2-Clause
/* udp.c - see udp.h. */
#include "udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "pm_msg.h"
#include "pmsp.h"
#include "udp_out.h"

#define HEADS 64
#define CONTROL_BYTES (CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(int)))
/*
 * Room for 128 datagrams of 64 bytes: a run has up to 64, or 128 if it comes from this host. Not a
 * power of two, so that the first lines of all buffers do not fall into the same set of a cache.
 */
#define RUN_BYTES (8192 + 64)
#define TURN 1024 /* datagrams, roughly, before other events are handled */
#define BUFFER_BYTES (4 << 20)

struct rsk_udp_in {
	struct mmsghdr head[HEADS];
	struct iovec iov[HEADS];
	struct sockaddr_storage name[HEADS];
	_Alignas(struct cmsghdr) uint8_t control[HEADS][CONTROL_BYTES];
	uint8_t bytes[HEADS][RUN_BYTES];
	/* The datagrams in the heads' buffers, one by one. */
	struct rsk_pmsp_coming coming[RSK_UDP_BATCH];
	unsigned int head_of[RSK_UDP_BATCH];
};

/* ---- sending ---- */

void rsk_udp_flush(struct rsk_udp *u)
{
	rsk_udp_out_flush(u->out, &u->count);
}

static const struct rsk_udp_socket *socket_for(const struct rsk_udp *u, uint8_t ipv)
{
	if (u->hearing && u->hearing->ipv == ipv)
		return u->hearing;
	for (size_t i = 0; i < u->n; i++)
		if (u->sockets[i].ipv == ipv)
			return &u->sockets[i];
	return NULL;
}

void rsk_udp_send(struct rsk_udp *u, const struct rsk_pm_addr *to, const void *datagram,
		  size_t bytes)
{
	static const uint8_t own[16];
	const struct rsk_udp_socket *s = socket_for(u, to->ipv);
	const uint8_t *from = s && s == u->hearing ? u->asked_at : own;

	if (!s || !bytes || bytes > RSK_UDP_BYTES) {
		u->count.lost++;
		return;
	}
	while (!rsk_udp_out_put(u->out, s, to, from, datagram, bytes))
		rsk_udp_flush(u);
}

struct rsk_udp_place rsk_udp_place(const struct rsk_udp *u)
{
	struct rsk_udp_place p = { .hearing = u->hearing };

	memcpy(p.asked_at, u->asked_at, 16);
	return p;
}

void rsk_udp_set_place(struct rsk_udp *u, const struct rsk_udp_place *place)
{
	u->hearing = place->hearing;
	memcpy(u->asked_at, place->asked_at, 16);
}

/* ---- receiving ---- */

static void init_heads(struct rsk_udp_in *in)
{
	for (int i = 0; i < HEADS; i++) {
		in->iov[i] = (struct iovec){ in->bytes[i], RUN_BYTES };
		in->head[i].msg_hdr = (struct msghdr){ .msg_name = &in->name[i],
						       .msg_iov = &in->iov[i],
						       .msg_iovlen = 1,
						       .msg_control = in->control[i] };
	}
}

static int receive(struct rsk_udp_in *in, int fd)
{
	for (int i = 0; i < HEADS; i++) {
		in->head[i].msg_hdr.msg_namelen = sizeof(in->name[i]);
		in->head[i].msg_hdr.msg_controllen = CONTROL_BYTES;
	}
	return recvmmsg(fd, in->head, HEADS, MSG_DONTWAIT, NULL);
}

/*
 * Reads the control data: to which address the bytes came, and how long each datagram of a run is.
 */
static size_t beside(struct msghdr *h, size_t bytes, uint8_t ip[static 16])
{
	memset(ip, 0, 16);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		struct in6_pktinfo six;
		struct in_pktinfo four;
		int each;

		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			memcpy(&four, CMSG_DATA(c), sizeof(four));
			memcpy(ip, &four.ipi_spec_dst, 4);
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			memcpy(&six, CMSG_DATA(c), sizeof(six));
			memcpy(ip, &six.ipi6_addr, 16);
		} else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			memcpy(&each, CMSG_DATA(c), sizeof(each));
			if (each > 0 && (size_t)each < bytes)
				bytes = (size_t)each;
		}
	}
	return bytes;
}

/* Processes @n datagrams of in->coming; in->head_of names the head of each. */
static void take_batch(struct rsk_udp *u, unsigned int n, uint64_t now_ns)
{
	struct rsk_udp_in *in = u->in;
	struct rsk_pm_addr from = { 0 };
	unsigned int head = HEADS;

	if (u->prepare && n > 1)
		u->prepare(u->ctx, in->coming, n);
	for (unsigned int i = 0; i < n; i++) {
		if (in->head_of[i] != head) {
			head = in->head_of[i];
			if (!rsk_pm_addr_of_socket(&in->name[head], &from))
				from.port = 0;
			beside(&in->head[head].msg_hdr, 0, u->asked_at);
		}
		if (from.port)
			u->take(u->ctx, &from, in->coming[i].datagram, in->coming[i].bytes, now_ns);
	}
	u->count.received += n;
}

/* Processes all that one system call has received. Returns the number of datagrams. */
static size_t take_heads(struct rsk_udp *u, int heads)
{
	struct rsk_udp_in *in = u->in;
	uint64_t now = rsk_clock_ns();
	unsigned int n = 0;
	size_t all = 0;

	for (int i = 0; i < heads; i++) {
		size_t bytes = in->head[i].msg_len, at = 0, each;

		each = beside(&in->head[i].msg_hdr, bytes, u->asked_at);
		do {
			size_t left = bytes - at;

			if (n == RSK_UDP_BATCH) {
				take_batch(u, n, now);
				n = 0;
			}
			in->coming[n] = (struct rsk_pmsp_coming){ in->bytes[i] + at,
								  left < each ? left : each };
			in->head_of[n++] = (unsigned int)i;
			all++;
			at += each;
		} while (at < bytes);
	}
	take_batch(u, n, now);
	return all;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	const struct rsk_udp_socket *s = arg;
	struct rsk_udp *u = s->udp;
	size_t taken = 0;
	int heads;

	do {
		heads = receive(u->in, s->fd);
		/*
		 * nothing to read, or an ICMP error for an earlier answer, which this call has
		 * cleared
		 */
		if (heads <= 0)
			break;
		u->hearing = s;
		taken += take_heads(u, heads);
		rsk_udp_flush(u);
		u->hearing = NULL;
	} while (heads == HEADS && taken < TURN);
	u->after(u->ctx);
}

/* ---- sockets ---- */

int rsk_udp_init(struct rsk_udp *u, struct event_base *base, rsk_udp_prepare *prepare,
		 rsk_udp_take *take, void (*after)(void *ctx), void *ctx)
{
	*u = (struct rsk_udp){
		.base = base, .prepare = prepare, .take = take, .after = after, .ctx = ctx
	};
	u->in = calloc(1, sizeof(*u->in));
	u->out = rsk_udp_out_new();
	if (!u->in || !u->out) {
		rsk_udp_fini(u);
		return -ENOMEM;
	}
	init_heads(u->in);
	return 0;
}

void rsk_udp_fini(struct rsk_udp *u)
{
	for (size_t i = 0; i < u->n; i++) {
		event_free(u->sockets[i].readable);
		close(u->sockets[i].fd);
	}
	u->n = 0;
	free(u->in);
	rsk_udp_out_free(u->out);
	u->in = NULL;
	u->out = NULL;
}

/* Options that make it faster, if the kernel has them. */
static void tune(int fd)
{
	static const int on = 1, large = BUFFER_BYTES, no_fragments = IP_PMTUDISC_DO;

	/* the kernel caps it at its limit */
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof(large));
	setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on));
	/*
	 * Our datagrams fit every path, and the kernel assigns no IP ID to a datagram that must not
	 * be fragmented.
	 */
	setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &no_fragments, sizeof(no_fragments));
}

static bool hears_all(const struct rsk_pm_addr *at)
{
	static const uint8_t all[16];

	return memcmp(at->ip, all, 16) == 0;
}

static int bound(const struct rsk_pm_addr *at)
{
	static const int on = 1;
	bool six = at->ipv == RSK_PM_IPV6;
	struct sockaddr_storage sa;
	socklen_t len = rsk_pm_addr_to_socket(at, &sa);
	int fd, rc = 0;

	fd = socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (six)
		rc = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (rc == 0 && hears_all(at))
		rc = six ? setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)) :
			   setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	if (rc || bind(fd, (struct sockaddr *)&sa, len) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	tune(fd);
	return fd;
}

int rsk_udp_open(struct rsk_udp *u, const struct rsk_pm_addr *at)
{
	struct rsk_udp_socket *s = &u->sockets[u->n];
	int fd, segment, rc;
	socklen_t len = sizeof(segment);

	if (u->n == RSK_UDP_SOCKETS)
		return -ENOSPC;
	fd = bound(at);
	if (fd < 0)
		return fd;
	*s = (struct rsk_udp_socket){ .udp = u, .fd = fd, .ipv = at->ipv };
	s->segments = getsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, &len) == 0;
	s->readable = event_new(u->base, fd, EV_READ | EV_PERSIST, on_readable, s);
	rc = rsk_pm_addr_of_fd(fd, &s->at);
	if (rc == 0 && (!s->readable || event_add(s->readable, NULL) < 0))
		rc = -ENOMEM;
	if (rc < 0) {
		if (s->readable)
			event_free(s->readable);
		close(fd);
		return rc;
	}
	u->n++;
	return 0;
}
