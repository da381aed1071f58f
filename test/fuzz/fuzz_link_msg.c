// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_link_msg.c - fuzzes the check of messages on a link's control socket with any bytes: an
 * accepted message keeps every promise that its users rely on (ids and reasons in range, a geometry
 * that can be mapped, a valid port mapper message).
 */
#include "handshake.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/reason.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void promises(const struct rsk_link_msg *m, const struct rsk_pm_msg *pm)
{
	uint8_t wire[RSK_PM_WIRE_MAPPED_BYTES];

	require(m->magic == RSK_LINK_MAGIC);
	if (m->type == RSK_LINK_HELLO) {
		require(m->geometry.streams >= RSK_SEG_MIN_STREAMS &&
			m->geometry.streams <= RSK_SEG_STREAMS);
		require(m->geometry.ring_bytes >= RSK_SEG_MIN_RING &&
			m->geometry.ring_bytes <= RSK_SEG_MAX_RING);
		require(rsk_seg_ring_off(&m->geometry, m->geometry.streams - 1) +
				m->geometry.ring_bytes ==
			m->geometry.bytes);
		return;
	}
	require(m->type <= RSK_LINK_LEFT && m->sid < RSK_SEG_STREAMS && m->fd >= 0);
	require(m->reason <= RSK_REASON_MOST);
	if (m->type == RSK_LINK_LEFT) {
		require(!m->pm_bytes);
		return;
	}
	require(rsk_pm_msg_validate(pm) == 0);
	require(rsk_pm_msg_encode(pm, wire, sizeof(wire)) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rsk_link_msg m, before;
	struct rsk_pm_msg pm;

	memset(&m, 0, sizeof(m));
	memset(&pm, 0, sizeof(pm));
	memcpy(&m, data, size < sizeof(m) ? size : sizeof(m));
	before = m;
	if (rsk_link_msg_validate(&m, size, &pm) == 0) {
		require(size == sizeof(m));
		promises(&m, &pm);
	}
	require(memcmp(&m, &before, sizeof(m)) == 0);
	/* The same with the fields corrected that a mutation rarely hits. */
	m.magic = RSK_LINK_MAGIC;
	m.type = RSK_LINK_HELLO + m.type % RSK_LINK_LEFT;
	m.pm_bytes %= RSK_PM_WIRE_MAPPED_BYTES + 1;
	if (rsk_link_msg_validate(&m, sizeof(m), &pm) == 0)
		promises(&m, &pm);
	return 0;
}
