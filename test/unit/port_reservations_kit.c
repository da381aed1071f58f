// SPDX-License-Identifier: BSD-2-Clause
/* port_reservations_kit.c - see port_reservations_kit.h. */
#include "port_reservations_kit.h"

#include <stdio.h>
#include <sys/socket.h>

#include "pairing.h"

struct rsk_port_table owner;
int memfd = -1;
uint64_t now = 7;

struct rsk_port_table_data table(void)
{
	static const uint32_t states[NONE] = { RSK_PORT_TABLE_UP,	  RSK_PORT_TABLE_UP,
					       RSK_PORT_TABLE_OVERLOADED, RSK_PORT_TABLE_DRAINED,
					       RSK_PORT_TABLE_DOWN,	  RSK_PORT_TABLE_UP };
	struct rsk_port_table_data t = { .need = { 100, 1, 3 } };

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

int port_table(struct rsk_port_table *b, uint64_t room)
{
	const uint64_t limit[] = { 100 * room, room, 3 * room };
	struct rsk_port_table_data t = table();
	int fd = rsk_port_table_create(b);

	cr_assert_geq(fd, 0, "%d", fd);
	for (uint32_t i = 0; i < NONE; i++) {
		cr_assert_eq(rsk_port_table_open(b, i), 0);
		cr_assert_eq(rsk_port_table_limit(b, i, limit), 0);
	}
	rsk_port_table_write(b, &t);
	return fd;
}

void came(int fd, uint32_t number)
{
	rsk_pairing_take();
	rsk_reservations_came(fd, number);
	rsk_pairing_give();
}

bool look(void)
{
	now += SECOND;
	return rsk_reservations_check(now);
}

void shares_set(void)
{
	memfd = port_table(&owner, ROOM);
	came(memfd, ME);
	cr_assert(look());
}

void shares_end(void)
{
	rsk_port_table_detach(&owner);
	close(memfd);
}

uint64_t reserved_at(struct rsk_port_table *b, uint32_t port)
{
	struct rsk_reserve_figures f;
	int rc = rsk_port_table_figures(b, port, &f);

	cr_assert_eq(rc, 0, "%d", rc);
	cr_assert_eq(f.reserved[RSK_RESERVE_MEMORY_MAPS], 3 * f.reserved[RSK_RESERVE_SESSIONS]);
	cr_assert_eq(f.reserved[RSK_RESERVE_BPS], 100 * f.reserved[RSK_RESERVE_SESSIONS]);
	return f.reserved[RSK_RESERVE_SESSIONS];
}

uint64_t reserved(uint32_t port)
{
	return reserved_at(&owner, port);
}
