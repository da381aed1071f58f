// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_shm.c - tests the operation of the shared memory fabric on the peer's memory other than put:
 * get.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shm.h"

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

Test(shm, a_get_is_done_at_once)
{
	uint64_t got = 0, is = 7;

	both();
	memcpy(there.rail.segment + word_off, &is, sizeof(is));
	cr_assert_eq(here.rail.ops->get(&here.rail, word_off, &got, sizeof(got), 0), 1);
	cr_assert_eq(got, is);
}

Test(shm, nothing_outside_the_segment)
{
	uint64_t old = 0;

	both();
	cr_assert_eq(here.rail.ops->get(&here.rail, here.rail.window_bytes, &old, 8, 0), -EINVAL);
	cr_assert_eq(here.rail.ops->get(&here.rail, UINT64_MAX - 7, &old, 8, 0), -EINVAL);
	cr_assert_eq(here.rail.ops->get(&here.rail, here.rail.window_bytes - 4, &old, 8, 0),
		     -EINVAL);
}
