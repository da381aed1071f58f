// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_locked_chaos.c - tests locked access over the chaos fabric: several hosts, each with a rail
 * of its own to one record; a process at the target that takes the lock and dies with it; rails
 * that break with anything under way. The test keeps what each of them was told, and compares it
 * with the record at the end: nothing is lost, nothing counted twice, and the limit is never
 * exceeded.
 */
#include "chaos_locked.h"
#include "locked_kit.h"

#define HOSTS 6u
#define HOLDERS (HOSTS + 2) /* plus the owner, and one that competes at the target */
#define LOCAL (HOSTS + 2)
#define BYTES RSK_LOCKED_BYTES(HOLDERS)
#define BREAK_STEPS 50u

static const struct rsk_chaos_config wild = {
	.ppm = { [RSK_CHAOS_DELAY] = 400000,
		 [RSK_CHAOS_DUPLICATE] = 100000,
		 [RSK_CHAOS_LATE] = 100000,
		 [RSK_CHAOS_DROP] = 150000,
		 [RSK_CHAOS_CORRUPT] = 50000 },
	.delay_steps = 12,
	.late_steps = 400,
};

static const struct rsk_chaos_config reliable = {
	.ppm = { [RSK_CHAOS_DELAY] = 600000 },
	.delay_steps = 20,
	.reliable = true,
};

struct host {
	struct rsk_chaos chaos;
	struct rsk_locker by;
	struct rsk_reserve todo;
	bool joined, busy;
	uint64_t own[3];
	int64_t delta[3];
	bool joins;
};

struct world {
	_Alignas(64) uint8_t record[BYTES], nothing[BYTES];
	struct host host[HOSTS];
	struct rsk_locker owner, local;
	uint64_t seed, dice, now;
	uint64_t limit[3];
	bool local_holds, breaks;
	uint64_t granted, refused, denied, again, broken, dead, leaves;
};

static uint64_t below(struct world *w, uint64_t n)
{
	return dice_roll(&w->dice) % n;
}

/* An operation by a process of the target host itself. */
static int local(struct world *w, struct rsk_locker *by, struct rsk_locked op)
{
	op.by = by;
	cr_assert_eq(rsk_locked_kinds_begin(&op, BYTES), 0);
	return rsk_locked_kinds_run(w->record, &op);
}

static void plan(struct world *w, struct host *h)
{
	uint64_t need[3];
	bool take = below(w, 2);

	memset(h->delta, 0, sizeof(h->delta));
	h->joins = !h->joined;
	if (h->joins) {
		rsk_reserve_join(&h->todo, &h->by, KIT_RETRIES, BREAK_STEPS);
		return;
	}
	for (int i = 0; i < 3; i++) {
		need[i] = take ? below(w, w->limit[i] / 2 + 1) : below(w, h->own[i] + 1);
		h->delta[i] = take ? (int64_t)need[i] : -(int64_t)need[i];
	}
	if (take)
		rsk_reserve_take(&h->todo, &h->by, need, KIT_RETRIES, BREAK_STEPS);
	else
		rsk_reserve_give(&h->todo, &h->by, need, KIT_RETRIES, BREAK_STEPS);
}

static void finished(struct world *w, struct host *h, int rc)
{
	struct rsk_reserve_figures f;

	h->busy = false;
	w->broken += h->todo.broken;
	if (rc == 0) {
		if (h->joins)
			memset(h->own, 0, sizeof(h->own));
		h->joined = true;
		for (int i = 0; i < 3; i++)
			h->own[i] += (uint64_t)h->delta[i];
		w->granted++;
		rsk_reserve_figures(&h->by, &f);
		cr_assert_arr_eq(f.own, h->own, sizeof(f.own), "seed %llu: its share",
				 (unsigned long long)w->seed);
		return;
	}
	if (rc == -ESTALE) { /* judged dead: it owns nothing any more */
		h->joined = false;
		memset(h->own, 0, sizeof(h->own));
		w->denied++;
		return;
	}
	cr_assert_eq(rc, -ENOSPC, "seed %llu: %d", (unsigned long long)w->seed, rc);
	w->refused++;
}

