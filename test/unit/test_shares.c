// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_shares.c - a process's end of rsockd's board, at real boards of this process: what comes and goes, how ports
 * stand, what is taken, given back, and owed while a record is busy. The fabric's locked access is wrapped: it can be
 * told to find a record busy, which contention does only now and then.
 */
#include "shares.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "join.h"

#define SECOND 1000000000ull
#define ME 3u
#define ROOM 6u

enum {
	UP,
	SPARE,
	FULL,
	DRAINED,
	DOWN,
	OTHER,
	NONE
}; /* ports of the table */

static struct rsk_board owner;
static int memfd = -1;
static uint64_t now = 7;

/* ---- the fabric ---- */

static bool busy;     /* for those that are no owner */
static uint32_t done; /* changes by them */

int __real_rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token);
int __wrap_rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token);

int __wrap_rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token)
{
	int rc;

	if (busy && op->by->me != RSK_BOARD_OWNER)
		return -EBUSY;
	rc = __real_rsk_shm_locked(rail, op, token);
	done += rc > 0 && op->kind == RSK_LOCKED_SHARE;
	return rc;
}

/* ---- a board ---- */

static struct rsk_board_table table(void)
{
	static const uint32_t states[NONE] = { RSK_BOARD_UP,	     RSK_BOARD_UP,
					       RSK_BOARD_OVERLOADED, RSK_BOARD_DRAINED,
					       RSK_BOARD_DOWN,	     RSK_BOARD_UP };
	struct rsk_board_table t = { .need = { 100, 1, 3 } };

	memset(t.port, 0, sizeof(t.port));
	for (uint32_t i = 0; i < NONE; i++) {
		snprintf(t.port[i].name, sizeof(t.port[i].name), "rnic%u", i);
		t.port[i].state = states[i];
		t.port[i].spare = i == SPARE;
		t.port[i].family[0] = AF_INET;
		memcpy(t.port[i].ip[0], (const uint8_t[]){ 10, 0, 0, (uint8_t)i }, 4);
	}
	return t;
}

/* With room for @room rails at each port. */
static int board(struct rsk_board *b, uint64_t room)
{
	const uint64_t limit[] = { 100 * room, room, 3 * room };
	struct rsk_board_table t = table();
	int fd = rsk_board_create(b);

	cr_assert_geq(fd, 0, "%d", fd);
	for (uint32_t i = 0; i < NONE; i++) {
		cr_assert_eq(rsk_board_open(b, i), 0);
		cr_assert_eq(rsk_board_limit(b, i, limit), 0);
	}
	rsk_board_write(b, &t);
	return fd;
}

static void came(int fd, uint32_t number)
{
	rsk_join_take();
	rsk_shares_came(fd, number);
	rsk_join_give();
}

static bool look(void)
{
	now += SECOND;
	return rsk_shares_look(now);
}

static void set(void)
{
	memfd = board(&owner, ROOM);
	came(memfd, ME);
	cr_assert(look());
}

static void end(void)
{
	rsk_board_detach(&owner);
	close(memfd);
}

static uint64_t reserved_at(struct rsk_board *b, uint32_t port)
{
	struct rsk_reserve_figures f;
	int rc = rsk_board_figures(b, port, &f);

	cr_assert_eq(rc, 0, "%d", rc);
	cr_assert_eq(f.reserved[RSK_RESERVE_MEMORY_MAPS], 3 * f.reserved[RSK_RESERVE_SESSIONS]);
	cr_assert_eq(f.reserved[RSK_RESERVE_BPS], 100 * f.reserved[RSK_RESERVE_SESSIONS]);
	return f.reserved[RSK_RESERVE_SESSIONS];
}

static uint64_t reserved(uint32_t port)
{
	return reserved_at(&owner, port);
}

static struct rsk_verbs_place place(uint8_t last, uint16_t device)
{
	return (struct rsk_verbs_place){ .addr = { .ip = { 10, 0, 0, last }, .family = AF_INET },
					 .device = device };
}

