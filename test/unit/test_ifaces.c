// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_ifaces.c - tests the host's links and addresses, from messages as the kernel makes them and
 * from malformed ones.
 */
#include "ifaces.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include "pm_msg.h"

#define SEQ 7u
#define WORKS (IFF_UP | IFF_RUNNING)

/* A datagram under construction. */
static char datagram[4096] __attribute__((aligned(4)));
static size_t used;

static struct nlmsghdr *put(uint16_t type, uint32_t seq)
{
	struct nlmsghdr *m = mnl_nlmsg_put_header(datagram + used);

	m->nlmsg_type = type;
	m->nlmsg_seq = seq;
	return m;
}

static void put_link(uint16_t type, int index, unsigned int flags, unsigned char family)
{
	struct nlmsghdr *m = put(type, 0);
	struct ifinfomsg *info = mnl_nlmsg_put_extra_header(m, sizeof(*info));

	info->ifi_index = index;
	info->ifi_flags = flags;
	info->ifi_family = family;
	mnl_attr_put_strz(m, IFLA_IFNAME, "eth");
	used += m->nlmsg_len;
}

static struct rsk_pm_addr ip_of(const char *text)
{
	struct rsk_pm_addr ip = { .ipv = strchr(text, ':') ? RSK_PM_IPV6 : RSK_PM_IPV4 };

	cr_assert_eq(inet_pton(ip.ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET, text, ip.ip), 1);
	return ip;
}

static void put_address(uint16_t type, unsigned int link, const char *own, const char *other,
			uint32_t flags)
{
	struct rsk_pm_addr ip = ip_of(own), far = ip_of(other ? other : own);
	size_t bytes = ip.ipv == RSK_PM_IPV6 ? 16 : 4;
	struct nlmsghdr *m = put(type, 0);
	struct ifaddrmsg *info = mnl_nlmsg_put_extra_header(m, sizeof(*info));

	info->ifa_family = ip.ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET;
	info->ifa_index = link;
	info->ifa_flags = (unsigned char)flags;
	mnl_attr_put(m, IFA_ADDRESS, bytes, far.ip);
	if (other || ip.ipv == RSK_PM_IPV4)
		mnl_attr_put(m, IFA_LOCAL, bytes, ip.ip);
	mnl_attr_put_u32(m, IFA_FLAGS, flags);
	used += m->nlmsg_len;
}

static int take(struct rsk_ifaces *l)
{
	int rc = rsk_ifaces_take(l, datagram, used, SEQ);

	used = 0;
	cr_assert(rsk_ifaces_validate(l));
	return rc;
}

static bool carry(const struct rsk_ifaces *l, const char *text)
{
	struct rsk_pm_addr ip = ip_of(text);

	ip.port = 80; /* the port does not count */
	return rsk_ifaces_carry(l, &ip);
}

Test(ifaces, links_of_an_address)
{
	struct rsk_ifaces l = { 0 };
	struct rsk_pm_addr ip = ip_of("10.1.0.1"), own = ip_of("10.1.0.9");
	int at[2] = { 0 };

	rsk_ifaces_begin(&l);
	put_link(RTM_NEWLINK, 1, WORKS | IFF_LOOPBACK, AF_UNSPEC);
	put_link(RTM_NEWLINK, 2, WORKS, AF_UNSPEC);
	put_link(RTM_NEWLINK, 3, IFF_UP, AF_UNSPEC);
	put_link(RTM_NEWLINK, 4, WORKS, AF_UNSPEC);
	put_link(RTM_NEWLINK, 5, WORKS, AF_UNSPEC);
	put_address(RTM_NEWADDR, 2, "10.1.0.1", NULL, 0);
	put_address(RTM_NEWADDR, 3, "10.1.0.1", NULL, 0);
	put_address(RTM_NEWADDR, 2, "10.1.0.9", NULL, 0);
	put_address(RTM_NEWADDR, 1, "10.1.0.9", NULL, 0);
	cr_assert_eq(take(&l), RSK_IFACES_CHANGED);
	ip.port = 80;
	cr_assert(rsk_ifaces_links_of(&l, &ip, at, 2) == 1 && at[0] == 2, "one has no carrier");
	cr_assert_eq(rsk_ifaces_links_of(&l, &own, at, 2), 0, "it is on the loopback device, too");
	own.ip[3] = 8;
	cr_assert_eq(rsk_ifaces_links_of(&l, &own, at, 2), 0, "it is on no link");
	put_address(RTM_NEWADDR, 4, "10.1.0.1", NULL, 0);
	put_address(RTM_NEWADDR, 5, "10.1.0.1", NULL, 0);
	cr_assert_eq(take(&l), RSK_IFACES_CHANGED);
	cr_assert(rsk_ifaces_links_of(&l, &ip, at, 2) == 2 && at[0] != at[1]);
	rsk_ifaces_fini(&l);
}

