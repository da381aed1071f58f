// SPDX-License-Identifier: BSD-2-Clause
/* udp.c - see udp.h. */
#include "udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pm_msg.h"
#include "pmsp.h"

#define CONTROL_BYTES CMSG_SPACE(sizeof(struct in6_pktinfo))
#define BATCHES_AT_ONCE 16 /* then others have their turn */
#define BUFFER_BYTES (4 << 20)

struct rsk_udp_batch {
	int fd; /* all of them go there */
	unsigned int n;
	struct mmsghdr head[RSK_UDP_BATCH];
	struct iovec iov[RSK_UDP_BATCH];
	struct sockaddr_storage name[RSK_UDP_BATCH];
	_Alignas(struct cmsghdr) uint8_t control[RSK_UDP_BATCH][CONTROL_BYTES];
	uint8_t bytes[RSK_UDP_BATCH][RSK_UDP_BYTES];
};

uint64_t rsk_udp_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static socklen_t to_sockaddr(const struct rsk_pm_addr *a, struct sockaddr_storage *out)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
	struct sockaddr_in *four = (struct sockaddr_in *)out;

	memset(out, 0, sizeof(*out));
	if (a->ipv == RSK_PM_IPV6) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(a->port);
		memcpy(&six->sin6_addr, a->ip, 16);
		return sizeof(*six);
	}
	four->sin_family = AF_INET;
	four->sin_port = htons(a->port);
	memcpy(&four->sin_addr, a->ip, 4);
	return sizeof(*four);
}

static bool from_sockaddr(const struct sockaddr_storage *s, struct rsk_pm_addr *out)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)s;
	const struct sockaddr_in *four = (const struct sockaddr_in *)s;

	memset(out, 0, sizeof(*out));
	if (s->ss_family == AF_INET6) {
		out->ipv = RSK_PM_IPV6;
		out->port = ntohs(six->sin6_port);
		memcpy(out->ip, &six->sin6_addr, 16);
		return true;
	}
	if (s->ss_family != AF_INET)
		return false;
	out->ipv = RSK_PM_IPV4;
	out->port = ntohs(four->sin_port);
	memcpy(out->ip, &four->sin_addr, 4);
	return true;
}

/* ---- out ---- */

void rsk_udp_flush(struct rsk_udp *u)
{
	struct rsk_udp_batch *b = u->out;
	unsigned int done = 0;

	while (done < b->n) {
		int rc = sendmmsg(b->fd, b->head + done, b->n - done, MSG_DONTWAIT);

		if (rc > 0) {
			u->count.sent += (unsigned int)rc;
			done += (unsigned int)rc;
			continue;
		}
		if (rc < 0 && errno == EINTR)
			continue;
		u->count.lost++; /* this one does not go (no route, a full queue): the others may */
		done++;
	}
	b->n = 0;
}

/* The answer comes from where it was asked for. */
static void set_source(struct msghdr *h, uint8_t ipv, const uint8_t ip[static 16])
{
	struct cmsghdr *c;

	if (ipv == RSK_PM_IPV6) {
		struct in6_pktinfo info = { 0 };

		memcpy(&info.ipi6_addr, ip, 16);
		h->msg_controllen = CMSG_SPACE(sizeof(info));
		c = CMSG_FIRSTHDR(h);
		c->cmsg_level = IPPROTO_IPV6;
		c->cmsg_type = IPV6_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(c), &info, sizeof(info));
	} else {
		struct in_pktinfo info = { 0 };

		memcpy(&info.ipi_spec_dst, ip, 4);
		h->msg_controllen = CMSG_SPACE(sizeof(info));
		c = CMSG_FIRSTHDR(h);
		c->cmsg_level = IPPROTO_IP;
		c->cmsg_type = IP_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(c), &info, sizeof(info));
	}
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
	const struct rsk_udp_socket *s = socket_for(u, to->ipv);
	struct rsk_udp_batch *b = u->out;
	struct msghdr *h;

	if (!s || bytes > RSK_UDP_BYTES) {
		u->count.lost++;
		return;
	}
	if (b->n == RSK_UDP_BATCH || (b->n && b->fd != s->fd))
		rsk_udp_flush(u);
	b->fd = s->fd;
	memcpy(b->bytes[b->n], datagram, bytes);
	b->iov[b->n] = (struct iovec){ b->bytes[b->n], bytes };
	h = &b->head[b->n].msg_hdr;
	*h = (struct msghdr){ .msg_name = &b->name[b->n],
			      .msg_iov = &b->iov[b->n],
			      .msg_iovlen = 1 };
	h->msg_namelen = to_sockaddr(to, &b->name[b->n]);
	h->msg_control = b->control[b->n];
	if (s == u->hearing)
		set_source(h, s->ipv, u->asked_at);
	else
		h->msg_control = NULL;
	b->n++;
}