/* Whatever it is asked, there is nothing. */
static void nothing_is_known(void)
{
	const struct rsk_verbs_place own[] = { place(UP, 0) };
	struct rsk_share s = { 0 };

	cr_assert_eq(rsk_shares_next(), UINT64_MAX);
	cr_assert_eq(rsk_shares_port(own, 1, 0), RSK_BOARD_NOWHERE);
	cr_assert_eq(rsk_shares_port(own, 0, 0), RSK_BOARD_NOWHERE);
	for (uint32_t i = 0; i <= RSK_BOARD_PORTS; i++) {
		cr_assert_eq(rsk_shares_state(i), RSK_SHARE_FREE);
		cr_assert_not(rsk_shares_spare(i));
		cr_assert_eq(rsk_shares_take(&s, i), 0, "whatever is asked may be done");
		cr_assert_eq(s.board, 0, "nothing is reserved");
		rsk_shares_give(&s);
	}
	cr_assert_eq(rsk_shares_state(RSK_BOARD_NOWHERE), RSK_SHARE_FREE);
	cr_assert_str_eq(rsk_shares_name(RSK_BOARD_NOWHERE), "?");
}

/* ---- it comes and goes ---- */

Test(shares, without_a_board)
{
	cr_assert_not(look(), "nothing came");
	nothing_is_known();
	came(-1, 0);
	cr_assert(look(), "it was said that there is none");
	cr_assert_not(look(), "once");
	nothing_is_known();
}

Test(shares, it_comes, .fini = end)
{
	struct rsk_board_table t = table();

	memfd = board(&owner, ROOM);
	came(memfd, ME);
	nothing_is_known(); /* the keeper has not seen it */
	cr_assert(look());
	cr_assert_eq(rsk_shares_next(), now + SECOND);
	cr_assert_eq(rsk_shares_state(UP), RSK_SHARE_UP);
	cr_assert_not(rsk_shares_look(now + SECOND - 1), "not due");
	cr_assert_eq(rsk_shares_next(), now + SECOND);
	cr_assert_not(look(), "all is as it was");
	cr_assert_eq(rsk_shares_next(), now + SECOND);
	t.port[UP].state = RSK_BOARD_DRAINED;
	rsk_board_write(&owner, &t);
	cr_assert_not(rsk_shares_look(now + SECOND - 1), "not due");
	cr_assert_eq(rsk_shares_state(UP), RSK_SHARE_UP);
	cr_assert(look());
	cr_assert_eq(rsk_shares_state(UP), RSK_SHARE_OUT);
	came(-1, 0);
	cr_assert_eq(rsk_shares_state(UP), RSK_SHARE_OUT, "until the keeper has seen it");
	cr_assert(rsk_shares_look(now), "at once");
	nothing_is_known();
}

Test(shares, what_is_no_board, .init = set, .fini = end)
{
	int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);

	came(fd, ME);
	cr_assert(look());
	nothing_is_known();
	came(memfd, RSK_BOARD_OWNER);
	cr_assert(look(), "nor is it with rsockd's number");
	nothing_is_known();
	came(memfd, ME);
	cr_assert(look());
	cr_assert_eq(rsk_shares_state(UP), RSK_SHARE_UP);
	close(fd);
}

static uint32_t maps(const char *name)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");
	uint32_t n = 0;

	cr_assert_not_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, name) != NULL;
	fclose(f);
	return n;
}

Test(shares, another_one_in_its_place, .init = set, .fini = end)
{
	struct rsk_share s = { 0 }, other = { 0 };
	struct rsk_board second, third;
	int fd2 = board(&second, ROOM), fd3 = board(&third, ROOM);

	cr_assert_eq(maps("rsock-board"), 4, "three of owners, and ours");
	cr_assert_eq(rsk_shares_take(&s, UP), 0);
	cr_assert_eq(reserved(UP), 1);
	came(fd2, ME);
	came(fd3, ME + 1); /* before the keeper has looked */
	cr_assert_eq(maps("rsock-board"), 5, "the one that nobody has seen is gone");
	cr_assert(look());
	cr_assert_eq(maps("rsock-board"), 4);
	cr_assert_eq(rsk_shares_take(&other, UP), 0);
	rsk_shares_give(&s);
	cr_assert_eq(s.board, 0);
	cr_assert_eq(reserved_at(&third, UP), 1,
		     "of the former one there is nothing to give back here");
	cr_assert_eq(reserved(UP), 1, "rsockd gives it back there");
	/* A rail that there is takes its share of the new one. */
	came(fd2, ME);
	cr_assert(look());
	cr_assert_eq(rsk_shares_take(&other, UP), 0);
	cr_assert_eq(reserved_at(&second, UP), 1);
	cr_assert_eq(rsk_shares_take(&other, UP), 0);
	cr_assert_eq(reserved_at(&second, UP), 1, "once");
	rsk_shares_give(&other);
	cr_assert_eq(reserved_at(&second, UP), 0);
	cr_assert_eq(reserved_at(&third, UP), 1);
	rsk_board_detach(&second);
	rsk_board_detach(&third);
	close(fd2);
	close(fd3);
}

