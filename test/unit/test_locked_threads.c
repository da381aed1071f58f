// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_locked_threads.c - tests locked access on shared memory under contention: threads, and
 * processes that are killed at any moment.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <rsock/clock.h>

#include "crowd.h"
#include "locked_kit.h"

#define HOLDERS (CROWD + 1)
#define OWNER HOLDERS
#define BYTES RSK_LOCKED_BYTES(HOLDERS)
#define HOLD_NS 20000000ull /* after which a lock is broken */

/* Shared by all of them. The notes are kept beside the record, each by its own holder. */
struct stage {
	_Alignas(64) uint8_t record[BYTES];
	struct rsk_rail rail;
	/* counted before it is certain: an upper bound, at most one above the lower bound @sure */
	_Atomic(uint64_t) granted[HOLDERS + 1];
	_Atomic(uint64_t) sure[HOLDERS + 1];
	_Atomic(uint64_t) refused, adds;
	_Atomic(uint32_t) ready, asleep;
};
static struct stage *stage;
static const uint64_t limit[] = { 7, 1u << 20, UINT64_MAX };

static void set(void)
{
	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	cr_assert_neq(stage, MAP_FAILED);
	rsk_locked_init(stage->record, HOLDERS, limit);
	kit_rail(&stage->rail, stage->record, BYTES);
}

static void end(void)
{
	munmap(stage, sizeof(*stage));
}

static int done(struct rsk_reserve *r)
{
	uint64_t until = rsk_monotonic_ns() + 20000000000ull;
	int rc;

	do {
		rc = rsk_reserve_run(r, &stage->rail, rsk_monotonic_ns, 1000);
		if (rc == -EBUSY)
			usleep(100); /* another holder sleeps with the lock */
	} while (rc == -EBUSY && rsk_monotonic_ns() < until);
	return rc;
}

static int join(struct rsk_locker *by, uint32_t me)
{
	struct rsk_reserve r;

	rsk_locker_init(by, 0, HOLDERS, me, rsk_monotonic_ns());
	rsk_reserve_join(&r, by, KIT_RETRIES, HOLD_NS);
	return done(&r);
}

/* ---- threads ---- */
static void *takes_and_gives(void *arg)
{
	const uint64_t need[] = { 2, 1, 3 };
	uint32_t me = (uint32_t)(uintptr_t)arg;
	uint64_t refused = 0, adds = 0;
	struct rsk_locker by;
	struct rsk_reserve r;

	if (join(&by, me) != 0)
		return (void *)"join";
	for (int i = 0; i < 4000; i++) {
		struct rsk_locked op = {
			.by = &by, .kind = RSK_LOCKED_ADD, .at = RSK_LOCKED_FREE, .words = { me }
		};
		int rc;

		rsk_reserve_take(&r, &by, need, KIT_RETRIES, HOLD_NS);
		rc = done(&r);
		if (rc == -ENOSPC) {
			refused++;
			continue;
		}
		if (rc < 0)
			return (void *)"take";
		do
			rc = rsk_locked_kinds_shm(&stage->rail, &op);
		while (rc == -EBUSY);
		if (rc != 1)
			return (void *)"add";
		adds += me;
		rsk_reserve_give(&r, &by, need, KIT_RETRIES, HOLD_NS);
		if (done(&r) < 0)
			return (void *)"give";
	}
	atomic_fetch_add(&stage->refused, refused);
	atomic_fetch_add(&stage->adds, adds);
	return NULL;
}

Test(locked_threads, none_lost_none_twice, .init = set, .fini = end)
{
	pthread_t thread[CROWD];
	struct rsk_locked_view v;

	crowd_begin(thread, takes_and_gives);
	for (int i = 0; i < 2000; i++) { /* meanwhile the record is whole at any time */
		int rc = rsk_locked_validate(stage->record, HOLDERS, &v);

		cr_assert(rc == 0 || rc == -EAGAIN, "%d", rc);
		cr_assert(rc || v.now.shared[0] <= limit[0], "above the limit");
	}
	crowd_end(thread);
	kit_whole(stage->record, HOLDERS, &v);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(v.now.shared[i], 0, "measure %d", i);
	cr_assert_eq(v.now.shared[RSK_LOCKED_FREE], atomic_load(&stage->adds));
}

