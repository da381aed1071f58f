/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_misc.c - the hook of prctl(), and helpers for calls that affect the whole engine;
 * hook_syscall.c uses them too.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>

#define RSK_EXPORT_misc 1
#include "export.h"
#include "hook.h"

/*
 * Called before the real call: a filter forbids what a ring needs (futex, eventfd), or io_uring
 * reads and writes unseen. If the real call fails, some streams have lost speed. 0; -EAGAIN: bytes
 * of a ring would be lost, and the call must not be made.
 */
int rsk_no_more(enum rsk_reason why)
{
	if (!rsk_live())
		return 0;
	rsk_engine_stop_promoting(why);
	return rsk_fall_back_all(why);
}

/*
 * A faulting access is caught once there is a stream (signal_trampoline.c). Before that the kernel
 * is asked, by a call that copies eight bytes, and then fails since the operation does not exist.
 */
static bool rsk_kernel_reads_at(uintptr_t at)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): of the same page */
	const sigset_t *eight = (const sigset_t *)(at & ~(uintptr_t)(RSK_SYS_SIGSET_BYTES - 1));

	return rsk_sys_rt_sigprocmask(-1, eight, NULL) != -EFAULT;
}

bool rsk_kernel_reads(const void *p, size_t len)
{
	for (size_t at = 0; at < len; at += RSK_TOUCH_PAGE)
		if (!rsk_kernel_reads_at((uintptr_t)p + at))
			return false;
	return rsk_kernel_reads_at((uintptr_t)p + len - 1);
}

/*
 * The streams go on where the filter lets every call through that they need. It is the kernel that
 * reads the filter for good; a program that changes it meanwhile changes its own calls.
 */
int rsk_seccomp_begins(const struct sock_fprog *filter)
{
	/* Afterwards a trial of what is in force by now could kill. */
	if (rsk_begins() && filter && rsk_readable(filter) &&
	    rsk_reads(filter->filter, filter->len * sizeof(*filter->filter)) &&
	    rsk_engine_filtered(filter->filter, filter->len))
		return 0;
	if (rsk_no_more(RSK_REASON_SECCOMP) < 0)
		return -EAGAIN;
	if (rsk_live())
		rsk_engine_kernel_only();
	return 0;
}

/* Without a filter's address the kernel refuses: programs ask so whether it knows filters. */
static int rsk_seccomp_by_prctl(unsigned long mode, unsigned long filter)
{
	if (mode == SECCOMP_MODE_STRICT)
		return rsk_seccomp_begins(NULL);
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's view of it */
	return mode == SECCOMP_MODE_FILTER && filter ? rsk_seccomp_begins((const void *)filter) : 0;
}

int rsk_hook_prctl(int op, ...)
{
	unsigned long a[4];
	va_list ap;

	va_start(ap, op);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (op == PR_SET_SECCOMP && rsk_seccomp_by_prctl(a[0], a[1]) < 0)
		return (int)rsk_result(-EAGAIN);
	return rsk_real.prctl(op, a[0], a[1], a[2], a[3]);
}
