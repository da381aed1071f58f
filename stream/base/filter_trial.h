/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter_trial.h - tries what a seccomp filter does that the process has begun with: such a filter
 * cannot be read (docs/adr/seccomp.md). preload/boot.c calls it, before the library makes any other
 * system call.
 */
#ifndef RSK_FILTER_TRIAL_H
#define RSK_FILTER_TRIAL_H

#include <stdbool.h>

/*
 * Whether the calling thread is under a seccomp filter; true also where that cannot be found out.
 * Makes no call but those by which the loader has loaded the library: openat, read, close.
 */
bool rsk_filter_is_there(void);
/*
 * Whether the calling thread may call pidfd_open() and pidfd_getfd(), which filters of services may
 * kill for: it is under none, or under those that were tried, and no other.
 */
bool rsk_filter_borrows(void);

enum rsk_trial {
	RSK_TRIAL_PASSED, /* it kills for none of the calls in needed_calls.def */
	RSK_TRIAL_STRICT, /* the same; but it kills for others, which no program is to make */
	RSK_TRIAL_KILLED, /* it kills, or traps, for one of them */
	RSK_TRIAL_NOT	  /* no trial could be made */
};

/*
 * Makes each of these calls in a child process, with arguments that do nothing, and waits for its
 * end. Makes no call itself but mmap, munmap, clone without flags, and wait4: a filter that kills
 * for those kills the process. Signal-safe. No lock is held.
 */
enum rsk_trial rsk_filter_try(void);

#endif
