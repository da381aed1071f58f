// SPDX-License-Identifier: BSD-2-Clause
/* port_tables.c - see port_tables.h. */
#include "port_tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "port_tables_parts.h"
#include "clock.h"
#include "local_parts.h"

#define PORT_TABLES_MOST 64u /* each of them needs a descriptor */
#define USER_PORT_TABLES 8u  /* limit for one user */
/* A number is not reused before that, since its last holder may not know yet that it has lost it */
#define REST_NS 2000000000ull
/*
 * Minimum delay between tries of a busy record: events cause additional checks, and a try takes a
 * millisecond.
 */
#define LOOK_NS 500000000ull
#define ALL_PORTS ((1u << RSK_PORT_TABLE_PORTS) - 1)

void rsk_port_tables_spoiled(struct rsk_port_tables *b, struct rsk_port_tables_one *o)
{
	b->count.spoiled += !o->spoiled;
	o->spoiled = true;
}

bool rsk_port_tables_did(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
			 int rc)
{
	if (rc == -EBUSY)
		o->busy |= 1u << at;
	else if (rc < 0)
		rsk_port_tables_spoiled(b, o);
	return rc == 0;
}

/* ---- operations that a busy record delays ---- */

static void open_record(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at)
{
	o->opens |= 1u << at;
	if (rsk_port_tables_did(b, o, at, rsk_port_table_open(&o->port_table, at)))
		o->opens &= ~(1u << at);
}

/* True if the process of that number has nothing reserved at that port any more. */
static bool is_back(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
		    uint32_t number)
{
	/*
	 * A record that has to be made again has no reservations; a spoiled table is given to no
	 * process.
	 */
	if (!b->name[at] || o->opens & 1u << at || o->spoiled)
		return true;
	return !(o->busy & 1u << at) &&
	       (rsk_port_tables_did(b, o, at, rsk_port_table_leave(&o->port_table, at, number)) ||
		o->spoiled);
}

static void give_back(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t number)
{
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
		if (o->leaves[number] & 1u << i && is_back(b, o, i, number))
			o->leaves[number] &= ~(1u << i);
	b->count.left += !o->leaves[number];
}

/*
 * Called at each check, however often processes come and go; records that were busy are tried again
 * only after LOOK_NS.
 */
static void try_again(struct rsk_port_tables *b, struct rsk_port_tables_one *o)
{
	if (o->busy && rsk_clock_ns() - o->busy_ns < LOOK_NS)
		return;
	o->busy = 0;
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
		if (b->name[i] && !o->spoiled && o->opens & 1u << i)
			open_record(b, o, i);
	for (uint32_t i = 1; i < RSK_PORT_TABLE_OWNER; i++)
		if (o->leaves[i])
			give_back(b, o, i);
}

/* The end of a check: decides whether the table counts as spoiled. */
static void judge(struct rsk_port_tables *b, struct rsk_port_tables_one *o)
{
	uint64_t now = rsk_clock_ns();

	if (!o->busy) {
		o->busy_looks = 0;
	} else if (now - o->busy_ns >= LOOK_NS) {
		o->busy_ns = now;
		if (++o->busy_looks >= RSK_PORT_TABLES_BUSY_LOOKS)
			rsk_port_tables_spoiled(b, o);
	}
}

/* ---- the table ---- */

static uint32_t place_of(const struct rsk_port_tables *b, const char *name)
{
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
		if (b->name[i] && !strcmp(b->name[i], name))
			return i;
	return RSK_PORT_TABLE_NOWHERE;
}

/* Assigns an index to a port. Returns it, or -ENOSPC, or -ENOMEM. */
static int take_place(struct rsk_port_tables *b, const char *name)
{
	struct rsk_port_tables_one *o;

	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++) {
		if (b->name[i])
			continue;
		b->name[i] = strdup(name);
		if (!b->name[i])
			return -ENOMEM;
		DL_FOREACH(b->all, o)
			open_record(b, o, i);
		return (int)i;
	}
	return -ENOSPC;
}

