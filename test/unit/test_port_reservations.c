// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_port_reservations.c - tests a process's end of rsockd's port table: its arrival and removal,
 * and the states of ports.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "port_reservations_kit.h"

static struct rsk_verbs_device_addr place(uint8_t last, uint16_t device)
{
	return (struct rsk_verbs_device_addr){
		.addr = { .ip = { 10, 0, 0, last }, .family = AF_INET }, .device = device
	};
}

/* Every query finds nothing. */
static void nothing_is_known(void)
{
	const struct rsk_verbs_device_addr own[] = { place(UP, 0) };
	struct rsk_reservation s = { 0 };

	cr_assert_eq(rsk_reservations_next(), UINT64_MAX);
	cr_assert_eq(rsk_reservations_port(own, 1, 0), RSK_PORT_TABLE_NOWHERE);
	cr_assert_eq(rsk_reservations_port(own, 0, 0), RSK_PORT_TABLE_NOWHERE);
	for (uint32_t i = 0; i <= RSK_PORT_TABLE_PORTS; i++) {
		cr_assert_eq(rsk_reservations_state(i), RSK_RESERVATION_FREE);
		cr_assert_not(rsk_reservations_spare(i));
		cr_assert_eq(rsk_reservations_take(&s, i), 0, "whatever is asked may be done");
		cr_assert_eq(s.port_table, 0, "nothing is reserved");
		rsk_reservations_give(&s);
	}
	cr_assert_eq(rsk_reservations_state(RSK_PORT_TABLE_NOWHERE), RSK_RESERVATION_FREE);
	cr_assert_str_eq(rsk_reservations_name(RSK_PORT_TABLE_NOWHERE), "?");
}

/* ---- arrival and removal ---- */

Test(reservations, without_a_port_table)
{
	cr_assert_not(look(), "nothing came");
	nothing_is_known();
	came(-1, 0);
	cr_assert(look(), "it was said that there is none");
	cr_assert_not(look(), "once");
	nothing_is_known();
}

Test(reservations, it_comes, .fini = shares_end)
{
	struct rsk_port_table_data t = table();

	memfd = port_table(&owner, ROOM);
	came(memfd, ME);
	nothing_is_known(); /* the progress thread has not seen it */
	cr_assert(look());
	cr_assert_eq(rsk_reservations_next(), now + SECOND);
	cr_assert_eq(rsk_reservations_state(UP), RSK_RESERVATION_UP);
	cr_assert_not(rsk_reservations_check(now + SECOND - 1), "not due");
	cr_assert_eq(rsk_reservations_next(), now + SECOND);
	cr_assert_not(look(), "all is as it was");
	cr_assert_eq(rsk_reservations_next(), now + SECOND);
	t.port[UP].state = RSK_PORT_TABLE_DRAINED;
	rsk_port_table_write(&owner, &t);
	cr_assert_not(rsk_reservations_check(now + SECOND - 1), "not due");
	cr_assert_eq(rsk_reservations_state(UP), RSK_RESERVATION_UP);
	cr_assert(look());
	cr_assert_eq(rsk_reservations_state(UP), RSK_RESERVATION_OUT);
	came(-1, 0);
	cr_assert_eq(rsk_reservations_state(UP), RSK_RESERVATION_OUT,
		     "until the progress thread has seen it");
	cr_assert(rsk_reservations_check(now), "at once");
	nothing_is_known();
}

Test(reservations, what_is_no_port_table, .init = shares_set, .fini = shares_end)
{
	int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);

	came(fd, ME);
	cr_assert(look());
	nothing_is_known();
	came(memfd, RSK_PORT_TABLE_OWNER);
	cr_assert(look(), "nor is it with rsockd's number");
	nothing_is_known();
	came(memfd, ME);
	cr_assert(look());
	cr_assert_eq(rsk_reservations_state(UP), RSK_RESERVATION_UP);
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

Test(reservations, another_one_in_its_place, .init = shares_set, .fini = shares_end)
{
	struct rsk_reservation s = { 0 }, other = { 0 };
	struct rsk_port_table second, third;
	int fd2 = port_table(&second, ROOM), fd3 = port_table(&third, ROOM);

	cr_assert_eq(maps("rsock-ports"), 4, "three of owners, and ours");
	cr_assert_eq(rsk_reservations_take(&s, UP), 0);
	cr_assert_eq(reserved(UP), 1);
	came(fd2, ME);
	came(fd3, ME + 1); /* before the progress thread has checked */
	cr_assert_eq(maps("rsock-ports"), 5, "the one that nobody has seen is gone");
	cr_assert(look());
	cr_assert_eq(maps("rsock-ports"), 4);
	cr_assert_eq(rsk_reservations_take(&other, UP), 0);
	rsk_reservations_give(&s);
	cr_assert_eq(s.port_table, 0);
	cr_assert_eq(reserved_at(&third, UP), 1,
		     "of the former one there is nothing to give back here");
	cr_assert_eq(reserved(UP), 1, "rsockd gives it back there");
	/* An existing rail takes its reservation in the new table. */
	came(fd2, ME);
	cr_assert(look());
	cr_assert_eq(rsk_reservations_take(&other, UP), 0);
	cr_assert_eq(reserved_at(&second, UP), 1);
	cr_assert_eq(rsk_reservations_take(&other, UP), 0);
	cr_assert_eq(reserved_at(&second, UP), 1, "once");
	rsk_reservations_give(&other);
	cr_assert_eq(reserved_at(&second, UP), 0);
	cr_assert_eq(reserved_at(&third, UP), 1);
	rsk_port_table_detach(&second);
	rsk_port_table_detach(&third);
	close(fd2);
	close(fd3);
}