Test(ifaces, an_address_on_a_link_that_works)
{
	struct rsk_ifaces l = { 0 };

	rsk_ifaces_begin(&l);
	put_link(RTM_NEWLINK, 2, WORKS, AF_UNSPEC);
	put_link(RTM_NEWLINK, 3, IFF_UP, AF_UNSPEC);
	put_address(RTM_NEWADDR, 2, "10.1.0.1", NULL, 0);
	put_address(RTM_NEWADDR, 3, "10.1.0.2", NULL, 0);
	put_address(RTM_NEWADDR, 2, "fd00::1", NULL, 0);
	put_address(RTM_NEWADDR, 2, "10.2.0.1", "10.2.0.9", 0);
	put_address(RTM_NEWADDR, 9, "10.1.0.3", NULL, 0);
	cr_assert_eq(take(&l), RSK_IFACES_CHANGED);
	cr_assert(carry(&l, "10.1.0.1") && carry(&l, "fd00::1"));
	cr_assert_not(carry(&l, "10.1.0.2"), "no carrier");
	cr_assert_not(carry(&l, "10.1.0.3"), "no link");
	cr_assert(carry(&l, "10.2.0.1") && !carry(&l, "10.2.0.9"), "the other end is not ours");
	cr_assert_not(carry(&l, "10.1.0.9"));
	/* The link gets its carrier, and loses it. */
	put_link(RTM_NEWLINK, 3, WORKS, AF_UNSPEC);
	cr_assert_eq(take(&l), RSK_IFACES_CHANGED);
	cr_assert(carry(&l, "10.1.0.2"));
	put_link(RTM_NEWLINK, 2, IFF_RUNNING, AF_UNSPEC);
	cr_assert_eq(take(&l), RSK_IFACES_CHANGED);
	cr_assert_not(carry(&l, "10.1.0.1") || carry(&l, "fd00::1"));
	/* The same address on two links: one of them is enough. */
	put_address(RTM_NEWADDR, 3, "10.1.0.1", NULL, 0);
	cr_assert_eq(take(&l), RSK_IFACES_CHANGED);
	cr_assert(carry(&l, "10.1.0.1"));
	put_address(RTM_DELADDR, 3, "10.1.0.1", NULL, 0);
	put_address(RTM_DELADDR, 3, "10.1.0.1", NULL, 0);
	cr_assert_eq(take(&l), RSK_IFACES_CHANGED);
	cr_assert_not(carry(&l, "10.1.0.1"));
	put_link(RTM_DELLINK, 3, 0, AF_UNSPEC);
	cr_assert_eq(take(&l), RSK_IFACES_CHANGED);
	cr_assert_not(carry(&l, "10.1.0.2"));
	rsk_ifaces_fini(&l);
}

Test(ifaces, what_says_nothing_new)
{
	struct rsk_ifaces l = { 0 };

	put_link(RTM_NEWLINK, 2, WORKS, AF_UNSPEC);
	put_address(RTM_NEWADDR, 2, "10.1.0.1", NULL, 0);
	take(&l);
	put_link(RTM_NEWLINK, 2, WORKS | IFF_PROMISC, AF_UNSPEC);
	put_address(RTM_NEWADDR, 2, "10.1.0.1", NULL, IFA_F_PERMANENT);
	put_link(RTM_DELLINK, 2, 0, AF_BRIDGE); /* left a bridge, is not gone */
	put_link(RTM_NEWLINK, 2, 0, AF_INET6);
	put_link(RTM_DELLINK, 5, 0, AF_UNSPEC);
	put_address(RTM_DELADDR, 2, "10.1.0.9", NULL, 0);
	cr_assert_eq(take(&l), 0);
	cr_assert(carry(&l, "10.1.0.1"));
	rsk_ifaces_fini(&l);
}

/*
 * IPv6: an address that may be another host's is not used before duplicate address detection has
 * finished.
 */
Test(ifaces, duplicate_address_detection)
{
	struct rsk_ifaces l = { 0 };

	put_link(RTM_NEWLINK, 2, WORKS, AF_UNSPEC);
	put_address(RTM_NEWADDR, 2, "fd00::1", NULL, IFA_F_TENTATIVE);
	put_address(RTM_NEWADDR, 2, "fd00::2", NULL, IFA_F_TENTATIVE | IFA_F_OPTIMISTIC);
	take(&l);
	cr_assert_not(carry(&l, "fd00::1"));
	cr_assert(carry(&l, "fd00::2"));
	put_address(RTM_NEWADDR, 2, "fd00::1", NULL, 0);
	cr_assert_eq(take(&l), RSK_IFACES_CHANGED);
	cr_assert(carry(&l, "fd00::1"));
	put_address(RTM_NEWADDR, 2, "fd00::1", NULL, IFA_F_DADFAILED | IFA_F_PERMANENT);
	cr_assert_eq(take(&l), RSK_IFACES_CHANGED);
	cr_assert_not(carry(&l, "fd00::1"));
	rsk_ifaces_fini(&l);
}

