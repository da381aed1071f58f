// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_mailbox_chaos.c - tests a mailbox over a fabric that tears and delays gets, while its owner
 * updates it all the time and is caught in the middle of updates: whatever a reader accepts is one
 * of the published messages, and they are in order.
 */
#include "chaos.h"
#include "mailbox_kit.h"

#define BYTES 512u
#define OFF 64u
#define READERS 3u

struct bed {
	_Alignas(8) uint8_t here[BYTES], there[BYTES];
	struct rsk_chaos chaos;
	struct rsk_key key;
	struct rsk_mailbox box;
	struct rsk_mailbox_reader reader[READERS], *all[READERS];
	uint64_t dice, believed, half;
};

/*
 * Mixes old and new words in the owner's own memory: written in any order, and not all of them yet.
 */
static void caught_in_the_middle(struct bed *b)
{
	uint8_t before[RSK_MAILBOX_BYTES], after[RSK_MAILBOX_BYTES];
	uint32_t bytes = b->box.bytes;

	memcpy(before, b->box.at, bytes);
	say_next(&b->box, 1);
	memcpy(after, b->box.at, bytes);
	for (uint32_t at = 0; at < bytes; at += 8)
		if (dice_roll(&b->dice) & 1)
			memcpy((uint8_t *)b->box.at + at, before + at, 8);
	for (uint64_t steps = dice_roll(&b->dice) % 3; steps; steps--)
		rsk_chaos_step(&b->chaos);
	memcpy(b->box.at, after, bytes);
	b->half++;
}

static void turn(struct bed *b, struct rsk_mailbox_reader *r)
{
	uint64_t known = r->known;
	struct rsk_mailbox_view view = { .len = 0 };
	int rc;

	if (r->state == RSK_MAILBOX_IDLE && rsk_mailbox_start(r) != 0)
		cr_assert_fail("start");
	rc = rsk_mailbox_take(r, &view);
	if (rc == 1) {
		b->believed++;
		if (view.sequence <= known || view.sequence > b->box.sequence ||
		    !is_what_was_said(1, b->box.bytes - RSK_MAILBOX_FRAME_BYTES, &view))
			cr_assert_fail("message %llu of %llu was never published",
				       (unsigned long long)view.sequence,
				       (unsigned long long)b->box.sequence);
	} else if (rc != 0 && rc != -EAGAIN && rc != -EBADMSG) {
		cr_assert_fail("take: %d", rc);
	}
	if (!rsk_mailbox_reader_validate(r))
		cr_assert_fail("the reader is not as it can be");
}

static uint64_t run(uint32_t bytes, uint64_t seed, uint64_t faults)
{
	static const struct rsk_chaos_config config = {
		.ppm = { [RSK_CHAOS_TEAR] = 600000, [RSK_CHAOS_DELAY] = 500000 },
		.delay_steps = 6,
	};
	uint64_t torn = 0, old = 0, injected;
	struct bed b;

	memset(&b, 0, sizeof(b));
	b.dice = seed;
	cr_assert_eq(rsk_chaos_open(&b.chaos, &config, dice_roll(&b.dice), b.here, b.there, BYTES),
		     0);
	rsk_key_init(&b.key, KEY);
	rsk_mailbox_init(&b.box, b.there + OFF, bytes, &b.key);
	for (uint32_t i = 0; i < READERS; i++) {
		rsk_mailbox_reader_init(&b.reader[i], &b.chaos.rail, OFF, bytes, &b.key, i);
		b.all[i] = &b.reader[i];
	}
	while (rsk_chaos_injected(&b.chaos) < faults) {
		switch (dice_roll(&b.dice) % 8) {
		case 0:
		case 1:
			say_next(&b.box, 1);
			break;
		case 2:
			caught_in_the_middle(&b);
			break;
		case 3:
		case 4:
			rsk_chaos_step(&b.chaos);
			break;
		default:
			if (rsk_mailbox_poll(&b.chaos.rail, b.all, READERS) < 0)
				cr_assert_fail("poll");
			turn(&b, &b.reader[dice_roll(&b.dice) % READERS]);
			break;
		}
	}
	for (uint32_t i = 0; i < READERS; i++) {
		torn += b.reader[i].torn;
		old += b.reader[i].old;
	}
	printf("%u bytes: %llu published, %llu half; %llu torn, %llu old, %llu believed\n", bytes,
	       (unsigned long long)b.box.sequence, (unsigned long long)b.half,
	       (unsigned long long)torn, (unsigned long long)old, (unsigned long long)b.believed);
	cr_assert_gt(torn, faults / 20);
	cr_assert_gt(b.believed, faults / 20);
	injected = rsk_chaos_injected(&b.chaos);
	rsk_chaos_close(&b.chaos);
	return injected;
}

/* Runs 1.2e5 faults, or as many as RSK_CHAOS_FAULTS says. */
Test(mailbox_chaos, nothing_torn_is_believed, .timeout = 1700)
{
	static const uint32_t sizes[] = { 32, 56, 64, 128, RSK_MAILBOX_BYTES };
	uint64_t seed = dice_seed("nothing_torn_is_believed"), done = 0;
	uint64_t faults = dice_number("RSK_CHAOS_FAULTS", 120000);

	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		done += run(sizes[i], seed + i, faults / 5);
	cr_assert_geq(done, faults / 5 * 5);
}

/*
 * The same without a hash: blocks of two states do come together. Otherwise the test above would
 * prove nothing.
 */
Test(mailbox_chaos, the_fabric_does_tear)
{
	const struct rsk_chaos_config config = { .ppm = { [RSK_CHAOS_TEAR] = 1000000 },
						 .delay_steps = 6 };
	_Alignas(8) uint8_t here[BYTES] = { 0 }, there[BYTES] = { 0 };
	uint64_t mixed = 0, sandwich = 0;
	struct rsk_completion done;
	struct rsk_chaos chaos;
	uint8_t copy[96];

	cr_assert_eq(rsk_chaos_open(&chaos, &config, dice_seed("the_fabric_does_tear"), here, there,
				    BYTES),
		     0);
	for (uint32_t i = 1; i < 20000; i++) {
		cr_assert_eq(chaos.rail.ops->get(&chaos.rail, OFF, copy, sizeof(copy), i), 0);
		while (chaos.rail.ops->poll(&chaos.rail, &done, 1) == 0) {
			memset(there, (int)(++there[0] & 0xff), BYTES);
			rsk_chaos_step(&chaos);
		}
		cr_assert_eq(done.token, i, "one completion for a get");
		cr_assert_eq(chaos.flying_pieces, 0, "it ended before all of it was there");
		mixed += copy[0] != copy[sizeof(copy) - 1];
		for (uint32_t k = 1; k < sizeof(copy) - 1; k++)
			if (copy[k] != copy[0] && copy[0] == copy[sizeof(copy) - 1]) {
				sandwich++;
				break;
			}
	}
	cr_assert_gt(mixed, 5000);
	cr_assert_gt(sandwich, 20, "0,2,0 was not seen");
	rsk_chaos_close(&chaos);
}
