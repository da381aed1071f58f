// SPDX-License-Identifier: BSD-2-Clause
/*
 * locked.c - measures locked access: adding to a word of a record by one operation, compared with
 * lock, access and unlock that each wait for the one before. Run by mech_locked.py.
 *
 * 	locked chaos INITIATORS ADDITIONS DELAY	  steps of virtual time; a message
 * 					takes 1 to DELAY of them
 * 	locked shm INITIATORS ADDITIONS		  ns, threads on shared memory
 * 	locked reserve INITIATORS RESERVATIONS	  threads that reserve and release;
 * 					each change is accounted for
 *
 * ADDITIONS are for each initiator, RESERVATIONS for all together. Prints a line of JSON; status 0:
 * no change was lost or made twice.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/clock.h>

#include "chaos_locked.h"
#include "reserve.h"

#define MOST RSK_LOCKED_HOLDERS
#define RETRIES 16u
#define BREAK_NS 100000000ull
#define SEED 1u

#define FAIL(...)                                                                                  \
	do {                                                                                       \
		fprintf(stderr, "locked: " __VA_ARGS__);                                           \
		fputc('\n', stderr);                                                               \
		exit(1);                                                                           \
	} while (0)

static _Alignas(64) uint8_t record[RSK_LOCKED_BYTES(MOST)], nothing[RSK_LOCKED_BYTES(MOST)];
static struct rsk_rail shm_rail = { .window = record, .window_bytes = sizeof(record) };
static uint32_t initiators;
static uint64_t amount;

enum way {
	ONE,
	THREE,
	WAYS
};
static const char *const names[] = { "locked", "one_after_the_other" };
static const uint32_t kinds[WAYS][3] = {
	[ONE] = { RSK_LOCKED_ADD },
	[THREE] = { RSK_LOCKED_LOCK, RSK_LOCKED_ADD, RSK_LOCKED_UNLOCK },
};
static const uint32_t counts[WAYS] = { 1, 3 };

struct initiator {
	struct rsk_chaos chaos;
	struct rsk_locker by;
	struct rsk_locked op;
	enum way way;
	uint32_t at; /* index of the next operation of its way */
	uint64_t done, refused, given;
	pthread_t thread;
};
static struct initiator all[MOST];

static void begin(enum way way, const uint64_t limit[static RSK_LOCKED_SHARES])
{
	rsk_locked_init(record, MOST, limit);
	for (uint32_t i = 0; i < initiators; i++) {
		struct rsk_locked join = { .by = &all[i].by, .kind = RSK_LOCKED_JOIN };

		all[i].way = way;
		all[i].at = 0;
		all[i].done = all[i].refused = all[i].given = 0;
		rsk_locker_init(&all[i].by, 0, MOST, i + 1, 0);
		if (rsk_locked_kinds_shm(&shm_rail, &join) != 1)
			FAIL("join");
	}
}

static void whole(uint64_t sum)
{
	struct rsk_locked_view v;

	if (rsk_locked_validate(record, MOST, &v) || v.now.shared[RSK_LOCKED_FREE] != sum)
		FAIL("%" PRIu64 " of %" PRIu64 " additions", v.now.shared[RSK_LOCKED_FREE], sum);
}

static void next_op(struct initiator *in)
{
	in->op = (struct rsk_locked){ .by = &in->by,
				      .kind = kinds[in->way][in->at],
				      .retries = RETRIES,
				      .at = RSK_LOCKED_FREE,
				      .words = { 1 } };
}

/* ---- on virtual time ---- */
static bool step(struct initiator *in)
{
	struct rsk_rail *rail = &in->chaos.rail;
	struct rsk_completion done;

	rsk_chaos_step(&in->chaos);
	if (!rail->ops->poll(rail, &done, 1))
		return true;
	if (done.status == -EBUSY) {
		in->refused++;
	} else if (done.status) {
		FAIL("%s", strerror(-done.status));
	} else if (++in->at == counts[in->way]) {
		in->at = 0;
		if (++in->done == amount)
			return false;
	}
	next_op(in);
	if (rsk_chaos_locked(rail, &in->op, 0))
		FAIL("not issued");
	return true;
}

static void chaos(uint32_t delay)
{
	const struct rsk_chaos_config config = { .ppm = { [RSK_CHAOS_DELAY] = 1000000 },
						 .delay_steps = delay,
						 .reliable = true };
	static const uint64_t limit[RSK_LOCKED_SHARES];
	uint64_t steps[WAYS] = { 0 }, waited[WAYS] = { 0 }, refused[WAYS] = { 0 };

	for (enum way way = ONE; way < WAYS; way++) {
		uint32_t going = initiators;

		begin(way, limit);
		for (uint32_t i = 0; i < initiators; i++) {
			if (rsk_chaos_open(&all[i].chaos, &config, SEED + i, nothing, record,
					   sizeof(record)))
				FAIL("memory");
			next_op(&all[i]);
			if (rsk_chaos_locked(&all[i].chaos.rail, &all[i].op, 0))
				FAIL("not issued");
		}
		for (; going; steps[way]++)
			for (uint32_t i = 0; i < initiators; i++) {
				if (all[i].done == amount)
					continue;
				waited[way]++;
				going -= !step(&all[i]);
			}
		for (uint32_t i = 0; i < initiators; i++) {
			refused[way] += all[i].refused;
			rsk_chaos_close(&all[i].chaos);
		}
		whole(initiators * amount);
	}
	printf("{\"initiators\": %u, \"additions\": %" PRIu64 ", \"delay_steps\": %u", initiators,
	       initiators * amount, delay);
	for (enum way way = ONE; way < WAYS; way++)
		printf(", \"%s\": {\"steps\": %" PRIu64
		       ", \"steps_each\": %.3f, \"refused\": %" PRIu64 "}",
		       names[way], steps[way], (double)waited[way] / (double)(initiators * amount),
		       refused[way]);
	printf("}\n");
}

