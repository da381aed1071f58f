// SPDX-License-Identifier: BSD-2-Clause
/* ifaces.c - see ifaces.h. */
#include "ifaces.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "pm_hash.h"
#include "pm_msg.h"

struct rsk_iface {
	int index;
	bool up; /* it is up and has a carrier */
	bool loopback;
	char name[IF_NAMESIZE]; /* empty: unknown */
	uint32_t round;
	UT_hash_handle hh;
};

struct place {
	struct rsk_pm_addr ip; /* port 0 */
	int link;
};
_Static_assert(sizeof(struct place) == 24, "no padding: it is hashed");

struct rsk_iface_address {
	struct place at;
	uint32_t round;
	UT_hash_handle hh;
};

static struct place place_of(const struct rsk_pm_addr *ip, int link)
{
	struct place p = { .ip = *ip, .link = link };

	p.ip.port = 0;
	return p;
}

static struct rsk_iface *find_link(const struct rsk_ifaces *l, int index)
{
	struct rsk_iface *k;

	HASH_FIND(hh, l->links, &index, sizeof(index), k);
	return k;
}

static struct rsk_iface_address *find_address(const struct rsk_ifaces *l, const struct place *at)
{
	struct rsk_iface_address *a;

	HASH_FIND(hh, l->addresses, at, sizeof(*at), a);
	return a;
}

static void drop_link(struct rsk_ifaces *l, struct rsk_iface *k)
{
	HASH_DEL(l->links, k);
	free(k);
}

static void drop_address(struct rsk_ifaces *l, struct rsk_iface_address *a)
{
	HASH_DEL(l->addresses, a);
	free(a);
}

void rsk_ifaces_begin(struct rsk_ifaces *l)
{
	l->round++;
}

/*
 * Clears each hash table, whose elements remain a list, and adds those of the current dump again.
 */
bool rsk_ifaces_end(struct rsk_ifaces *l)
{
	struct rsk_iface *k = l->links, *next_k;
	struct rsk_iface_address *a = l->addresses, *next_a;
	bool changed = false;

	HASH_CLEAR(hh, l->links);
	for (; k; k = next_k) {
		next_k = k->hh.next;
		if (k->round == l->round) {
			HASH_ADD(hh, l->links, index, sizeof(k->index), k);
			continue;
		}
		free(k);
		changed = true;
	}
	HASH_CLEAR(hh, l->addresses);
	for (; a; a = next_a) {
		next_a = a->hh.next;
		if (a->round == l->round) {
			HASH_ADD(hh, l->addresses, at, sizeof(a->at), a);
			continue;
		}
		free(a);
		changed = true;
	}
	return changed;
}

void rsk_ifaces_fini(struct rsk_ifaces *l)
{
	rsk_ifaces_begin(l);
	rsk_ifaces_end(l);
}

/* ---- messages ---- */

/* Returns true if its name has changed. */
static bool take_name(struct rsk_iface *k, const struct nlmsghdr *m)
{
	const struct nlattr *attr;
	bool changed = false;

	mnl_attr_for_each(attr, m, sizeof(struct ifinfomsg))
	{
		uint16_t bytes = mnl_attr_get_payload_len(attr);

		if (mnl_attr_get_type(attr) != IFLA_IFNAME || !bytes || bytes > IF_NAMESIZE)
			continue;
		changed = strncmp(k->name, mnl_attr_get_payload(attr), bytes) != 0;
		memset(k->name, 0, sizeof(k->name));
		memcpy(k->name, mnl_attr_get_payload(attr), bytes);
		k->name[IF_NAMESIZE - 1] = 0;
	}
	return changed;
}

static int take_link(struct rsk_ifaces *l, const struct nlmsghdr *m)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(m);
	struct rsk_iface *k;
	bool up, changed;

	if (mnl_nlmsg_get_payload_len(m) < sizeof(*info))
		return -EBADMSG;
	/* Messages of other families are about bridges or protocols. */
	if (info->ifi_family != AF_UNSPEC)
		return 0;
	if (info->ifi_index <= 0)
		return -EBADMSG;
	k = find_link(l, info->ifi_index);
	if (m->nlmsg_type == RTM_DELLINK) {
		if (k)
			drop_link(l, k);
		return k ? RSK_IFACES_CHANGED : 0;
	}
	up = (info->ifi_flags & IFF_UP) && (info->ifi_flags & IFF_RUNNING);
	changed = !k || k->up != up;
	if (!k) {
		k = calloc(1, sizeof(*k));
		if (!k)
			return -ENOMEM;
		k->index = info->ifi_index;
		HASH_ADD(hh, l->links, index, sizeof(k->index), k);
	}
	changed |= take_name(k, m);
	k->up = up;
	k->loopback = info->ifi_flags & IFF_LOOPBACK;
	k->round = l->round;
	return changed ? RSK_IFACES_CHANGED : 0;
}

/*
 * Stores the host's own end of the address; false if there is none or its size does not fit the
 * family.
 */
static bool own_address(const struct nlmsghdr *m, size_t bytes, uint8_t ip[static 16],
			uint32_t *flags)
{
	const struct nlattr *attr, *own = NULL;

	mnl_attr_for_each(attr, m, sizeof(struct ifaddrmsg))
	{
		uint16_t type = mnl_attr_get_type(attr);

		/* On a point-to-point link IFA_ADDRESS is the other end. */
		if (type == IFA_LOCAL || (type == IFA_ADDRESS && !own))
			own = attr;
		if (type == IFA_FLAGS && mnl_attr_get_payload_len(attr) == sizeof(*flags))
			memcpy(flags, mnl_attr_get_payload(attr), sizeof(*flags));
	}
	if (!own || mnl_attr_get_payload_len(own) != bytes)
		return false;
	memcpy(ip, mnl_attr_get_payload(own), bytes);
	return true;
}

