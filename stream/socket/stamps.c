// SPDX-License-Identifier: BSD-2-Clause
/* stamps.c - see stamps.h. */
#include "stamps.h"

#include <linux/net_tstamp.h>
#include <string.h>
#include <time.h>

#include <rsock/sys.h>

#include "stream.h"

#define RECEIVED (SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE)
#define CONTROL_BYTES 256

static uint32_t option_of(int fd, int name)
{
	uint32_t v[2] = { 0 };
	socklen_t len = sizeof(v);

	return rsk_sys_getsockopt(fd, SOL_SOCKET, name, v, &len) < 0 ? 0 : v[0];
}

enum rsk_stamps rsk_stamps_asked(int fd)
{
	bool us = option_of(fd, SO_TIMESTAMP) || option_of(fd, SO_TIMESTAMP_NEW);
	bool ns = option_of(fd, SO_TIMESTAMPNS) || option_of(fd, SO_TIMESTAMPNS_NEW);
	uint32_t flags = option_of(fd, SO_TIMESTAMPING) | option_of(fd, SO_TIMESTAMPING_NEW);

	if (flags)
		return us || ns || flags != RECEIVED ? RSK_STAMPS_KERNEL : RSK_STAMPS_REPORTING;
	return ns ? RSK_STAMPS_NS : us ? RSK_STAMPS_US : RSK_STAMPS_NONE;
}

uint8_t rsk_stamps_type(int fd, enum rsk_stamps what)
{
	switch (what) {
	case RSK_STAMPS_US:
		return option_of(fd, SO_TIMESTAMP_NEW) ? SO_TIMESTAMP_NEW : SO_TIMESTAMP;
	case RSK_STAMPS_NS:
		return option_of(fd, SO_TIMESTAMPNS_NEW) ? SO_TIMESTAMPNS_NEW : SO_TIMESTAMPNS;
	case RSK_STAMPS_REPORTING:
		return option_of(fd, SO_TIMESTAMPING) ? SO_TIMESTAMPING : SO_TIMESTAMPING_NEW;
	default:
		return 0;
	}
}

/* On 64 bits all forms begin with two words: seconds, and their parts. */
static uint64_t stamp_in(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		uint64_t at[2];
		bool us = c->cmsg_type == SO_TIMESTAMP || c->cmsg_type == SO_TIMESTAMP_NEW;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_len < CMSG_LEN(sizeof(at)) ||
		    !(us || c->cmsg_type == SO_TIMESTAMPNS || c->cmsg_type == SO_TIMESTAMPNS_NEW ||
		      c->cmsg_type == SO_TIMESTAMPING || c->cmsg_type == SO_TIMESTAMPING_NEW))
			continue;
		memcpy(at, CMSG_DATA(c), sizeof(at));
		return at[0] * 1000000000u + at[1] * (us ? 1000u : 1u);
	}
	return 0;
}

ssize_t rsk_stamps_recv(struct rsk_stream *s, int fd, struct msghdr *m, int flags)
{
	char control[CONTROL_BYTES] __attribute__((aligned(8)));
	ssize_t n;

	m->msg_control = control;
	m->msg_controllen = sizeof(control);
	n = rsk_sys_recvmsg(fd, m, flags);
	if (n <= 0)
		return n;
	s->rx.stamp.peeked_ns = stamp_in(m);
	if (!(flags & MSG_PEEK))
		s->rx.stamp.taken_ns = s->rx.stamp.peeked_ns;
	return n;
}

void rsk_stream_want_stamps(struct rsk_stream *s)
{
	rsk_sigdefer_enter();
	rsk_lock(&s->rx_lock);
	if (!s->link->remote) {
		rsk_rx_want_stamps(&s->rx);
	} else {
		s->rx.gave_up = true;
		rsk_stats_set_reason(s->rec, RSK_REASON_MESSAGES);
	}
	rsk_unlock(&s->rx_lock);
	rsk_stream_notify(s, RSK_WAKE_TX);
	rsk_sigdefer_exit();
}
