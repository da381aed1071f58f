// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_zerocopy.c - tests the numbers of MSG_ZEROCOPY sends against the kernel's queue: sends of
 * the kernel, of the library, and of the kernel again, read at any time. Each send is told once, in
 * order.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "dice.h"
#include "zerocopy.h"

#define MOST 64

/* The kernel's queue: adjacent completions are one entry, as skb_zerocopy_notify_extend() does. */
static struct queue {
	uint32_t next; /* number of the next send */
	uint32_t lo[MOST], hi[MOST];
	int n;
} kernel;

static struct rsk_zerocopy z;
static uint32_t sent, told;

static void begin(uint32_t from)
{
	memset(&z, 0, sizeof(z));
	memset(&kernel, 0, sizeof(kernel));
	kernel.next = from;
	atomic_store(&z.kernel, from);
	sent = told = from;
}

static void kernel_sends(bool before)
{
	uint32_t i = kernel.next++;

	sent++;
	if (before)
		atomic_fetch_add(&z.kernel, 1);
	if (kernel.n && kernel.hi[kernel.n - 1] + 1 == i) {
		kernel.hi[kernel.n - 1] = i;
		return;
	}
	cr_assert_lt(kernel.n, MOST);
	kernel.lo[kernel.n] = kernel.hi[kernel.n] = i;
	kernel.n++;
}

static void library_sends(void)
{
	sent++;
	rsk_zerocopy_done(&z);
}

/* As hook_cmsg.c. False: EAGAIN. */
static bool reads(uint32_t range[static 2])
{
	if (!kernel.n)
		return rsk_zerocopy_take(&z, range);
	range[0] = kernel.lo[0];
	range[1] = kernel.hi[0];
	memmove(kernel.lo, kernel.lo + 1, sizeof(kernel.lo) - sizeof(*kernel.lo));
	memmove(kernel.hi, kernel.hi + 1, sizeof(kernel.hi) - sizeof(*kernel.hi));
	kernel.n--;
	rsk_zerocopy_renumber(&z, range);
	return true;
}

static bool is_told(void)
{
	uint32_t range[2];

	if (!reads(range))
		return false;
	cr_assert_eq(range[0], told, "%u, not %u", range[0], told);
	cr_assert_leq(range[1] - range[0], MOST * 16);
	told = range[1] + 1;
	return true;
}

static void is_all_told(void)
{
	while (is_told())
		;
	cr_assert_eq(told, sent, "%u, not %u", told, sent);
	cr_assert(!rsk_zerocopy_unread(&z));
}

/* @from: the first number, near the wrap and not. */
static void goes(uint32_t from, uint32_t seed)
{
	uint64_t d = seed;

	begin(from);
	for (uint32_t part = 0; part < 3; part++)
		for (uint32_t n = dice_roll(&d) % 6; n; n--) {
			if (part == 1)
				library_sends();
			else
				kernel_sends(part == 0);
			if (part == 1)
				cr_assert(rsk_zerocopy_unread(&z));
			while (dice_roll(&d) % 3 == 0 && is_told())
				;
		}
	is_all_told();
}

Test(zerocopy, each_send_is_told_once_and_in_order)
{
	for (uint32_t seed = 1; seed < 20000; seed++)
		goes(seed % 2 ? 0 : UINT32_MAX - seed % 8, seed);
}

/* The kernel's queue would have one entry in each of these. */
Test(zerocopy, adjacent_completions_are_one_entry)
{
	uint32_t range[2];

	begin(0);
	kernel_sends(true);
	library_sends();
	cr_assert(reads(range));
	cr_assert(range[0] == 0 && range[1] == 1);
	library_sends();
	library_sends();
	kernel_sends(false);
	cr_assert(reads(range));
	cr_assert(range[0] == 2 && range[1] == 4, "%u-%u", range[0], range[1]);
	cr_assert_not(reads(range));
}

/* What the kernel owes at the promotion may come behind what was read of the library's. */
Test(zerocopy, what_was_read_is_not_told_again)
{
	uint32_t range[2];

	begin(0);
	kernel_sends(true);
	library_sends();
	library_sends();
	cr_assert(rsk_zerocopy_take(&z, range));
	cr_assert(range[0] == 1 && range[1] == 2);
	library_sends();
	cr_assert(reads(range));
	cr_assert(range[0] == 0 && range[1] == 0, "%u-%u", range[0], range[1]);
	cr_assert(reads(range));
	cr_assert(range[0] == 3 && range[1] == 3, "%u-%u", range[0], range[1]);
	cr_assert_not(reads(range));
}

/* The same behind a fallback: the kernel's entry has what it sent before and after. */
Test(zerocopy, an_entry_around_what_was_read)
{
	uint32_t range[2];

	begin(0);
	kernel_sends(true);
	library_sends();
	cr_assert(rsk_zerocopy_take(&z, range));
	library_sends();
	kernel_sends(false);
	cr_assert(reads(range));
	cr_assert(range[0] == 0 && range[1] == 0, "%u-%u", range[0], range[1]);
	cr_assert(reads(range));
	cr_assert(range[0] == 2 && range[1] == 3, "%u-%u", range[0], range[1]);
	cr_assert_not(reads(range));
}

/* Another process has read the kernel's entry that followed. */
Test(zerocopy, an_entry_that_does_not_follow)
{
	uint32_t range[2];

	begin(0);
	library_sends();
	kernel_sends(false);
	kernel.n = 0;
	kernel_sends(false);
	cr_assert(reads(range));
	cr_assert(range[0] == 0 && range[1] == 0, "%u-%u", range[0], range[1]);
	cr_assert(reads(range));
	cr_assert(range[0] == 2 && range[1] == 2, "%u-%u", range[0], range[1]);
}

Test(zerocopy, a_call_under_way_keeps_the_stream)
{
	begin(0);
	cr_assert_not(rsk_zerocopy_pending(&z) || rsk_zerocopy_used(&z));
	atomic_store(&z.busy, 1);
	cr_assert(rsk_zerocopy_pending(&z) && !rsk_zerocopy_unread(&z));
	atomic_store(&z.busy, 0);
	library_sends();
	cr_assert(rsk_zerocopy_pending(&z) && rsk_zerocopy_used(&z));
	cr_assert(is_told());
	cr_assert_not(rsk_zerocopy_pending(&z));
}