/* ---- processes ---- */
/* Takes one more each time, until it is killed, or until it sleeps with the lock. */
static void child(uint32_t me, bool sleeps)
{
	const uint64_t need[] = { 0, 1, 0 };
	struct rsk_locker by;
	struct rsk_reserve r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (join(&by, me) != 0)
		_exit(1);
	atomic_store(&stage->granted[me], 0);
	atomic_store(&stage->sure[me], 0);
	atomic_fetch_add(&stage->ready, 1);
	for (uint64_t n = 1;; n++) {
		atomic_store(&stage->granted[me], n);
		rsk_reserve_take(&r, &by, need, KIT_RETRIES, HOLD_NS);
		if (done(&r) != 0)
			_exit(2);
		atomic_store(&stage->sure[me], n);
		if (sleeps && n > 50) {
			struct rsk_locked lock = { .by = &by, .kind = RSK_LOCKED_LOCK };

			if (rsk_locked_kinds_shm(&stage->rail, &lock) == 1) {
				atomic_store(&stage->asleep, 1);
				for (;;)
					pause();
			}
		}
	}
}

/*
 * Compares the share of a killed process with its notes, which may be off by one if it was killed
 * between the two steps.
 */
static void check_share(uint32_t who)
{
	struct rsk_locked_view v;
	struct rsk_locker as;
	struct rsk_locked op = { .by = &as, .kind = RSK_LOCKED_READ };

	rsk_locker_init(&as, 0, HOLDERS, who, 1);
	while (rsk_locked_load(stage->record, &op, &v) == -EAGAIN)
		;
	cr_assert_geq(v.mine.own[1], atomic_load(&stage->sure[who]), "lost");
	cr_assert_leq(v.mine.own[1], atomic_load(&stage->granted[who]), "twice");
}

static void kills(bool sleeps, int rounds)
{
	uint64_t seed = dice_seed("kills"), dice = seed;
	struct rsk_locker owner;
	struct rsk_locked_view v;
	struct rsk_reserve r;
	pid_t pid[CROWD + 1];
	uint32_t broken = 0;

	cr_assert_eq(join(&owner, OWNER), 0);
	for (int round = 0; round < rounds; round++) {
		struct timespec rest = { 0, (long)(dice_roll(&dice) % 3000000) };
		uint64_t until;

		atomic_store(&stage->ready, 0);
		atomic_store(&stage->asleep, 0);
		for (uint32_t i = 1; i <= CROWD; i++) {
			pid[i] = fork();
			cr_assert_geq(pid[i], 0);
			if (!pid[i])
				child(i, sleeps && i == 1);
		}
		until = rsk_monotonic_ns() + 20000000000ull;
		while (atomic_load(&stage->ready) < CROWD ||
		       (sleeps && !atomic_load(&stage->asleep))) {
			cr_assert_lt(rsk_monotonic_ns(), until, "seed %llu: they do not get there",
				     (unsigned long long)seed);
			sched_yield();
		}
		nanosleep(&rest, NULL);
		crowd_kill(pid, seed);
		/*
		 * The record is whole as they left it, and their shares are those that they knew
		 * of.
		 */
		kit_whole(stage->record, HOLDERS, &v);
		for (uint32_t i = 1; i <= CROWD; i++)
			check_share(i);
		for (uint32_t i = 1; i <= CROWD; i++) {
			uint64_t begun = rsk_monotonic_ns();

			rsk_reserve_leave(&r, &owner, i, KIT_RETRIES, HOLD_NS);
			cr_assert_eq(done(&r), 0);
			broken += r.broken;
			cr_assert_lt(rsk_monotonic_ns() - begun, 50 * HOLD_NS, "it took long");
		}
		kit_whole(stage->record, HOLDERS, &v);
		cr_assert_eq(v.now.shared[1], 0, "seed %llu: all is given back",
			     (unsigned long long)seed);
	}
	/* No more than there were; often another child has broken the lock before. */
	cr_assert_leq(broken, sleeps ? (uint32_t)rounds : 0);
}

Test(locked_threads, killed_anywhere, .init = set, .fini = end)
{
	kills(false, 60);
}

Test(locked_threads, killed_with_the_lock, .init = set, .fini = end)
{
	kills(true, 20);
}
