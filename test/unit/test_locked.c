// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_locked.c - tests locked access in single operations, on memory of this process: each kind,
 * refusals, broken locks, damaged records.
 */
#include "locked_kit.h"

#define HOLDERS 4u
#define BYTES RSK_LOCKED_BYTES(HOLDERS)

static _Alignas(64) uint8_t memory[BYTES];
static struct rsk_rail rail;
static struct rsk_locker at[HOLDERS + 1]; /* indexed by number */

static int issue(struct rsk_locked *op)
{
	int rc = rsk_locked_kinds_shm(&rail, op);

	cr_assert_neq(rc, 0, "done at once, or refused");
	return rc > 0 ? 0 : rc;
}

static int simple(uint32_t me, uint32_t kind)
{
	struct rsk_locked op = { .by = &at[me], .kind = kind };

	return issue(&op);
}

static int share(uint32_t me, int64_t bps, int64_t sessions, int64_t maps)
{
	struct rsk_locked op = { .by = &at[me],
				 .kind = RSK_LOCKED_SHARE,
				 .delta = { bps, sessions, maps } };

	return issue(&op);
}

static int add(uint32_t me, uint64_t value, uint64_t *old)
{
	struct rsk_locked op = {
		.by = &at[me], .kind = RSK_LOCKED_ADD, .at = RSK_LOCKED_FREE, .words = { value }
	};
	int rc = issue(&op);

	*old = rsk_locked_kinds_old(&op);
	return rc;
}

static void begin(void)
{
	static const uint64_t limit[] = { 1000, 10, UINT64_MAX };

	rsk_locked_init(memory, HOLDERS, limit);
	kit_rail(&rail, memory, BYTES);
	for (uint32_t h = 1; h <= HOLDERS; h++) {
		rsk_locker_init(&at[h], 0, HOLDERS, h, h * 1000000ull);
		cr_assert_eq(simple(h, RSK_LOCKED_JOIN), 0);
	}
	kit_whole(memory, HOLDERS, NULL);
}

/* Nothing has changed since @was. */
static void same(const uint8_t *was)
{
	cr_assert_arr_eq(memory, was, BYTES, "something was changed");
}

TestSuite(locked, .init = begin);

Test(locked, each_kind)
{
	struct rsk_locked op = { .by = &at[2],
				 .kind = RSK_LOCKED_WRITE,
				 .at = RSK_LOCKED_LIMIT,
				 .n = 4,
				 .words = { 2000, 20, 30, 40 } };
	uint64_t old;

	cr_assert_eq(issue(&op), 0);
	cr_assert_eq(add(3, 2, &old), 0);
	cr_assert_eq(old, 40);
	op = (struct rsk_locked){ .by = &at[4],
				  .kind = RSK_LOCKED_SWAP,
				  .at = RSK_LOCKED_FREE,
				  .expected = 42,
				  .words = { 50 } };
	cr_assert_eq(issue(&op), 0);
	cr_assert_eq(rsk_locked_kinds_old(&op), 42);
	op.number = 0;
	cr_assert_eq(issue(&op), 0, "not expected is not refused");
	cr_assert_eq(rsk_locked_kinds_old(&op), 50);
	cr_assert_eq(share(1, 1500, 1, 0), 0);
	cr_assert_eq(simple(2, RSK_LOCKED_READ), 0);
	cr_assert_arr_eq(at[2].view.now.shared, ((uint64_t[]){ 1500, 1, 0, 2000, 20, 30, 50 }), 56);
	kit_whole(memory, HOLDERS, NULL);
}

Test(locked, all_of_a_share_or_nothing)
{
	uint8_t was[BYTES];

	cr_assert_eq(share(1, 600, 6, 6), 0);
	memcpy(was, memory, BYTES);
	cr_assert_eq(share(2, 1, 5, 1), -ENOSPC);
	cr_assert_eq(share(2, 401, 1, 1), -ENOSPC);
	cr_assert_eq(share(2, -1, 0, 0), -ERANGE, "another one's");
	cr_assert_eq(share(1, 0, -7, 0), -ERANGE);
	cr_assert_eq(share(1, INT64_MAX, 0, 0), -ENOSPC);
	cr_assert_eq(share(1, INT64_MIN, 0, 0), -ERANGE);
	same(was);
	cr_assert_eq(share(2, 400, 4, INT64_MAX), 0);
	cr_assert_eq(share(3, 0, 0, INT64_MAX - 7), 0, "no limit");
	cr_assert_eq(share(3, 0, 0, 3), -ENOSPC, "none but what a word holds");
	cr_assert_eq(share(1, -600, -6, -6), 0);
	cr_assert_eq(share(3, 600, 6, 0), 0);
	kit_whole(memory, HOLDERS, NULL);
}

