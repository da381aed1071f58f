// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_port_table.c - tests the port table from its owner's and the processes' side: alone, under
 * contention, with processes killed anywhere, and with one that corrupts it.
 */
#include "locked_kinds.h"
#include "port_table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crowd.h"
#include "dice.h"

static struct rsk_port_table owner;
static int memfd = -1;
static const uint64_t one[] = { 0, 1, 3 }; /* bps, sessions, memory maps */

static void set(void)
{
	memfd = rsk_port_table_create(&owner);
	cr_assert_geq(memfd, 0, "%d", memfd);
}

static void end(void)
{
	rsk_port_table_detach(&owner);
	close(memfd);
}

static void attach(struct rsk_port_table *b, uint32_t me)
{
	int rc = rsk_port_table_attach(b, memfd, me);

	cr_assert_eq(rc, 0, "%d", rc);
}

static void room(uint32_t port, uint64_t sessions)
{
	const uint64_t limit[] = { UINT64_MAX, sessions, UINT64_MAX };

	cr_assert_eq(rsk_port_table_limit(&owner, port, limit), 0);
}

static struct rsk_reserve_figures figures(uint32_t port)
{
	struct rsk_reserve_figures f;
	int rc = rsk_port_table_figures(&owner, port, &f);

	cr_assert_eq(rc, 0, "%d", rc);
	return f;
}

/* ---- which memfd is a port table ---- */

static int other_memfd(off_t bytes, int seals)
{
	int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, bytes), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

