// SPDX-License-Identifier: BSD-2-Clause
/*
 * port_bookings.c - see port_tables_parts.h: what is booked in the policy agent's ledger for each
 * port table. port_tables.c calls it.
 */
#include <stdlib.h>
#include <utlist.h>

#include "port_tables_parts.h"
#include "pma.h"

#define AHEAD 4u	/* rails of a port that are booked in advance, before they are reserved */
#define AHEAD_SHARE 16u /* limit of these: one part in so many of what its RNIC can have */

static uint64_t booked_of(const struct rsk_port_tables *b, uint32_t uid, uint32_t at)
{
	const struct rsk_port_tables_one *o;
	uint64_t n = 0;

	DL_FOREACH(b->all, o)
		if (o->uid == uid)
			n += o->booked[at].n;
	return n;
}

static bool book(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at)
{
	struct rsk_port_tables_booked *k = &o->booked[at];
	uint64_t id, *ids;

	if (k->n == k->room) {
		ids = reallocarray(k->ids, k->room ? 2 * k->room : 8, sizeof(*ids));
		if (!ids)
			return false;
		k->ids = ids;
		k->room = k->room ? 2 * k->room : 8;
	}
	id = rsk_pma_rail_booking(b->pma, b->name[at]);
	if (id)
		k->ids[k->n++] = id;
	return id != 0;
}

void rsk_port_tables_unbook(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
			    uint64_t keep)
{
	struct rsk_port_tables_booked *k = &o->booked[at];

	while (k->n > keep)
		rsk_pma_rail_unbook(b->pma, k->ids[--k->n]);
}

int rsk_port_tables_reserved_at(struct rsk_port_tables_one *o, uint32_t at, uint64_t *out)
{
	struct rsk_reserve_figures f;
	int rc = rsk_port_table_figures(&o->port_table, at, &f);

	*out = o->booked[at].n;
	if (rc == 0 && f.reserved[RSK_RESERVE_SESSIONS] < *out)
		*out = f.reserved[RSK_RESERVE_SESSIONS];
	return rc;
}

static bool reserved_now(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
			 uint64_t *out)
{
	return rsk_port_tables_did(b, o, at, rsk_port_tables_reserved_at(o, at, out));
}

static bool limit(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
		  uint64_t rails)
{
	uint64_t most[RSK_RESERVE_MEASURES];

	for (uint32_t i = 0; i < RSK_RESERVE_MEASURES; i++)
		most[i] = rails * b->table.need[i];
	if (!rsk_port_tables_did(b, o, at, rsk_port_table_limit(&o->port_table, at, most)))
		return false;
	o->booked[at].limit = (uint32_t)rails;
	return true;
}

static uint64_t ahead(const struct rsk_pma_rail_port *p)
{
	uint64_t share = p->sessions_max / AHEAD_SHARE;

	if (p->state != RSK_PMA_UP || p->overloaded)
		return 0;
	if (!p->sessions_max || share > AHEAD)
		return AHEAD;
	return share ? share : 1;
}

void rsk_port_tables_provide(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
			     const struct rsk_pma_rail_port *p)
{
	uint64_t most = rsk_pma_rail_terms(b->pma).per_user, used, want;

	if (o->spoiled || (o->busy | o->opens) & 1u << at || !reserved_now(b, o, at, &used))
		return;
	want = used + ahead(p);
	while (o->booked[at].n < want && booked_of(b, o->uid, at) < most)
		if (!book(b, o, at))
			break;
	if (o->booked[at].n > want && (o->booked[at].n > want + ahead(p) || !ahead(p))) {
		/*
		 * First the limit is lowered, so that no more is reserved; what was reserved
		 * meanwhile stays booked.
		 */
		if (!limit(b, o, at, want) || !reserved_now(b, o, at, &used))
			return;
		rsk_port_tables_unbook(b, o, at, used > want ? used : want);
	}
	/* Also if an earlier attempt failed because the record was busy. */
	if (o->booked[at].n != o->booked[at].limit)
		limit(b, o, at, o->booked[at].n);
}
