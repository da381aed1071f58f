// SPDX-License-Identifier: BSD-2-Clause
#include "handshake.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/reason.h>
#include <rsock/sys.h>

static const uint8_t op_of[] = {
	[RSK_LINK_JOIN] = RSK_PM_REQ,
	[RSK_LINK_ACCEPT] = RSK_PM_ACCEPT,
	[RSK_LINK_ACK] = RSK_PM_ACK,
	[RSK_LINK_DENY] = RSK_PM_DENY,
};

int rsk_link_msg_validate(const struct rsk_link_msg *m, size_t bytes, struct rsk_pm_msg *pm)
{
	if (bytes != sizeof(*m) || m->magic != RSK_LINK_MAGIC || m->type < RSK_LINK_GREET ||
	    m->type > RSK_LINK_DENY)
		return -EPROTO;
	if (m->type == RSK_LINK_GREET)
		return rsk_shm_geometry_check(&m->geometry);
	if (m->sid >= RSK_SHM_STREAMS || m->reason >= RSK_REASON_COUNT || m->fd < 0 ||
	    m->pm_bytes > sizeof(m->pm))
		return -EPROTO;
	if (rsk_pm_msg_decode(m->pm, m->pm_bytes, pm) < 0 || pm->op != op_of[m->type])
		return -EPROTO;
	return 0;
}

int rsk_link_msg_send(int control, struct rsk_link_msg *m, const int *fds, int nfds)
{
	struct iovec iov = { m, sizeof(*m) };
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int) * RSK_LINK_MSG_FDS)];
	} c;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	m->magic = RSK_LINK_MAGIC;
	if (nfds) {
		memset(&c, 0, sizeof(c));
		msg.msg_control = &c;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nfds);
		c.head.cmsg_level = SOL_SOCKET;
		c.head.cmsg_type = SCM_RIGHTS;
		c.head.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
		memcpy(CMSG_DATA(&c.head), fds, sizeof(int) * (size_t)nfds);
	}
	n = rsk_sys_sendmsg(control, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? (int)n : 0;
}

ssize_t rsk_link_msg_recv(int control, struct rsk_link_msg *m, int fds[static RSK_LINK_MSG_FDS],
			  int *nfds)
{
	struct iovec iov = { m, sizeof(*m) };
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int) * RSK_LINK_MSG_FDS)];
	} c;
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
	};
	/* MSG_TRUNC: the true length, so that a longer message is not taken for one of ours. */
	ssize_t n = rsk_sys_recvmsg(control, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);

	*nfds = 0;
	if (n <= 0)
		return n;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h; h = CMSG_NXTHDR(&msg, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		*nfds = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		if (*nfds > (int)RSK_LINK_MSG_FDS)
			*nfds = (int)RSK_LINK_MSG_FDS;
		memcpy(fds, CMSG_DATA(h), sizeof(int) * (size_t)*nfds);
	}
	return n;
}
