// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_turns.c - tests that rsockd has short turns where the kernel knows them, and keeps policy
 * and nice value.
 */
#include <criterion/criterion.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "turns.h"

static struct sched_attr now(void)
{
	struct sched_attr attr = { 0 };

	cr_assert_eq(syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0), 0);
	return attr;
}

static bool has_slices(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname u;

	cr_assert_eq(uname(&u), 0);
	cr_assert_eq(sscanf(u.release, "%u.%u", &major, &minor), 2);
	return major > 6 || (major == 6 && minor >= 12);
}

Test(turns, slice)
{
	cr_assert_eq(setpriority(PRIO_PROCESS, 0, 7), 0);
	rsk_turns_short();
	cr_assert_eq(now().sched_policy, SCHED_NORMAL);
	cr_assert_eq(now().sched_nice, 7);
	if (has_slices())
		cr_assert_eq(now().sched_runtime, 100000);
}

Test(turns, other_policy)
{
	struct sched_attr attr = { .size = sizeof(attr), .sched_policy = SCHED_BATCH };

	cr_assert_eq(syscall(SYS_sched_setattr, 0, &attr, 0), 0);
	attr = now();
	rsk_turns_short();
	cr_assert_eq(now().sched_policy, SCHED_BATCH);
	cr_assert_eq(now().sched_runtime, attr.sched_runtime);
}
