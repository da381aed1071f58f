// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rail_spares.c - tests rails over spare ports that give way to an active port: the initiator
 * has all of its rails over spare ports, of its own host or of the other one, and needs the number
 * of one of them. The test is rsockd, which writes the port table, and the other end.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "pairing.h"
#include "remote_kit.h"

#define DEVICES 3u /* of each end; the first is active, the others are spare */
#define ROOM 100u

static struct rsk_port_table owner;
static struct rsk_port_table_data table;

/* A second passes: the progress thread checks the port table, and each link works. */
static void pass(struct kit *k)
{
	static uint64_t now_ns;

	rsk_port_table_write(&owner, &table);
	rsk_remote_ports_check(now_ns += 2000000000u);
	rsk_remote_rails_work(k->r, rsk_now_ns());
}

/* The other end lists its devices [from, DEVICES), the first as the last, with what each is for. */
static void lists(struct kit *k, uint32_t from, const enum rsk_remote_use use[static DEVICES])
{
	for (uint32_t i = DEVICES; i-- > from;)
		kit_say(k, (struct rsk_remote_msg){
				   .type = RSK_REMOTE_CANDIDATE,
				   .rail = RSK_RAILS_MOST,
				   .gaps = DEVICES - 1 - i,
				   .generation = DEVICES - from,
				   .candidate = kit_candidate(0, (uint8_t)(20 + i), (uint16_t)i),
				   .use = use[i] });
	rsk_remote_candidates_work(k->r);
}

static void listed(struct kit *k, uint32_t from, enum rsk_remote_use first,
		   enum rsk_remote_use others)
{
	lists(k, from, (const enum rsk_remote_use[DEVICES]){ first, others, others });
}

/* A host with its port table. @spares: its devices from the second on. The first one is down. */
static void host(bool spares)
{
	const uint64_t limit[] = { UINT64_MAX, ROOM, UINT64_MAX };
	int fd;

	kit_init();
	fd = rsk_port_table_create(&owner);
	cr_assert_geq(fd, 0);
	table.need[1] = 1;
	kit_candidates_n = DEVICES;
	for (uint32_t i = 0; i < DEVICES; i++) {
		/* The first is the last that is found. */
		struct rsk_verbs_device_addr *at = &kit_candidates[DEVICES - 1 - i];

		*at = kit_candidate(0, (uint8_t)(10 + i), (uint16_t)i);
		cr_assert_eq(rsk_port_table_open(&owner, i), 0);
		cr_assert_eq(rsk_port_table_limit(&owner, i, limit), 0);
		table.port[i].state = i ? RSK_PORT_TABLE_UP : RSK_PORT_TABLE_DOWN;
		table.port[i].spare = i && spares;
		table.port[i].family[0] = AF_INET;
		memcpy(table.port[i].ip[0], at->addr.ip, sizeof(table.port[i].ip[0]));
	}
	rsk_pairing_take();
	rsk_reservations_came(fd, 1);
	rsk_pairing_give();
	close(fd);
}

/* All devices are in one network with the other end's. */
static void begin(struct kit *k, bool own_spares)
{
	host(own_spares);
	kit_link(k, true);
	pass(k);
	/* By the mapping, the first rail is between spares. */
	k->r->rail[0].from = kit_candidates[1].addr;
	k->r->rail[0].to = kit_candidate(0, 21, 1).addr;
	kit_rail_up(k, 0);
}

/* Numbers of the devices that a rail uses, from their addresses. */
static uint32_t own(const struct kit *k, uint32_t i)
{
	return k->r->rail[i].from.ip[3] - 10u;
}

static uint32_t theirs(const struct kit *k, uint32_t i)
{
	return k->r->rail[i].to.family ? k->r->rail[i].to.ip[3] - 20u : UINT32_MAX;
}

/* All numbers are in use by rails that are up. */
static void all_up(struct kit *k)
{
	struct rsk_remote_msg m;

	for (uint32_t i = 1; i < RSK_RAILS_MOST; i++) {
		cr_assert_neq(theirs(k, i), UINT32_MAX, "rail %u has no way", i);
		kit_rail_up(k, i);
	}
	pass(k);
	while (kit_hear(k, &m))
		;
}

/* The rail that is lost; RSK_RAILS_MOST: none. */
static uint32_t lost(const struct kit *k)
{
	uint32_t found = RSK_RAILS_MOST;

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (k->r->rail[i].state == RSK_REMOTE_RAIL_LOST) {
			cr_expect_eq(found, RSK_RAILS_MOST, "two at once");
			found = i;
		}
	return found;
}

