// SPDX-License-Identifier: BSD-2-Clause
#include "width_kit.h"

#include <criterion/criterion.h>
#include <string.h>

#include "credit.h"
#include "links.h"
#include "ring_width.h"

struct kit k;
struct kit_stream at;
uint64_t now_ns;
uint32_t requested[RSK_RAILS_MOST], used[RSK_RAILS_MOST];

void set(void)
{
	kit_link_two(&k);
	now_ns = rsk_now_ns();
	at = kit_stream(&k, true);
	k.r->listed = true;
	rsk_remote_want_ring(k.r, at.s->sid);
}

uint32_t width(void)
{
	return at.s->tx.ring.lap_cells * RSK_CELL_BYTES;
}

uint32_t told(uint32_t rail)
{
	const struct rsk_ring_regs *ways = &k.r->rail[rail].ways;

	return at.s->sid < ways->n ? ways->at[at.s->sid].narrowed_out : 0;
}

void registered(uint32_t rail, uint32_t bytes)
{
	const struct rsk_remote_msg m = { .type = RSK_REMOTE_RING,
					  .rail = rail,
					  .sid = at.s->sid,
					  .way = RSK_VERBS_DIRECT,
					  .ring_rkey = bytes,
					  .ring_bytes = bytes,
					  .narrowed = told(rail) };

	rsk_remote_on_ring(k.r, &m);
}

void full(uint64_t bytes)
{
	rsk_lock(&at.s->tx_lock);
	at.s->tx.pos += bytes;
	rsk_ring_width_full(at.s, now_ns);
	rsk_credit_want(at.s);
	rsk_unlock(&at.s->tx_lock);
	now_ns += SECOND_NS;
	rsk_credit_work(k.r, now_ns);
	now_ns += SECOND_NS;
	rsk_credit_work(k.r, now_ns);
}

uint32_t asked(uint32_t rail)
{
	struct rsk_remote_msg m;

	memset(requested, 0, sizeof(requested));
	memset(used, 0, sizeof(used));
	kit_turn(&k);
	while (kit_hear(&k, &m)) {
		if (m.type == RSK_REMOTE_RING_REQ && m.sid == at.s->sid)
			requested[m.rail] = m.ring_bytes;
		if (m.type == RSK_REMOTE_NARROW && m.sid == at.s->sid)
			used[m.rail] = m.ring_bytes;
	}
	return requested[rail];
}

void set_direct(void)
{
	set();
	registered(0, FIRST);
	registered(1, FIRST);
	cr_assert_eq(width(), FIRST);
	cr_assert_eq(asked(0), 0);
}

void become_wide(void)
{
	set_direct();
	full(2 * FIRST);
	registered(0, 8 * FIRST);
	registered(1, 8 * FIRST);
	cr_assert_eq(width(), 8 * FIRST);
	asked(0);
}

void later(void)
{
	cr_assert_leq(k.r->rest_ns, now_ns + 60 * SECOND_NS, "nobody wakes for it");
	now_ns += 60 * SECOND_NS;
	rsk_ring_width_rest(k.r, now_ns);
}

void taken(void)
{
	at.s->tx.ring.credit = at.s->tx.ring.told = at.s->tx.ring.next;
}