/* The child has none, and gives nothing back that is its parent's. */
Test(shares, forked, .init = set, .fini = end)
{
	struct rsk_share s = { 0 };
	int status;
	pid_t pid;

	cr_assert_eq(rsk_shares_take(&s, UP), 0);
	came(memfd, ME + 1);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		rsk_shares_forked();
		if (maps("rsock-board") != 1) /* the owner's */
			_exit(1);
		if (rsk_shares_look(now + 2 * SECOND) || rsk_shares_next() != UINT64_MAX ||
		    rsk_shares_state(UP) != RSK_SHARE_FREE)
			_exit(2);
		rsk_shares_give(&s);
		_exit(rsk_shares_take(&s, UP) || s.board ? 3 : 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "%x", status);
	cr_assert_eq(reserved(UP), 1);
	rsk_shares_give(&s);
	cr_assert_eq(reserved(UP), 0);
}

/* ---- how ports stand ---- */

Test(shares, states, .init = set, .fini = end)
{
	static const enum rsk_share_state states[] = {
		[UP] = RSK_SHARE_UP,	   [SPARE] = RSK_SHARE_SPARE, [FULL] = RSK_SHARE_FULL,
		[DRAINED] = RSK_SHARE_OUT, [DOWN] = RSK_SHARE_OUT,    [OTHER] = RSK_SHARE_UP,
		[NONE] = RSK_SHARE_FREE
	};
	const struct rsk_verbs_place own[] = { place(99, 4), place(UP, 2), place(SPARE, 4),
					       place(OTHER, 1), place(98, 1) };
	struct rsk_board_table t = table();

	for (uint32_t i = 0; i <= NONE; i++) {
		cr_assert_eq(rsk_shares_state(i), states[i], "port %u", i);
		cr_assert_eq(rsk_shares_spare(i), i == SPARE);
	}
	cr_assert_str_eq(rsk_shares_name(OTHER), "rnic5");
	cr_assert_eq(rsk_shares_port(own, 5, 4), SPARE, "by any address of the device");
	cr_assert_eq(rsk_shares_port(own, 5, 1), OTHER);
	cr_assert_eq(rsk_shares_port(own, 5, 2), UP);
	cr_assert_eq(rsk_shares_port(own, 5, 3), RSK_BOARD_NOWHERE, "no such device");
	cr_assert_eq(rsk_shares_port(own, 1, 4), RSK_BOARD_NOWHERE, "that has an address of none");
	t.port[SPARE].state = RSK_BOARD_DRAINED;
	rsk_board_write(&owner, &t);
	cr_assert(look());
	cr_assert_eq(rsk_shares_state(SPARE), RSK_SHARE_OUT);
	cr_assert(rsk_shares_spare(SPARE), "however it stands");
}

/* What was known stays while a table cannot be read. */
Test(shares, a_table_that_is_none, .init = set, .fini = end)
{
	struct rsk_board_head *head = (void *)owner.rail.window;
	struct rsk_board_table t = table(), bad = table();

	t.port[UP].state = RSK_BOARD_DOWN;
	rsk_board_write(&owner, &t);
	head->seq |= 1;
	cr_assert_not(look(), "it is being written");
	cr_assert_eq(rsk_shares_state(UP), RSK_SHARE_UP);
	cr_assert_eq(rsk_shares_next(), now + SECOND, "at the next look");
	rsk_board_write(&owner, &t);
	cr_assert(look());
	cr_assert_eq(rsk_shares_state(UP), RSK_SHARE_OUT);
	bad.port[UP].state = RSK_BOARD_STATES;
	rsk_board_write(&owner, &bad);
	cr_assert_not(look(), "nobody writes such a thing");
	cr_assert_eq(rsk_shares_state(UP), RSK_SHARE_OUT);
	cr_assert_eq(rsk_shares_state(OTHER), RSK_SHARE_UP);
	t = table();
	rsk_board_write(&owner, &t);
	cr_assert(look(), "whole again");
	cr_assert_eq(rsk_shares_state(UP), RSK_SHARE_UP);
}