/* ---- in ---- */

static void asked_at(const struct rsk_udp_socket *s, struct msghdr *h, uint8_t ip[static 16])
{
	memcpy(ip, s->at.ip, 16);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			memset(ip, 0, 16);
			memcpy(ip, &info.ipi_spec_dst, 4);
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			memcpy(ip, &info.ipi6_addr, 16);
		}
	}
}

static int receive(struct rsk_udp *u, const struct rsk_udp_socket *s)
{
	struct rsk_udp_batch *b = u->in;

	for (int i = 0; i < RSK_UDP_BATCH; i++) {
		b->iov[i] = (struct iovec){ b->bytes[i], RSK_UDP_BYTES };
		b->head[i].msg_hdr = (struct msghdr){ .msg_name = &b->name[i],
						      .msg_namelen = sizeof(b->name[i]),
						      .msg_iov = &b->iov[i],
						      .msg_iovlen = 1,
						      .msg_control = b->control[i],
						      .msg_controllen = CONTROL_BYTES };
	}
	return recvmmsg(s->fd, b->head, RSK_UDP_BATCH, MSG_DONTWAIT, NULL);
}

static void prepare_batch(struct rsk_udp *u, unsigned int n)
{
	struct rsk_pmsp_coming coming[RSK_UDP_BATCH];

	for (unsigned int i = 0; i < n; i++)
		coming[i] = (struct rsk_pmsp_coming){ u->in->bytes[i], u->in->head[i].msg_len };
	u->prepare(u->ctx, coming, n);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	const struct rsk_udp_socket *s = arg;
	struct rsk_udp *u = s->udp;

	for (int batch = 0; batch < BATCHES_AT_ONCE; batch++) {
		int n = receive(u, s);
		uint64_t now = rsk_udp_now_ns();

		if (n <= 0)
			break; /* nothing, or an ICMP error of an earlier answer, which is taken by this */
		u->hearing = s;
		if (u->prepare && n > 1)
			prepare_batch(u, (unsigned int)n);
		for (int i = 0; i < n; i++) {
			struct msghdr *h = &u->in->head[i].msg_hdr;
			struct rsk_pm_addr from;

			u->count.received++;
			if (!from_sockaddr(&u->in->name[i], &from) || !from.port)
				continue;
			asked_at(s, h, u->asked_at);
			u->take(u->ctx, &from, u->in->bytes[i], u->in->head[i].msg_len, now);
		}
		rsk_udp_flush(u);
		u->hearing = NULL;
		if (n < RSK_UDP_BATCH)
			break;
	}
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
	u->out = calloc(1, sizeof(*u->out));
	if (u->in && u->out)
		return 0;
	rsk_udp_fini(u);
	return -ENOMEM;
}

void rsk_udp_fini(struct rsk_udp *u)
{
	for (size_t i = 0; i < u->n; i++) {
		event_free(u->sockets[i].readable);
		close(u->sockets[i].fd);
	}
	u->n = 0;
	free(u->in);
	free(u->out);
	u->in = u->out = NULL;
}

static int bound(const struct rsk_pm_addr *at)
{
	static const int on = 1, large = BUFFER_BYTES;
	bool six = at->ipv == RSK_PM_IPV6;
	struct sockaddr_storage sa;
	socklen_t len = to_sockaddr(at, &sa);
	int fd, rc;

	fd = socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (six)
		rc = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) ||
		     setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
	else
		rc = setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	/* As much as is allowed: a wish. */
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof(large));
	if (rc || bind(fd, (struct sockaddr *)&sa, len) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

int rsk_udp_open(struct rsk_udp *u, const struct rsk_pm_addr *at)
{
	struct rsk_udp_socket *s = &u->sockets[u->n];
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	int fd;

	if (u->n == RSK_UDP_SOCKETS)
		return -ENOSPC;
	fd = bound(at);
	if (fd < 0)
		return fd;
	*s = (struct rsk_udp_socket){ .udp = u, .fd = fd, .ipv = at->ipv };
	s->readable = event_new(u->base, fd, EV_READ | EV_PERSIST, on_readable, s);
	if (!s->readable || getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
	    !from_sockaddr(&sa, &s->at) || event_add(s->readable, NULL) < 0) {
		if (s->readable)
			event_free(s->readable);
		close(fd);
		return -ENOMEM;
	}
	u->n++;
	return 0;
}