/* The child has none, and gives nothing back that is its parent's. */
Test(reservations, forked, .init = shares_set, .fini = shares_end)
{
	struct rsk_reservation s = { 0 };
	int status;
	pid_t pid;

	cr_assert_eq(rsk_reservations_take(&s, UP), 0);
	came(memfd, ME + 1);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		rsk_reservations_forked();
		if (maps("rsock-ports") != 0)
			_exit(1);
		if (rsk_reservations_check(now + 2 * SECOND) ||
		    rsk_reservations_next() != UINT64_MAX ||
		    rsk_reservations_state(UP) != RSK_RESERVATION_FREE)
			_exit(2);
		rsk_reservations_give(&s);
		_exit(rsk_reservations_take(&s, UP) || s.port_table ? 3 : 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "%x", status);
	cr_assert_eq(reserved(UP), 1);
	rsk_reservations_give(&s);
	cr_assert_eq(reserved(UP), 0);
}

/* ---- states of ports ---- */

Test(reservations, states, .init = shares_set, .fini = shares_end)
{
	static const enum rsk_reservation_state states[] = {
		[UP] = RSK_RESERVATION_UP,     [SPARE] = RSK_RESERVATION_SPARE,
		[FULL] = RSK_RESERVATION_FULL, [DRAINED] = RSK_RESERVATION_OUT,
		[DOWN] = RSK_RESERVATION_OUT,  [OTHER] = RSK_RESERVATION_UP,
		[NONE] = RSK_RESERVATION_FREE
	};
	const struct rsk_verbs_device_addr own[] = { place(99, 4), place(UP, 2), place(SPARE, 4),
						     place(OTHER, 1), place(98, 1) };
	struct rsk_port_table_data t = table();

	for (uint32_t i = 0; i <= NONE; i++) {
		cr_assert_eq(rsk_reservations_state(i), states[i], "port %u", i);
		cr_assert_eq(rsk_reservations_spare(i), i == SPARE);
	}
	cr_assert_str_eq(rsk_reservations_name(OTHER), "rnic5");
	cr_assert_eq(rsk_reservations_port(own, 5, 4), SPARE, "by any address of the device");
	cr_assert_eq(rsk_reservations_port(own, 5, 1), OTHER);
	cr_assert_eq(rsk_reservations_port(own, 5, 2), UP);
	cr_assert_eq(rsk_reservations_port(own, 5, 3), RSK_PORT_TABLE_NOWHERE, "no such device");
	cr_assert_eq(rsk_reservations_port(own, 1, 4), RSK_PORT_TABLE_NOWHERE,
		     "that has an address of none");
	t.port[SPARE].state = RSK_PORT_TABLE_DRAINED;
	rsk_port_table_write(&owner, &t);
	cr_assert(look());
	cr_assert_eq(rsk_reservations_state(SPARE), RSK_RESERVATION_OUT);
	cr_assert(rsk_reservations_spare(SPARE), "however it stands");
}

/* The last known state stays while a table cannot be read. */
Test(reservations, a_table_that_is_none, .init = shares_set, .fini = shares_end)
{
	struct rsk_port_table_head *head = (void *)owner.rail.window;
	struct rsk_port_table_data t = table(), bad = table();

	t.port[UP].state = RSK_PORT_TABLE_DOWN;
	rsk_port_table_write(&owner, &t);
	head->seq |= 1;
	cr_assert_not(look(), "it is being written");
	cr_assert_eq(rsk_reservations_state(UP), RSK_RESERVATION_UP);
	cr_assert_eq(rsk_reservations_next(), now + SECOND, "at the next look");
	rsk_port_table_write(&owner, &t);
	cr_assert(look());
	cr_assert_eq(rsk_reservations_state(UP), RSK_RESERVATION_OUT);
	bad.port[UP].state = RSK_PORT_TABLE_STATES;
	rsk_port_table_write(&owner, &bad);
	cr_assert_not(look(), "nobody writes such a thing");
	cr_assert_eq(rsk_reservations_state(UP), RSK_RESERVATION_OUT);
	cr_assert_eq(rsk_reservations_state(OTHER), RSK_RESERVATION_UP);
	t = table();
	rsk_port_table_write(&owner, &t);
	cr_assert(look(), "whole again");
	cr_assert_eq(rsk_reservations_state(UP), RSK_RESERVATION_UP);
}
