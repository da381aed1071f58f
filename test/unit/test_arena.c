// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_arena.c - tests the arena: blocks are aligned, zeroed and never handed out twice, and each
 * process has its own after a fork.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "dice.h"
#include "lock.h"

static int all_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return 0;
	return 1;
}

Test(arena, sizes_and_alignment)
{
	static const size_t sizes[] = { 1,     63,    64,     65,	4095,	  4096,
					16384, 65536, 100000, 1u << 20, 64u << 20 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint8_t *p = rsk_arena_alloc(sizes[i]);

		cr_assert_not_null(p, "%zu bytes", sizes[i]);
		cr_assert_eq((uintptr_t)p % 64, 0);
		cr_assert(rsk_arena_holds(p) && rsk_arena_holds(p + sizes[i] - 1));
		cr_assert(all_zero(p, sizes[i]));
		p[0] = p[sizes[i] - 1] = 1;
		rsk_arena_free(p);
	}
	cr_assert_null(rsk_arena_alloc((64u << 20) + 1));
	cr_assert_null(rsk_arena_alloc(SIZE_MAX));
	cr_assert_not(rsk_arena_holds(&sizes));
	rsk_arena_free(NULL);
}

/*
 * For any order of allocations and frees, no blocks overlap and no block comes back with old
 * content.
 */
Test(arena, blocks_do_not_overlap)
{
	enum {
		LIVE = 200
	};
	uint64_t dice = dice_seed("blocks_do_not_overlap");
	struct {
		uint8_t *p;
		size_t size;
		uint8_t tag;
	} live[LIVE] = { 0 };

	for (int i = 0; i < 50000; i++) {
		uint64_t r = dice_roll(&dice);
		int k = (int)(r % LIVE);

		if (live[k].p) {
			for (size_t b = 0; b < live[k].size; b += 1 + live[k].size / 16)
				if (live[k].p[b] != live[k].tag)
					cr_assert_fail("a block was overwritten");
			rsk_arena_free(live[k].p);
			live[k].p = NULL;
			continue;
		}
		live[k].size = (size_t)1 << (r >> 16) % 18;
		live[k].tag = (uint8_t)(r >> 32) | 1;
		live[k].p = rsk_arena_alloc(live[k].size);
		if (!live[k].p || !all_zero(live[k].p, live[k].size))
			cr_assert_fail("no block, or not zeroed");
		memset(live[k].p, live[k].tag, live[k].size);
	}
}

Test(arena, freed_twice_is_freed_once)
{
	uint8_t *a = rsk_arena_alloc(100), *b, *c;

	rsk_arena_free(a);
	rsk_arena_free(a);
	b = rsk_arena_alloc(100);
	c = rsk_arena_alloc(100);
	cr_assert_neq(b, c);
}

/* Large blocks return their pages to the kernel and come back as zeros. */
Test(arena, big_blocks_come_back_empty)
{
	const size_t big = 8u << 20;
	uint8_t *p = rsk_arena_alloc(big);

	memset(p, 0xee, big);
	rsk_arena_free(p);
	cr_assert_eq(rsk_arena_alloc(big), p, "the free block was not used again");
	cr_assert(all_zero(p, big));
}

Test(arena, a_child_has_a_copy)
{
	uint64_t *word = rsk_arena_alloc(sizeof(*word));
	uint64_t *mine;
	int status;
	pid_t pid;

	*word = 4711;
	rsk_arena_fork(true);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		rsk_tid = 0; /* as the engine's fork handler does */
		rsk_arena_fork(false);
		if (*word != 4711)
			_exit(1);
		*word = 0;
		mine = rsk_arena_alloc(sizeof(*mine));
		_exit(mine ? 0 : 2);
	}
	rsk_arena_fork(false);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert_eq(*word, 4711, "a child wrote into its parent's memory");
}
