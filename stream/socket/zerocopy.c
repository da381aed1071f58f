// SPDX-License-Identifier: BSD-2-Clause
/* zerocopy.c - see zerocopy.h. */
#include "zerocopy.h"

/*
 * Takes all unread completions of the library's, with @untouched only if none was read before.
 * Returns how many there are in all; *first: how many of them were read before.
 */
static uint32_t take_ours(struct rsk_zerocopy *z, bool untouched, uint32_t *first)
{
	uint64_t was = atomic_load(&z->ours);
	uint32_t all;

	do {
		all = (uint32_t)was;
		*first = all - (uint32_t)(was >> 32);
	} while (*first != all && !(untouched && *first) &&
		 !atomic_compare_exchange_weak(&z->ours, &was, all));
	return all;
}

bool rsk_zerocopy_take(struct rsk_zerocopy *z, uint32_t range[static 2])
{
	uint32_t kernel = atomic_load_explicit(&z->kernel, memory_order_relaxed), all, first;
	uint64_t rest = atomic_exchange(&z->rest, 0);

	if (rest) {
		range[0] = (uint32_t)rest;
		range[1] = (uint32_t)rest + (uint32_t)(rest >> 32) - 1;
		return true;
	}
	all = take_ours(z, false, &first);
	range[0] = kernel + first;
	range[1] = kernel + all - 1;
	return first != all;
}

/* @number was counted before the library's sends. */
static bool is_before(uint32_t number, uint32_t kernel)
{
	return (int32_t)(number - kernel) < 0;
}

/* @range now ends before @next; from there to its end it is told by the next read. */
static void tell_later(struct rsk_zerocopy *z, uint32_t range[static 2], uint32_t last,
		       uint32_t next)
{
	atomic_store(&z->rest, (uint64_t)(range[1] - next + 1) << 32 | next);
	range[1] = last;
}

void rsk_zerocopy_renumber(struct rsk_zerocopy *z, uint32_t range[static 2])
{
	uint32_t kernel = atomic_load_explicit(&z->kernel, memory_order_relaxed);
	uint32_t all = (uint32_t)atomic_load(&z->ours), first;

	if (!all)
		return;
	if (!is_before(range[0], kernel)) {
		/* Behind the library's, which come first if they are unread. */
		bool adjacent = range[0] == kernel;

		all = take_ours(z, false, &first);
		range[0] += all;
		range[1] += all;
		if (first != all) {
			uint32_t next = range[0];

			range[0] = kernel + first;
			if (!adjacent)
				tell_later(z, range, kernel + all - 1, next);
		}
	} else if (range[1] + 1 == kernel) {
		/* Directly ahead of them: the kernel's queue would have one entry. */
		all = take_ours(z, true, &first);
		if (!first)
			range[1] += all;
	} else if (!is_before(range[1], kernel)) {
		/* Around them. What was read of the library's is not told again. */
		all = take_ours(z, false, &first);
		range[1] += all;
		if (first)
			tell_later(z, range, kernel - 1, kernel + first);
	}
}
