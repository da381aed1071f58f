// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_port_reservations_taken.c - tests what a process takes of ports in rsockd's port table and
 * gives back, and what it still has to give back while a record is busy. The fabric's locked access
 * is wrapped, so that a test can make a record busy, which contention does only rarely.
 */
#include "port_reservations_kit.h"

/* ---- the fabric ---- */

static bool busy;     /* for processes that are not the owner */
static uint32_t done; /* changes by those */

int __real_rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op);
int __wrap_rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op);

int __wrap_rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op)
{
	int rc;

	if (busy && op->by->me != RSK_PORT_TABLE_OWNER)
		return -EBUSY;
	rc = __real_rsk_shm_locked(rail, op);
	done += rc > 0 && op->kind == RSK_LOCKED_SHARE;
	return rc;
}

/* ---- taken and given back ---- */

Test(shares_taken, taken_and_given, .init = shares_set, .fini = shares_end)
{
	struct rsk_reservation s[ROOM] = { { 0 } }, more = { 0 };

	for (uint32_t i = 0; i < ROOM; i++)
		cr_assert_eq(rsk_reservations_take(&s[i], UP), 0);
	cr_assert_eq(reserved(UP), ROOM);
	cr_assert_eq(rsk_reservations_take(&more, UP), -ENOSPC);
	cr_assert_eq(more.port_table, 0, "it has nothing");
	rsk_reservations_give(&more);
	cr_assert_eq(reserved(UP), ROOM);
	cr_assert_eq(rsk_reservations_take(&s[0], UP), 0, "it has it");
	rsk_reservations_give(&s[0]);
	rsk_reservations_give(&s[0]);
	cr_assert_eq(reserved(UP), ROOM - 1, "once");
	/* It uses another port now. */
	cr_assert_eq(rsk_reservations_take(&s[1], OTHER), 0);
	cr_assert_eq(reserved(UP), ROOM - 2);
	cr_assert_eq(reserved(OTHER), 1);
	cr_assert_eq(rsk_reservations_take(&s[1], RSK_PORT_TABLE_NOWHERE), 0,
		     "one that is not listed");
	cr_assert_eq(reserved(OTHER), 0);
	cr_assert_eq(s[1].port_table, 0);
	for (uint32_t i = 2; i < ROOM; i++)
		rsk_reservations_give(&s[i]);
	cr_assert_eq(reserved(UP), 0);
}

/* It gives back what it took, even if a rail takes another amount by then. */
Test(shares_taken, one_takes_something_else_now, .init = shares_set, .fini = shares_end)
{
	struct rsk_port_table_data t = table();
	struct rsk_reservation s = { 0 };

	cr_assert_eq(rsk_reservations_take(&s, UP), 0);
	t.need[1] = 2;
	rsk_port_table_write(&owner, &t);
	cr_assert(look());
	rsk_reservations_give(&s);
	cr_assert_eq(reserved(UP), 0);
	t.need[0] = UINT64_MAX;
	rsk_port_table_write(&owner, &t);
	cr_assert(look());
	cr_assert_eq(rsk_reservations_take(&s, UP), -ENOSPC, "more than there can be");
	cr_assert_eq(reserved(UP), 0);
}

/*
 * rsockd took the process for dead: all that it had there counts as given back, and is not given
 * back again.
 */
Test(shares_taken, another_life, .init = shares_set, .fini = shares_end)
{
	struct rsk_reservation old[3] = { { 0 } }, s = { 0 };

	for (int i = 0; i < 3; i++)
		cr_assert_eq(rsk_reservations_take(&old[i], UP), 0);
	cr_assert_eq(rsk_port_table_leave(&owner, UP, ME), 0);
	rsk_reservations_give(&old[0]);
	cr_assert_eq(reserved(UP), 0);
	cr_assert_eq(rsk_reservations_take(&s, UP), 0);
	cr_assert_eq(reserved(UP), 1);
	cr_assert_eq(rsk_reservations_take(&old[1], UP), 0);
	cr_assert_eq(reserved(UP), 2,
		     "a rail that is there has nothing any more, and takes it anew");
	rsk_reservations_give(&old[2]);
	cr_assert_eq(reserved(UP), 2, "that is others'");
	rsk_reservations_give(&s);
	rsk_reservations_give(&old[1]);
	cr_assert_eq(reserved(UP), 0);
}

/* ---- to be given back later ---- */

/*
 * The record is busy when the reservation is to be given back: that happens at the next check, at
 * once for each port.
 */