static void free_place(struct rsk_port_tables *b, uint32_t at)
{
	struct rsk_port_tables_one *o;

	DL_FOREACH(b->all, o) {
		rsk_port_tables_unbook(b, o, at, 0);
		o->booked[at].limit = 0; /* as rsk_port_table_open() sets it */
	}
	free(b->name[at]);
	b->name[at] = NULL;
}

static const struct rsk_pma_rail_port *port_named(const struct rsk_pma_rail_port *ports, size_t n,
						  const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(ports[i].name, name))
			return &ports[i];
	return NULL;
}

static void describe(struct rsk_port_table_port *out, const struct rsk_pma_rail_port *p)
{
	static const uint32_t states[] = { [RSK_PMA_UP] = RSK_PORT_TABLE_UP,
					   [RSK_PMA_DOWN] = RSK_PORT_TABLE_DOWN,
					   [RSK_PMA_DRAINING] = RSK_PORT_TABLE_DRAINED };

	snprintf(out->name, sizeof(out->name), "%s", p->name);
	out->state = states[p->state];
	if (p->state == RSK_PMA_UP && p->overloaded)
		out->state = RSK_PORT_TABLE_OVERLOADED;
	out->spare = p->spare;
	for (size_t i = 0; i < p->n_ips && i < RSK_PORT_TABLE_IPS; i++) {
		out->family[i] = p->ips[i].ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET;
		memcpy(out->ip[i], p->ips[i].ip, 16);
	}
}

static void say_full(struct rsk_port_tables *b, const char *name)
{
	if (!b->full)
		fprintf(stderr, "rsockd: %s: more than %u ports: rails by it are not reserved\n",
			name, RSK_PORT_TABLE_PORTS);
	b->full = true;
}

/* Assigns an index to each port and updates the content of all tables. */
static void list(struct rsk_port_tables *b, const struct rsk_pma_rail_port *ports, size_t n)
{
	const struct rsk_pma_rail_terms terms = rsk_pma_rail_terms(b->pma);
	struct rsk_port_table_data t = { .need = { terms.need.bps, 1, terms.need.memory_maps } };
	struct rsk_port_tables_one *o;

	memset(t.port, 0, sizeof(t.port));
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
		if (b->name[i] && !port_named(ports, n, b->name[i]))
			free_place(b, i);
	for (size_t i = 0; i < n; i++) {
		uint32_t place = place_of(b, ports[i].name);
		int at = place == RSK_PORT_TABLE_NOWHERE ? take_place(b, ports[i].name) :
							   (int)place;

		if (at >= 0)
			describe(&t.port[at], &ports[i]);
		else if (at == -ENOSPC)
			say_full(b, ports[i].name);
		/* Without memory: the next check, a second later, tries again. */
	}
	if (!memcmp(&t, &b->table, sizeof(t)))
		return;
	b->table = t;
	DL_FOREACH(b->all, o)
		rsk_port_table_write(&o->port_table, &t);
}

void rsk_port_tables_check(struct rsk_port_tables *b)
{
	size_t n = b->pma ? rsk_pma_rail_ports(b->pma, NULL, 0) : 0;
	struct rsk_pma_rail_port *ports = calloc(n + 1, sizeof(*ports));
	struct rsk_port_tables_one *o;

	if (!b->pma || !ports) {
		free(ports);
		return;
	}
	rsk_pma_rail_ports(b->pma, ports, n);
	DL_FOREACH(b->all, o)
		try_again(b, o);
	list(b, ports, n);
	for (size_t i = 0; i < n; i++) {
		uint32_t at = place_of(b, ports[i].name);

		if (at == RSK_PORT_TABLE_NOWHERE)
			continue;
		DL_FOREACH(b->all, o)
			rsk_port_tables_provide(b, o, at, &ports[i]);
	}
	free(ports);
	DL_FOREACH(b->all, o)
		judge(b, o);
}

/* ---- processes ---- */

/* A number that is free; 0: none. */
static uint32_t free_number(const struct rsk_port_tables_one *o, uint64_t now_ns)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < RSK_PORT_TABLE_OWNER; i++)
		if (!(o->given & 1ull << i) && !o->leaves[i] &&
		    (!o->left_ns[i] || now_ns - o->left_ns[i] >= REST_NS) &&
		    (!best || o->left_ns[i] < o->left_ns[best]))
			best = i;
	return best;
}