Test(ifaces, dumps)
{
	struct rsk_ifaces l = { 0 };
	struct nlmsghdr *m;

	put_link(RTM_NEWLINK, 2, WORKS, AF_UNSPEC);
	put_link(RTM_NEWLINK, 3, WORKS, AF_UNSPEC);
	put_address(RTM_NEWADDR, 2, "10.1.0.1", NULL, 0);
	put_address(RTM_NEWADDR, 3, "10.1.0.2", NULL, 0);
	take(&l);
	/* A dump with the same contents; what changes in between counts as reported. */
	rsk_ifaces_begin(&l);
	put_link(RTM_NEWLINK, 2, WORKS, AF_UNSPEC);
	put_link(RTM_NEWLINK, 3, WORKS, AF_UNSPEC);
	put_address(RTM_NEWADDR, 3, "10.1.0.2", NULL, 0);
	m = put(NLMSG_DONE, SEQ - 1); /* of an older dump */
	mnl_nlmsg_put_extra_header(m, sizeof(int));
	used += m->nlmsg_len;
	cr_assert_eq(take(&l), 0);
	cr_assert(carry(&l, "10.1.0.1"), "not told yet is not gone");
	m = put(NLMSG_DONE, SEQ);
	mnl_nlmsg_put_extra_header(m, sizeof(int));
	used += m->nlmsg_len;
	cr_assert_eq(take(&l), RSK_IFACES_DONE);
	cr_assert(rsk_ifaces_end(&l));
	cr_assert(!carry(&l, "10.1.0.1") && carry(&l, "10.1.0.2"));
	rsk_ifaces_begin(&l);
	put_link(RTM_NEWLINK, 3, WORKS, AF_UNSPEC);
	put_address(RTM_NEWADDR, 3, "10.1.0.2", NULL, 0);
	put_link(RTM_NEWLINK, 2, WORKS, AF_UNSPEC);
	((struct nlmsghdr *)datagram)->nlmsg_flags |= NLM_F_DUMP_INTR;
	cr_assert_eq(take(&l), RSK_IFACES_AGAIN);
	cr_assert_not(rsk_ifaces_end(&l), "nothing that was there is missing");
	m = put(NLMSG_ERROR, SEQ);
	mnl_nlmsg_put_extra_header(m, sizeof(struct nlmsgerr));
	used += m->nlmsg_len;
	cr_assert_eq(take(&l), RSK_IFACES_AGAIN);
	rsk_ifaces_fini(&l);
}

Test(ifaces, nonsense)
{
	struct rsk_ifaces l = { 0 };
	struct nlmsghdr *m = (struct nlmsghdr *)datagram;
	size_t whole;

	cr_assert_eq(take(&l), -EBADMSG, "nothing at all");
	/* Truncated anywhere, it is rejected or reports nothing. */
	put_link(RTM_NEWLINK, 2, WORKS, AF_UNSPEC);
	put_address(RTM_NEWADDR, 2, "10.1.0.1", NULL, 0);
	whole = used;
	for (size_t n = 0; n < whole; n++) {
		used = n;
		if (n != m->nlmsg_len)
			cr_assert_eq(take(&l), -EBADMSG, "%zu bytes", n);
		cr_assert_not(carry(&l, "10.1.0.1"));
	}
	used = whole;
	cr_assert_eq(take(&l), RSK_IFACES_CHANGED);
	/* Wrong lengths. */
	put_link(RTM_NEWLINK, 3, WORKS, AF_UNSPEC);
	m->nlmsg_len = 15;
	cr_assert_eq(take(&l), -EBADMSG);
	for (uint32_t less = 1; less < 40; less++) {
		put_link(RTM_NEWLINK, 3, WORKS, AF_UNSPEC);
		m->nlmsg_len = 0 - less;
		cr_assert_eq(take(&l), -EBADMSG, "a length of -%u", less);
	}
	put_link(RTM_NEWLINK, 3, WORKS, AF_UNSPEC);
	m->nlmsg_len = sizeof(*m) + 4;
	used = m->nlmsg_len;
	cr_assert_eq(take(&l), -EBADMSG, "shorter than its kind");
	put_link(RTM_NEWLINK, 0, WORKS, AF_UNSPEC);
	cr_assert_eq(take(&l), -EBADMSG, "there is no link 0");
	put_address(RTM_NEWADDR, 2, "10.1.0.7", NULL, 0);
	((struct ifaddrmsg *)mnl_nlmsg_get_payload(m))->ifa_family = AF_INET6;
	cr_assert_eq(take(&l), -EBADMSG, "four bytes of IPv6");
	put_address(RTM_NEWADDR, 2, "10.1.0.7", NULL, 0);
	((struct ifaddrmsg *)mnl_nlmsg_get_payload(m))->ifa_family = AF_PACKET;
	cr_assert_eq(take(&l), 0, "another family's");
	m = put(RTM_NEWADDR, 0);
	((struct ifaddrmsg *)mnl_nlmsg_put_extra_header(m, sizeof(struct ifaddrmsg)))->ifa_family =
		AF_INET;
	used += m->nlmsg_len;
	cr_assert_eq(take(&l), -EBADMSG, "no address in it");
	m = put(RTM_NEWROUTE, 0);
	used += m->nlmsg_len;
	cr_assert_eq(take(&l), 0, "of no interest");
	cr_assert(carry(&l, "10.1.0.1") && !carry(&l, "10.1.0.7"));
	rsk_ifaces_fini(&l);
}
