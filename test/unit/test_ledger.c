// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_ledger.c - tests the ledger: a booking is made completely or not at all, is given back
 * completely, and never gets a number that was another's.
 */
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

#include "dice.h"

#define PORTS 4
#define SERVICES 3

struct book {
	struct rsk_ledger l;
	uint32_t rnic[PORTS / 2], port[PORTS], service[SERVICES], need[2];
};

static const struct rsk_ledger_need needs[2] = { { .bps = 100, .memory_maps = 3, .connections = 1 },
						 { .bps = 7, .connections = 2 } };

static void limits(struct rsk_ledger_account *a, uint64_t sessions, uint64_t bps)
{
	a->current = true;
	a->sessions_max = sessions;
	a->bps_max = bps;
	a->memory_maps_max = a->connections_max = UINT64_MAX;
}

/* Ports 0 and 1 belong to RNIC 0, ports 2 and 3 to RNIC 1. */
static void open_book(struct book *b, uint64_t sessions, uint64_t bps)
{
	char name[16];

	cr_assert_eq(rsk_ledger_init(&b->l, 42), 0);
	for (int i = 0; i < PORTS / 2; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		b->rnic[i] = rsk_ledger_account(&b->l, RSK_LEDGER_RNIC, RSK_PMA_CP, name);
		limits(&b->l.accounts[b->rnic[i]], sessions, UINT64_MAX);
	}
	for (int i = 0; i < PORTS; i++) {
		snprintf(name, sizeof(name), "r%d/%d", i / 2, i);
		b->port[i] = rsk_ledger_account(&b->l, RSK_LEDGER_PORT, RSK_PMA_CP, name);
		limits(&b->l.accounts[b->port[i]], UINT64_MAX, bps);
		b->l.accounts[b->port[i]].rnic = b->rnic[i / 2];
	}
	for (int i = 0; i < SERVICES; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		b->service[i] = rsk_ledger_account(&b->l, RSK_LEDGER_SERVICE, RSK_PMA_AP, name);
		limits(&b->l.accounts[b->service[i]], UINT64_MAX, UINT64_MAX);
	}
	for (int i = 0; i < 2; i++)
		b->need[i] = rsk_ledger_need(&b->l, &needs[i]);
}

static uint64_t reserve(struct book *b, int service, uint32_t cp, uint32_t uid, int port, int need)
{
	struct rsk_ledger_who who;
	uint8_t ip[16] = { 10 };

	memcpy(ip + 1, &cp, 3);
	rsk_ledger_who(&b->l, b->service[service], 4, ip, uid, &who);
	return rsk_ledger_reserve(&b->l, &who, b->port[port], b->need[need]);
}

static enum rsk_ledger_lack lacks(const struct rsk_ledger *l, uint32_t port, uint32_t need)
{
	return rsk_ledger_lacks_for(l, port, need, 0, NULL);
}

Test(ledger, numbers)
{
	struct book b;
	uint64_t first, again;

	open_book(&b, 8, 1000);
	first = reserve(&b, 0, 1, 500, 0, 0);
	cr_assert_neq(first, 0);
	cr_assert(rsk_ledger_release(&b.l, first));
	cr_assert_not(rsk_ledger_release(&b.l, first));
	again = reserve(&b, 0, 1, 500, 0, 0);
	cr_assert(again && again != first);
	cr_assert_not(rsk_ledger_release(&b.l, first));
	cr_assert_not(rsk_ledger_release(&b.l, 0));
	cr_assert_not(rsk_ledger_release(&b.l, UINT64_MAX));
	cr_assert_eq(b.l.live, 1);
	cr_assert(rsk_ledger_validate(&b.l));
	rsk_ledger_fini(&b.l);
}

