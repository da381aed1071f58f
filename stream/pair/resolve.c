// SPDX-License-Identifier: BSD-2-Clause
/* resolve.c - see resolve.h. */
#include "resolve.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include <rsock/local.h>
#include <rsock/sys.h>

#include "resolve_list.h"
#include "pairing.h"
#include "local.h"
#include "local_msg.h"
#include "rendezvous.h"
#include "stream.h"
#include "tuple.h"

/* Waits for the answer to this question; false: it does not come in time. */
static bool hear(int fd, uint64_t cookie, uint32_t wait_ms, struct rsk_local_msg *m)
{
	uint64_t end = rsk_now_ns() + wait_ms * UINT64_C(1000000), now;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while ((now = rsk_now_ns()) < end) {
		struct timespec left = { .tv_sec = (time_t)((end - now) / 1000000000),
					 .tv_nsec = (long)((end - now) % 1000000000) };
		int with, rc = rsk_sys_ppoll(&p, 1, &left, NULL);

		if (rc < 0 && rc != -EINTR)
			return false;
		if (rc <= 0)
			continue;
		rc = rsk_local_msg_recv(fd, true, m, &with);
		if (with >= 0)
			rsk_sys_close(with);
		if (rc <= 0 && rc != -EAGAIN)
			return false;
		if (rc > 0 && m->type == RSK_LOCAL_ANSWER && m->cookie == cookie)
			return true;
	}
	return false;
}

/*
 * Each question uses a socket of its own: threads neither wait for each other nor take each other's
 * answers.
 */
static bool ask(const struct rsk_tuple *to, uint32_t wait_ms, bool ahead, struct rsk_local_msg *m)
{
	int fd = rsk_local_dial();
	bool known = false;

	if (fd < 0)
		return false;
	*m = (struct rsk_local_msg){ .type = RSK_LOCAL_RESOLVE,
				     .flags = ahead ? RSK_LOCAL_QUIET : 0,
				     .tuple = *to,
				     .cookie = rsk_random64() };
	if (rsk_local_msg_send(fd, m, -1) == 0 && !ahead)
		known = hear(fd, m->cookie, wait_ms, m);
	rsk_own_close(fd);
	return known;
}

/* In the family of @to: an IPv6 socket takes mapped IPv4 addresses. */
static bool put(const struct rsk_local_msg *m, const struct sockaddr *to, socklen_t len,
		struct sockaddr_storage *redirect)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)redirect;
	struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)redirect;
	bool is_v4 = m->tuple.family == AF_INET;

	if (!m->port || len > sizeof(*redirect))
		return false;
	memcpy(redirect, to, len);
	if (to->sa_family == AF_INET) {
		memcpy(&v4->sin_addr, m->ip, 4);
	} else if (is_v4) {
		memset(&v6->sin6_addr, 0, 10);
		memset(&v6->sin6_addr.s6_addr[10], 0xff, 2);
		memcpy(&v6->sin6_addr.s6_addr[12], m->ip, 4);
	} else {
		memcpy(&v6->sin6_addr, m->ip, 16);
	}
	return true;
}

bool rsk_resolve_any(void)
{
	const struct rsk_local_first_contact *l;

	if (atomic_load_explicit(&rsk_stopped, memory_order_relaxed))
		return false;
	rsk_pairing_hello();
	l = rsk_resolve_list();
	if (__builtin_expect(!l, 1))
		return false;
	/* A process that only connects takes no steps, which would keep the list up to date. */
	if (rsk_local_due())
		rsk_pairing_check();
	return rsk_resolve_list()->n;
}

bool rsk_resolve(const struct sockaddr *to, socklen_t len, bool ahead,
		 struct sockaddr_storage *redirect)
{
	const struct rsk_local_first_contact *l = rsk_resolve_list();
	struct rsk_local_msg m;
	struct rsk_tuple at;

	if (!l || rsk_tuple_peer(to, len, &at) < 0 || !at.peer_port ||
	    !rsk_resolve_list_has(l, &at))
		return false;
	if (!ask(&at, l->wait_ms > 10000 ? 10000 : l->wait_ms, ahead, &m))
		return false;
	m.tuple.family = at.family;
	return put(&m, to, len, redirect);
}
