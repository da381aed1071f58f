// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_routes.c - tests requests for routes, the reading of the kernel's answers and of malformed
 * ones, and the cache of answers.
 */
#include "routes.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>

#include "dice.h"
#include "pm_msg.h"

#define SEQ 7u
#define LINK 3

static struct rsk_pm_addr ip_of(const char *text)
{
	struct rsk_pm_addr ip = { .ipv = strchr(text, ':') ? RSK_PM_IPV6 : RSK_PM_IPV4 };

	cr_assert_eq(inet_pton(ip.ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET, text, ip.ip), 1);
	return ip;
}

static struct rsk_route_query query(const char *from, const char *to)
{
	return (struct rsk_route_query){ .from = ip_of(from), .to = ip_of(to), .link = LINK };
}

/* ---- messages ---- */

static char datagram[512] __attribute__((aligned(NLMSG_ALIGNTO)));

/* An answer of the kernel; @link 0: it names no link. Returns its size. */
static size_t put_route(const struct rsk_route_query *q, unsigned char type, uint32_t link)
{
	struct nlmsghdr *m = mnl_nlmsg_put_header(datagram);
	bool v6 = q->to.ipv == RSK_PM_IPV6;
	struct rtmsg *r;

	m->nlmsg_type = RTM_NEWROUTE;
	m->nlmsg_seq = SEQ;
	r = mnl_nlmsg_put_extra_header(m, sizeof(*r));
	r->rtm_family = v6 ? AF_INET6 : AF_INET;
	r->rtm_type = type;
	mnl_attr_put(m, RTA_DST, v6 ? 16 : 4, q->to.ip);
	if (link)
		mnl_attr_put_u32(m, RTA_OIF, link);
	return m->nlmsg_len;
}

static size_t put_error(int error)
{
	struct nlmsghdr *m = mnl_nlmsg_put_header(datagram);
	struct nlmsgerr *e;

	m->nlmsg_type = NLMSG_ERROR;
	m->nlmsg_seq = SEQ;
	e = mnl_nlmsg_put_extra_header(m, sizeof(*e));
	e->error = error;
	return m->nlmsg_len;
}

/* From memory that ends where the datagram does. */
static int read_part(const struct rsk_route_query *q, uint32_t seq, size_t bytes)
{
	char *copy = malloc(bytes + 1);
	int rc;

	cr_assert_not_null(copy);
	memcpy(copy, datagram, bytes);
	rc = rsk_route_answer(q, seq, copy, bytes);
	free(copy);
	return rc;
}

static int attr(const struct nlattr *a, void *seen)
{
	const struct nlattr **all = seen;

	all[mnl_attr_get_type(a)] = a;
	return MNL_CB_OK;
}

