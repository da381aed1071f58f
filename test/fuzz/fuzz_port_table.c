// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_port_table.c - fuzzes a port table as a hostile process of its user leaves it
 * (include/rsock/port_table.h), read and used by rsockd and by another process. The input has first
 * the operations, then the header and table, then the record of port 0, whose slots get right
 * hashes where @right says so.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/sys.h>

#include "port_table.h"
#include "locked_slots.h"

#define FIRST RSK_PORT_TABLE_RECORDS
#define SLOTS 8u /* slots of the record; bits of @right */

struct input {
	uint8_t right, who, head, port;
	uint64_t need[RSK_RESERVE_MEASURES], limit[RSK_RESERVE_MEASURES];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

static void fill(uint8_t *to, size_t room, const uint8_t **data, size_t *size)
{
	size_t n = *size < room ? *size : room;

	memcpy(to, *data, n);
	*data += n;
	*size -= n;
}

static void use(struct rsk_port_table *owner, struct rsk_port_table *b, const struct input *in)
{
	uint32_t port = in->port % (RSK_PORT_TABLE_PORTS + 1);
	struct rsk_reserve_figures f;
	struct rsk_port_table_data t;

	if (rsk_port_table_read(b, &t) == 0) {
		for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
			require(t.port[i].state < RSK_PORT_TABLE_STATES &&
				memchr(t.port[i].name, 0, sizeof(t.port[i].name)));
		rsk_port_table_find(&t, t.port[0].family[0], t.port[0].ip[0]);
	}
	if (rsk_port_table_take(b, port, in->need) == 0 && rsk_port_table_figures(b, port, &f) == 0)
		for (uint32_t i = 0; i < RSK_RESERVE_MEASURES; i++)
			require(!in->need[i] || f.reserved[i] <= f.limit[i]);
	rsk_port_table_figures(owner, port, &f);
	rsk_port_table_limit(owner, port, in->limit);
	rsk_port_table_leave(owner, port, in->who);
	rsk_port_table_give(b, port, in->need);
	/* Whatever the contents were, the owner can make the record whole. */
	require(rsk_port_table_open(owner, 0) == 0 && rsk_port_table_figures(owner, 0, &f) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rsk_port_table owner, b;
	struct input in;
	uint8_t *record;
	int fd;

	if (size < sizeof(in))
		return 0;
	memcpy(&in, data, sizeof(in));
	data += sizeof(in);
	size -= sizeof(in);
	fd = rsk_port_table_create(&owner);
	require(fd >= 0 && rsk_port_table_open(&owner, 0) == 0 &&
		rsk_port_table_attach(&b, fd, 1) == 0);
	rsk_sys_close(fd);
	fill(owner.rail.window + (in.head & 1 ? 0 : RSK_PORT_TABLE_DATA),
	     (in.head & 1 ? RSK_PORT_TABLE_DATA : 0) + sizeof(struct rsk_port_table_data), &data,
	     &size);
	record = owner.rail.window + FIRST;
	fill(record, RSK_LOCKED_BYTES(RSK_PORT_TABLE_HOLDERS), &data, &size);
	locked_slots_right(record, SLOTS, in.right);
	use(&owner, &b, &in);
	rsk_port_table_detach(&b);
	rsk_port_table_detach(&owner);
	return 0;
}
