// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_remote_ports.c - tests the admission of a further rail at a local port that is in rsockd's
 * port table: a rejected rail is rejected before it exists at either end, so that it needs no
 * messages and nothing is reserved for it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "pairing.h"
#include "remote_kit.h"

static struct rsk_port_table owner;
static struct rsk_port_table_data table;

static const struct rsk_verbs_addr *here(uint32_t device)
{
	return &kit_candidates[device].addr;
}

/* Sets the port's state, and lets the progress thread check it. */
static void stands(enum rsk_port_table_state state)
{
	static uint64_t now_ns;

	table.port[0].state = state;
	rsk_port_table_write(&owner, &table);
	rsk_reservations_check(now_ns += 2000000000u);
}

static uint64_t reserved(void)
{
	struct rsk_reserve_figures f;

	cr_assert_eq(rsk_port_table_figures(&owner, 0, &f), 0);
	return f.reserved[1];
}

/*
 * Three devices of which the second one's port is in the port table, with room for one rail; a link
 * by the first.
 */
static void begin(struct kit *k)
{
	const uint64_t limit[] = { UINT64_MAX, 1, UINT64_MAX };
	struct rsk_remote_msg m;
	int fd;

	kit_init();
	kit_candidates_n = 3;
	for (uint32_t i = 0; i < 3; i++)
		kit_candidates[i] = kit_candidate((uint8_t)i, 2, (uint16_t)i);
	fd = rsk_port_table_create(&owner);
	cr_assert_geq(fd, 0);
	cr_assert_eq(rsk_port_table_open(&owner, 0), 0);
	cr_assert_eq(rsk_port_table_limit(&owner, 0, limit), 0);
	table.need[1] = 1;
	table.port[0].family[0] = AF_INET;
	memcpy(table.port[0].ip[0], here(1)->ip, sizeof(here(1)->ip));
	rsk_pairing_take();
	rsk_reservations_came(fd, 1);
	rsk_pairing_give();
	close(fd);
	stands(RSK_PORT_TABLE_UP);
	kit_link(k, false);
	kit_rail_up(k, 0);
	while (kit_hear(k, &m))
		;
}

/* The rail does not exist, and the other end gets no message that it would have to answer. */
static void turned_away(struct kit *k, uint32_t index, const char *why)
{
	struct rsk_remote_msg m;

	cr_expect_eq(k->r->rail[index].state, RSK_REMOTE_RAIL_IDLE, "%s", why);
	cr_expect_eq(k->r->rail[index].reservation.port_table, 0, "%s", why);
	cr_expect_not(kit_hear(k, &m), "%s: something is said of it, type %u", why, m.type);
}

Test(remote_ports, by_how_the_port_stands)
{
	static const enum rsk_port_table_state out[] = { RSK_PORT_TABLE_DRAINED,
							 RSK_PORT_TABLE_DOWN,
							 RSK_PORT_TABLE_OVERLOADED };
	uint32_t generation = 1;
	struct kit k;

	begin(&k);
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {
		stands(out[i]);
		cr_expect_not(kit_comes(&k, 1, generation++, here(1)), "state %u", out[i]);
		turned_away(&k, 1, "as it stands");
		cr_expect(kit_comes(&k, 2, generation++, here(2)), "one that rsockd does not know");
		kit_rail_down(&k, 2, -ECONNREFUSED);
	}
	cr_expect_eq(reserved(), 0);
	stands(RSK_PORT_TABLE_UP);
	cr_assert(kit_comes(&k, 1, generation, here(1)));
	cr_expect_eq(reserved(), 1);
	rsk_remote_host.up(NULL, &k.r->rail[1]);
	cr_expect_eq(reserved(), 1, "it is the same one");
}

/* What the rail needs is reserved before it is admitted, and released if it does not come up. */
Test(remote_ports, by_what_is_left)
{
	struct kit k;

	begin(&k);
	cr_assert(kit_comes(&k, 1, 1, here(1)));
	cr_expect_eq(reserved(), 1);
	cr_expect_not(kit_comes(&k, 2, 1, here(1)), "there is no room");
	turned_away(&k, 2, "no room");
	cr_expect_eq(reserved(), 1);
	kit_rail_down(&k, 1, -ETIMEDOUT);
	cr_expect_eq(reserved(), 0);
	cr_expect(kit_comes(&k, 2, 2, here(1)));
	cr_expect_eq(reserved(), 1);
}

/*
 * The peer dials anew: the state of the former attempt is dropped, whether this one is admitted or
 * not.
 */
Test(remote_ports, another_attempt)
{
	struct kit k;

	begin(&k);
	cr_assert(kit_comes(&k, 1, 1, here(1)));
	cr_assert(kit_comes(&k, 1, 2, here(1)));
	cr_expect_eq(reserved(), 1);
	cr_expect(kit_comes(&k, 1, 3, here(2)), "by another port");
	cr_expect_eq(reserved(), 0);
	cr_assert(kit_comes(&k, 1, 4, here(1)));
	stands(RSK_PORT_TABLE_DRAINED);
	cr_expect_not(kit_comes(&k, 1, 5, here(1)));
	turned_away(&k, 1, "drained");
	cr_expect_eq(reserved(), 0);
}

/*
 * The first rail belongs to the mapping, which rsockd has decided on; an unknown address is not in
 * the port table.
 */
Test(remote_ports, no_further_rail)
{
	const struct rsk_verbs_addr unknown = { .family = 0 };
	struct kit k;

	begin(&k);
	stands(RSK_PORT_TABLE_DRAINED);
	cr_expect(kit_comes(&k, 1, 1, &unknown));
	rsk_remote_broken(k.r, -EPIPE);
	cr_expect(kit_comes(&k, 0, 2, here(1)));
	cr_expect_eq(reserved(), 0);
}

/* A rejected initiator sends no message, and tries again later. */
Test(remote_ports, the_other_end)
{
	struct rsk_remote_msg m;
	uint64_t before;
	struct kit k;

	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	while (kit_hear(&k, &m))
		;
	k.r->rail[1].to = kit_candidate(1, 2, 1).addr;
	before = rsk_now_ns();
	for (uint32_t i = 0; i < 20; i++) {
		rsk_remote_rail_begin(&k.r->rail[1]);
		cr_assert(kit_connecting(&k, 1));
		kit_rail_down(&k, 1, -ECONNREFUSED);
		turned_away(&k, 1, "refused");
	}
	cr_expect_gt(k.r->rail[1].due_ns, before + 6000000000u, "more and more seldom");
}
