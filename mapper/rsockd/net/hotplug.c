// SPDX-License-Identifier: BSD-2-Clause
/* hotplug.c - see hotplug.h. */
#include "hotplug.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#define GROUPS (RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR)
/*
 * The kernel sizes a dump's datagrams by the buffer that they are read into; any other datagram is
 * one message.
 */
#define DATAGRAM 16384
/* Delay before a repeated dump: a storm of changes costs at most ten dumps a second. */
#define AGAIN_US 100000
#define READS_MOST 64

static int ask(struct rsk_hotplug *p, int what)
{
	char request[MNL_ALIGN(sizeof(struct nlmsghdr)) + MNL_ALIGN(sizeof(struct ifinfomsg))]
		__attribute__((aligned(NLMSG_ALIGNTO))) = { 0 };
	struct nlmsghdr *m = mnl_nlmsg_put_header(request);

	m->nlmsg_type = (uint16_t)what;
	m->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	m->nlmsg_seq = ++p->seq;
	/* All zero selects every link, or every address (with an ifaddrmsg, which is shorter). */
	mnl_nlmsg_put_extra_header(m, what == RTM_GETLINK ? sizeof(struct ifinfomsg) :
							    sizeof(struct ifaddrmsg));
	if (mnl_socket_sendto(p->socket, m, m->nlmsg_len) < 0)
		return -errno;
	p->asked = what;
	return 0;
}

/* Starts the whole dump again after AGAIN_US. */
static void ask_again(struct rsk_hotplug *p)
{
	static const struct timeval later = { .tv_usec = AGAIN_US };

	p->asked = 0;
	event_add(p->again, &later);
}

static int begin(struct rsk_hotplug *p)
{
	p->count.dumps++;
	rsk_ifaces_begin(&p->links);
	return ask(p, RTM_GETLINK);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_hotplug *p = arg;

	if (begin(p) < 0)
		ask_again(p);
}

/*
 * Ends one dump: after the links it asks for the addresses; after those the table is complete.
 * Returns whether the completed dump has changed anything.
 */
static bool next(struct rsk_hotplug *p)
{
	bool changed = false;

	if (p->asked == RTM_GETLINK) {
		if (ask(p, RTM_GETADDR) < 0)
			ask_again(p);
	} else if (p->asked) {
		p->asked = 0;
		changed = rsk_ifaces_end(&p->links) || !p->whole;
		p->whole = true;
	}
	return changed;
}

/* Takes one datagram. 1: it has changed something; 0: it has not; -EAGAIN: there is none. */
static int take(struct rsk_hotplug *p)
{
	char datagram[DATAGRAM] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct sockaddr_nl from = { 0 };
	socklen_t from_bytes = sizeof(from);
	ssize_t n = recvfrom(mnl_socket_get_fd(p->socket), datagram, sizeof(datagram), MSG_TRUNC,
			     (struct sockaddr *)&from, &from_bytes);
	int rc;

	if (n < 0) {
		if (errno == ENOBUFS) {
			p->count.overruns++;
			ask_again(p);
			return 0;
		}
		return errno == EINTR ? 0 : -EAGAIN;
	}
	if (from.nl_family != AF_NETLINK || from.nl_pid != 0)
		return 0; /* not sent by the kernel */
	rc = (size_t)n > sizeof(datagram) ? -EMSGSIZE :
					    rsk_ifaces_take(&p->links, datagram, (size_t)n, p->seq);
	if (rc < 0) {
		p->count.malformed++;
		ask_again(p);
		return 0;
	}
	if (rc & RSK_IFACES_AGAIN)
		ask_again(p);
	else if (rc & RSK_IFACES_DONE && next(p))
		rc |= RSK_IFACES_CHANGED;
	return rc & RSK_IFACES_CHANGED ? 1 : 0;
}

/*
 * During a dump, entries that it has not reported yet are kept from the dump before, so they do not
 * count as missing.
 */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_hotplug *p = arg;
	bool changed = false;
	int rc = 0;

	for (int i = 0; i < READS_MOST && rc >= 0; i++) {
		rc = take(p);
		changed |= rc > 0;
	}
	if (!changed || !p->whole)
		return;
	p->count.changes++;
	p->changed(p->ctx);
}

int rsk_hotplug_open(struct rsk_hotplug *p, struct event_base *base, void (*changed)(void *ctx),
		     void *ctx)
{
	int rc;

	*p = (struct rsk_hotplug){ .changed = changed, .ctx = ctx };
	p->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (!p->socket)
		return -errno;
	p->readable =
		event_new(base, mnl_socket_get_fd(p->socket), EV_READ | EV_PERSIST, on_readable, p);
	p->again = evtimer_new(base, on_again, p);
	if (!p->readable || !p->again || event_add(p->readable, NULL) < 0)
		rc = -ENOMEM;
	else
		rc = mnl_socket_bind(p->socket, GROUPS, MNL_SOCKET_AUTOPID) < 0 ? -errno : begin(p);
	if (rc < 0) {
		rsk_hotplug_close(p);
		return rc;
	}
	/*
	 * The kernel fills a dump when it is requested; so the answer can be read at once, or has
	 * to be asked for again.
	 */
	while (p->asked && take(p) >= 0)
		;
	return 0;
}

void rsk_hotplug_close(struct rsk_hotplug *p)
{
	if (p->readable)
		event_free(p->readable);
	if (p->again)
		event_free(p->again);
	if (p->socket)
		mnl_socket_close(p->socket);
	rsk_ifaces_fini(&p->links);
	*p = (struct rsk_hotplug){ 0 };
}

bool rsk_hotplug_carries(void *plug, const struct rsk_pm_addr *ip)
{
	const struct rsk_hotplug *p = plug;

	return !p->whole || rsk_ifaces_carry(&p->links, ip);
}
