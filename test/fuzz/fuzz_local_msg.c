// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_local_msg.c - fuzzes the check of messages between a process and rsockd, in both directions,
 * with any bytes: an accepted message keeps every promise that its users rely on (who may send it;
 * names of connections, links and reasons in range).
 */
#include "local_msg.h"

#include <stdlib.h>
#include <string.h>

#include <rsock/reason.h>
#include <rsock/syn.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void address(uint16_t family, const uint8_t *ip)
{
	require(family == AF_INET || family == AF_INET6);
	for (int i = 4; i < 16 && family == AF_INET; i++)
		require(!ip[i]);
}

static void promises(const struct rsk_local_msg *m, bool from_rsockd)
{
	const struct rsk_tuple *t = &m->tuple;

	require(m->magic == RSK_LOCAL_MAGIC);
	require(m->reason <= RSK_REASON_MOST);
	require(!(m->flags & RSK_LOCAL_CONNECTING) || m->type == RSK_LOCAL_LOOKUP ||
		m->type == RSK_LOCAL_RENDEZVOUS || m->type == RSK_LOCAL_LINK);
	require(!(m->flags & RSK_LOCAL_AGAIN) || m->type == RSK_LOCAL_LINK);
	require(!(m->flags & RSK_LOCAL_REFUSED) ||
		(m->type == RSK_LOCAL_LINK &&
		 m->flags == (RSK_LOCAL_REFUSED | RSK_LOCAL_CONNECTING)));
	require(!(m->flags & RSK_LOCAL_QUIET) || m->type == RSK_LOCAL_RESOLVE);
	require(!(m->flags & RSK_LOCAL_ABLE) || m->type == RSK_LOCAL_HELLO);
	require(!(m->flags & RSK_LOCAL_NO_SHM) || m->type == RSK_LOCAL_LOOKUP);
	require(!(m->flags & RSK_LOCAL_DRY) || m->type == RSK_LOCAL_LOOKUP);
	require(!(m->flags & RSK_LOCAL_BY_SYN) || m->type == RSK_LOCAL_LOOKUP ||
		m->type == RSK_LOCAL_RENDEZVOUS || m->type == RSK_LOCAL_ANSWER);
	require(!(m->flags & RSK_LOCAL_PAIR) ||
		((m->type == RSK_LOCAL_LINK || m->type == RSK_LOCAL_ANSWER) &&
		 m->flags == RSK_LOCAL_PAIR));
	require(m->flags <= (RSK_LOCAL_CONNECTING | RSK_LOCAL_QUIET | RSK_LOCAL_AGAIN |
			     RSK_LOCAL_ABLE | RSK_LOCAL_NO_SHM | RSK_LOCAL_DRY | RSK_LOCAL_REFUSED |
			     RSK_LOCAL_PAIR | RSK_LOCAL_BY_SYN));
	require(m->qos.dscp <= RSK_QOS_DSCP_MOST && m->qos.priority <= RSK_QOS_PRIORITY_MOST);
	switch (m->type) {
	case RSK_LOCAL_LINK:
		require(m->link);
		address(t->family, m->from_ip);
		if (!(m->flags & RSK_LOCAL_CONNECTING)) {
			require(m->port && m->ipv == (t->family == AF_INET ? 4 : 6));
			address(t->family, m->ip);
		}
		__attribute__((fallthrough));
	case RSK_LOCAL_LOOKUP:
		if (m->flags & RSK_LOCAL_BY_SYN) {
			struct rsk_syn syn = rsk_syn_unpack(m->link);

			require(syn.n && syn.n <= RSK_SYN_MARKS_MOST);
			require(syn.n == 1 || (m->flags & RSK_LOCAL_CONNECTING));
		}
		require(t->peer_port);
		__attribute__((fallthrough));
	case RSK_LOCAL_LISTEN:
		require(!from_rsockd && t->local_port && !t->pad && !t->pad2);
		address(t->family, t->local);
		address(t->family, t->peer);
		break;
	case RSK_LOCAL_HELLO:
	case RSK_LOCAL_RDMA:
		require(!from_rsockd);
		break;
	case RSK_LOCAL_LOST:
	case RSK_LOCAL_UNLINK:
		require(!from_rsockd && m->link);
		break;
	case RSK_LOCAL_RENDEZVOUS:
	case RSK_LOCAL_QOS:
		require(from_rsockd && m->link);
		break;
	case RSK_LOCAL_PORT_TABLE:
		require(from_rsockd && m->port && m->port < 64);
		break;
	case RSK_LOCAL_ANSWER:
		require(from_rsockd);
		break;
	case RSK_LOCAL_RESOLVE:
		require(!from_rsockd && t->peer_port && !t->pad && !t->pad2);
		address(t->family, t->local);
		address(t->family, t->peer);
		break;
	default:
		abort();
	}
}

static void both_ways(const struct rsk_local_msg *m, size_t size)
{
	struct rsk_local_msg before = *m;

	for (int from_rsockd = 0; from_rsockd < 2; from_rsockd++)
		if (rsk_local_msg_check(m, size, from_rsockd) == 0) {
			require(size == sizeof(*m));
			promises(m, from_rsockd);
		}
	require(memcmp(m, &before, sizeof(*m)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rsk_local_msg m;

	memset(&m, 0, sizeof(m));
	if (size)
		memcpy(&m, data, size < sizeof(m) ? size : sizeof(m));
	both_ways(&m, size);
	/* The same with the fields corrected that a mutation rarely hits. */
	m.magic = RSK_LOCAL_MAGIC;
	m.type %= RSK_LOCAL_TYPES;
	m.flags &= RSK_LOCAL_CONNECTING | RSK_LOCAL_AGAIN | RSK_LOCAL_ABLE | RSK_LOCAL_NO_SHM |
		   RSK_LOCAL_REFUSED | RSK_LOCAL_PAIR | RSK_LOCAL_BY_SYN;
	m.reason %= RSK_REASON_MOST + 1;
	m.qos.dscp &= RSK_QOS_DSCP_MOST;
	m.qos.priority &= RSK_QOS_PRIORITY_MOST;
	both_ways(&m, sizeof(m));
	return 0;
}