Test(locked, refused_neither_accesses_nor_unlocks)
{
	uint8_t was[BYTES];
	uint64_t old;

	cr_assert_eq(simple(1, RSK_LOCKED_LOCK), 0);
	memcpy(was, memory, BYTES);
	for (uint32_t kind = 0; kind < RSK_LOCKED_ALL_KINDS; kind++) {
		struct rsk_locked op = {
			.by = &at[2], .kind = kind, .at = 3, .n = 1, .who = 1, .retries = 5
		};
		bool other = kind == RSK_LOCKED_UNLOCK || kind == RSK_LOCKED_BREAK;

		cr_assert_eq(issue(&op), other ? -ESTALE : -EBUSY, "kind %u", kind);
		cr_assert_eq(op.tries, other ? 1 : 6);
		cr_assert_eq(rsk_locked_holder(at[2].view.word), 1, "it is told who");
		same(was);
	}
	cr_assert_eq(add(1, 7, &old), 0, "whose lock it is may");
	cr_assert_eq(add(2, 7, &old), -EBUSY);
	cr_assert_eq(simple(1, RSK_LOCKED_LOCK), 0, "has it");
	cr_assert_eq(simple(1, RSK_LOCKED_UNLOCK), 0);
	cr_assert_eq(add(2, 1, &old), 0);
	cr_assert_eq(old, 7);
}

Test(locked, broken_in_bounded_time_and_its_holder_is_told)
{
	const uint64_t need[] = { 5, 1, 0 };
	struct rsk_locked *next;
	struct rsk_reserve r;
	uint64_t now, old;
	int rc = -EAGAIN;

	cr_assert_eq(simple(1, RSK_LOCKED_LOCK), 0);
	cr_assert_eq(share(1, 10, 1, 0), 0);
	rsk_reserve_take(&r, &at[2], need, KIT_RETRIES, KIT_BREAK_NS);
	for (now = 0; (rc = rsk_reserve_next(&r, rc, now, &next)) == 1; now += 100) {
		cr_assert_leq(now, KIT_BREAK_NS + 300, "it takes too long");
		rc = issue(next);
	}
	cr_assert_eq(rc, 0);
	cr_assert_geq(now, KIT_BREAK_NS);
	cr_assert_eq(r.broken, 1);
	cr_assert_eq(simple(1, RSK_LOCKED_UNLOCK), -ESTALE);
	cr_assert_eq(add(1, 1, &old), 0, "it goes on without");
	cr_assert_eq(at[1].view.now.shared[0], 15, "what it did under its lock counts");
	kit_whole(memory, HOLDERS, NULL);
}

Test(locked, a_lock_that_moves_is_not_overdue)
{
	struct rsk_locked_watch w = { 0 };
	uint64_t old;

	cr_assert_eq(simple(1, RSK_LOCKED_LOCK), 0);
	for (uint64_t now = 0; now < 10 * KIT_BREAK_NS; now += KIT_BREAK_NS / 2) {
		simple(2, RSK_LOCKED_READ);
		cr_assert_not(rsk_locked_overdue(&w, at[2].view.word, now, KIT_BREAK_NS));
		cr_assert_eq(add(1, 1, &old), 0);
	}
	cr_assert_eq(simple(1, RSK_LOCKED_UNLOCK), 0);
	simple(2, RSK_LOCKED_READ);
	for (uint64_t now = 0; now < 4 * KIT_BREAK_NS; now += KIT_BREAK_NS)
		cr_assert_not(rsk_locked_overdue(&w, at[2].view.word, now, KIT_BREAK_NS), "free");
}

/*
 * The access is composed while the lock is held, and sent after the lock was broken and taken by
 * another: a write that was under way for long.
 */
