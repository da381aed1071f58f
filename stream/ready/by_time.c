// SPDX-License-Identifier: BSD-2-Clause
/* by_time.c - see by_time.h. */
#include "by_time.h"

#include <string.h>

#include <rsock/sys.h>

#include "process.h"

#define BIT(sig) (UINT64_C(1) << ((sig)-1))

/* @how: as in sigprocmask(2). Returns the mask before. */
static uint64_t change_mask(int how, uint64_t mask)
{
	sigset_t set, was;

	memset(&was, 0, sizeof(was));
	memset(&set, 0, sizeof(set));
	memcpy(&set, &mask, sizeof(mask));
	rsk_sys_rt_sigprocmask(how, &set, &was);
	memcpy(&mask, &was, sizeof(mask));
	return mask;
}

void rsk_by_time_begin(struct rsk_by_time *t)
{
	uint64_t faults = BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP) |
			  BIT(SIGSYS);

	if (t->on)
		return;
	t->mask = change_mask(SIG_BLOCK, ~faults);
	t->on = true;
}

void rsk_by_time_restore(struct rsk_by_time *t)
{
	t->on = false;
	change_mask(SIG_SETMASK, t->mask);
}

const sigset_t *rsk_by_time_fill(const struct rsk_by_time *t, sigset_t *set)
{
	memset(set, 0, sizeof(*set));
	memcpy(set, &t->mask, sizeof(t->mask));
	return set;
}

uint64_t rsk_by_time_check(uint64_t until_ns)
{
	uint64_t check_ns = rsk_now_ns() + RSK_BY_TIME_NS;

	return check_ns < until_ns ? check_ns : until_ns;
}