/* ---- shares ---- */

Test(shares, taken_and_given, .init = set, .fini = end)
{
	struct rsk_share s[ROOM] = { { 0 } }, more = { 0 };

	for (uint32_t i = 0; i < ROOM; i++)
		cr_assert_eq(rsk_shares_take(&s[i], UP), 0);
	cr_assert_eq(reserved(UP), ROOM);
	cr_assert_eq(rsk_shares_take(&more, UP), -ENOSPC);
	cr_assert_eq(more.board, 0, "it has nothing");
	rsk_shares_give(&more);
	cr_assert_eq(reserved(UP), ROOM);
	cr_assert_eq(rsk_shares_take(&s[0], UP), 0, "it has it");
	rsk_shares_give(&s[0]);
	rsk_shares_give(&s[0]);
	cr_assert_eq(reserved(UP), ROOM - 1, "once");
	/* By another port now. */
	cr_assert_eq(rsk_shares_take(&s[1], OTHER), 0);
	cr_assert_eq(reserved(UP), ROOM - 2);
	cr_assert_eq(reserved(OTHER), 1);
	cr_assert_eq(rsk_shares_take(&s[1], RSK_BOARD_NOWHERE), 0, "one that is not listed");
	cr_assert_eq(reserved(OTHER), 0);
	cr_assert_eq(s[1].board, 0);
	for (uint32_t i = 2; i < ROOM; i++)
		rsk_shares_give(&s[i]);
	cr_assert_eq(reserved(UP), 0);
}

/* It gives back what it took, whatever one takes by then. */
Test(shares, one_takes_something_else_now, .init = set, .fini = end)
{
	struct rsk_board_table t = table();
	struct rsk_share s = { 0 };

	cr_assert_eq(rsk_shares_take(&s, UP), 0);
	t.need[1] = 2;
	rsk_board_write(&owner, &t);
	cr_assert(look());
	rsk_shares_give(&s);
	cr_assert_eq(reserved(UP), 0);
	t.need[0] = UINT64_MAX;
	rsk_board_write(&owner, &t);
	cr_assert(look());
	cr_assert_eq(rsk_shares_take(&s, UP), -ENOSPC, "more than there can be");
	cr_assert_eq(reserved(UP), 0);
}

/* rsockd took it for dead: all that it had there counts as given back, and is not given back again. */
Test(shares, another_life, .init = set, .fini = end)
{
	struct rsk_share old[3] = { { 0 } }, s = { 0 };

	for (int i = 0; i < 3; i++)
		cr_assert_eq(rsk_shares_take(&old[i], UP), 0);
	cr_assert_eq(rsk_board_leave(&owner, UP, ME), 0);
	rsk_shares_give(&old[0]);
	cr_assert_eq(reserved(UP), 0);
	cr_assert_eq(rsk_shares_take(&s, UP), 0);
	cr_assert_eq(reserved(UP), 1);
	cr_assert_eq(rsk_shares_take(&old[1], UP), 0);
	cr_assert_eq(reserved(UP), 2,
		     "a rail that is there has nothing any more, and takes it anew");
	rsk_shares_give(&old[2]);
	cr_assert_eq(reserved(UP), 2, "that is others'");
	rsk_shares_give(&s);
	rsk_shares_give(&old[1]);
	cr_assert_eq(reserved(UP), 0);
}

/* ---- owed ---- */