Test(ledger, what_is_lacking)
{
	struct book b;
	struct rsk_ledger_account *rnic, *port;
	uint32_t none;

	open_book(&b, 2, 205);
	rnic = &b.l.accounts[b.rnic[0]];
	port = &b.l.accounts[b.port[0]];
	cr_assert_eq(lacks(&b.l, b.port[0], b.need[0]), RSK_LEDGER_FITS);
	port->others_bps = 105;
	cr_assert_eq(lacks(&b.l, b.port[0], b.need[0]), RSK_LEDGER_FITS);
	port->others_bps = 106;
	cr_assert_eq(lacks(&b.l, b.port[0], b.need[0]), RSK_LEDGER_BANDWIDTH);
	cr_assert_eq(lacks(&b.l, b.port[0], b.need[1]), RSK_LEDGER_FITS);
	port->others_bps = UINT64_MAX;
	cr_assert_eq(lacks(&b.l, b.port[0], b.need[1]), RSK_LEDGER_BANDWIDTH);
	port->others_bps = 0;
	reserve(&b, 0, 1, RSK_PMA_NOBODY, 0, 0);
	reserve(&b, 0, 1, RSK_PMA_NOBODY, 1, 0);
	/* The RNIC's limits hold for its ports together. */
	cr_assert_eq(lacks(&b.l, b.port[1], b.need[0]), RSK_LEDGER_SESSIONS);
	cr_assert_eq(lacks(&b.l, b.port[2], b.need[0]), RSK_LEDGER_FITS);
	rnic->sessions_max = 3;
	rnic->memory_maps_max = 8;
	cr_assert_eq(lacks(&b.l, b.port[1], b.need[0]), RSK_LEDGER_MEMORY_MAPS);
	rnic->memory_maps_max = 9;
	rnic->connections_max = 2;
	cr_assert_eq(lacks(&b.l, b.port[1], b.need[0]), RSK_LEDGER_CONNECTIONS);
	/* A limit below what is booked already, as after a change of the configuration. */
	rnic->connections_max = 1;
	cr_assert_eq(lacks(&b.l, b.port[1], b.need[0]), RSK_LEDGER_CONNECTIONS);
	rnic->connections_max = 9;
	rnic->bps_max = rnic->bps - 1;
	cr_assert_eq(lacks(&b.l, b.port[1], b.need[0]), RSK_LEDGER_BANDWIDTH);
	/* A session that needs none does not go without for it. */
	none = rsk_ledger_need(&b.l, &(const struct rsk_ledger_need){ .connections = 1 });
	cr_assert_eq(lacks(&b.l, b.port[1], none), RSK_LEDGER_FITS);
	rsk_ledger_fini(&b.l);
}

Test(ledger, counters)
{
	struct rsk_ledger_who who;
	uint8_t ip[16] = { 10, 1 };
	struct book b;
	uint64_t id[4];

	open_book(&b, 100, UINT64_MAX);
	id[0] = reserve(&b, 0, 1, 500, 0, 0);
	id[1] = reserve(&b, 1, 1, 500, 1, 0);
	id[2] = reserve(&b, 1, 1, 501, 2, 0);
	id[3] = reserve(&b, 1, 2, RSK_PMA_NOBODY, 2, 0);
	rsk_ledger_who(&b.l, b.service[1], 4, ip, 500, &who);
	cr_assert(who.cp_sessions == 2 && who.cp_all == 3);
	cr_assert(who.user_sessions == 1 && who.user_all == 2);
	rsk_ledger_who(&b.l, b.service[2], 4, ip, 500, &who);
	cr_assert(who.cp_sessions == 0 && who.cp_all == 3 && who.cp == RSK_LEDGER_NONE);
	rsk_ledger_who(&b.l, b.service[1], 6, ip, RSK_PMA_NOBODY, &who);
	cr_assert(who.cp_all == 0 && who.user_all == 0);
	for (int i = 0; i < 4; i++) {
		cr_assert(rsk_ledger_release(&b.l, id[i]));
		cr_assert(rsk_ledger_validate(&b.l));
	}
	cr_assert(b.l.live == 0 && b.l.live_counters == 0);
	rsk_ledger_fini(&b.l);
}

/* A booking on the port and its RNIC, of no CP, user or service. */
Test(ledger, of_nobody)
{
	struct rsk_ledger_view v;
	uint64_t id, other;
	struct book b;

	open_book(&b, 8, 1000);
	id = rsk_ledger_reserve(&b.l, NULL, b.port[1], b.need[0]);
	other = reserve(&b, 0, 1, 500, 1, 0);
	cr_assert(id && other);
	cr_assert(rsk_ledger_validate(&b.l));
	cr_assert(rsk_ledger_find(&b.l, id, &v));
	cr_assert(v.port == b.port[1] && v.service == RSK_LEDGER_NONE && v.uid == RSK_PMA_NOBODY);
	cr_assert_eq(b.l.accounts[b.port[1]].sessions, 2);
	cr_assert_eq(b.l.accounts[b.rnic[0]].memory_maps, 6);
	cr_assert_eq(b.l.accounts[b.service[0]].sessions, 1);
	cr_assert_eq(b.l.sessions[RSK_PMA_CP] + b.l.sessions[RSK_PMA_AP], 1);
	rsk_ledger_lift(&b.l, id);
	cr_assert_eq(b.l.accounts[b.port[1]].sessions, 1);
	rsk_ledger_put_back(&b.l, id);
	rsk_ledger_confirm(&b.l, id);
	cr_assert(rsk_ledger_find(&b.l, id, &v) && v.used);
	cr_assert_eq(b.l.accounts[b.port[1]].promised, 1);
	cr_assert(rsk_ledger_release(&b.l, id));
	cr_assert(rsk_ledger_release(&b.l, other));
	cr_assert_not(rsk_ledger_release(&b.l, id));
	cr_assert_eq(b.l.accounts[b.rnic[0]].sessions, 0);
	cr_assert(rsk_ledger_validate(&b.l));
	rsk_ledger_fini(&b.l);
}