Test(shares_taken, owed_while_it_is_busy, .init = shares_set, .fini = shares_end)
{
	struct rsk_reservation s[5] = { { 0 } };

	cr_assert_eq(rsk_reservations_owed_next(), UINT64_MAX);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(rsk_reservations_take(&s[i], i < 3 ? UP : OTHER), 0);
	busy = true;
	for (int i = 0; i < 4; i++) {
		rsk_reservations_give(&s[i]);
		cr_assert_eq(s[i].port_table, 0, "the rail has nothing any more");
		rsk_reservations_give(&s[i]);
	}
	cr_assert_eq(reserved(UP), 3);
	cr_assert_eq(rsk_reservations_owed_next(), rsk_reservations_next(),
		     "the progress thread has to look, links or not");
	cr_assert_not(look());
	cr_assert_eq(reserved(UP), 3, "it is still busy");
	cr_assert_eq(rsk_reservations_take(&s[0], UP), -EBUSY);
	busy = false;
	done = 0;
	cr_assert_not(rsk_reservations_check(now + 1), "not due");
	cr_assert_eq(reserved(UP), 3);
	cr_assert_not(look());
	cr_assert_eq(reserved(UP), 0);
	cr_assert_eq(reserved(OTHER), 1, "what was not given back stays");
	cr_assert_eq(done, 2, "changes");
	cr_assert_eq(rsk_reservations_owed_next(), UINT64_MAX);
	cr_assert_not(look());
	rsk_reservations_give(&s[4]);
	cr_assert_eq(reserved(OTHER), 0, "once");
}

/* Also while the table cannot be read. */
Test(shares_taken, owed_and_no_table, .init = shares_set, .fini = shares_end)
{
	struct rsk_port_table_head *head = (void *)owner.rail.window;
	struct rsk_reservation s = { 0 };

	cr_assert_eq(rsk_reservations_take(&s, UP), 0);
	busy = true;
	rsk_reservations_give(&s);
	busy = false;
	head->seq |= 1;
	cr_assert_not(look());
	cr_assert_eq(reserved(UP), 0);
}

/*
 * Nothing has to be given back to another table, nor what was given back for a process that was
 * taken for dead.
 */
Test(shares_taken, owed_to_what_is_no_more, .init = shares_set, .fini = shares_end)
{
	struct rsk_reservation s[4] = { { 0 } };
	struct rsk_port_table second;
	int fd = port_table(&second, ROOM);

	for (int i = 0; i < 3; i++)
		cr_assert_eq(rsk_reservations_take(&s[i], UP), 0);
	busy = true;
	rsk_reservations_give(&s[0]);
	busy = false;
	cr_assert_eq(rsk_port_table_leave(&owner, UP, ME), 0);
	cr_assert_eq(rsk_reservations_take(&s[3], UP), 0); /* it notices that, and joins again */
	cr_assert_not(look());
	cr_assert_eq(rsk_reservations_owed_next(), UINT64_MAX);
	cr_assert_eq(reserved(UP), 1, "that is the new rail's");
	busy = true;
	rsk_reservations_give(&s[3]);
	cr_assert_neq(rsk_reservations_owed_next(), UINT64_MAX);
	came(fd, ME);
	cr_assert(look());
	cr_assert_eq(rsk_reservations_owed_next(), UINT64_MAX);
	busy = false;
	cr_assert_eq(rsk_reservations_take(&s[0], UP), 0);
	cr_assert_not(look());
	cr_assert_eq(reserved_at(&second, UP), 1);
	cr_assert_eq(reserved(UP), 1);
	busy = true;
	rsk_reservations_give(&s[0]);
	rsk_reservations_forked();
	cr_assert_eq(rsk_reservations_owed_next(), UINT64_MAX, "a child owes nothing");
	rsk_port_table_detach(&second);
	close(fd);
}

/* A record that was overwritten takes nothing back. */
Test(shares_taken, owed_to_what_is_spoiled, .init = shares_set, .fini = shares_end)
{
	uint64_t *word = (uint64_t *)(void *)(owner.rail.window + owner.at[UP].off);
	struct rsk_reservation s = { 0 };

	cr_assert_eq(rsk_reservations_take(&s, UP), 0);
	busy = true;
	rsk_reservations_give(&s);
	busy = false;
	__atomic_store_n(word, 0, __ATOMIC_RELAXED);
	cr_assert_not(look());
	cr_assert_eq(rsk_reservations_owed_next(), UINT64_MAX, "nobody is woken for that");
}