/* The other end has closed rail @i as well, and misses nothing. */
static void settle(struct kit *k, uint32_t i)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RAIL_DOWN,
				    .rail = i,
				    .generation = k->r->rail[i].generation,
				    .epoch = k->r->epoch };

	kit_say(k, m);
	m.type = RSK_REMOTE_MISSING_END;
	m.pos = 1;
	kit_say(k, m);
	cr_assert_eq(k->r->rail[i].state, RSK_REMOTE_RAIL_IDLE);
}

/* One number is given up, in order; the rail over @device goes by it, and is the only change. */
static void gives_way(struct kit *k, uint32_t (*device)(const struct kit *k, uint32_t i))
{
	struct rsk_remote_msg m;
	bool told = false;
	uint32_t i;

	for (uint32_t n = 0; n < 3 && lost(k) == RSK_RAILS_MOST; n++)
		pass(k);
	i = lost(k);
	cr_assert(i > 0 && i < RSK_RAILS_MOST, "none gives way");
	while (kit_hear(k, &m))
		told |= m.type == RSK_REMOTE_RAIL_DOWN && m.rail == i;
	cr_expect(told, "the other end is not told");
	pass(k);
	cr_assert_eq(lost(k), i, "it is waited for, and no other one ends");
	settle(k, i);
	rsk_remote_rails_work(k->r, rsk_now_ns() + 1000000000u);
	cr_expect_not(kit_connecting(k, i), "by the spare again");
	pass(k);
	cr_assert_eq(theirs(k, i) == UINT32_MAX ? UINT32_MAX : device(k, i), 0, "where it goes");
	cr_expect(kit_connecting(k, i));
	cr_expect_eq(k->r->rail[i].state, RSK_REMOTE_RAIL_COMING);
	/* However long it takes to come up, no other one is given up. */
	for (uint32_t n = 0; n < 3; n++)
		pass(k);
	cr_expect_eq(lost(k), RSK_RAILS_MOST);
	cr_expect_eq(k->r->state, RSK_REMOTE_UP);
}

Test(rail_spares, of_this_host)
{
	struct kit k;
	uint32_t i;

	begin(&k, true);
	listed(&k, 0, RSK_REMOTE_USE_ACTIVE, RSK_REMOTE_USE_ACTIVE);
	all_up(&k);
	for (i = 0; i < RSK_RAILS_MOST; i++)
		cr_assert_neq(own(&k, i), 0, "a rail over the port that is down");
	for (i = 0; i < 3; i++)
		pass(&k);
	cr_assert_eq(lost(&k), RSK_RAILS_MOST, "none ends as long as only spares are up");
	table.port[0].state = RSK_PORT_TABLE_UP;
	gives_way(&k, own);
	/* Then the spares are not needed: as ever, a second after the active one is up. */
	for (i = 1; k.r->rail[i].state != RSK_REMOTE_RAIL_COMING; i++)
		;
	rsk_remote_host.up(NULL, &k.r->rail[i]);
	kit_say(&k, (struct rsk_remote_msg){ .type = RSK_REMOTE_RAIL,
					     .rail = i,
					     .generation = k.r->rail[i].generation,
					     .epoch = k.r->epoch,
					     .end = { .segment = 4096, .indirect = 4096 } });
	cr_assert_eq(k.r->rail[i].state, RSK_REMOTE_RAIL_UP);
	pass(&k);
	pass(&k);
	for (uint32_t n = 1; n < RSK_RAILS_MOST; n++)
		cr_expect_eq(k.r->rail[n].state, n == i ? RSK_REMOTE_RAIL_UP : RSK_REMOTE_RAIL_LOST,
			     "rail %u", n);
	cr_expect_eq(k.r->rail[0].state, RSK_REMOTE_RAIL_UP, "the first rail stays");
}

/* No rail goes to a device of the other end by which that would not let it in. */
static void lets_none_in_by_the_last(enum rsk_remote_use last)
{
	struct kit k;

	begin(&k, true);
	lists(&k, 0,
	      (const enum rsk_remote_use[DEVICES]){ RSK_REMOTE_USE_ACTIVE, RSK_REMOTE_USE_ACTIVE,
						    last });
	all_up(&k);
	table.port[0].state = RSK_PORT_TABLE_UP;
	gives_way(&k, own);
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		cr_expect_neq(theirs(&k, i), DEVICES - 1, "rail %u", i);
}

Test(rail_spares, not_to_what_takes_none)
{
	lets_none_in_by_the_last(RSK_REMOTE_USE_NONE);
}

Test(rail_spares, not_to_a_spare_beside_an_active_one)
{
	lets_none_in_by_the_last(RSK_REMOTE_USE_SPARE);
}