Test(port_table, only_a_port_table_is_attached, .init = set, .fini = end)
{
	struct rsk_port_table b;
	struct stat st;
	int fd;

	cr_assert_eq(fstat(memfd, &st), 0);
	attach(&b, 1);
	cr_assert(rsk_port_table_is(&b));
	rsk_port_table_detach(&b);
	cr_assert(!rsk_port_table_is(&b));
	cr_assert_eq(rsk_port_table_attach(&b, memfd, 0), -EPROTO);
	cr_assert_eq(rsk_port_table_attach(&b, memfd, RSK_PORT_TABLE_OWNER), -EPROTO);
	cr_assert_eq(rsk_port_table_attach(&b, memfd, UINT32_MAX), -EPROTO);
	fd = other_memfd(st.st_size, F_SEAL_SHRINK | F_SEAL_GROW);
	cr_assert_eq(rsk_port_table_attach(&b, fd, 1), -EPROTO, "seals could be added");
	close(fd);
	fd = other_memfd(st.st_size - 4096, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	cr_assert_eq(rsk_port_table_attach(&b, fd, 1), -EPROTO, "too short");
	close(fd);
	fd = other_memfd(st.st_size, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	cr_assert_eq(rsk_port_table_attach(&b, fd, 1), -EPROTO, "no magic");
	close(fd);
	fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	cr_assert_eq(rsk_port_table_attach(&b, fd, 1), -EPROTO, "no memfd");
	close(fd);
	cr_assert_lt(rsk_port_table_attach(&b, -1, 1), 0);
	cr_assert_eq(fcntl(memfd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
		     "nobody can change its size");
}

/* ---- the table ---- */

static struct rsk_port_table_data table(uint8_t last, uint32_t state)
{
	struct rsk_port_table_data t = { .need = { 0, 1, 3 } };

	memset(t.port, 0, sizeof(t.port));
	strcpy(t.port[2].name, "mlx0/1");
	t.port[2].state = state;
	t.port[2].family[0] = AF_INET;
	memcpy(t.port[2].ip[0], (const uint8_t[]){ 10, 9, 0, last }, 4);
	t.port[2].family[1] = AF_INET6;
	memset(t.port[2].ip[1], last, 16);
	return t;
}

Test(port_table, the_table, .init = set, .fini = end)
{
	struct rsk_port_table_data t = table(7, RSK_PORT_TABLE_DRAINED), got;
	uint8_t ip[16] = { 10, 9, 0, 7 };
	struct rsk_port_table b;

	attach(&b, 1);
	cr_assert_eq(rsk_port_table_read(&b, &got), 0);
	cr_assert_eq(rsk_port_table_find(&got, AF_INET, ip), RSK_PORT_TABLE_NOWHERE, "none so far");
	rsk_port_table_write(&owner, &t);
	cr_assert_eq(rsk_port_table_read(&b, &got), 0);
	cr_assert_eq(memcmp(&got, &t, sizeof(t)), 0);
	cr_assert_eq(rsk_port_table_find(&got, AF_INET, ip), 2);
	cr_assert_eq(rsk_port_table_find(&got, AF_INET6, ip), RSK_PORT_TABLE_NOWHERE);
	memset(ip, 7, 16);
	cr_assert_eq(rsk_port_table_find(&got, AF_INET6, ip), 2);
	memset(ip, 0, 16);
	cr_assert_eq(rsk_port_table_find(&got, 0, ip), RSK_PORT_TABLE_NOWHERE,
		     "no address is none");
	t.port[2].state = RSK_PORT_TABLE_NONE;
	memset(ip, 7, 16);
	cr_assert_eq(rsk_port_table_find(&t, AF_INET6, ip), RSK_PORT_TABLE_NOWHERE, "no port");
	rsk_port_table_detach(&b);
}

Test(port_table, a_table_that_is_none, .init = set, .fini = end)
{
	struct rsk_port_table_head *head = (void *)owner.rail.window;
	struct rsk_port_table_data t, got;
	struct rsk_port_table b;

	attach(&b, 1);
	head->seq |= 1;
	cr_assert_eq(rsk_port_table_read(&b, &got), -EAGAIN, "who writes it has not ended");
	t = table(7, RSK_PORT_TABLE_UP);
	rsk_port_table_write(&owner, &t);
	cr_assert_eq(rsk_port_table_read(&b, &got), 0, "the next one is whole");
	t = table(7, RSK_PORT_TABLE_STATES);
	rsk_port_table_write(&owner, &t);
	cr_assert_eq(rsk_port_table_read(&b, &got), -EBADMSG, "a state that there is not");
	t = table(7, RSK_PORT_TABLE_UP);
	t.port[2].family[3] = 77;
	rsk_port_table_write(&owner, &t);
	cr_assert_eq(rsk_port_table_read(&b, &got), -EBADMSG, "a family that there is not");
	t = table(7, RSK_PORT_TABLE_UP);
	t.port[2].ip[0][4] = 1;
	rsk_port_table_write(&owner, &t);
	cr_assert_eq(rsk_port_table_read(&b, &got), -EBADMSG, "too long for IPv4");
	t = table(7, RSK_PORT_TABLE_UP);
	memset(t.port[2].name, 'x', sizeof(t.port[2].name));
	rsk_port_table_write(&owner, &t);
	cr_assert_eq(rsk_port_table_read(&b, &got), -EBADMSG, "a name without end");
	rsk_port_table_detach(&b);
}

static _Atomic(bool) enough;

static void *writes(void *arg)
{
	for (uint8_t i = 0; !atomic_load(&enough); i++) {
		struct rsk_port_table_data t = table(i, RSK_PORT_TABLE_UP);

		rsk_port_table_write(&owner, &t);
	}
	return arg;
}

Test(port_table, the_table_is_whole, .init = set, .fini = end)
{
	struct rsk_port_table_data t = table(0, RSK_PORT_TABLE_UP);
	uint32_t whole = 0;
	pthread_t thread;
	struct rsk_port_table b;

	attach(&b, 1);
	rsk_port_table_write(&owner, &t);
	cr_assert_eq(pthread_create(&thread, NULL, writes, NULL), 0);
	while (whole < 20000) {
		int rc = rsk_port_table_read(&b, &t);

		cr_assert(rc == 0 || rc == -EAGAIN, "%d", rc);
		if (rc < 0)
			continue;
		whole++;
		for (uint32_t i = 0; i < 16; i++)
			cr_assert_eq(t.port[2].ip[1][i], t.port[2].ip[0][3], "torn");
	}
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	rsk_port_table_detach(&b);
}

/* ---- reservations ---- */

Test(port_table, taken_and_given, .init = set, .fini = end)
{
	const uint64_t two[] = { 0, 2, 6 };
	struct rsk_port_table a, b;

	attach(&a, 1);
	attach(&b, 2);
	cr_assert_eq(rsk_port_table_take(&a, 3, one), -EBADMSG, "there is no record yet");
	cr_assert_eq(rsk_port_table_open(&a, 3), -EINVAL, "not the owner");
	cr_assert_eq(rsk_port_table_open(&owner, RSK_PORT_TABLE_PORTS), -EINVAL);
	cr_assert_eq(rsk_port_table_open(&owner, 3), 0);
	cr_assert_eq(rsk_port_table_take(&a, 3, one), -ENOSPC, "nor any room");
	cr_assert_eq(rsk_port_table_take(&a, RSK_PORT_TABLE_PORTS, one), -EINVAL);
	room(3, 3);
	cr_assert_eq(rsk_port_table_take(&a, 3, one), 0);
	cr_assert_eq(rsk_port_table_take(&b, 3, two), 0);
	cr_assert_eq(rsk_port_table_take(&b, 3, one), -ENOSPC);
	cr_assert_eq(figures(3).reserved[RSK_RESERVE_SESSIONS], 3);
	cr_assert_eq(figures(3).reserved[RSK_RESERVE_MEMORY_MAPS], 9);
	cr_assert_eq(rsk_port_table_give(&a, 3, two), -ERANGE, "more than it has");
	cr_assert_eq(rsk_port_table_give(&a, 2, one), -ERANGE, "at a port of which it has none");
	room(3, 1);
	cr_assert_eq(rsk_port_table_give(&a, 3, one), 0);
	cr_assert_eq(rsk_port_table_take(&a, 3, one), -ENOSPC, "less than is reserved");
	cr_assert_eq(rsk_port_table_leave(&owner, 3, 2), 0);
	cr_assert_eq(figures(3).reserved[RSK_RESERVE_SESSIONS], 0);
	cr_assert_eq(rsk_port_table_leave(&owner, 3, 2), 0, "once more: nothing");
	cr_assert_eq(rsk_port_table_leave(&owner, 3, RSK_PORT_TABLE_OWNER), -EINVAL);
	cr_assert_eq(rsk_port_table_leave(&a, 4, 2), -EINVAL);
	/* A process that was taken for dead goes on, with no reservations. */
	cr_assert_eq(rsk_port_table_give(&b, 3, two), 0);
	cr_assert_eq(rsk_port_table_take(&b, 3, one), 0);
	cr_assert_eq(figures(3).reserved[RSK_RESERVE_SESSIONS], 1);
	rsk_port_table_detach(&a);
	rsk_port_table_detach(&b);
}

Test(port_table, a_number_that_another_one_had, .init = set, .fini = end)
{
	struct rsk_port_table a, b;

	attach(&a, 5);
	cr_assert_eq(rsk_port_table_open(&owner, 0), 0);
	room(0, 2);
	cr_assert_eq(rsk_port_table_take(&a, 0, one), 0);
	cr_assert_eq(rsk_port_table_take(&a, 0, one), 0);
	rsk_port_table_detach(&a);
	attach(&b, 5); /* the former process was not reported gone */
	cr_assert_eq(rsk_port_table_take(&b, 0, one), 0);
	cr_assert_eq(figures(0).reserved[RSK_RESERVE_SESSIONS], 1);
	rsk_port_table_detach(&b);
}

/* A lock on a port table blocks no other process: nothing holds one for long. */
Test(port_table, a_lock_is_broken, .init = set, .fini = end)
{
	struct rsk_port_table a, b;
	struct rsk_locked op = { .by = &a.at[1], .kind = RSK_LOCKED_LOCK };

	attach(&a, 1);
	attach(&b, 2);
	cr_assert_eq(rsk_port_table_open(&owner, 1), 0);
	room(1, 2);
	cr_assert_eq(rsk_port_table_take(&a, 1, one), 0);
	cr_assert_eq(rsk_locked_kinds_shm(&a.rail, &op), 1);
	cr_assert_eq(rsk_port_table_take(&b, 1, one), 0);
	cr_assert_eq(figures(1).reserved[RSK_RESERVE_SESSIONS], 2);
	rsk_port_table_detach(&a);
	rsk_port_table_detach(&b);
}

/* ---- contention ---- */

#define QUOTA 5u

/* Kept beside the port table: what the processes were granted, by their own count. */
static struct notes {
	/* granted and not given back yet; a killed process leaves its grants */
	_Atomic(uint32_t) out;
	_Atomic(uint32_t) has[CROWD + 1]; /* lower bound */
	_Atomic(uint32_t) ready;
} * notes;

static void note(void)
{
	notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	cr_assert_neq(notes, MAP_FAILED);
	set();
	cr_assert_eq(rsk_port_table_open(&owner, 0), 0);
	room(0, QUOTA);
}

static void noted(void)
{
	end();
	munmap(notes, sizeof(*notes));
}

static void *takes_and_gives(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;
	struct rsk_port_table b;

	if (rsk_port_table_attach(&b, memfd, me) < 0)
		return (void *)"attach";
	for (int i = 0; i < 5000; i++) {
		const uint64_t need[] = { me, me % 3 + 1, 1 };
		int rc = rsk_port_table_take(&b, 0, need);

		if (rc == -ENOSPC || rc == -EBUSY)
			continue;
		if (rc < 0)
			return (void *)"take";
		if (atomic_fetch_add(&notes->out, need[1]) + need[1] > QUOTA)
			return (void *)"more than there is";
		atomic_fetch_sub(&notes->out, need[1]);
		do
			rc = rsk_port_table_give(&b, 0, need);
		while (rc == -EBUSY);
		if (rc < 0)
			return (void *)"give";
	}
	rsk_port_table_detach(&b);
	return NULL;
}

Test(port_table, never_more_than_the_quota, .init = note, .fini = noted)
{
	pthread_t thread[CROWD];

	crowd_begin(thread, takes_and_gives);
	crowd_end(thread);
	for (uint32_t m = 0; m < RSK_RESERVE_MEASURES; m++)
		cr_assert_eq(figures(0).reserved[m], 0);
}

static void child(uint32_t me)
{
	struct rsk_port_table b;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (rsk_port_table_attach(&b, memfd, me) < 0)
		_exit(1);
	atomic_fetch_add(&notes->ready, 1);
	for (;;) {
		int rc = rsk_port_table_take(&b, 0, one);

		if (rc == 0)
			atomic_fetch_add(&notes->has[me], 1);
		else if (rc != -ENOSPC && rc != -EBUSY)
			_exit(2);
		if (rc == -ENOSPC && atomic_load(&notes->has[me])) {
			atomic_fetch_sub(&notes->has[me], 1);
			do
				rc = rsk_port_table_give(&b, 0, one);
			while (rc == -EBUSY);
			if (rc < 0)
				_exit(3);
		}
	}
}

Test(port_table, killed_anywhere, .init = note, .fini = noted)
{
	uint64_t seed = dice_seed("killed_anywhere"), dice = seed;

	for (int round = 0; round < 60; round++) {
		struct timespec rest = { 0, (long)(dice_roll(&dice) % 2000000) };
		struct rsk_reserve_figures f;
		pid_t pid[CROWD + 1];
		uint64_t least = 0;
		int status;

		memset(notes, 0, sizeof(*notes));
		for (uint32_t i = 1; i <= CROWD; i++) {
			pid[i] = fork();
			cr_assert_geq(pid[i], 0);
			if (!pid[i])
				child(i);
		}
		while (atomic_load(&notes->ready) < CROWD)
			cr_assert_eq(waitpid(-1, &status, WNOHANG), 0, "seed %llu",
				     (unsigned long long)seed);
		nanosleep(&rest, NULL);
		crowd_kill(pid, seed);
		for (uint32_t i = 1; i <= CROWD; i++)
			least += atomic_load(&notes->has[i]);
		f = figures(0);
		cr_assert_leq(f.reserved[1], QUOTA, "seed %llu", (unsigned long long)seed);
		cr_assert_geq(f.reserved[1], least, "seed %llu: lost", (unsigned long long)seed);
		for (uint32_t i = 1; i <= CROWD; i++)
			cr_assert_eq(rsk_port_table_leave(&owner, 0, i), 0);
		cr_assert_eq(figures(0).reserved[1], 0, "seed %llu: all is given back",
			     (unsigned long long)seed);
	}
}

/* ---- corrupted ---- */

static void *spoils(void *arg)
{
	uint64_t dice = *(uint64_t *)arg, *words = (uint64_t *)(void *)owner.rail.window;

	while (!atomic_load(&enough)) {
		/* The header, the table, and the record that is used. */
		uint64_t at = dice_roll(&dice) % ((4096 + 16448) / 8);
		uint64_t value = dice_roll(&dice);

		if (at > 512 && dice_roll(&dice) % 4)
			at = 512; /* the lock word */
		if (dice_roll(&dice) % 2)
			value = __atomic_load_n(words + at, __ATOMIC_RELAXED) + (value % 3 << 16);
		__atomic_store_n(words + at, value, __ATOMIC_RELAXED);
	}
	return NULL;
}

/*
 * Corruption causes no crash, no endless loop and no grant of what was never there more than once;
 * every operation returns one of the listed values.
 */
Test(port_table, spoiled, .init = note, .fini = noted)
{
	static const int expected[] = { 0, -EBUSY, -EAGAIN, -EBADMSG, -ENOSPC, -ERANGE, -ESTALE };
	uint64_t seed = dice_seed("spoiled"), limit[] = { 1, 2, 3 };
	struct rsk_reserve_figures f;
	struct rsk_port_table_data t;
	bool opened = true;
	pthread_t thread;
	struct rsk_port_table b;

	attach(&b, 1);
	cr_assert_eq(pthread_create(&thread, NULL, spoils, &seed), 0);
	for (int i = 0; i < 5000; i++) {
		const int got[] = { rsk_port_table_take(&b, 0, one),
				    rsk_port_table_give(&b, 0, one),
				    rsk_port_table_read(&b, &t),
				    rsk_port_table_figures(&owner, 0, &f),
				    rsk_port_table_limit(&owner, 0, limit),
				    rsk_port_table_leave(&owner, 0, 1),
				    i % 100 ? 0 : rsk_port_table_open(&owner, 0) };

		for (size_t k = 0; k < sizeof(got) / sizeof(got[0]); k++) {
			bool known = false;

			for (size_t e = 0; e < sizeof(expected) / sizeof(expected[0]); e++)
				known |= got[k] == expected[e];
			/* After a failed open() the owner has no record until one succeeds. */
			if (!opened && (k == 4 || k == 5))
				known = got[k] == -EINVAL;
			cr_assert(known, "seed %llu: operation %zu: %d", (unsigned long long)seed,
				  k, got[k]);
		}
		if (i % 100 == 0)
			opened = got[6] == 0;
	}
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	/* The owner can make it whole again. */
	cr_assert_eq(rsk_port_table_open(&owner, 0), 0);
	cr_assert_eq(figures(0).reserved[1], 0);
	rsk_port_table_detach(&b);
}
