// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_shm.c - tests the operations of the shared memory fabric on the peer's memory other than
 * put: get, and atomic changes of a word.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "shm.h"

#define THREADS 4
#define ROUNDS 50000u

/* The mapping of a process, and the peer's mapping of the same memory. */
static struct rsk_seg here, there;
static uint64_t word_off;

static void both(void)
{
	int fd = rsk_shm_create(&there, 65536);

	cr_assert_geq(fd, 0);
	close(rsk_shm_create(&here, 65536));
	cr_assert_eq(rsk_shm_attach(&here, fd, &there.own), 0);
	close(fd);
	word_off = rsk_seg_ctl_off(3);
}

static uint64_t change(uint32_t what, uint64_t value, uint64_t expected)
{
	const struct rsk_atomic op = { .what = what, .value = value, .expected = expected };
	uint64_t old = 0;

	cr_assert_eq(here.rail.ops->atomic(&here.rail, word_off, &op, &old, 0), 1);
	return old;
}

static void *adds(void *arg)
{
	const struct rsk_atomic op = { .what = RSK_ATOMIC_ADD, .value = 1 };
	uint64_t old;

	for (uint32_t i = 0; i < ROUNDS; i++)
		here.rail.ops->atomic(&here.rail, word_off, &op, &old, 0);
	return NULL;
}

Test(shm, a_word_is_changed_by_one_at_a_time)
{
	pthread_t thread[THREADS];
	uint64_t got = 0;

	both();
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, adds, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	cr_assert_eq(here.rail.ops->get(&here.rail, word_off, &got, sizeof(got), 0), 1);
	cr_assert_eq(got, THREADS * ROUNDS);
	cr_assert_eq(*(uint64_t *)(void *)(there.rail.segment + word_off), got, "elsewhere");
}

Test(shm, a_swap_is_done_where_it_was_expected)
{
	both();
	cr_assert_eq(change(RSK_ATOMIC_SWAP, 7, 0), 0);
	cr_assert_eq(change(RSK_ATOMIC_SWAP, 9, 0), 7);
	cr_assert_eq(change(RSK_ATOMIC_ADD, 1, 0), 7);
	cr_assert_eq(change(RSK_ATOMIC_SWAP, 20, 8), 8);
	cr_assert_eq(change(RSK_ATOMIC_ADD, 0, 0), 20);
}

Test(shm, nothing_outside_the_segment)
{
	const struct rsk_atomic op = { .what = RSK_ATOMIC_ADD, .value = 1 };
	uint64_t old = 0;

	both();
	cr_assert_eq(here.rail.ops->atomic(&here.rail, word_off + 1, &op, &old, 0), -EINVAL);
	cr_assert_eq(here.rail.ops->atomic(&here.rail, here.rail.window_bytes, &op, &old, 0),
		     -EINVAL);
	cr_assert_eq(here.rail.ops->atomic(&here.rail, UINT64_MAX - 7, &op, &old, 0), -EINVAL);
	cr_assert_eq(here.rail.ops->get(&here.rail, here.rail.window_bytes - 4, &old, 8, 0),
		     -EINVAL);
}