/*
 * Two numbers; this end's active port has a rail to a spare of the other end, which gets an active
 * port as well: what replaces that rail is over both, or it would be replaced next.
 */
Test(rail_spares, active_at_both_ends)
{
	struct rsk_verbs_device_addr first;
	struct kit k;

	begin(&k, true);
	first = kit_candidates[DEVICES - 1]; /* is found first here */
	kit_candidates[DEVICES - 1] = kit_candidates[0];
	kit_candidates[0] = first;
	rsk_knobs.rdma_rails = 2;
	table.port[0].state = RSK_PORT_TABLE_UP;
	pass(&k);
	listed(&k, 1, RSK_REMOTE_USE_NONE, RSK_REMOTE_USE_SPARE);
	cr_assert_eq(own(&k, 1), 0);
	kit_rail_up(&k, 1);
	pass(&k);
	listed(&k, 0, RSK_REMOTE_USE_ACTIVE, RSK_REMOTE_USE_SPARE);
	gives_way(&k, theirs);
	cr_expect_eq(own(&k, 1), 0, "not by the spare");
}

/* After a break, what is listed as active does not keep rails from spares: no rail is up. */
Test(rail_spares, after_a_break)
{
	struct kit k;

	begin(&k, true);
	table.port[0].state = RSK_PORT_TABLE_UP;
	/* Spares have a network of their own. */
	for (uint32_t i = 0; i < DEVICES - 1; i++)
		kit_candidates[i].addr.ip[2] = 77;
	k.r->rail[0].from = kit_candidates[DEVICES - 1].addr;
	k.r->rail[0].to = kit_candidate(0, 20, 0).addr;
	pass(&k);
	for (uint32_t i = 0; i < 2; i++) {
		struct rsk_remote_msg m = {
			.type = RSK_REMOTE_CANDIDATE,
			.rail = RSK_RAILS_MOST,
			.gaps = i,
			.generation = 2,
			.candidate = kit_candidate(0, (uint8_t)(20 + i), (uint16_t)i),
			.use = i ? RSK_REMOTE_USE_SPARE : RSK_REMOTE_USE_ACTIVE
		};

		m.candidate.addr.ip[2] = i ? 77 : m.candidate.addr.ip[2];
		kit_say(&k, m);
	}
	rsk_remote_candidates_work(k.r);
	cr_assert_eq(theirs(&k, 1), UINT32_MAX, "a rail between spares");
	kit_rail_down(&k, 0, -ETIMEDOUT);
	table.port[0].state = RSK_PORT_TABLE_DOWN;
	pass(&k);
	cr_expect_eq(theirs(&k, 1), 1, "none between spares");
}

/* Nothing is given up for a port that has no room. */
Test(rail_spares, an_active_port_without_room)
{
	static const uint64_t none[] = { UINT64_MAX, 0, UINT64_MAX },
			      room[] = { UINT64_MAX, ROOM, UINT64_MAX };
	struct kit k;

	begin(&k, true);
	listed(&k, 0, RSK_REMOTE_USE_ACTIVE, RSK_REMOTE_USE_ACTIVE);
	all_up(&k);
	cr_assert_eq(rsk_port_table_limit(&owner, 0, none), 0);
	table.port[0].state = RSK_PORT_TABLE_UP;
	for (uint32_t n = 0; n < 4; n++)
		pass(&k);
	cr_assert_eq(lost(&k), RSK_RAILS_MOST);
	cr_assert_eq(rsk_port_table_limit(&owner, 0, room), 0);
	gives_way(&k, own);
}

Test(rail_spares, of_the_other_host)
{
	struct kit k;

	begin(&k, false);
	listed(&k, 1, RSK_REMOTE_USE_NONE, RSK_REMOTE_USE_SPARE);
	all_up(&k);
	listed(&k, 0, RSK_REMOTE_USE_ACTIVE, RSK_REMOTE_USE_SPARE);
	gives_way(&k, theirs);
}

/* Not for a port that takes none; and not where the other end does not say what its ports are. */
Test(rail_spares, none_without_an_active_port)
{
	struct kit k;

	begin(&k, true);
	listed(&k, 1, RSK_REMOTE_USE_NONE, RSK_REMOTE_USE_SPARE);
	all_up(&k);
	table.port[0].state = RSK_PORT_TABLE_OVERLOADED;
	listed(&k, 0, RSK_REMOTE_USE_NONE, RSK_REMOTE_USE_SPARE);
	pass(&k);
	listed(&k, 0, RSK_REMOTE_USE_SPARE, RSK_REMOTE_USE_SPARE);
	pass(&k);
	listed(&k, 0, RSK_REMOTE_USE_UNKNOWN, RSK_REMOTE_USE_UNKNOWN);
	pass(&k);
	pass(&k);
	cr_expect_eq(lost(&k), RSK_RAILS_MOST);
}

