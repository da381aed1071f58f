// SPDX-License-Identifier: BSD-2-Clause
/* local_msg.c - see local_msg.h. */
#include "local_msg.h"

#include <errno.h>

#include <rsock/port_table.h>
#include <rsock/reason.h>
#include <rsock/syn.h>
#include <rsock/sys.h>

#include "fdmsg.h"
#include "pm_msg.h"

/* What a message of a type must contain. */
#define NEEDS_ENDS 1u /* both addresses and ports */
#define NEEDS_OWN 2u  /* its own port */
#define NEEDS_LINK 4u
#define NEEDS_PEER 8u /* an address and a port to connect to */
#define OF_RSOCKD 16u
#define NEEDS_NUMBER 64u /* the process's number in a port table */
#define NEEDS_AT 32u	 /* of the accepting end: the RDMA address that was connected to */

static const struct rule {
	unsigned int needs;
	uint32_t flags; /* flags that it may have */
} rules[RSK_LOCAL_TYPES] = {
	[RSK_LOCAL_HELLO] = { 0, RSK_LOCAL_ABLE },
	[RSK_LOCAL_LOOKUP] = { NEEDS_ENDS | NEEDS_OWN, RSK_LOCAL_CONNECTING | RSK_LOCAL_NO_SHM |
							       RSK_LOCAL_DRY | RSK_LOCAL_BY_SYN },
	[RSK_LOCAL_LISTEN] = { NEEDS_OWN, 0 },
	[RSK_LOCAL_LOST] = { NEEDS_LINK, 0 },
	[RSK_LOCAL_RENDEZVOUS] = { OF_RSOCKD | NEEDS_LINK,
				   RSK_LOCAL_CONNECTING | RSK_LOCAL_BY_SYN },
	[RSK_LOCAL_ANSWER] = { OF_RSOCKD, RSK_LOCAL_PAIR | RSK_LOCAL_BY_SYN },
	[RSK_LOCAL_RESOLVE] = { NEEDS_PEER, RSK_LOCAL_QUIET },
	[RSK_LOCAL_RDMA] = { 0, 0 },
	[RSK_LOCAL_LINK] = { NEEDS_ENDS | NEEDS_OWN | NEEDS_LINK | NEEDS_AT,
			     RSK_LOCAL_CONNECTING | RSK_LOCAL_AGAIN | RSK_LOCAL_REFUSED |
				     RSK_LOCAL_PAIR },
	[RSK_LOCAL_UNLINK] = { NEEDS_LINK, 0 },
	[RSK_LOCAL_PORT_TABLE] = { OF_RSOCKD | NEEDS_NUMBER, 0 },
	[RSK_LOCAL_QOS] = { OF_RSOCKD | NEEDS_LINK, 0 },
};

static bool is_address(uint16_t family, const uint8_t ip[static 16])
{
	static const uint8_t zero[12];

	return family == AF_INET6 || (family == AF_INET && !memcmp(ip + 4, zero, 12));
}

static bool tuple_ok(const struct rsk_tuple *t, unsigned int rule)
{
	if (!is_address(t->family, t->local) || !is_address(t->family, t->peer) || t->pad ||
	    t->pad2)
		return false;
	if ((rule & NEEDS_OWN) && !t->local_port)
		return false;
	return !(rule & (NEEDS_ENDS | NEEDS_PEER)) || t->peer_port;
}

/* All addresses of the message are of one family, and its flags fit each other. */
static bool at_ok(const struct rsk_local_msg *m)
{
	uint16_t ipv = m->tuple.family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6;

	if (!is_address(m->tuple.family, m->from_ip))
		return false;
	if ((m->flags & RSK_LOCAL_REFUSED) &&
	    m->flags != (RSK_LOCAL_REFUSED | RSK_LOCAL_CONNECTING))
		return false;
	return (m->flags & RSK_LOCAL_CONNECTING) ||
	       (m->port && m->ipv == ipv && is_address(m->tuple.family, m->ip));
}

