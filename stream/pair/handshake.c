// SPDX-License-Identifier: BSD-2-Clause
/* handshake.c - see handshake.h. */
#include "handshake.h"

#include <errno.h>
#include <string.h>

#include <rsock/reason.h>

#include "fdmsg.h"

static const uint8_t op_of[] = {
	[RSK_LINK_PAIR] = RSK_PM_REQ,
	[RSK_LINK_ACCEPT] = RSK_PM_ACCEPT,
	[RSK_LINK_ACK] = RSK_PM_ACK,
	[RSK_LINK_DENY] = RSK_PM_DENY,
};

int rsk_link_msg_validate(const struct rsk_link_msg *m, size_t bytes, struct rsk_pm_msg *pm)
{
	if (bytes != sizeof(*m) || m->magic != RSK_LINK_MAGIC || m->type < RSK_LINK_HELLO ||
	    m->type > RSK_LINK_LEFT)
		return -EPROTO;
	if (m->type == RSK_LINK_HELLO)
		return rsk_seg_geometry_check(&m->geometry);
	if (m->sid >= RSK_SEG_STREAMS || m->reason > RSK_REASON_MOST || m->fd < 0 ||
	    m->pm_bytes > sizeof(m->pm) || m->apart > 1)
		return -EPROTO;
	if (m->type == RSK_LINK_LEFT)
		return m->pm_bytes ? -EPROTO : 0;
	if (rsk_pm_msg_decode(m->pm, m->pm_bytes, pm) < 0 || pm->op != op_of[m->type])
		return -EPROTO;
	return 0;
}

int rsk_link_msg_send(int control, struct rsk_link_msg *m, const int *fds, int nfds)
{
	m->magic = RSK_LINK_MAGIC;
	return rsk_fdmsg_send(control, m, sizeof(*m), fds, nfds);
}

uint32_t rsk_link_msg_other_version(const void *msg, size_t bytes)
{
	uint64_t magic;
	uint32_t version;

	if (bytes < sizeof(magic))
		return 0;
	memcpy(&magic, msg, sizeof(magic));
	version = rsk_magic_low_version(magic, RSK_LINK_LETTERS);
	return version == RSK_LINK_VERSION ? 0 : version;
}

int rsk_link_version_send(int control, struct rsk_link_version_msg *m)
{
	m->magic = RSK_LINK_MAGIC;
	m->type = RSK_LINK_IS_OF_VERSION;
	return rsk_fdmsg_send(control, m, sizeof(*m), NULL, 0);
}

ssize_t rsk_link_msg_recv(int control, struct rsk_link_msg *m, int fds[static RSK_LINK_MSG_FDS],
			  int *nfds)
{
	return rsk_fdmsg_recv(control, m, sizeof(*m), RSK_FDMSG_MEMORY, fds, RSK_LINK_MSG_FDS,
			      nfds);
}