static const struct nlmsghdr *request(const struct rsk_route_query *q, const struct nlattr **seen)
{
	static char buf[RSK_ROUTE_REQUEST_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	size_t n = rsk_route_request(q, SEQ, buf);
	const struct nlmsghdr *m = (const struct nlmsghdr *)buf;

	cr_assert(n <= sizeof(buf) && mnl_nlmsg_ok(m, (int)n) && m->nlmsg_len == n);
	cr_assert(m->nlmsg_type == RTM_GETROUTE && m->nlmsg_flags == NLM_F_REQUEST &&
		  m->nlmsg_seq == SEQ);
	cr_assert_eq(mnl_attr_parse(m, sizeof(struct rtmsg), attr, seen), MNL_CB_OK);
	return m;
}

Test(routes, requests)
{
	struct rsk_route_query q = query("10.1.0.1", "10.2.0.9");
	const struct nlattr *seen[RTA_MAX + 1] = { 0 };
	const struct rtmsg *r = mnl_nlmsg_get_payload(request(&q, seen));

	cr_assert(r->rtm_family == AF_INET && r->rtm_flags & RTM_F_FIB_MATCH);
	cr_assert(r->rtm_dst_len == 32 && r->rtm_src_len == 32);
	cr_assert_eq(memcmp(mnl_attr_get_payload(seen[RTA_DST]), q.to.ip, 4), 0);
	cr_assert_eq(memcmp(mnl_attr_get_payload(seen[RTA_SRC]), q.from.ip, 4), 0);
	cr_assert_eq(mnl_attr_get_u32(seen[RTA_OIF]), LINK);
	/* IPv6 names the link in its answer, without that flag only. */
	q = query("fd00::1", "fd00::9");
	r = mnl_nlmsg_get_payload(request(&q, seen));
	cr_assert(r->rtm_family == AF_INET6 && !(r->rtm_flags & RTM_F_FIB_MATCH));
	cr_assert(r->rtm_dst_len == 128 && r->rtm_src_len == 128);
	cr_assert_eq(memcmp(mnl_attr_get_payload(seen[RTA_SRC]), q.from.ip, 16), 0);
	/* By whatever link, from whatever address. */
	memset(seen, 0, sizeof(seen));
	q.link = 0;
	q.from = (struct rsk_pm_addr){ 0 };
	r = mnl_nlmsg_get_payload(request(&q, seen));
	cr_assert(r->rtm_dst_len == 128 && !r->rtm_src_len);
	cr_assert(seen[RTA_DST] && !seen[RTA_SRC] && !seen[RTA_OIF]);
}

Test(routes, answers)
{
	const struct rsk_route_query v4 = query("10.1.0.1", "10.2.0.9"),
				     v6 = query("fd00::1", "fd00::9");
	static const int refusals[] = { -ENETUNREACH, -EHOSTUNREACH, -EACCES, -EINVAL };
	static const unsigned char refusing[] = { RTN_UNREACHABLE, RTN_BLACKHOLE, RTN_PROHIBIT,
						  RTN_THROW,	   RTN_MULTICAST, RTN_BROADCAST };

	cr_assert_eq(read_part(&v4, SEQ, put_route(&v4, RTN_UNICAST, LINK)), RSK_ROUTE_LEADS);
	cr_assert_eq(read_part(&v4, SEQ, put_route(&v4, RTN_UNICAST, 0)), RSK_ROUTE_LEADS,
		     "a route of several links");
	cr_assert_eq(read_part(&v4, SEQ, put_route(&v4, RTN_LOCAL, 1)), RSK_ROUTE_LOCAL);
	cr_assert_eq(read_part(&v6, SEQ, put_route(&v6, RTN_UNICAST, LINK)), RSK_ROUTE_LEADS);
	cr_assert_eq(read_part(&v6, SEQ, put_route(&v6, RTN_ANYCAST, LINK)), RSK_ROUTE_LEADS);
	cr_assert_eq(read_part(&v6, SEQ, put_route(&v6, RTN_UNICAST, LINK + 1)), RSK_ROUTE_OTHER);
	cr_assert_eq(read_part(&v6, SEQ, put_route(&v6, RTN_UNICAST, 0)), RSK_ROUTE_OTHER);
	cr_assert_eq(read_part(&v6, SEQ, put_route(&v6, RTN_LOCAL, 1)), RSK_ROUTE_LOCAL);
	for (size_t i = 0; i < sizeof(refusing); i++)
		cr_assert_eq(read_part(&v4, SEQ, put_route(&v4, refusing[i], LINK)),
			     RSK_ROUTE_NONE);
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		cr_assert_eq(read_part(&v6, SEQ, put_error(refusals[i])), RSK_ROUTE_NONE);
	/* These say nothing of routes. */
	cr_assert_eq(read_part(&v4, SEQ, put_error(-ENODEV)), -ENODEV);
	cr_assert_eq(read_part(&v4, SEQ, put_error(-ENOBUFS)), -ENOBUFS);
	cr_assert_eq(read_part(&v4, SEQ, put_error(-EPERM)), -EPERM);
	/* Answers to something else. */
	cr_assert_eq(read_part(&v4, SEQ + 1, put_route(&v4, RTN_UNICAST, LINK)), -EAGAIN);
	cr_assert_eq(read_part(&v4, SEQ, put_route(&v6, RTN_UNICAST, LINK)), -EBADMSG);
}

/* Nothing that is malformed is a route, and nothing beyond the datagram is read. */
Test(routes, malformed_answers)
{
	const struct rsk_route_query q = query("fd00::1", "fd00::9");
	struct nlmsghdr *m = (struct nlmsghdr *)datagram;
	struct rtattr *first;
	uint64_t dice = 25;
	size_t n = put_route(&q, RTN_UNICAST, LINK);

	for (size_t part = 0; part < n; part++)
		cr_assert_eq(read_part(&q, SEQ, part), -EBADMSG, "%zu bytes", part);
	for (uint32_t said = 0; said < sizeof(*m) + sizeof(struct rtmsg); said++) {
		m->nlmsg_len = said;
		cr_assert_eq(read_part(&q, SEQ, n), -EBADMSG, "it says %u bytes", said);
	}
	for (uint32_t said = UINT32_MAX; said > n; said /= 2) {
		m->nlmsg_len = said;
		cr_assert_eq(read_part(&q, SEQ, n), -EBADMSG, "it says %u bytes", said);
	}
	m->nlmsg_len = (uint32_t)n - 3; /* its last attribute would end behind it */
	cr_assert_eq(read_part(&q, SEQ, n - 3), -EBADMSG);
	n = put_error(-ENETUNREACH);
	m->nlmsg_len = (uint32_t)(n - sizeof(struct nlmsgerr));
	cr_assert_eq(read_part(&q, SEQ, m->nlmsg_len), -EBADMSG, "an error without its number");
	for (int error = 0; error < 2; error++) {
		n = put_error(error ? INT32_MIN : 1);
		cr_assert_eq(read_part(&q, SEQ, n), -EBADMSG, "no error's number");
	}
	n = put_route(&q, RTN_UNICAST, LINK);
	m->nlmsg_type = RTM_NEWLINK;
	cr_assert_eq(read_part(&q, SEQ, n), -EBADMSG);
	/* An attribute that ends behind the message, or has no length: the link is not known. */
	for (unsigned short said = 0; said < 3; said++) {
		n = put_route(&q, RTN_UNICAST, LINK);
		first = (struct rtattr *)(datagram + NLMSG_HDRLEN + sizeof(struct rtmsg));
		first->rta_len = said == 2 ? 4000 : said;
		cr_assert_eq(read_part(&q, SEQ, n), RSK_ROUTE_OTHER);
	}
	for (int round = 0; round < 20000; round++) {
		int rc;

		n = put_route(&q, RTN_UNICAST, LINK);
		for (int i = 0; i < 4; i++)
			datagram[dice_roll(&dice) % n] = (char)dice_roll(&dice);
		rc = read_part(&q, SEQ, n - dice_roll(&dice) % 4);
		cr_assert(rc >= -4095 && rc <= RSK_ROUTE_LOCAL);
	}
}

/* ---- the cache ---- */

/* A kernel: what it answers for a link with a source address, for one without, and for no link. */
struct kernel {
	int with_source, by_link, any;
	unsigned int asked;
};

static int ask(void *ctx, const struct rsk_route_query *q)
{
	struct kernel *k = ctx;

	k->asked++;
	cr_assert(!q->from.port && !q->to.port);
	if (!q->link)
		return k->any;
	return q->from.ipv ? k->with_source : k->by_link;
}

static int lead(struct rsk_routes *r, const char *from, int link, const char *to)
{
	struct rsk_pm_addr a = ip_of(from), b = ip_of(to);
	int leads;

	a.port = 1; /* ports do not count */
	b.port = 2;
	leads = rsk_routes_lead(r, &a, link, &b);
	cr_assert(rsk_routes_validate(r));
	return leads;
}

Test(routes, are_asked_once)
{
	struct kernel k = { .with_source = RSK_ROUTE_LEADS };
	struct rsk_routes r = { .ask = ask, .ctx = &k };

	for (int i = 0; i < 3; i++)
		cr_assert_eq(lead(&r, "10.1.0.1", LINK, "10.2.0.9"), 1);
	cr_assert_eq(k.asked, 1);
	/* Another source address, another link, another target. */
	cr_assert(lead(&r, "10.1.0.2", LINK, "10.2.0.9") == 1 &&
		  lead(&r, "10.1.0.1", 4, "10.2.0.9") == 1 &&
		  lead(&r, "10.1.0.1", LINK, "10.2.0.8") == 1);
	cr_assert_eq(k.asked, 4);
	/* The kernel changes its mind, and is asked after it has said so. */
	k.with_source = k.any = RSK_ROUTE_NONE;
	cr_assert_eq(lead(&r, "10.1.0.1", LINK, "10.2.0.9"), 1);
	rsk_routes_forget(&r);
	cr_assert_eq(lead(&r, "10.1.0.1", LINK, "10.2.0.9"), 0);
	cr_assert_eq(lead(&r, "10.1.0.1", LINK, "10.2.0.9"), 0);
	cr_assert_eq(k.asked, 6, "once by the link, and once whether it is an own address");
	rsk_routes_forget(&r);
	cr_assert_null(r.known);
}

Test(routes, what_the_answers_mean)
{
	static const struct {
		int with_source, by_link, any;
		unsigned int asked;
		bool leads;
	} rows[] = {
		{ RSK_ROUTE_LEADS, -EIO, -EIO, 1, true },
		{ RSK_ROUTE_LOCAL, -EIO, -EIO, 1, true },
		{ RSK_ROUTE_NONE, -EIO, RSK_ROUTE_NONE, 2, false },
		{ RSK_ROUTE_NONE, -EIO, RSK_ROUTE_LEADS, 2, false },
		{ RSK_ROUTE_NONE, -EIO, RSK_ROUTE_LOCAL, 2, true },
		{ RSK_ROUTE_OTHER, RSK_ROUTE_LEADS, -EIO, 2, true },
		{ RSK_ROUTE_OTHER, RSK_ROUTE_NONE, RSK_ROUTE_LEADS, 3, false },
		{ RSK_ROUTE_OTHER, RSK_ROUTE_OTHER, RSK_ROUTE_LEADS, 3, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kernel k = { rows[i].with_source, rows[i].by_link, rows[i].any, 0 };
		struct rsk_routes r = { .ask = ask, .ctx = &k };

		cr_assert_eq(lead(&r, "fd00::1", LINK, "fd00::9"), rows[i].leads, "row %zu", i);
		cr_assert_eq(k.asked, rows[i].asked, "row %zu", i);
		cr_assert_eq(lead(&r, "fd00::1", LINK, "fd00::9"), rows[i].leads, "row %zu", i);
		cr_assert_eq(k.asked, rows[i].asked, "row %zu is remembered", i);
		rsk_routes_forget(&r);
	}
}

/* Where the kernel does not answer, nothing is remembered, and it is asked again. */
Test(routes, nothing_is_known)
{
	static const struct kernel rows[] = {
		{ -EPERM, -EPERM, -EPERM, 0 },
		{ RSK_ROUTE_OTHER, -EPERM, -ENOBUFS, 0 },
		{ RSK_ROUTE_NONE, -ENOBUFS, -EPERM, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kernel k = rows[i];
		struct rsk_routes r = { .ask = ask, .ctx = &k };
		unsigned int once;

		cr_assert_eq(lead(&r, "fd00::1", LINK, "fd00::9"), -EPERM);
		once = k.asked;
		cr_assert_eq(lead(&r, "fd00::1", LINK, "fd00::9"), -EPERM);
		cr_assert_eq(k.asked, 2 * once);
		cr_assert_null(r.known);
	}
}

Test(routes, the_oldest_answer_goes)
{
	struct kernel k = { .with_source = RSK_ROUTE_LEADS };
	struct rsk_routes r = { .ask = ask, .ctx = &k };
	struct rsk_pm_addr from = ip_of("10.1.0.1"), to = ip_of("10.2.0.0");

	for (unsigned int i = 0; i < RSK_ROUTES_MOST + 1; i++) {
		to.ip[2] = (uint8_t)(i >> 8);
		to.ip[3] = (uint8_t)i;
		cr_assert_eq(rsk_routes_lead(&r, &from, LINK, &to), 1);
	}
	cr_assert(rsk_routes_validate(&r));
	cr_assert_eq(k.asked, RSK_ROUTES_MOST + 1);
	cr_assert_eq(lead(&r, "10.1.0.1", LINK, "10.2.0.1"), 1);
	cr_assert_eq(k.asked, RSK_ROUTES_MOST + 1, "the second is known");
	cr_assert_eq(lead(&r, "10.1.0.1", LINK, "10.2.0.0"), 1);
	cr_assert_eq(k.asked, RSK_ROUTES_MOST + 2, "the first is not");
	rsk_routes_forget(&r);
}
