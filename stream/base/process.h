/* SPDX-License-Identifier: BSD-2-Clause */
/* process.h - what all of the engine knows of this process: its id, its clock, its own descriptors, its end. */
#ifndef RSK_PROCESS_H
#define RSK_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "fdtab.h"
#include "sigdefer.h"
#include "host.h"

/* 0: the child of a fork that was not seen (a raw system call): nothing is tracked there. */
extern int *rsk_pid_word;
#define rsk_pid (*rsk_pid_word)

extern _Atomic(int) rsk_stopped; /* enum rsk_reason: this process promotes nothing more; 0: it does */

void rsk_process_init(void); /* once, before all else */
/* A page of its own that a child finds zeroed has the process id from now on (@word), as it has the fd table. */
void rsk_process_wiped(int *word);

bool rsk_exiting(void);	    /* in exit(), or _exit() */
bool rsk_exit_begins(void); /* from now on; false: it was so before */

uint64_t rsk_now_ns(void);
uint64_t rsk_tick_ns(void); /* the same clock, some milliseconds late at the most, and cheap */

/* @t behind @from_ns, a time of this clock; UINT64_MAX, which is for ever, for what no clock gets to. */
static inline uint64_t rsk_until_ns(uint64_t from_ns, const struct timespec *t)
{
	if ((uint64_t)t->tv_sec >= UINT64_MAX / 2 / 1000000000u)
		return UINT64_MAX;
	return from_ns + (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

/*
 * Calls of this thread that went to the kernel and may have made some fd ready there. A wait on an
 * epoll set that has not been asked of late asks the kernel again when this has changed
 * (epoll_wait.c), so that a program finds what it has done itself.
 */
extern __thread uint32_t rsk_kernel_calls;

/*
 * The same, for who keeps or compares it. What this thread did before anybody of its process did so
 * is not counted, and need not be: nobody has an older count to compare with. (A count kept by
 * another process of the family, or by another thread, is of other acts anyway; where it is equal
 * by chance, the kernel's news are told a moment later.)
 */
static inline uint32_t rsk_kernel_calls_so_far(void)
{
	if (__builtin_expect(!atomic_load_explicit(&rsk_fdtab.kernel_calls_count,
						   memory_order_relaxed),
			     0))
		atomic_store_explicit(&rsk_fdtab.kernel_calls_count, true, memory_order_relaxed);
	return rsk_kernel_calls;
}

static inline void rsk_count_kernel_call(void)
{
	if (__builtin_expect(atomic_load_explicit(&rsk_fdtab.kernel_calls_count,
						  memory_order_relaxed),
			     0))
		rsk_kernel_calls++;
}

uint64_t rsk_random64(void); /* never 0 */

int rsk_own_fd(int fd); /* move one of ours up; the new number or -errno; enters it in the table */
int rsk_own_fd_copy(int fd); /* a copy of the application's */
void rsk_own_close(int fd);

#endif
