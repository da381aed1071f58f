// SPDX-License-Identifier: BSD-2-Clause
/* route_socket.c - see route_socket.h. */
#include "route_socket.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "say.h"

/* A route has at most some hundred links; a longer answer counts as none. */
#define ANSWER_BYTES 8192
/* Datagrams that are read at once: answers to former requests, messages of other processes. */
#define READS_MOST 16
/* An address that is on more links than this is judged by these. */
#define LINKS_MOST 8
/*
 * Bytes for notifications that nobody reads yet. What does not fit is lost, and read as ENOBUFS,
 * which says enough; so the smallest buffer is right.
 */
#define CHANGES_BYTES 4096

static const int groups[] = {
	RTNLGRP_LINK,
	RTNLGRP_IPV4_IFADDR,
	RTNLGRP_IPV6_IFADDR,
	RTNLGRP_IPV4_ROUTE,
	RTNLGRP_IPV6_ROUTE,
	RTNLGRP_IPV4_RULE,
	RTNLGRP_IPV6_RULE,
	RTNLGRP_NEXTHOP,
	/* sysctl: whether routes by links that are not connected count */
	RTNLGRP_IPV4_NETCONF,
	RTNLGRP_IPV6_NETCONF,
};

static int ask(void *socket, const struct rsk_route_query *q)
{
	struct rsk_route_socket *s = socket;
	char request[RSK_ROUTE_REQUEST_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	char answer[ANSWER_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	size_t bytes = rsk_route_request(q, ++s->seq, request);

	if (mnl_socket_sendto(s->requests, request, bytes) < 0)
		return -errno;
	for (int i = 0; i < READS_MOST; i++) {
		struct sockaddr_nl from = { 0 };
		socklen_t from_bytes = sizeof(from);
		ssize_t n = recvfrom(mnl_socket_get_fd(s->requests), answer, sizeof(answer),
				     MSG_TRUNC, (struct sockaddr *)&from, &from_bytes);
		int rc = -EAGAIN;

		if (n < 0 && errno != EINTR)
			return errno == EAGAIN ? -ENODATA : -errno;
		if (n > (ssize_t)sizeof(answer))
			return -EMSGSIZE;
		if (n >= 0 && from.nl_family == AF_NETLINK && from.nl_pid == 0)
			rc = rsk_route_answer(q, s->seq, answer, (size_t)n);
		if (rc != -EAGAIN)
			return rc;
	}
	return -ENODATA;
}

/* Counts the question, and logs the first one that the kernel does not answer. */
static int ask_counted(void *socket, const struct rsk_route_query *q)
{
	struct rsk_route_socket *s = socket;
	int rc = ask(s, q);

	s->count.asked++;
	if (rc >= 0)
		return rc;
	s->count.unanswered++;
	/* A link that has just gone is known as such soon. */
	if (!s->silent && rc != -ENODEV) {
		s->silent = true;
		rsk_say("the kernel does not say where its routes lead: %s", strerror(-rc));
	}
	return rc;
}

/* Reads the notifications; drops the answers if there is one, or if some were lost (ENOBUFS). */
static void see_changes(struct rsk_route_socket *s)
{
	bool changed = false;
	char byte;

	/* What is left after this many is read before the next use. */
	for (int i = 0; i < READS_MOST; i++) {
		ssize_t n = recv(mnl_socket_get_fd(s->changes), &byte, sizeof(byte), 0);

		if (n < 0 && errno != ENOBUFS && errno != EINTR)
			break;
		changed = true;
	}
	if (!changed)
		return;
	s->count.changes++;
	rsk_routes_forget(&s->routes);
}

static int open_changes(struct rsk_route_socket *s)
{
	static const int bytes = CHANGES_BYTES;

	s->changes = mnl_socket_open2(NETLINK_ROUTE, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (!s->changes || mnl_socket_bind(s->changes, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    setsockopt(mnl_socket_get_fd(s->changes), SOL_SOCKET, SO_RCVBUF, &bytes,
		       sizeof(bytes)) < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		int group = groups[i];

		/* A kernel older than the group has nothing to say in it. */
		if (mnl_socket_setsockopt(s->changes, NETLINK_ADD_MEMBERSHIP, &group,
					  sizeof(group)) < 0 &&
		    (errno != EINVAL || group != RTNLGRP_NEXTHOP))
			return -errno;
	}
	return 0;
}

static int open_requests(struct rsk_route_socket *s)
{
	s->requests = mnl_socket_open2(NETLINK_ROUTE, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (!s->requests || mnl_socket_bind(s->requests, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	return 0;
}

void rsk_route_socket_open(struct rsk_route_socket *s, const struct rsk_ifaces *links)
{
	int rc;

	*s = (struct rsk_route_socket){ .links = links,
					.routes = { .ask = ask_counted, .ctx = s } };
	rc = open_requests(s);
	if (rc == 0)
		rc = open_changes(s);
	if (rc == 0)
		return;
	rsk_say("the kernel's routes are not asked: %s", strerror(-rc));
	rsk_route_socket_close(s);
}

void rsk_route_socket_close(struct rsk_route_socket *s)
{
	if (s->requests)
		mnl_socket_close(s->requests);
	if (s->changes)
		mnl_socket_close(s->changes);
	rsk_routes_forget(&s->routes);
	*s = (struct rsk_route_socket){ 0 };
}

int rsk_route_socket_leads(void *socket, const struct rsk_pm_addr *from,
			   const struct rsk_pm_addr *to)
{
	struct rsk_route_socket *s = socket;
	int links[LINKS_MOST], rc = 0, one;
	size_t n;

	if (!s->requests)
		return -ENODATA;
	see_changes(s);
	n = rsk_ifaces_links_of(s->links, from, links, LINKS_MOST);
	if (!n)
		return -ENODEV;
	for (size_t i = 0; i < n; i++) {
		one = rsk_routes_lead(&s->routes, from, links[i], to);
		if (one > 0)
			return one;
		rc = one ? one : rc;
	}
	return rc;
}