static void turn(struct world *w, struct host *h)
{
	struct rsk_completion done;
	struct rsk_locked *op;
	int n, rc = -EAGAIN;

	rsk_chaos_step(&h->chaos);
	if (h->busy && w->breaks && below(w, 400) == 0)
		rsk_chaos_break(&h->chaos);
	if (h->busy) {
		n = h->chaos.rail.ops->poll(&h->chaos.rail, &done, 1);
		if (n == 0)
			return;
		if (n < 0) { /* its outcome is unknown; the same operation is repeated */
			rsk_chaos_repair(&h->chaos);
			w->again++;
		} else {
			rc = done.status;
		}
	} else {
		plan(w, h);
		h->busy = true;
	}
	rc = rsk_reserve_next(&h->todo, rc, w->now, &op);
	if (rc <= 0) {
		finished(w, h, rc);
		return;
	}
	rc = rsk_chaos_locked(&h->chaos.rail, op, 1);
	if (rc == -ENETDOWN)
		return; /* the poll reports it */
	cr_assert_eq(rc, 0);
}

/* The process at the target takes the lock, keeps it for a while, or dies with it. */
static void compete(struct world *w)
{
	if (below(w, 40))
		return;
	if (!w->local_holds) {
		w->local_holds =
			local(w, &w->local, (struct rsk_locked){ .kind = RSK_LOCKED_LOCK }) == 0;
		return;
	}
	w->local_holds = false;
	if (below(w, 4) == 0) { /* comes again as another holder */
		w->dead++;
		rsk_locker_init(&w->local, 0, HOLDERS, LOCAL, w->now << 20);
		while (local(w, &w->local, (struct rsk_locked){ .kind = RSK_LOCKED_READ }) == 0)
			if (local(w, &w->local, (struct rsk_locked){ .kind = RSK_LOCKED_JOIN }) ==
			    0)
				break;
		return;
	}
	local(w, &w->local, (struct rsk_locked){ .kind = RSK_LOCKED_UNLOCK });
}

/* Now and then the owner judges a host dead that is alive. */
static void judge(struct world *w)
{
	struct rsk_locked op = { .kind = RSK_LOCKED_LEAVE };

	if (below(w, 500))
		return;
	op.who = 1 + (uint32_t)below(w, HOSTS);
	if (local(w, &w->owner, op) == 0)
		w->leaves++;
}

static void check(struct world *w)
{
	struct rsk_locked_view v;

	kit_whole(w->record, HOLDERS, &v);
	for (int i = 0; i < 3; i++)
		cr_assert_leq(v.now.shared[i], w->limit[i], "seed %llu: above the limit",
			      (unsigned long long)w->seed);
}

static uint64_t faults_of(const struct world *w)
{
	uint64_t n = w->dead + w->leaves;

	for (uint32_t i = 0; i < HOSTS; i++)
		n += rsk_chaos_injected(&w->host[i].chaos);
	return n;
}

static void open_world(struct world *w, const struct rsk_chaos_config *config, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = w->dice = seed;
	memcpy(w->limit, ((uint64_t[]){ 1000, 12, 50 }), sizeof(w->limit));
	rsk_locked_init(w->record, HOLDERS, w->limit);
	for (uint32_t i = 0; i < HOSTS; i++) {
		struct host *h = &w->host[i];

		cr_assert_eq(rsk_chaos_open(&h->chaos, config, dice_roll(&w->dice), w->nothing,
					    w->record, BYTES),
			     0);
		rsk_locker_init(&h->by, 0, HOLDERS, i + 1, 0);
	}
	rsk_locker_init(&w->owner, 0, HOLDERS, HOSTS + 1, 0);
	rsk_locker_init(&w->local, 0, HOLDERS, LOCAL, 0);
	cr_assert_eq(local(w, &w->owner, (struct rsk_locked){ .kind = RSK_LOCKED_JOIN }), 0);
	cr_assert_eq(local(w, &w->local, (struct rsk_locked){ .kind = RSK_LOCKED_JOIN }), 0);
}

/*
 * Lets all operations under way finish; then what each holder was told must be what the record
 * says.
 */