/* ---- threads ---- */
static void *adds(void *arg)
{
	struct initiator *in = arg;

	while (in->done < amount) {
		int rc;

		next_op(in);
		rc = rsk_locked_kinds_shm(&shm_rail, &in->op);
		if (rc == -EBUSY) {
			in->refused++;
			sched_yield();
		} else if (rc != 1) {
			FAIL("%s", strerror(-rc));
		} else if (++in->at == counts[in->way]) {
			in->at = 0;
			in->done++;
		}
	}
	return NULL;
}

static void *reserves(void *arg)
{
	static const uint64_t need[] = { 10, 1, 3 };
	struct initiator *in = arg;
	struct rsk_reserve r;
	int rc;

	while (in->given < amount) {
		rsk_reserve_take(&r, &in->by, need, RETRIES, BREAK_NS);
		while ((rc = rsk_reserve_run(&r, &shm_rail, rsk_monotonic_ns, 100)) == -EBUSY)
			sched_yield();
		if (rc == -ENOSPC) {
			in->refused++;
			sched_yield();
			continue;
		}
		if (rc)
			FAIL("take: %s", strerror(-rc));
		in->done++;
		rsk_reserve_give(&r, &in->by, need, RETRIES, BREAK_NS);
		while ((rc = rsk_reserve_run(&r, &shm_rail, rsk_monotonic_ns, 100)) == -EBUSY)
			sched_yield();
		if (rc)
			FAIL("give: %s", strerror(-rc));
		in->given++;
	}
	return NULL;
}

/* Runs @what in a thread for each initiator; returns the time of all in nanoseconds. */
static uint64_t threads(void *(*what)(void *))
{
	uint64_t begun = rsk_monotonic_ns();

	for (uint32_t i = 0; i < initiators; i++)
		if (pthread_create(&all[i].thread, NULL, what, &all[i]))
			FAIL("thread");
	for (uint32_t i = 0; i < initiators; i++)
		pthread_join(all[i].thread, NULL);
	return rsk_monotonic_ns() - begun;
}

static uint64_t refusals(void)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < initiators; i++)
		n += all[i].refused;
	return n;
}

static void shm(void)
{
	static const uint64_t limit[RSK_LOCKED_SHARES];

	printf("{\"initiators\": %u, \"additions\": %" PRIu64, initiators, initiators * amount);
	for (enum way way = ONE; way < WAYS; way++) {
		uint64_t ns;

		begin(way, limit);
		ns = threads(adds);
		whole(initiators * amount);
		printf(", \"%s\": {\"ns\": %" PRIu64 ", \"ns_each\": %.1f, \"refused\": %" PRIu64
		       "}",
		       names[way], ns, (double)ns / (double)(initiators * amount), refusals());
	}
	printf("}\n");
}

static void reserve(uint64_t total)
{
	/* The limits have room for half of the initiators at once. */
	const uint64_t limit[] = { 10ull * ((initiators + 1) / 2), UINT64_MAX, UINT64_MAX };
	struct rsk_locked_view v;
	uint64_t ns, changes, lost, twice, done = 0;

	amount = (total + initiators - 1) / initiators;
	begin(ONE, limit);
	ns = threads(reserves);
	for (uint32_t i = 0; i < initiators; i++)
		done += all[i].done;
	if (rsk_locked_validate(record, MOST, &v))
		FAIL("the record is not whole");
	for (uint32_t i = 0; i < RSK_LOCKED_SHARES; i++)
		if (v.now.shared[i])
			FAIL("measure %u: %" PRIu64 " are left", i, v.now.shared[i]);
	/* Each change increments the version: joins, reservations, returns. */
	changes = rsk_locked_version(v.word) - 1 - initiators;
	lost = 2 * done > changes ? 2 * done - changes : 0;
	twice = changes > 2 * done ? changes - 2 * done : 0;
	printf("{\"initiators\": %u, \"reservations\": %" PRIu64 ", \"ns_each\": %.1f, "
	       "\"did_not_fit\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"twice\": %" PRIu64 "}\n",
	       initiators, done, (double)ns / (double)done, refusals(), lost, twice);
	if (lost || twice)
		exit(1);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		FAIL("chaos INITIATORS ADDITIONS DELAY | shm INITIATORS ADDITIONS | reserve "
		     "INITIATORS RESERVATIONS");
	initiators = (uint32_t)strtoul(argv[2], NULL, 10);
	amount = strtoull(argv[3], NULL, 10);
	if (!initiators || initiators > MOST || !amount)
		FAIL("1 to %u initiators", MOST);
	if (!strcmp(argv[1], "chaos") && argc == 5)
		chaos((uint32_t)strtoul(argv[4], NULL, 10));
	else if (!strcmp(argv[1], "shm"))
		shm();
	else if (!strcmp(argv[1], "reserve"))
		reserve(amount);
	else
		FAIL("%s?", argv[1]);
	return 0;
}
