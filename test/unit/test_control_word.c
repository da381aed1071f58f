// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_control_word.c - tests control words: one word, overwritten in place, accepted only if its
 * hash is right.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "chaos.h"
#include "dice.h"
#include "control_word.h"

static const struct rsk_fabric_ops shm_ops = {
	.name = "shm-like",
	.caps = RSK_FABRIC_RELIABLE | RSK_FABRIC_DURABLE | RSK_FABRIC_SYNC,
};

struct box {
	struct rsk_control_word at; /* in the peer's segment */
	struct rsk_rail rail;
	struct rsk_key key;
};

static void box_init(struct box *b)
{
	memset(b, 0, sizeof(*b));
	b->rail = (struct rsk_rail){ .ops = &shm_ops,
				     .window = (uint8_t *)&b->at,
				     .window_bytes = sizeof(b->at) };
	rsk_key_init(&b->key, 7);
}

static struct rsk_control_word sample(uint32_t n)
{
	return (struct rsk_control_word){
		.what = RSK_TX_RING, .gen = n, .pos = 1000 + n, .cells = 64 + n, .repair = n
	};
}

Test(word, empty_memory_says_nothing)
{
	struct rsk_control_word m;
	struct box b;

	box_init(&b);
	cr_assert_not(rsk_control_word_fresh(&b.at, 0));
	cr_assert_not(rsk_control_word_get(&b.at, &b.key, RSK_CONTROL_WORD_TX, &m));
}

Test(word, newest_word_counts)
{
	struct rsk_control_word m, got;
	uint64_t seen = 0;
	struct box b;

	box_init(&b);
	for (uint32_t i = 1; i < 100; i++) {
		m = sample(i);
		cr_assert_eq(rsk_control_word_put(&b.rail, 0, &b.key, RSK_CONTROL_WORD_TX, &m), 0);
		if (i % 3)
			continue; /* overwritten before it was read */
		cr_assert(rsk_control_word_fresh(&b.at, seen));
		cr_assert(rsk_control_word_get(&b.at, &b.key, RSK_CONTROL_WORD_TX, &got));
		cr_assert_arr_eq(&got, &m, sizeof(m));
		seen = got.hash;
		cr_assert_not(rsk_control_word_fresh(&b.at, seen));
	}
}

Test(word, every_bit_counts)
{
	uint8_t *p;
	struct rsk_control_word m = sample(1);
	struct box b;

	box_init(&b);
	cr_assert_eq(rsk_control_word_put(&b.rail, 0, &b.key, RSK_CONTROL_WORD_RX, &m), 0);
	p = (uint8_t *)&b.at;
	for (size_t bit = 0; bit < sizeof(m) * 8; bit++) {
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_not(rsk_control_word_get(&b.at, &b.key, RSK_CONTROL_WORD_RX, &m),
			      "bit %zu", bit);
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	cr_assert(rsk_control_word_get(&b.at, &b.key, RSK_CONTROL_WORD_RX, &m));
}

Test(word, role_and_key_count)
{
	struct rsk_control_word m = sample(1);
	struct rsk_key other;
	struct box b;

	box_init(&b);
	cr_assert_eq(rsk_control_word_put(&b.rail, 0, &b.key, RSK_CONTROL_WORD_TX, &m), 0);
	cr_assert_not(rsk_control_word_get(&b.at, &b.key, RSK_CONTROL_WORD_RX, &m));
	rsk_key_init(&other, 8);
	cr_assert_not(rsk_control_word_get(&b.at, &other, RSK_CONTROL_WORD_TX, &m));
	cr_assert(rsk_control_word_get(&b.at, &b.key, RSK_CONTROL_WORD_TX, &m));
}

/*
 * Overwrites the word repeatedly over a fabric that tears it: an accepted word is always one of
 * those put, whole.
 */
Test(word, torn_words_are_never_believed)
{
	struct rsk_control_word at = { 0 }, mine = { 0 }, m, got;
	uint32_t believed = 0, torn = 0;
	struct rsk_chaos chaos;
	struct rsk_key key;

	rsk_key_init(&key, 7);
	cr_assert_eq(rsk_chaos_open(&chaos, &rsk_chaos_wild, dice_seed("torn_words"),
				    (uint8_t *)&mine, (uint8_t *)&at, sizeof(at)),
		     0);
	for (uint32_t i = 1; i <= 20000; i++) {
		m = sample(i);
		cr_assert_eq(rsk_control_word_put(&chaos.rail, 0, &key, RSK_CONTROL_WORD_TX, &m),
			     0);
		for (int k = 0; k < 3; k++) {
			rsk_chaos_step(&chaos);
			if (!rsk_control_word_get(&at, &key, RSK_CONTROL_WORD_TX, &got)) {
				torn++;
				continue;
			}
			believed++;
			m = sample(got.gen);
			if (got.gen < 1 || got.gen > i || got.pos != m.pos ||
			    got.cells != m.cells || got.repair != m.repair)
				cr_assert_fail("a word that nobody put, at %u", i);
		}
	}
	cr_assert_gt(believed, 1000);
	cr_assert_gt(torn, 1000);
	rsk_chaos_close(&chaos);
}

/* A receiver may ask for stamps; any other bit, and any of a sender, is of nobody that we know. */
Test(word, flags_of_one_role)
{
	struct rsk_control_word m = sample(1), got;
	struct box b;

	box_init(&b);
	m.flags = RSK_RX_WORD_STAMPS;
	cr_assert_eq(rsk_control_word_put(&b.rail, 0, &b.key, RSK_CONTROL_WORD_RX, &m), 0);
	cr_assert(rsk_control_word_get(&b.at, &b.key, RSK_CONTROL_WORD_RX, &got));
	cr_assert_eq(got.flags, RSK_RX_WORD_STAMPS);
	b.at.flags = 0;
	cr_assert_not(rsk_control_word_get(&b.at, &b.key, RSK_CONTROL_WORD_RX, &got),
		      "the hash covers them");
	m.flags = RSK_RX_WORD_STAMPS << 1;
	cr_assert_eq(rsk_control_word_put(&b.rail, 0, &b.key, RSK_CONTROL_WORD_RX, &m), 0);
	cr_assert_not(rsk_control_word_get(&b.at, &b.key, RSK_CONTROL_WORD_RX, &got));
	m.flags = RSK_RX_WORD_STAMPS;
	cr_assert_eq(rsk_control_word_put(&b.rail, 0, &b.key, RSK_CONTROL_WORD_TX, &m), 0);
	cr_assert_not(rsk_control_word_get(&b.at, &b.key, RSK_CONTROL_WORD_TX, &got));
}