static int take_address(struct rsk_ifaces *l, const struct nlmsghdr *m)
{
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(m);
	struct rsk_pm_addr ip = { 0 };
	struct rsk_iface_address *a;
	struct place at;
	uint32_t flags;

	if (mnl_nlmsg_get_payload_len(m) < sizeof(*info))
		return -EBADMSG;
	if (info->ifa_family != AF_INET && info->ifa_family != AF_INET6)
		return 0;
	flags = info->ifa_flags;
	ip.ipv = info->ifa_family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6;
	if (!own_address(m, ip.ipv == RSK_PM_IPV4 ? 4 : 16, ip.ip, &flags))
		return -EBADMSG;
	at = place_of(&ip, (int)info->ifa_index);
	a = find_address(l, &at);
	/*
	 * An address that is tentative or a duplicate is not usable; the kernel reports it again
	 * when it is ours.
	 */
	if (m->nlmsg_type == RTM_DELADDR || flags & IFA_F_DADFAILED ||
	    (flags & IFA_F_TENTATIVE && !(flags & IFA_F_OPTIMISTIC))) {
		if (a)
			drop_address(l, a);
		return a ? RSK_IFACES_CHANGED : 0;
	}
	if (a) {
		a->round = l->round;
		return 0;
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->at = at;
	a->round = l->round;
	HASH_ADD(hh, l->addresses, at, sizeof(a->at), a);
	return RSK_IFACES_CHANGED;
}

static int take_one(struct rsk_ifaces *l, const struct nlmsghdr *m, uint32_t seq)
{
	switch (m->nlmsg_type) {
	case RTM_NEWLINK:
	case RTM_DELLINK:
		return take_link(l, m);
	case RTM_NEWADDR:
	case RTM_DELADDR:
		return take_address(l, m);
	case NLMSG_DONE:
		return m->nlmsg_seq == seq ? RSK_IFACES_DONE : 0;
	case NLMSG_OVERRUN:
	case NLMSG_ERROR: /* any error: the dump failed */
		return RSK_IFACES_AGAIN;
	default:
		return 0;
	}
}

int rsk_ifaces_take(struct rsk_ifaces *l, const void *messages, size_t bytes, uint32_t seq)
{
	const struct nlmsghdr *m = messages;
	int left = bytes < INT32_MAX ? (int)bytes : 0, flags = 0, rc;

	if (left < (int)sizeof(*m))
		return -EBADMSG;
	for (; mnl_nlmsg_ok(m, left); m = mnl_nlmsg_next(m, &left)) {
		/*
		 * libmnl takes a length whose upper bit is set for a negative one, which is not too
		 * long; and it looks for attributes up to where the next message would begin.
		 */
		if (m->nlmsg_len > (uint32_t)left || MNL_ALIGN(m->nlmsg_len) > (uint32_t)left)
			return -EBADMSG;
		if (m->nlmsg_flags & NLM_F_DUMP_INTR)
			flags |= RSK_IFACES_AGAIN;
		rc = take_one(l, m, seq);
		if (rc < 0)
			return rc;
		flags |= rc;
	}
	return left > 0 ? -EBADMSG : flags;
}

bool rsk_ifaces_carry(const struct rsk_ifaces *l, const struct rsk_pm_addr *ip)
{
	for (const struct rsk_iface *k = l->links; k; k = k->hh.next) {
		const struct place at = place_of(ip, k->index);

		if (k->up && find_address(l, &at))
			return true;
	}
	return false;
}

size_t rsk_ifaces_links_of(const struct rsk_ifaces *l, const struct rsk_pm_addr *ip, int *out,
			   size_t most)
{
	size_t n = 0;

	for (const struct rsk_iface *k = l->links; k; k = k->hh.next) {
		const struct place at = place_of(ip, k->index);

		if (!k->up || !find_address(l, &at))
			continue;
		if (k->loopback)
			return 0;
		if (n < most)
			out[n++] = k->index;
	}
	return n;
}

void rsk_ifaces_each(const struct rsk_ifaces *l,
		     void (*each)(void *ctx, const char *link, const struct rsk_pm_addr *ip),
		     void *ctx)
{
	for (const struct rsk_iface_address *a = l->addresses; a; a = a->hh.next) {
		const struct rsk_iface *k = find_link(l, a->at.link);
		const uint8_t *ip = a->at.ip.ip;
		bool here = a->at.ip.ipv == RSK_PM_IPV6 && ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;

		if (k && k->up && !k->loopback && *k->name && !here)
			each(ctx, k->name, &a->at.ip);
	}
}

bool rsk_ifaces_validate(const struct rsk_ifaces *l)
{
	for (const struct rsk_iface *k = l->links; k; k = k->hh.next)
		if (k->index <= 0 || find_link(l, k->index) != k)
			return false;
	for (const struct rsk_iface_address *a = l->addresses; a; a = a->hh.next)
		if ((a->at.ip.ipv != RSK_PM_IPV4 && a->at.ip.ipv != RSK_PM_IPV6) || a->at.ip.port ||
		    find_address(l, &a->at) != a)
			return false;
	return true;
}