/* The record is busy when it is to be given back: it is at the next look, in one go for each port. */
Test(shares, owed_while_it_is_busy, .init = set, .fini = end)
{
	struct rsk_share s[5] = { { 0 } };

	cr_assert_eq(rsk_shares_owed_next(), UINT64_MAX);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(rsk_shares_take(&s[i], i < 3 ? UP : OTHER), 0);
	busy = true;
	for (int i = 0; i < 4; i++) {
		rsk_shares_give(&s[i]);
		cr_assert_eq(s[i].board, 0, "the rail has nothing any more");
		rsk_shares_give(&s[i]);
	}
	cr_assert_eq(reserved(UP), 3);
	cr_assert_eq(rsk_shares_owed_next(), rsk_shares_next(),
		     "the keeper has to look, links or not");
	cr_assert_not(look());
	cr_assert_eq(reserved(UP), 3, "it is still busy");
	cr_assert_eq(rsk_shares_take(&s[0], UP), -EBUSY);
	busy = false;
	done = 0;
	cr_assert_not(rsk_shares_look(now + 1), "not due");
	cr_assert_eq(reserved(UP), 3);
	cr_assert_not(look());
	cr_assert_eq(reserved(UP), 0);
	cr_assert_eq(reserved(OTHER), 1, "what was not given back stays");
	cr_assert_eq(done, 2, "changes");
	cr_assert_eq(rsk_shares_owed_next(), UINT64_MAX);
	cr_assert_not(look());
	rsk_shares_give(&s[4]);
	cr_assert_eq(reserved(OTHER), 0, "once");
}

/* Also while the table cannot be read. */
Test(shares, owed_and_no_table, .init = set, .fini = end)
{
	struct rsk_board_head *head = (void *)owner.rail.window;
	struct rsk_share s = { 0 };

	cr_assert_eq(rsk_shares_take(&s, UP), 0);
	busy = true;
	rsk_shares_give(&s);
	busy = false;
	head->seq |= 1;
	cr_assert_not(look());
	cr_assert_eq(reserved(UP), 0);
}

/* Of another board nothing is owed, nor of what was given back for a process that was taken for dead. */
Test(shares, owed_to_what_is_no_more, .init = set, .fini = end)
{
	struct rsk_share s[4] = { { 0 } };
	struct rsk_board second;
	int fd = board(&second, ROOM);

	for (int i = 0; i < 3; i++)
		cr_assert_eq(rsk_shares_take(&s[i], UP), 0);
	busy = true;
	rsk_shares_give(&s[0]);
	busy = false;
	cr_assert_eq(rsk_board_leave(&owner, UP, ME), 0);
	cr_assert_eq(rsk_shares_take(&s[3], UP), 0); /* it finds out, and joins */
	cr_assert_not(look());
	cr_assert_eq(rsk_shares_owed_next(), UINT64_MAX);
	cr_assert_eq(reserved(UP), 1, "that is the new rail's");
	busy = true;
	rsk_shares_give(&s[3]);
	cr_assert_neq(rsk_shares_owed_next(), UINT64_MAX);
	came(fd, ME);
	cr_assert(look());
	cr_assert_eq(rsk_shares_owed_next(), UINT64_MAX);
	busy = false;
	cr_assert_eq(rsk_shares_take(&s[0], UP), 0);
	cr_assert_not(look());
	cr_assert_eq(reserved_at(&second, UP), 1);
	cr_assert_eq(reserved(UP), 1);
	busy = true;
	rsk_shares_give(&s[0]);
	rsk_shares_forked();
	cr_assert_eq(rsk_shares_owed_next(), UINT64_MAX, "a child owes nothing");
	rsk_board_detach(&second);
	close(fd);
}

/* One that somebody has spoiled takes nothing back. */
Test(shares, owed_to_what_is_spoiled, .init = set, .fini = end)
{
	uint64_t *word = (uint64_t *)(void *)(owner.rail.window + owner.at[UP].off);
	struct rsk_share s = { 0 };

	cr_assert_eq(rsk_shares_take(&s, UP), 0);
	busy = true;
	rsk_shares_give(&s);
	busy = false;
	__atomic_store_n(word, 0, __ATOMIC_RELAXED);
	cr_assert_not(look());
	cr_assert_eq(rsk_shares_owed_next(), UINT64_MAX, "nobody is woken for that");
}