static bool syn_ok(const struct rsk_local_msg *m)
{
	struct rsk_syn syn = rsk_syn_unpack(m->link);

	return rsk_syn_known(&syn, m->flags & RSK_LOCAL_CONNECTING);
}

int rsk_local_msg_check(const struct rsk_local_msg *m, size_t bytes, bool from_rsockd)
{
	unsigned int rule;

	if (bytes != sizeof(*m) || m->magic != RSK_LOCAL_MAGIC || m->type < RSK_LOCAL_HELLO ||
	    m->type >= RSK_LOCAL_TYPES)
		return -EPROTO;
	rule = rules[m->type].needs;
	if (!(rule & OF_RSOCKD) == from_rsockd || m->reason > RSK_REASON_MOST ||
	    (m->flags & ~rules[m->type].flags) ||
	    ((m->flags & RSK_LOCAL_PAIR) && m->flags != RSK_LOCAL_PAIR))
		return -EPROTO;
	if ((rule & NEEDS_LINK) && !m->link)
		return -EPROTO;
	if ((rule & NEEDS_NUMBER) && (!m->port || m->port >= RSK_PORT_TABLE_OWNER))
		return -EPROTO;
	if (m->type == RSK_LOCAL_LOOKUP && (m->flags & RSK_LOCAL_BY_SYN) && !syn_ok(m))
		return -EPROTO;
	if (m->qos.dscp > RSK_QOS_DSCP_MOST || m->qos.priority > RSK_QOS_PRIORITY_MOST)
		return -EPROTO;
	if ((rule & NEEDS_AT) && !at_ok(m))
		return -EPROTO;
	if ((rule & (NEEDS_OWN | NEEDS_ENDS | NEEDS_PEER)) && !tuple_ok(&m->tuple, rule))
		return -EPROTO;
	return 0;
}

int rsk_local_msg_send(int to, struct rsk_local_msg *m, int fd)
{
	m->magic = RSK_LOCAL_MAGIC;
	return rsk_fdmsg_send(to, m, sizeof(*m), &fd, fd >= 0);
}

void rsk_local_msg_refuse_version(int to)
{
	struct rsk_local_version v = { .magic = RSK_LOCAL_MAGIC };

	rsk_fdmsg_send(to, &v, sizeof(v), NULL, 0);
}

/*
 * -EPROTONOSUPPORT instead of -EPROTO if the message, which is in @m or, if it does not fit, still
 * in the queue, is of another version.
 */
static int version_of(int from, struct rsk_local_msg *m, ssize_t n, int rc)
{
	uint32_t version;

	if (rc != -EPROTO)
		return rc;
	if (n < 0)
		n = rsk_fdmsg_peek(from, &m->magic, sizeof(m->magic));
	if (n < (ssize_t)sizeof(m->magic))
		return rc;
	version = rsk_magic_version(m->magic, RSK_LOCAL_LETTERS);
	return version && version != RSK_LOCAL_VERSION ? -EPROTONOSUPPORT : rc;
}

int rsk_local_msg_recv(int from, bool from_rsockd, struct rsk_local_msg *m, int *fd)
{
	int nfds, rc;
	ssize_t n;

	*fd = -1;
	do {
		n = rsk_fdmsg_recv(from, m, sizeof(*m),
				   from_rsockd ? RSK_FDMSG_TRUSTED : RSK_FDMSG_VETTED, fd, 1,
				   &nfds);
	} while (n == -EINTR);
	if (n <= 0)
		return version_of(from, m, n, (int)n);
	rc = rsk_local_msg_check(m, (size_t)n, from_rsockd);
	if (rc == 0)
		return 1;
	rc = version_of(from, m, n, rc);
	if (*fd >= 0)
		rsk_sys_close(*fd);
	*fd = -1;
	return rc;
}
