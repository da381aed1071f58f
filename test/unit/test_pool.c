// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pool.c - tests the pool of freed streams: each stream goes to one taker only, however many
 * threads take and give at once, and none is lost.
 */
#include <criterion/criterion.h>
#include <pthread.h>

#include "arena.h"
#include "pool.h"
#include "stream.h"

enum {
	THREADS = 4,
	STREAMS = 6,
	HELD = 3,
	ROUNDS = 100000
};

static _Atomic(uint32_t) taken, twice;

static void *take_and_give(void *arg)
{
	struct rsk_stream *held[HELD] = { 0 };

	(void)arg;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct rsk_stream **at = &held[i * 7 % HELD];

		if (*at) {
			atomic_store(&(*at)->fds, 0);
			rsk_pool_give(*at);
			*at = NULL;
			continue;
		}
		*at = rsk_pool_take();
		if (!*at)
			continue;
		atomic_fetch_add(&taken, 1);
		if (atomic_exchange(&(*at)->fds, 1) != 0)
			atomic_fetch_add(&twice, 1);
	}
	for (uint32_t k = 0; k < HELD; k++)
		if (held[k]) {
			atomic_store(&held[k]->fds, 0);
			rsk_pool_give(held[k]);
		}
	return NULL;
}

Test(pool, streams_are_one_takers_alone)
{
	pthread_t thread[THREADS];
	uint32_t left = 0;

	cr_assert_null(rsk_pool_take());
	for (uint32_t i = 0; i < STREAMS; i++)
		rsk_pool_give(rsk_arena_alloc(sizeof(struct rsk_stream)));
	for (uint32_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, take_and_give, NULL), 0);
	for (uint32_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_join(thread[i], NULL), 0);
	cr_assert_gt(atomic_load(&taken), ROUNDS / 4);
	cr_assert_eq(atomic_load(&twice), 0);
	while (rsk_pool_take())
		left++;
	cr_assert_eq(left, STREAMS);
}