Test(locked, a_broken_holders_late_access_changes_nothing)
{
	struct rsk_locked late = {
		.by = &at[1], .kind = RSK_LOCKED_ADD, .at = RSK_LOCKED_FREE, .words = { 1 }
	};
	struct rsk_locked_next next;
	uint64_t seen;
	struct rsk_locked br = { .by = &at[2], .kind = RSK_LOCKED_BREAK };

	cr_assert_eq(simple(1, RSK_LOCKED_LOCK), 0);
	cr_assert_eq(rsk_locked_kinds_begin(&late, BYTES), 0);
	cr_assert_eq(rsk_locked_kinds_plan(&late, &at[1].view, &next), 1);
	br.expected = at[1].view.word;
	cr_assert_eq(issue(&br), 0);
	for (int i = 0; i < 2; i++) {
		seen = next.from;
		memcpy(memory + RSK_LOCKED_HEAD_BYTES + next.slot * sizeof(next.content),
		       &next.content, sizeof(next.content));
		cr_assert_not(__atomic_compare_exchange_n((uint64_t *)(void *)memory, &seen,
							  next.to, false, __ATOMIC_SEQ_CST,
							  __ATOMIC_SEQ_CST));
		kit_whole(memory, HOLDERS, NULL);
		cr_assert_eq(simple(2, RSK_LOCKED_LOCK), 0);
	}
	cr_assert_eq(simple(2, RSK_LOCKED_READ), 0);
	cr_assert_eq(at[2].view.now.shared[RSK_LOCKED_FREE], 0);
}

Test(locked, who_dies_leaves_what_it_had_to_be_given_back)
{
	struct rsk_locked op = { .by = &at[2], .kind = RSK_LOCKED_LEAVE, .who = 1 };

	cr_assert_eq(share(1, 700, 7, 1), 0);
	cr_assert_eq(share(2, 1, 1, 1), 0);
	cr_assert_eq(issue(&op), 0);
	cr_assert_eq(share(1, 1, 0, 0), -ESTALE, "not dead, but judged so");
	cr_assert_eq(at[1].view.now.shared[0], 1);
	op.number = 0;
	cr_assert_eq(issue(&op), 0, "twice is once");
	cr_assert_eq(simple(1, RSK_LOCKED_JOIN), 0);
	cr_assert_eq(share(1, 999, 0, 0), 0);
	cr_assert_eq(share(1, -999, 0, 0), 0);
	/* A new incarnation under the number of one that has not left. */
	cr_assert_eq(share(2, 3, 3, 3), 0);
	rsk_locker_init(&at[2], 0, HOLDERS, 2, 77777);
	cr_assert_eq(simple(2, RSK_LOCKED_JOIN), 0);
	cr_assert_eq(at[2].view.now.shared[0], 0);
	op = (struct rsk_locked){ .by = &at[2], .kind = RSK_LOCKED_LEAVE, .who = 2 };
	cr_assert_eq(issue(&op), 0);
	kit_whole(memory, HOLDERS, NULL);
}

Test(locked, issued_again_is_done_once)
{
	struct rsk_locked op = {
		.by = &at[3], .kind = RSK_LOCKED_ADD, .at = RSK_LOCKED_FREE, .words = { 5 }
	};
	struct rsk_locked take = { .by = &at[2], .kind = RSK_LOCKED_SHARE, .delta = { 9, 1, 0 } };
	uint64_t old;

	cr_assert_eq(issue(&take), 0);
	cr_assert_eq(issue(&op), 0);
	cr_assert_eq(add(1, 100, &old), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(issue(&op), 0);
		cr_assert_eq(rsk_locked_kinds_old(&op), 0, "as it was then");
		cr_assert_eq(issue(&take), 0);
	}
	cr_assert_eq(at[2].view.now.shared[0], 9);
	cr_assert_eq(at[2].view.now.shared[RSK_LOCKED_FREE], 105);
}

/*
 * The holder's next operation is identified by its sequence number, even if the numbers of other
 * holders are equal.
 */
