/* SPDX-License-Identifier: BSD-2-Clause */
/* hook_misc.c - prctl and syscall: what changes the ground under the engine. */
#include <linux/sched.h>
#include <linux/seccomp.h>

#define RSK_EXPORT_misc 1
#include "export.h"
#include "fork.h"
#include "hook.h"

/*
 * Before the call: a filter may forbid what a ring needs (futex, eventfd), and io_uring reads and
 * writes unseen. Should the call fail, some streams have lost speed.
 */
static void rsk_no_more(enum rsk_reason why)
{
	if (!rsk_live())
		return;
	rsk_engine_stop_promoting(why);
	rsk_leave_all(why);
}

int rsk_hook_prctl(int op, ...)
{
	unsigned long a[4];
	va_list ap;

	va_start(ap, op);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (op == PR_SET_SECCOMP)
		rsk_no_more(RSK_REASON_SECCOMP);
	return rsk_real.prctl(op, a[0], a[1], a[2], a[3]);
}

/*
 * Is system call @nr (arguments @a) a fork that comes back here in the child? A stack of its own
 * does not.
 */
static bool rsk_syscall_forks(long nr, const long a[static 6])
{
	const struct clone_args *args = (const void *)a[0];

	switch (nr) {
#ifdef SYS_fork
	case SYS_fork:
		return true;
#endif
	case SYS_clone:
		return !(a[0] & CLONE_VM) && !a[1];
	case SYS_clone3:
		return args && a[1] >= (long)CLONE_ARGS_SIZE_VER0 && !(args->flags & CLONE_VM) &&
		       !args->stack;
	default:
		return false;
	}
}

/*
 * The kernel's own business otherwise: what reads and writes this way is found out by its
 * positions.
 */
long rsk_hook_syscall(long nr, ...)
{
	long a[6], ret;
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (nr == SYS_seccomp &&
	    (a[0] == SECCOMP_SET_MODE_STRICT || a[0] == SECCOMP_SET_MODE_FILTER))
		rsk_no_more(RSK_REASON_SECCOMP);
	else if (nr == SYS_io_uring_setup)
		rsk_no_more(RSK_REASON_IO_URING);
	if (!rsk_live() || !rsk_syscall_forks(nr, a))
		return rsk_real.syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);

	rsk_fork_before();
	ret = rsk_real.syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	rsk_fork_after((pid_t)ret);
	return ret;
}
