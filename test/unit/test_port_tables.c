// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_port_tables.c - tests rsockd's port tables with a real policy agent, real port tables and
 * processes at the other end of a socket: what a busy record puts off, and for how long. The clock
 * is the test's. The fabric's locked access is wrapped, so that a test can make records busy for
 * rsockd, which contention does only rarely; strdup() is wrapped, so that it can fail.
 */
#include "port_tables.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port_table.h"
#include "clock.h"
#include "local_msg.h"
#include "local_parts.h"
#include "pma_kit.h"

#define SECOND 1000000000ull
#define ALICE 1000u
#define AHEAD 4u /* as in port_bookings.c */

static struct rsk_port_tables port_tables;
static struct rsk_pma *pma;
static uint64_t now = 1000 * SECOND;

static const char one_port[] = "node: here\n"
			       "rnics: [{name: one, addresses: [10.0.0.1]}]\n"
			       "services: [{name: any, ports: [1-65535]}]\n";
static const char two_ports[] =
	"node: here\n"
	"rnics: [{name: one, addresses: [10.0.0.1]}, {name: two, addresses: [10.0.0.2]}]\n"
	"services: [{name: any, ports: [1-65535]}]\n";
static const char other_port[] = "node: here\n"
				 "rnics: [{name: two, addresses: [10.0.0.2]}]\n"
				 "services: [{name: any, ports: [1-65535]}]\n";

/* ---- stubs for other parts of rsockd ---- */

uint64_t rsk_clock_ns(void)
{
	return now;
}

bool rsk_local_tell(struct rsk_local *l, struct rsk_local_process *p, struct rsk_local_msg *m,
		    int fd)
{
	return rsk_local_msg_send(p->fd, m, fd) == 0;
}

/* ---- the fabric ---- */

static uint32_t busy;  /* a bit for each kind of rsockd's operations that finds a record busy */
static uint32_t tried; /* number of such operations, each attempt counted */

#define BUSY(kind) (1u << RSK_LOCKED_##kind)
#define ALL UINT32_MAX

int __real_rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op);
int __wrap_rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op);

int __wrap_rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op)
{
	if (op->by->me != RSK_PORT_TABLE_OWNER || !(busy & 1u << op->kind))
		return __real_rsk_shm_locked(rail, op);
	tried++;
	return -EBUSY;
}

/* ---- memory ---- */

static uint32_t no_memory; /* number of strdup() calls of rsockd that fail from now on */

char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);

char *__wrap_strdup(const char *s)
{
	if (!no_memory)
		return __real_strdup(s);
	no_memory--;
	errno = ENOMEM;
	return NULL;
}

/* ---- processes ---- */

struct process {
	struct rsk_local_process p;
	int fd;
	struct rsk_port_table port_table;
	struct rsk_port_table_data table;
};

static void start(struct process *a)
{
	struct rsk_local_msg m;
	int pair[2], with, rc;

	memset(a, 0, sizeof(*a));
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	a->p.fd = pair[0];
	a->p.uid = ALICE;
	a->fd = pair[1];
	rsk_port_tables_join(&port_tables, &a->p);
	rc = rsk_local_msg_recv(a->fd, true, &m, &with);
	cr_assert_eq(rc, 1, "%d", rc);
	cr_assert_eq(m.type, RSK_LOCAL_PORT_TABLE);
	cr_assert_eq(rsk_port_table_attach(&a->port_table, with, m.port), 0);
	cr_assert_eq(rsk_port_table_read(&a->port_table, &a->table), 0);
	close(with);
}

/* What the kernel does when a process dies. */
static void dies(struct process *a)
{
	rsk_port_tables_gone(&port_tables, &a->p);
	rsk_port_table_detach(&a->port_table);
	close(a->fd);
	close(a->p.fd);
}

static int take(struct process *a, uint32_t port)
{
	return rsk_port_table_take(&a->port_table, port, a->table.need);
}

static void look(void)
{
	now += SECOND;
	rsk_port_tables_check(&port_tables);
	cr_assert(rsk_pma_validate(pma));
}

static uint64_t reserved(const char *port)
{
	return rsk_port_tables_reserved(&port_tables, port);
}

static uint64_t booked(const char *port)
{
	return pma_view(pma, port).rails_booked;
}

static void set(void)
{
	pma = pma_of(one_port);
	rsk_port_tables_open(&port_tables, pma);
}

static void end(void)
{
	cr_assert_eq(port_tables.n, 0, "each is gone with its last process");
	rsk_port_tables_close(&port_tables);
	rsk_pma_free(pma);
}

/* ---- processes that die ---- */