Test(ledger, lifted)
{
	struct rsk_ledger_view v;
	struct book b;
	uint64_t id, other;

	open_book(&b, 1, 100);
	id = reserve(&b, 0, 1, 500, 0, 0);
	cr_assert_eq(lacks(&b.l, b.port[0], b.need[0]), RSK_LEDGER_SESSIONS);
	rsk_ledger_lift(&b.l, id);
	cr_assert_eq(lacks(&b.l, b.port[0], b.need[0]), RSK_LEDGER_FITS);
	rsk_ledger_put_back(&b.l, id);
	cr_assert(rsk_ledger_validate(&b.l));
	rsk_ledger_lift(&b.l, id);
	other = reserve(&b, 0, 1, 500, 2, 1);
	rsk_ledger_drop_lifted(&b.l, id);
	cr_assert(rsk_ledger_validate(&b.l));
	cr_assert_not(rsk_ledger_find(&b.l, id, &v));
	cr_assert(rsk_ledger_find(&b.l, other, &v));
	cr_assert(v.port == b.port[2] && v.uid == 500 && v.cp_ip[1] == 1 && !v.used);
	rsk_ledger_fini(&b.l);
}

/*
 * After a change of the configuration, an account with bookings is kept, and one without is
 * dropped.
 */
Test(ledger, accounts_outlive_configurations)
{
	struct book b;
	uint64_t id;

	open_book(&b, 8, 1000);
	id = reserve(&b, 0, 1, 500, 0, 0);
	rsk_ledger_retire(&b.l);
	cr_assert_eq(lacks(&b.l, b.port[0], b.need[0]), RSK_LEDGER_SESSIONS);
	rsk_ledger_sweep(&b.l);
	cr_assert(b.l.accounts[b.port[0]].name && !b.l.accounts[b.port[1]].name);
	cr_assert_eq(rsk_ledger_account(&b.l, RSK_LEDGER_PORT, RSK_PMA_CP, "r0/0"), b.port[0]);
	/* A need that is in use is not replaced by another. */
	cr_assert_neq(rsk_ledger_need(&b.l, &needs[1]), b.need[0]);
	cr_assert(rsk_ledger_validate(&b.l));
	rsk_ledger_release(&b.l, id);
	rsk_ledger_retire(&b.l);
	rsk_ledger_sweep(&b.l);
	for (uint32_t i = 0; i < b.l.n_accounts; i++)
		cr_assert_null(b.l.accounts[i].name);
	cr_assert(rsk_ledger_validate(&b.l));
	rsk_ledger_fini(&b.l);
}

Test(ledger, at_random)
{
	enum {
		MOST = 3000,
		STEPS = 200000
	};
	uint64_t dice = dice_seed("ledger"), *ids = calloc(MOST, sizeof(*ids)), seen = 0;
	size_t n = 0;
	struct book b;

	open_book(&b, UINT64_MAX, UINT64_MAX);
	for (int i = 0; i < STEPS; i++) {
		uint64_t r = dice_roll(&dice), k = n ? r % n : 0;

		if (n < MOST && (n == 0 || r >> 32 & 1)) {
			ids[n] = reserve(&b, (int)(r % SERVICES), (uint32_t)(r >> 8 & 511),
					 r & 1 ? (uint32_t)(r >> 20 & 7) : RSK_PMA_NOBODY,
					 (int)(r >> 40 & 3), (int)(r >> 44 & 1));
			cr_assert_neq(ids[n++], 0);
			seen++;
		} else if (r >> 33 & 1) {
			rsk_ledger_confirm(&b.l, ids[k]);
		} else {
			cr_assert(rsk_ledger_release(&b.l, ids[k]));
			cr_assert_not(rsk_ledger_release(&b.l, ids[k]));
			ids[k] = ids[--n];
		}
		if (i % 1000 == 0)
			cr_assert(rsk_ledger_validate(&b.l));
		cr_assert_eq(b.l.live, n);
	}
	cr_assert_gt(seen, MOST);
	while (n)
		cr_assert(rsk_ledger_release(&b.l, ids[--n]));
	cr_assert(rsk_ledger_validate(&b.l) && b.l.live_counters == 0);
	for (uint32_t i = 0; i < b.l.n_accounts; i++)
		cr_assert(b.l.accounts[i].sessions == 0 && b.l.accounts[i].bps == 0);
	free(ids);
	rsk_ledger_fini(&b.l);
}
