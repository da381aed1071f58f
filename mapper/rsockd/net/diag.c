// SPDX-License-Identifier: BSD-2-Clause
/* diag.c - see diag.h. */
#include "diag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pm_msg.h"

#define LISTENING (1u << TCP_LISTEN)

struct search {
	rsk_diag_listens *listens;
	void *ctx;
};

static void tell(const struct inet_diag_msg *m, const struct search *s)
{
	bool v6 = m->idiag_family == AF_INET6;
	struct rsk_pm_addr at = { .port = ntohs(m->id.idiag_sport),
				  .ipv = v6 ? RSK_PM_IPV6 : RSK_PM_IPV4 };

	memcpy(at.ip, m->id.idiag_src, v6 ? 16 : 4);
	s->listens(s->ctx, (uint64_t)m->id.idiag_cookie[1] << 32 | m->id.idiag_cookie[0], &at,
		   m->idiag_uid);
}

/* One netlink message. 0: there may be more; 1: it was the last one; -errno. */
static int look(const struct nlmsghdr *h, const char *body, const struct search *s)
{
	struct inet_diag_msg m;
	int err;

	if (h->nlmsg_type == NLMSG_DONE)
		return 1;
	if (h->nlmsg_type == NLMSG_ERROR) {
		if (h->nlmsg_len < NLMSG_LENGTH(sizeof(err)))
			return -EPROTO;
		memcpy(&err, body, sizeof(err));
		return err < 0 ? err : -EPROTO;
	}
	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_len < NLMSG_LENGTH(sizeof(m)))
		return -EPROTO;
	memcpy(&m, body, sizeof(m));
	if (m.idiag_state == TCP_LISTEN)
		tell(&m, s);
	return 0;
}

static int look_through(const char *at, size_t n, const struct search *s)
{
	while (n >= sizeof(struct nlmsghdr)) {
		struct nlmsghdr h;
		size_t step;
		int rc;

		memcpy(&h, at, sizeof(h));
		if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > n)
			return -EPROTO;
		rc = look(&h, at + NLMSG_HDRLEN, s);
		step = NLMSG_ALIGN(h.nlmsg_len);
		if (rc || step >= n)
			return rc;
		at += step;
		n -= step;
	}
	return 0;
}

static void take_one(void *ctx, uint64_t cookie, const struct rsk_pm_addr *at, uid_t uid)
{
	*(struct rsk_listening *)ctx =
		(struct rsk_listening){ .cookie = cookie, .at = *at, .uid = uid };
}

static int dump(int nl, uint8_t family, uint16_t port, const struct search *s)
{
	static const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 body;
	} q = { .head = { .nlmsg_len = sizeof(q),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.body = { .sdiag_family = family,
			  .sdiag_protocol = IPPROTO_TCP,
			  .idiag_states = LISTENING,
			  .id.idiag_sport = htons(port) } };
	char buf[16384];
	int rc;

	if (sendto(nl, &q, sizeof(q), 0, (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	for (;;) {
		struct sockaddr_nl from = { 0 };
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(nl, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from,
				     &from_len);

		if (n < 0)
			return -errno;
		if (from_len != sizeof(from) || from.nl_pid != 0)
			continue; /* not sent by the kernel */
		rc = look_through(buf, (size_t)n, s);
		if (rc)
			return rc;
	}
}

/*
 * Finds a socket that accepts connections to @at. If several share the port, the kernel picks one.
 */
static int look_up(int nl, const struct rsk_pm_addr *at, struct rsk_listening *out)
{
	static const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 body;
	} q = { .head = { .nlmsg_len = sizeof(q),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST },
		.body = { .sdiag_family = at->ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET,
			  .sdiag_protocol = IPPROTO_TCP,
			  .idiag_states = LISTENING,
			  .id = { .idiag_sport = htons(at->port),
				  .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } } };
	const struct search s = { .listens = take_one, .ctx = out };
	struct sockaddr_nl from = { 0 };
	socklen_t from_len = sizeof(from);
	char buf[1024];
	ssize_t n;

	memcpy(q.body.id.idiag_src, at->ip, 16);
	*out = (struct rsk_listening){ 0 };
	if (sendto(nl, &q, sizeof(q), 0, (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	n = recvfrom(nl, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
	if (n < 0)
		return -errno;
	if (from_len != sizeof(from) || from.nl_pid != 0)
		return -EPROTO;
	return look_through(buf, (size_t)n, &s);
}

int rsk_diag_listener(const struct rsk_pm_addr *at, struct rsk_listening *out)
{
	int nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), rc;

	if (nl < 0)
		return -errno;
	rc = look_up(nl, at, out);
	close(nl);
	if (rc < 0)
		return rc;
	return out->cookie ? 0 : -ENOENT;
}

int rsk_diag_listening(uint16_t port, rsk_diag_listens *listens, void *ctx)
{
	static const uint8_t families[] = { AF_INET, AF_INET6 };
	const struct search s = { .listens = listens, .ctx = ctx };
	int rc = 0;

	for (size_t i = 0; i < 2 && rc >= 0; i++) {
		int nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

		if (nl < 0)
			return -errno;
		rc = dump(nl, families[i], port, &s);
		close(nl);
		/* this kernel has no such address family */
		if (rc == -ENOENT || rc == -EAFNOSUPPORT)
			rc = 0;
	}
	return rc < 0 ? rc : 0;
}

int rsk_diag_source(const struct rsk_pm_addr *to, struct rsk_pm_addr *out)
{
	struct sockaddr_storage sa;
	socklen_t len = rsk_pm_addr_to_socket(to, &sa);
	int fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	rc = connect(fd, (struct sockaddr *)&sa, len) < 0 ? -errno : rsk_pm_addr_of_fd(fd, out);
	close(fd);
	return rc;
}
