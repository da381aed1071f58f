// SPDX-License-Identifier: BSD-2-Clause
/* stream_qos.c - see stream_qos.h. */
#include "stream_qos.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "log.h"
#include "stream.h"

static bool get(int fd, int level, int name, void *value, socklen_t bytes)
{
	socklen_t len = bytes;

	return rsk_sys_getsockopt(fd, level, name, value, &len) == 0 && len == bytes;
}

/* In bytes per second, as the kernel has it; all ones: it does not pace. */
static unsigned long pace_of(uint64_t bps)
{
	return bps ? (bps + 7) / 8 : ~0ul;
}

static void pace_tcp(int fd, uint64_t had_bps, uint64_t bps)
{
	unsigned long now, to = pace_of(bps);

	if (get(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &now, sizeof(now)) && now == pace_of(had_bps))
		rsk_sys_setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &to, sizeof(to));
}

/* ECN's two bits are the kernel's. */
static void mark_tcp(const struct rsk_stream *s, int fd, uint8_t had, uint8_t dscp)
{
	bool v4 = s->tuple.family == AF_INET;
	int level = v4 ? IPPROTO_IP : IPPROTO_IPV6, name = v4 ? IP_TOS : IPV6_TCLASS, now;

	if (!get(fd, level, name, &now, sizeof(now)) || now >> 2 != had)
		return;
	now = (now & 3) | dscp << 2;
	rsk_sys_setsockopt(fd, level, name, &now, sizeof(now));
}

/* Without CAP_NET_ADMIN the kernel refuses priorities above 6: it is 6 then. */
static void rank_tcp(int fd, int wanted)
{
	int most = 6, now;

	if (get(fd, SOL_SOCKET, SO_PRIORITY, &now, sizeof(now)) && now == wanted)
		return;
	if (rsk_sys_setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &wanted, sizeof(wanted)) < 0 &&
	    wanted > most)
		rsk_sys_setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &most, sizeof(most));
}

void rsk_stream_set_qos(struct rsk_stream *s, int fd, const struct rsk_qos *qos)
{
	struct rsk_qos had = s->qos;
	int before = 0;

	if (rsk_qos_same(qos, &had))
		return;
	get(fd, SOL_SOCKET, SO_PRIORITY, &before, sizeof(before));
	s->qos = *qos;
	if (qos->rate_bps != had.rate_bps)
		pace_tcp(fd, had.rate_bps, qos->rate_bps);
	if (qos->dscp != had.dscp)
		mark_tcp(s, fd, had.dscp, qos->dscp);
	/* The kernel sets a priority with the DSCP, also in place of the program's. */
	if (before != s->qos_priority) {
		rank_tcp(fd, before);
	} else {
		if (qos->priority || had.priority)
			rank_tcp(fd, qos->priority);
		get(fd, SOL_SOCKET, SO_PRIORITY, &s->qos_priority, sizeof(s->qos_priority));
	}
	if (s->link && s->link->remote && qos->rate_bps != had.rate_bps) {
		rsk_lock(&s->tx_lock);
		rsk_tx_set_rate(&s->tx, qos->rate_bps, rsk_now_ns());
		rsk_unlock(&s->tx_lock);
	}
	rsk_log(RSK_LOG_INFO, "fd %d: served with %llu bit/s, DSCP %u, priority %u", fd,
		(unsigned long long)qos->rate_bps, qos->dscp, qos->priority);
}