/* Ports that are not spare keep the rails that they have, also when they take no more. */
Test(rail_spares, overloaded_ones_stay)
{
	struct kit k;

	begin(&k, false);
	listed(&k, 0, RSK_REMOTE_USE_ACTIVE, RSK_REMOTE_USE_ACTIVE);
	all_up(&k);
	table.port[1].state = table.port[2].state = RSK_PORT_TABLE_OVERLOADED;
	table.port[0].state = RSK_PORT_TABLE_UP;
	for (uint32_t n = 0; n < 4; n++)
		pass(&k);
	cr_expect_eq(lost(&k), RSK_RAILS_MOST);
}

/* A rail over a spare that is not up at that time needs no exchange. */
Test(rail_spares, one_that_is_not_up)
{
	struct kit k;
	uint32_t i = RSK_RAILS_MOST - 1;

	begin(&k, true);
	listed(&k, 0, RSK_REMOTE_USE_ACTIVE, RSK_REMOTE_USE_ACTIVE);
	all_up(&k);
	kit_rail_down(&k, i, -ETIMEDOUT);
	settle(&k, i);
	cr_assert_neq(own(&k, i), 0);
	table.port[0].state = RSK_PORT_TABLE_UP;
	pass(&k);
	cr_expect_eq(lost(&k), RSK_RAILS_MOST);
	cr_expect_eq(own(&k, i), 0);
	cr_expect(kit_connecting(&k, i));
}

/* If there is a free number, the active port gets it before a spare one does. */
Test(rail_spares, a_free_number)
{
	struct kit k;

	begin(&k, true);
	table.port[0].state = RSK_PORT_TABLE_UP;
	pass(&k);
	listed(&k, 1, RSK_REMOTE_USE_NONE, RSK_REMOTE_USE_ACTIVE);
	cr_expect_eq(own(&k, 1), 0);
	cr_expect_neq(theirs(&k, 1), UINT32_MAX);
	cr_expect_eq(lost(&k), RSK_RAILS_MOST);
}

/* A link whose last rail would have to end keeps it. */
Test(rail_spares, not_the_last_one)
{
	struct kit k;

	begin(&k, true);
	rsk_knobs.rdma_rails = 2;
	listed(&k, 0, RSK_REMOTE_USE_ACTIVE, RSK_REMOTE_USE_ACTIVE);
	kit_rail_up(&k, 1);
	pass(&k);
	kit_rail_down(&k, 0, -ETIMEDOUT);
	table.port[0].state = RSK_PORT_TABLE_UP;
	pass(&k);
	pass(&k);
	cr_expect_eq(k.r->rail[1].state, RSK_REMOTE_RAIL_UP);
	cr_expect_eq(k.r->state, RSK_REMOTE_UP);
}

/* The last list of candidates that the accepting end has sent: what each device is for. */
static void says(struct kit *k, const enum rsk_remote_use want[static DEVICES])
{
	enum rsk_remote_use use[DEVICES] = { 0 };
	struct rsk_remote_msg m;

	while (kit_hear(k, &m)) {
		if (m.type != RSK_REMOTE_CANDIDATE)
			continue;
		if (!m.gaps)
			memset(use, 0, sizeof(use));
		cr_assert_lt(m.candidate.device, DEVICES);
		use[m.candidate.device] = m.use;
	}
	for (uint32_t i = 0; i < DEVICES; i++)
		cr_expect_eq(use[i], want[i], "device %u: %u", i, use[i]);
}

Test(rail_spares, what_the_accepting_end_says)
{
	static const enum rsk_remote_use down[] = { 0, RSK_REMOTE_USE_SPARE, RSK_REMOTE_USE_SPARE },
					 up[] = { RSK_REMOTE_USE_ACTIVE, RSK_REMOTE_USE_SPARE,
						  RSK_REMOTE_USE_SPARE },
					 drained[] = { RSK_REMOTE_USE_NONE, RSK_REMOTE_USE_SPARE,
						       RSK_REMOTE_USE_SPARE };
	struct kit k;

	host(true);
	kit_link(&k, false);
	pass(&k);
	kit_rail_up(&k, 0);
	pass(&k);
	says(&k, down);
	table.port[0].state = RSK_PORT_TABLE_UP;
	pass(&k);
	says(&k, up);
	table.port[0].state = RSK_PORT_TABLE_DRAINED;
	k.r->here = kit_candidates[DEVICES - 1].addr; /* the first rail was connected to it */
	pass(&k);
	says(&k, drained);
}