static void drop(struct rsk_port_tables *b, struct rsk_port_tables_one *o)
{
	for (uint32_t i = 1; i < RSK_PORT_TABLE_OWNER; i++)
		b->count.left += o->leaves[i] != 0;
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++) {
		rsk_port_tables_unbook(b, o, i, 0);
		free(o->booked[i].ids);
	}
	DL_DELETE(b->all, o);
	b->n--;
	rsk_port_table_detach(&o->port_table);
	close(o->fd);
	free(o);
}

static struct rsk_port_tables_one *make(struct rsk_port_tables *b, uint32_t uid)
{
	struct rsk_port_tables_one *o = b->n < PORT_TABLES_MOST ? calloc(1, sizeof(*o)) : NULL;

	if (!o)
		return NULL;
	o->uid = uid;
	o->fd = rsk_port_table_create(&o->port_table);
	if (o->fd < 0) {
		free(o);
		return NULL;
	}
	DL_APPEND(b->all, o);
	b->n++;
	b->count.made++;
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
		if (b->name[i])
			open_record(b, o, i);
	rsk_port_table_write(&o->port_table, &b->table);
	return o;
}

static struct rsk_port_tables_one *port_table_for(struct rsk_port_tables *b, uint32_t uid,
						  uint32_t *number)
{
	uint64_t now = rsk_clock_ns();
	struct rsk_port_tables_one *o;
	uint32_t n = 0;

	*number = 0;
	DL_FOREACH(b->all, o) {
		if (o->uid != uid)
			continue;
		n++;
		*number = o->spoiled ? 0 : free_number(o, now);
		if (*number)
			return o;
	}
	/* Limited, so that a user who spoils one after the other does not use up all tables. */
	o = n < USER_PORT_TABLES ? make(b, uid) : NULL;
	*number = o ? free_number(o, now) : 0;
	return o;
}

void rsk_port_tables_join(struct rsk_port_tables *b, struct rsk_local_process *p)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_PORT_TABLE };
	uint32_t number;

	/* A port table is shared only by processes of one user. */
	if (p->port_table || !b->pma || p->uid == RSK_PMA_NOBODY)
		return;
	p->port_table = port_table_for(b, p->uid, &number);
	if (!p->port_table) {
		b->count.refused++;
		return;
	}
	p->holder = number;
	p->port_table->given |= 1ull << number;
	p->port_table->processes++;
	rsk_port_tables_check(b);
	m.port = (uint16_t)number;
	if (!rsk_local_tell(p->l, p, &m, p->port_table->fd))
		rsk_port_tables_gone(b, p);
}

void rsk_port_tables_gone(struct rsk_port_tables *b, struct rsk_local_process *p)
{
	struct rsk_port_tables_one *o = p->port_table;

	if (!o)
		return;
	p->port_table = NULL;
	o->leaves[p->holder] = ALL_PORTS;
	give_back(b, o, p->holder);
	o->given &= ~(1ull << p->holder);
	o->left_ns[p->holder] = rsk_clock_ns();
	if (--o->processes == 0)
		drop(b, o);
}

uint64_t rsk_port_tables_reserved(const struct rsk_port_tables *b, const char *port)
{
	uint32_t at = place_of(b, port);
	struct rsk_port_tables_one *o;
	uint64_t n = 0, one;

	if (at == RSK_PORT_TABLE_NOWHERE)
		return 0;
	DL_FOREACH(b->all, o) {
		rsk_port_tables_reserved_at(o, at, &one);
		n += one;
	}
	return n;
}

void rsk_port_tables_open(struct rsk_port_tables *b, struct rsk_pma *pma)
{
	*b = (struct rsk_port_tables){ .pma = pma };
	rsk_port_tables_check(b);
}

void rsk_port_tables_close(struct rsk_port_tables *b)
{
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
		free(b->name[i]);
	*b = (struct rsk_port_tables){ 0 };
}