Test(locked, random_against_an_oracle)
{
	uint64_t seed = dice_seed("locked"), dice = seed, done[7] = { 0 };
	uint64_t own[HOLDERS + 1][3] = { { 0 } }, used[3] = { 0 },
			       most[] = { 1000, 10, UINT64_MAX };
	uint32_t held = 0;

	for (int i = 0; i < 200000; i++) {
		uint32_t me = 1 + (uint32_t)(dice_roll(&dice) % HOLDERS);
		uint64_t what = dice_roll(&dice) % 16;
		bool mine = !held || held == me;
		int want, rc;

		if (what == 0) {
			rc = simple(me, RSK_LOCKED_LOCK);
			want = mine ? 0 : -EBUSY;
			held = mine ? me : held;
		} else if (what <= 2) {
			rc = simple(me, RSK_LOCKED_UNLOCK);
			want = held == me ? 0 : -ESTALE;
			held = held == me ? 0 : held;
		} else if (what == 3) {
			rc = simple(me, RSK_LOCKED_JOIN);
			want = mine ? 0 : -EBUSY;
			for (int k = 0; mine && k < 3; k++) {
				used[k] -= own[me][k];
				own[me][k] = 0;
			}
		} else {
			int64_t d[3];
			uint64_t above = 0, below = 0;

			for (int k = 0; k < 3; k++) {
				d[k] = (int64_t)(dice_roll(&dice) % (k ? 9 : 801)) - (k ? 4 : 400);
				above |= d[k] > 0 && used[k] + (uint64_t)d[k] > most[k];
				below |= d[k] < 0 && own[me][k] < (uint64_t)-d[k];
			}
			rc = share(me, d[0], d[1], d[2]);
			want = !mine	      ? -EBUSY :
			       above && below ? rc :
			       above	      ? -ENOSPC :
			       below	      ? -ERANGE :
						0;
			cr_assert(!(above && below && mine) || rc == -ENOSPC || rc == -ERANGE);
			for (int k = 0; rc == 0 && k < 3; k++) {
				own[me][k] += (uint64_t)d[k];
				used[k] += (uint64_t)d[k];
			}
		}
		cr_assert_eq(rc, want, "seed %llu, turn %d: %d, not %d", (unsigned long long)seed,
			     i, rc, want);
		done[rc == 0 ? 0 : rc == -EBUSY ? 1 : rc == -ENOSPC ? 2 : rc == -ERANGE ? 3 : 4]++;
		kit_whole(memory, HOLDERS, &at[0].view);
		cr_assert_arr_eq(at[0].view.now.shared, used, sizeof(used), "seed %llu, turn %d",
				 (unsigned long long)seed, i);
		cr_assert_eq(rsk_locked_holder(at[0].view.word), held);
	}
	for (int i = 0; i < 5; i++)
		cr_assert_gt(done[i], 1000, "outcome %d", i);
}

Test(locked, arguments)
{
	struct rsk_locked op = { .by = &at[1], .kind = RSK_LOCKED_ADD, .at = 2 };

	cr_assert_eq(issue(&op), -EINVAL, "a sum");
	op.at = RSK_LOCKED_WORDS;
	cr_assert_eq(issue(&op), -EINVAL);
	op = (struct rsk_locked){ .by = &at[1], .kind = RSK_LOCKED_WRITE, .at = 6, .n = 2 };
	cr_assert_eq(issue(&op), -EINVAL);
	op.n = UINT32_MAX;
	cr_assert_eq(issue(&op), -EINVAL);
	op.n = 0;
	cr_assert_eq(issue(&op), -EINVAL);
	op = (struct rsk_locked){ .by = &at[1], .kind = RSK_LOCKED_ALL_KINDS };
	cr_assert_eq(issue(&op), -EINVAL);
	op = (struct rsk_locked){ .by = &at[1], .kind = RSK_LOCKED_LEAVE };
	cr_assert_eq(issue(&op), -EINVAL);
	op.kind = RSK_LOCKED_READ;
	for (uint64_t off = 8; off; off *= 8) {
		at[1].off = off;
		cr_assert_eq(issue(&op), -EINVAL, "%llu", (unsigned long long)off);
	}
	at[1].off = 0;
	at[1].me = HOLDERS + 1;
	cr_assert_eq(issue(&op), -EINVAL);
	at[1].holders = RSK_LOCKED_HOLDERS + 1;
	cr_assert_eq(issue(&op), -EINVAL);
}

/*
 * Whatever the memory contains: no crash, no write outside of it, and an operation that returns 0
 * has read a record whose hash was right.
 */
Test(locked, harmed)
{
	uint64_t seed = dice_seed("harmed"), dice = seed, refused = 0;
	uint8_t whole[BYTES];

	cr_assert_eq(share(1, 10, 1, 1), 0);
	memcpy(whole, memory, BYTES);
	for (int i = 0; i < 20000; i++) {
		uint32_t flips = 1 + (uint32_t)(dice_roll(&dice) % 4);
		uint64_t old;
		int rc;

		memcpy(memory, whole, BYTES);
		while (flips--)
			memory[dice_roll(&dice) % (i % 3 ? BYTES : 8)] ^=
				(uint8_t)(1u << dice_roll(&dice) % 8);
		rc = i & 1 ? share(1 + (uint32_t)(dice_roll(&dice) % HOLDERS), 1, 0, 0) :
			     add(2, 1, &old);
		refused += rc == -EBADMSG;
		/*
		 * An older version that is whole, from before a holder joined, cannot be recognised
		 * as damage.
		 */
		cr_assert(rc == 0 || rc == -EBADMSG || rc == -EBUSY || rc == -ESTALE,
			  "seed %llu, turn %d: %d", (unsigned long long)seed, i, rc);
	}
	cr_assert_gt(refused, 5000);
	memset(memory, 0, BYTES);
	cr_assert_eq(simple(1, RSK_LOCKED_READ), -EBADMSG, "no record");
}