Test(port_tables, who_dies_leaves_nothing, .init = set, .fini = end)
{
	struct process a, b;

	start(&a);
	start(&b);
	cr_assert_eq(booked("one"), AHEAD);
	cr_assert_eq(take(&a, 0), 0);
	cr_assert_eq(take(&b, 0), 0);
	cr_assert_eq(reserved("one"), 2);
	dies(&a);
	cr_assert_eq(reserved("one"), 1);
	cr_assert_eq(port_tables.count.left, 1);
	dies(&b);
	cr_assert_eq(booked("one"), 0);
	cr_assert_eq(port_tables.count.left, 2);
	cr_assert_eq(port_tables.count.spoiled, 0);
}

/*
 * A busy record does no harm: the reservations are given back at a later check, and the number is
 * not reused until then.
 */
Test(port_tables, busy_when_one_dies, .init = set, .fini = end)
{
	static struct process others[RSK_PORT_TABLE_OWNER - 3],
		more; /* with two more all numbers are used */
	struct process a, b;
	uint32_t number;

	start(&b);
	start(&a);
	number = a.port_table.me;
	cr_assert_eq(take(&a, 0), 0);
	cr_assert_eq(take(&b, 0), 0);
	busy = BUSY(LEAVE);
	dies(&a);
	cr_assert_gt(tried, 0);
	cr_assert_eq(port_tables.count.spoiled, 0, "nobody has written anything");
	cr_assert_eq(port_tables.count.left, 0, "it has not been given back");
	cr_assert_eq(reserved("one"), 2);
	for (int i = 0; i < 3; i++)
		look();
	cr_assert_eq(reserved("one"), 2);
	cr_assert_eq(port_tables.count.spoiled, 0);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		start(&others[i]);
	cr_assert_eq(port_tables.n, 1);
	start(&more);
	cr_assert_eq(port_tables.n, 2, "its number is not given to anybody");
	dies(&more);
	busy = 0;
	look();
	cr_assert_eq(reserved("one"), 1);
	cr_assert_eq(port_tables.count.left, 2);
	cr_assert_eq(port_tables.count.spoiled, 0);
	start(&more);
	cr_assert_eq(port_tables.n, 1);
	cr_assert_eq(more.port_table.me, number, "now it is");
	cr_assert_eq(take(&more, 0), 0);
	cr_assert_eq(reserved("one"), 2);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		dies(&others[i]);
	dies(&more);
	dies(&b);
}

/*
 * A process that keeps a record busy keeps the port table, and what is booked for it, to itself
 * until it is gone.
 */
static void busy_for_good(uint32_t kinds)
{
	struct process a, b, c;

	start(&a);
	start(&b);
	cr_assert_eq(take(&a, 0), 0);
	busy = kinds;
	dies(&a);
	for (uint32_t i = 0; i < RSK_PORT_TABLES_BUSY_LOOKS - 1; i++) {
		look();
		for (int k = 0; k < 20; k++)
			rsk_port_tables_check(
				&port_tables); /* the ports' states change: no time passes */
		cr_assert_eq(port_tables.count.spoiled, 0, "look %u", i);
	}
	look();
	cr_assert_eq(port_tables.count.spoiled, 1);
	look();
	cr_assert_eq(port_tables.count.spoiled, 1, "once");
	busy = 0;
	start(&c);
	cr_assert_eq(port_tables.n, 2, "nobody else is given that one");
	cr_assert_eq(take(&c, 0), 0);
	cr_assert_geq(booked("one"), 2 * AHEAD);
	dies(&b);
	look();
	cr_assert_eq(booked("one"), 1 + AHEAD);
	dies(&c);
}

Test(port_tables, busy_for_good_when_one_died, .init = set, .fini = end)
{
	busy_for_good(BUSY(LEAVE));
}

Test(port_tables, busy_for_good_with_all, .init = set, .fini = end)
{
	busy_for_good(ALL);
}

Test(port_tables, busy_now_and_then, .init = set, .fini = end)
{
	struct process a;

	start(&a);
	for (uint32_t i = 0; i < 4 * RSK_PORT_TABLES_BUSY_LOOKS; i++) {
		busy = i % RSK_PORT_TABLES_BUSY_LOOKS ? BUSY(READ) : 0;
		look();
	}
	cr_assert_eq(port_tables.count.spoiled, 0);
	busy = 0;
	cr_assert_eq(take(&a, 0), 0);
	dies(&a);
}

/*
 * However many processes have died, rsockd, which serves others too, does not retry a busy record
 * for each of them.
 */
