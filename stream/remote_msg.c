// SPDX-License-Identifier: BSD-2-Clause
#include "remote_msg.h"

#include <errno.h>
#include <sys/socket.h>

#include <rsock/reason.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the wire is little-endian, as slots are");

static int check_tuple(const struct rsk_tuple *t)
{
	if (t->family != AF_INET && t->family != AF_INET6)
		return -EPROTO;
	return t->local_port && t->peer_port ? 0 : -EPROTO;
}

int rsk_remote_msg_check(const struct rsk_remote_msg *m)
{
	if (m->magic != RSK_REMOTE_MAGIC || m->type < RSK_REMOTE_HELLO ||
	    m->type >= RSK_REMOTE_TYPES || m->sid >= RSK_SEG_STREAMS ||
	    m->reason >= RSK_REASON_COUNT || m->way > RSK_VERBS_DIRECT)
		return -EPROTO;
	switch (m->type) {
	case RSK_REMOTE_HELLO:
		if (!m->nonce || !m->secret || !m->handle || check_tuple(&m->tuple) < 0)
			return -EPROTO;
		return rsk_seg_geometry_check(&m->geometry);
	case RSK_REMOTE_WELCOME:
		return rsk_seg_geometry_check(&m->geometry);
	case RSK_REMOTE_RAIL:
		return m->epoch && m->end.segment && m->end.indirect ? 0 : -EPROTO;
	case RSK_REMOTE_BREAK:
	case RSK_REMOTE_RESUME:
		return m->epoch ? 0 : -EPROTO;
	case RSK_REMOTE_LINK:
		return m->link_bytes == sizeof(m->link) && m->link.type != RSK_LINK_GREET ? 0 :
											    -EPROTO;
	default:
		return 0;
	}
}