static void settle(struct world *w)
{
	struct rsk_locked_view v;
	uint64_t sum[3] = { 0 };

	w->breaks = false;
	for (uint32_t i = 0; i < HOSTS; i++) {
		struct host *h = &w->host[i];
		uint64_t until = w->now + 1000000;

		memset(h->chaos.config.ppm, 0, sizeof(h->chaos.config.ppm));
		while (h->busy) {
			w->now++;
			turn(w, h);
			cr_assert_lt(w->now, until, "seed %llu: it does not end",
				     (unsigned long long)w->seed);
		}
	}
	check(w);
	kit_whole(w->record, HOLDERS, &v);
	for (uint32_t i = 0; i < HOSTS; i++) {
		struct host *h = &w->host[i];

		/* Judged dead, without knowing it yet. */
		if (h->joined && (v.now.joined & 1ull << i))
			for (int k = 0; k < 3; k++)
				sum[k] += h->own[k];
		rsk_chaos_close(&h->chaos);
	}
	cr_assert_arr_eq(sum, v.now.shared, sizeof(sum), "seed %llu: lost or twice",
			 (unsigned long long)w->seed);
}

static void series(const struct rsk_chaos_config *config, uint64_t faults, const char *name)
{
	uint64_t seed = dice_seed(name), had = 0, granted = 0, refused = 0, again = 0, broken = 0,
		 leaves = 0, dead = 0;
	static struct world w;

	for (uint64_t run = 0; had < faults; run++) {
		open_world(&w, config, seed + run);
		w.breaks = true;
		for (int i = 0; i < 3000; i++) {
			w.now++;
			for (uint32_t k = 0; k < HOSTS; k++)
				turn(&w, &w.host[k]);
			compete(&w);
			judge(&w);
			check(&w);
		}
		had += faults_of(&w);
		settle(&w);
		granted += w.granted;
		refused += w.refused;
		again += w.again;
		broken += w.broken;
		leaves += w.leaves;
		dead += w.dead;
	}
	printf("%s: %llu faults, %llu granted, %llu did not fit, %llu asked again after a break, "
	       "%llu locks broken, %llu dead holders, %llu judged dead\n",
	       name, (unsigned long long)had, (unsigned long long)granted,
	       (unsigned long long)refused, (unsigned long long)again, (unsigned long long)broken,
	       (unsigned long long)dead, (unsigned long long)leaves);
	cr_assert_gt(granted, 1000);
	cr_assert_gt(refused, 100);
	cr_assert_gt(again, 20);
	cr_assert_gt(broken, 10);
	cr_assert_gt(leaves, 10);
}

Test(locked_chaos, wild)
{
	series(&wild, dice_number("RSK_CHAOS_FAULTS", 100000), "wild");
}

Test(locked_chaos, reliable)
{
	series(&reliable, dice_number("RSK_CHAOS_FAULTS", 100000) / 4, "reliable");
}

/*
 * One operation takes one round trip: three that are awaited one by one take three times as many
 * steps.
 */
Test(locked_chaos, one_round_trip)
{
	static struct world w;
	static const struct rsk_chaos_config slow = { .ppm = { [RSK_CHAOS_DELAY] = 1000000 },
						      .delay_steps = 1 };
	const uint32_t one[] = { RSK_LOCKED_ADD },
		       three[] = { RSK_LOCKED_LOCK, RSK_LOCKED_ADD, RSK_LOCKED_UNLOCK };
	uint64_t took[2] = { 0 };

	open_world(&w, &slow, 1);
	for (int way = 0; way < 2; way++) {
		const uint32_t *kinds = way ? three : one;

		for (int i = way ? 0 : -1; i < (way ? 3 : 1); i++) {
			struct host *h = &w.host[0];
			struct rsk_locked op = { .by = &h->by,
						 .kind = i < 0 ? RSK_LOCKED_JOIN : kinds[i],
						 .at = RSK_LOCKED_FREE,
						 .words = { 1 } };
			struct rsk_completion done;

			cr_assert_eq(rsk_chaos_locked(&h->chaos.rail, &op, 9), 0);
			while (!h->chaos.rail.ops->poll(&h->chaos.rail, &done, 1)) {
				rsk_chaos_step(&h->chaos);
				took[way] += i >= 0;
			}
			cr_assert_eq(done.status, 0);
			cr_assert_eq(done.token, 9);
		}
	}
	cr_assert_eq(took[1], 3 * took[0], "%llu and %llu steps", (unsigned long long)took[0],
		     (unsigned long long)took[1]);
	settle(&w);
}
