// SPDX-License-Identifier: BSD-2-Clause
/* udp_out.c - see udp_out.h. */
#include "udp_out.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "pm_msg.h"

#define CONTROL_BYTES (CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t)))
#define BYTES (RSK_UDP_RUNS * RSK_UDP_BYTES)

struct rsk_udp_out {
	const struct rsk_udp_socket *socket;
	size_t n, used;
	struct rsk_udp_run run[RSK_UDP_RUNS];
	uint8_t bytes[BYTES]; /* the runs' bytes, one after the other */
	/* arguments of sendmmsg(2) */
	struct mmsghdr head[RSK_UDP_RUNS];
	struct iovec iov[RSK_UDP_RUNS];
	struct sockaddr_storage name[RSK_UDP_RUNS];
	_Alignas(struct cmsghdr) uint8_t control[RSK_UDP_RUNS][CONTROL_BYTES];
};

struct rsk_udp_out *rsk_udp_out_new(void)
{
	return calloc(1, sizeof(struct rsk_udp_out));
}

void rsk_udp_out_free(struct rsk_udp_out *o)
{
	free(o);
}

static bool goes_with(const struct rsk_udp_run *r, const struct rsk_udp_run *one)
{
	return r->each == one->each && r->n < RSK_UDP_SEGMENTS &&
	       rsk_pm_addr_equal(&r->to, &one->to) && memcmp(r->from, one->from, 16) == 0;
}

bool rsk_udp_out_put(struct rsk_udp_out *o, const struct rsk_udp_socket *s,
		     const struct rsk_pm_addr *to, const uint8_t from[static 16],
		     const void *datagram, size_t bytes)
{
	struct rsk_udp_run one = { .to = *to, .each = (uint16_t)bytes, .n = 1 };

	memcpy(one.from, from, 16);
	if (o->n && (o->socket != s || o->used + bytes > BYTES))
		return false;
	if (o->n && s->segments && goes_with(&o->run[o->n - 1], &one)) {
		o->run[o->n - 1].n++;
	} else {
		if (o->n == RSK_UDP_RUNS)
			return false;
		o->run[o->n++] = one;
	}
	o->socket = s;
	memcpy(o->bytes + o->used, datagram, bytes);
	o->used += bytes;
	return true;
}

/* Appends an item to the control data; the buffer has room for all of them. */
static void add_control(struct msghdr *h, int level, int type, const void *data, size_t bytes)
{
	struct cmsghdr *c = (void *)((uint8_t *)h->msg_control + h->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(c), data, bytes);
	h->msg_controllen += CMSG_SPACE(bytes);
}

/* Sets the source address of an answer to the one that was asked. */
static void set_source(struct msghdr *h, uint8_t ipv, const uint8_t ip[static 16])
{
	struct in6_pktinfo six = { 0 };
	struct in_pktinfo four = { 0 };

	if (ipv == RSK_PM_IPV6) {
		memcpy(&six.ipi6_addr, ip, 16);
		add_control(h, IPPROTO_IPV6, IPV6_PKTINFO, &six, sizeof(six));
	} else {
		memcpy(&four.ipi_spec_dst, ip, 4);
		add_control(h, IPPROTO_IP, IP_PKTINFO, &four, sizeof(four));
	}
}

/* Fills in head @i for @n datagrams of run @i, whose bytes begin at @bytes. */
static void write_head(struct rsk_udp_out *o, size_t i, uint8_t *bytes, size_t n)
{
	static const uint8_t own[16];
	const struct rsk_udp_run *r = &o->run[i];
	struct msghdr *h = &o->head[i].msg_hdr;

	o->iov[i] = (struct iovec){ bytes, n * r->each };
	*h = (struct msghdr){ .msg_name = &o->name[i],
			      .msg_iov = &o->iov[i],
			      .msg_iovlen = 1,
			      .msg_control = o->control[i] };
	h->msg_namelen = rsk_pm_addr_to_socket(&r->to, &o->name[i]);
	if (memcmp(r->from, own, 16) != 0)
		set_source(h, r->to.ipv, r->from);
	if (n > 1)
		add_control(h, SOL_UDP, UDP_SEGMENT, &r->each, sizeof(r->each));
}

/*
 * Sends the datagrams of a refused run one by one: some devices and policies (xfrm) cannot split a
 * run.
 */
static void send_apart(struct rsk_udp_out *o, size_t i, struct rsk_udp_counters *count)
{
	uint8_t *bytes = o->iov[i].iov_base;

	for (size_t k = 0; k < o->run[i].n; k++) {
		write_head(o, i, bytes + k * o->run[i].each, 1);
		/* no route, or a full queue: the next ones are still tried */
		if (sendmsg(o->socket->fd, &o->head[i].msg_hdr, MSG_DONTWAIT) < 0)
			count->lost++;
		else
			count->sent++;
	}
}

void rsk_udp_out_flush(struct rsk_udp_out *o, struct rsk_udp_counters *count)
{
	size_t at = 0, done = 0;

	for (size_t i = 0; i < o->n; i++) {
		write_head(o, i, o->bytes + at, o->run[i].n);
		at += (size_t)o->run[i].each * o->run[i].n;
	}
	while (done < o->n) {
		int rc = sendmmsg(o->socket->fd, o->head + done, (unsigned int)(o->n - done),
				  MSG_DONTWAIT);

		if (rc < 0 && errno == EINTR)
			continue;
		if (rc <= 0)
			send_apart(o, done++, count);
		for (; rc > 0; rc--)
			count->sent += o->run[done++].n;
	}
	o->n = o->used = 0;
}
