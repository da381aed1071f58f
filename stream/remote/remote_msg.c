// SPDX-License-Identifier: BSD-2-Clause
/* remote_msg.c - checks of the messages; see remote_msg.h. */
#include "remote_msg.h"

#include <errno.h>
#include <string.h>
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

static int check_rail(const struct rsk_remote_msg *m)
{
	return m->epoch && m->generation && m->rail < RSK_RAILS_MOST ? 0 : -EPROTO;
}

static int check_gaps(const struct rsk_remote_msg *m)
{
	if (check_rail(m) < 0 || !m->gaps || m->gaps > RSK_REMOTE_MISSING_MOST ||
	    m->missing > RSK_ORDER_WINDOW_MAX || (m->cell && !m->missing))
		return -EPROTO;
	for (uint32_t i = 0; i < m->gaps; i++)
		if (m->gap[i].from >= m->gap[i].to)
			return -EPROTO;
	return 0;
}

static bool ring_ok(uint32_t bytes)
{
	return bytes >= RSK_SEG_FIRST_RING && bytes <= RSK_SEG_MAX_RING && !(bytes & (bytes - 1));
}

/* What both ends say of themselves in the handshake. */
static int check_end(const struct rsk_remote_msg *m)
{
	struct rsk_order_form form = rsk_remote_form(&m->order);

	if (m->order.stop > 1 || !rsk_order_form_validate(&form))
		return -EPROTO;
	return rsk_seg_geometry_check(&m->geometry);
}

static int check_place(const struct rsk_remote_msg *m)
{
	static const struct rsk_verbs_device_addr none;
	const struct rsk_verbs_device_addr *p = &m->candidate;

	if (m->rail < 2 || m->rail > RSK_RAILS_MOST)
		return -EPROTO;
	if (!m->generation)
		return m->gaps || m->use || memcmp(p, &none, sizeof(none)) != 0 ? -EPROTO : 0;
	if (m->generation > RSK_REMOTE_CANDIDATES || m->gaps >= m->generation)
		return -EPROTO;
	if (p->addr.family != AF_INET && p->addr.family != AF_INET6)
		return -EPROTO;
	if (p->soft > 1 || m->use >= RSK_REMOTE_USES)
		return -EPROTO;
	return p->prefix_bits <= (p->addr.family == AF_INET ? 32 : 128) ? 0 : -EPROTO;
}

uint32_t rsk_remote_msg_other_version(const struct rsk_remote_msg *m)
{
	uint32_t version = rsk_magic_version(m->magic, RSK_REMOTE_LETTERS);

	return version == RSK_REMOTE_VERSION ? 0 : version;
}

int rsk_remote_msg_check_fixed(const struct rsk_remote_msg *m)
{
	if (m->type != RSK_REMOTE_HELLO || !m->nonce || !m->secret || !m->handle)
		return -EPROTO;
	return check_tuple(&m->tuple);
}

int rsk_remote_msg_check(const struct rsk_remote_msg *m)
{
	if (m->magic != RSK_REMOTE_MAGIC || m->type < RSK_REMOTE_HELLO ||
	    m->type >= RSK_REMOTE_TYPES || m->sid >= RSK_SEG_STREAMS ||
	    m->reason > RSK_REASON_MOST || m->way > RSK_VERBS_DIRECT)
		return -EPROTO;
	switch (m->type) {
	case RSK_REMOTE_HELLO:
		return rsk_remote_msg_check_fixed(m) < 0 ? -EPROTO : check_end(m);
	case RSK_REMOTE_WELCOME:
		return check_end(m);
	case RSK_REMOTE_RAIL:
		return m->end.segment && m->end.indirect ? check_rail(m) : -EPROTO;
	case RSK_REMOTE_RAIL_DOWN:
	case RSK_REMOTE_MISSING_END:
		return check_rail(m);
	case RSK_REMOTE_MISSING:
		return check_gaps(m);
	case RSK_REMOTE_CANDIDATE:
		return check_place(m);
	case RSK_REMOTE_RING:
	case RSK_REMOTE_NARROW:
	case RSK_REMOTE_RING_REQ:
		return m->rail < RSK_RAILS_MOST && ring_ok(m->ring_bytes) ? 0 : -EPROTO;
	case RSK_REMOTE_BREAK:
	case RSK_REMOTE_RESUME:
	case RSK_REMOTE_RESUMED:
		return m->epoch ? 0 : -EPROTO;
	case RSK_REMOTE_LINK:
		return m->link_bytes == sizeof(m->link) && m->link.type != RSK_LINK_HELLO ? 0 :
											    -EPROTO;
	default:
		return 0;
	}
}