Test(port_tables, busy_when_many_die, .init = set, .fini = end)
{
	static struct process all[40];
	uint32_t one;

	for (int i = 0; i < 40; i++)
		start(&all[i]);
	busy = BUSY(LEAVE);
	dies(&all[0]);
	one = tried;
	for (int i = 1; i < 39; i++)
		dies(&all[i]);
	cr_assert_eq(tried, one, "it is known to be busy");
	look();
	cr_assert_eq(tried, 2 * one);
	busy = 0;
	look();
	cr_assert_eq(port_tables.count.left, 39);
	dies(&all[39]);
}

/* ---- a port is added ---- */

static uint32_t place(const char *name)
{
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
		if (port_tables.name[i] && !strcmp(port_tables.name[i], name))
			return i;
	cr_assert(false, "%s", name);
	return 0;
}

Test(port_tables, busy_when_a_port_comes, .init = set, .fini = end)
{
	struct process a;

	start(&a);
	cr_assert_eq(rsk_pma_reload(pma, pma_conf(two_ports)), 0);
	busy = BUSY(JOIN);
	look();
	cr_assert_gt(tried, 0);
	cr_assert_eq(port_tables.count.spoiled, 0);
	cr_assert_eq(rsk_port_table_read(&a.port_table, &a.table), 0);
	cr_assert_str_eq(a.table.port[place("two")].name, "two", "it is listed");
	cr_assert_eq(take(&a, place("two")), -ENOSPC, "nothing may be taken yet");
	cr_assert_eq(booked("two"), 0);
	cr_assert_eq(take(&a, place("one")), 0, "of the other one all may");
	look();
	cr_assert_eq(booked("two"), 0);
	busy = 0;
	look();
	cr_assert_eq(booked("two"), AHEAD);
	cr_assert_eq(take(&a, place("two")), 0);
	cr_assert_eq(reserved("two"), 1);
	cr_assert_eq(port_tables.count.spoiled, 0);
	dies(&a);
}

/* It gets its place at a later check, and nobody is told that there are too many ports. */
Test(port_tables, no_memory_when_a_port_comes, .init = set, .fini = end)
{
	struct process a;

	start(&a);
	cr_assert_eq(rsk_pma_reload(pma, pma_conf(two_ports)), 0);
	no_memory = 1;
	look();
	cr_assert_eq(no_memory, 0);
	cr_assert_not(port_tables.full);
	cr_assert_eq(booked("two"), 0);
	cr_assert_eq(rsk_port_table_read(&a.port_table, &a.table), 0);
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++) {
		cr_assert_str_neq(a.table.port[i].name, "two");
		if (!port_tables.name[i])
			cr_assert_lt(take(&a, i), 0);
	}
	look();
	cr_assert_eq(booked("two"), AHEAD);
	cr_assert_eq(rsk_port_table_read(&a.port_table, &a.table), 0);
	cr_assert_eq(take(&a, place("two")), 0);
	dies(&a);
}

/* What was to be given back at a port is dropped when another port takes its place. */
Test(port_tables, busy_and_another_port_in_its_place, .init = set, .fini = end)
{
	struct process a, b;

	start(&a);
	start(&b);
	cr_assert_eq(take(&a, 0), 0);
	busy = BUSY(LEAVE) | BUSY(JOIN);
	dies(&a);
	cr_assert_eq(rsk_pma_reload(pma, pma_conf(other_port)), 0);
	look();
	cr_assert_eq(place("two"), 0);
	look();
	cr_assert_eq(port_tables.count.left, 1);
	cr_assert_eq(port_tables.count.spoiled, 0);
	busy = 0;
	look();
	look();
	cr_assert_eq(port_tables.count.spoiled, 0);
	cr_assert_eq(take(&b, 0), 0);
	cr_assert_eq(reserved("two"), 1);
	look();
	cr_assert_eq(reserved("two"), 1);
	dies(&b);
}

Test(port_tables, the_last_one_dies_when_it_is_busy, .init = set, .fini = end)
{
	struct process a;

	start(&a);
	cr_assert_eq(take(&a, 0), 0);
	busy = ALL;
	dies(&a);
	cr_assert_eq(port_tables.n, 0);
	cr_assert_eq(booked("one"), 0);
	cr_assert_eq(port_tables.count.spoiled, 0);
	look();
}

/* A record that was overwritten is reported as spoiled, not as contention. */
Test(port_tables, spoiled_is_spoiled, .init = set, .fini = end)
{
	struct process a, b;

	start(&a);
	start(&b);
	__atomic_store_n((uint64_t *)(void *)(b.port_table.rail.window + b.port_table.at[0].off), 0,
			 __ATOMIC_RELAXED);
	dies(&a);
	cr_assert_eq(port_tables.count.spoiled, 1);
	dies(&b);
}
