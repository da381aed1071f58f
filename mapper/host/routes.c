// SPDX-License-Identifier: BSD-2-Clause
/* routes.c - see routes.h. */
#include "routes.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "pm_hash.h"
#include "pm_msg.h"

struct rsk_route_known {
	struct rsk_route_query q;
	bool leads;
	UT_hash_handle hh;
};

/* ---- messages ---- */

/*
 * IPv4: RTM_F_FIB_MATCH asks for the route itself. Without it the kernel takes any target to be on
 * the link that is named, if it finds no route by that link. IPv6 does not do that; and there the
 * flag would leave out which of the links of a route the kernel selects.
 */
size_t rsk_route_request(const struct rsk_route_query *q, uint32_t seq,
			 char buf[static RSK_ROUTE_REQUEST_BYTES])
{
	bool v6 = q->to.ipv == RSK_PM_IPV6;
	size_t bytes = v6 ? 16 : 4;
	struct nlmsghdr *m;
	struct rtmsg *r;

	memset(buf, 0, RSK_ROUTE_REQUEST_BYTES);
	m = mnl_nlmsg_put_header(buf);
	m->nlmsg_type = RTM_GETROUTE;
	m->nlmsg_flags = NLM_F_REQUEST;
	m->nlmsg_seq = seq;
	r = mnl_nlmsg_put_extra_header(m, sizeof(*r));
	r->rtm_family = v6 ? AF_INET6 : AF_INET;
	r->rtm_flags = v6 ? 0 : RTM_F_FIB_MATCH;
	r->rtm_dst_len = (uint8_t)(8 * bytes);
	mnl_attr_put(m, RTA_DST, bytes, q->to.ip);
	if (q->from.ipv) {
		r->rtm_src_len = (uint8_t)(8 * bytes);
		mnl_attr_put(m, RTA_SRC, bytes, q->from.ip);
	}
	if (q->link)
		mnl_attr_put_u32(m, RTA_OIF, (uint32_t)q->link);
	return m->nlmsg_len;
}

/* The errors by which the kernel says that there is no route, or one that refuses. */
static int refusal(const struct nlmsghdr *m)
{
	int error;

	if (mnl_nlmsg_get_payload_len(m) < sizeof(struct nlmsgerr))
		return -EBADMSG;
	memcpy(&error, mnl_nlmsg_get_payload(m), sizeof(error));
	switch (-(long)error) {
	case ENETUNREACH:
	case EHOSTUNREACH: /* unreachable; IPv4: no route by this link */
	case EACCES:	   /* prohibit */
	case EINVAL:	   /* blackhole; or an address that packets cannot have */
		return RSK_ROUTE_NONE;
	default: /* ENODEV: the link has just gone, which is not a matter of routes */
		return error < 0 && error > -4096 ? error : -EBADMSG;
	}
}

/* An IPv4 route may have several links; the one asked for is of them, as the kernel has checked. */
static bool is_by(const struct nlmsghdr *m, int link)
{
	const struct rtmsg *r = mnl_nlmsg_get_payload(m);
	const struct nlattr *attr;

	if (r->rtm_family == AF_INET || !link)
		return true;
	mnl_attr_for_each(attr, m, sizeof(*r))
	{
		if (mnl_attr_get_type(attr) == RTA_OIF &&
		    mnl_attr_get_payload_len(attr) == sizeof(uint32_t))
			return mnl_attr_get_u32(attr) == (uint32_t)link;
	}
	return false;
}

static int route(const struct rsk_route_query *q, const struct nlmsghdr *m)
{
	const struct rtmsg *r = mnl_nlmsg_get_payload(m);

	if (mnl_nlmsg_get_payload_len(m) < sizeof(*r) ||
	    r->rtm_family != (q->to.ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET))
		return -EBADMSG;
	switch (r->rtm_type) {
	case RTN_LOCAL:
		return RSK_ROUTE_LOCAL;
	case RTN_UNICAST:
	case RTN_ANYCAST:
		return is_by(m, q->link) ? RSK_ROUTE_LEADS : RSK_ROUTE_OTHER;
	default:
		return RSK_ROUTE_NONE;
	}
}

int rsk_route_answer(const struct rsk_route_query *q, uint32_t seq, const void *datagram,
		     size_t bytes)
{
	const struct nlmsghdr *m = datagram;

	/* libmnl looks for attributes up to where the next message would begin. */
	if (bytes < sizeof(*m) || bytes > INT32_MAX || m->nlmsg_len < sizeof(*m) ||
	    m->nlmsg_len > bytes || MNL_ALIGN(m->nlmsg_len) > bytes)
		return -EBADMSG;
	if (m->nlmsg_seq != seq)
		return -EAGAIN;
	switch (m->nlmsg_type) {
	case NLMSG_ERROR:
		return refusal(m);
	case RTM_NEWROUTE:
		return route(q, m);
	default:
		return -EBADMSG;
	}
}

/* ---- the cache ---- */

static void drop(struct rsk_routes *r, struct rsk_route_known *k)
{
	HASH_DEL(r->known, k);
	free(k);
}

void rsk_routes_forget(struct rsk_routes *r)
{
	struct rsk_route_known *k = r->known, *next;

	HASH_CLEAR(hh, r->known);
	for (; k; k = next) {
		next = k->hh.next;
		free(k);
	}
}

/*
 * With a source address IPv6 prefers the link, but takes a better route by another one; only
 * without a source address it keeps to the link. IPv4 always keeps to it.
 */
static int ask(struct rsk_routes *r, const struct rsk_route_query *q)
{
	struct rsk_route_query less = *q;
	int rc = r->ask(r->ctx, q);

	if (rc == RSK_ROUTE_OTHER) {
		less.from = (struct rsk_pm_addr){ 0 };
		rc = r->ask(r->ctx, &less);
	}
	if (rc != RSK_ROUTE_NONE && rc != RSK_ROUTE_OTHER)
		return rc;
	/* An address of this host is not reached by the link of another address. */
	less = (struct rsk_route_query){ .to = q->to };
	rc = r->ask(r->ctx, &less);
	return rc == RSK_ROUTE_LOCAL || rc < 0 ? rc : RSK_ROUTE_NONE;
}

int rsk_routes_lead(struct rsk_routes *r, const struct rsk_pm_addr *from, int link,
		    const struct rsk_pm_addr *to)
{
	struct rsk_route_query q = { .to = *to, .from = *from, .link = link };
	struct rsk_route_known *k;
	int rc;

	q.to.port = q.from.port = 0;
	HASH_FIND(hh, r->known, &q, sizeof(q), k);
	if (k)
		return k->leads;
	rc = ask(r, &q);
	if (rc < 0)
		return rc;
	if (HASH_COUNT(r->known) >= RSK_ROUTES_MOST)
		drop(r, r->known);
	k = calloc(1, sizeof(*k));
	if (k) { /* else it is asked again */
		k->q = q;
		k->leads = rc != RSK_ROUTE_NONE;
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the oldest is freed after removal */
		HASH_ADD(hh, r->known, q, sizeof(k->q), k);
	}
	return rc != RSK_ROUTE_NONE;
}

bool rsk_routes_validate(const struct rsk_routes *r)
{
	const struct rsk_route_known *found;

	if (HASH_COUNT(r->known) > RSK_ROUTES_MOST)
		return false;
	for (const struct rsk_route_known *k = r->known; k; k = k->hh.next) {
		HASH_FIND(hh, r->known, &k->q, sizeof(k->q), found);
		if (found != k || k->q.to.port || k->q.from.port || k->q.link < 0)
			return false;
	}
	return true;
}
