/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * process.h - state of this process that all of the engine uses: its id, clock, own descriptors,
 * and end.
 */
#ifndef RSK_PROCESS_H
#define RSK_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "fdtab.h"
#include "sigdefer.h"
#include "host.h"

/* 0: the child of a fork that no hook saw (a raw system call); nothing is tracked there. */
extern int *rsk_pid_word;
#define rsk_pid (*rsk_pid_word)

/* Enum rsk_reason: this process promotes no stream any more; 0: it does. */
extern _Atomic(int) rsk_stopped;

/*
 * A seccomp filter of the program's own that may kill for the library's calls is about to come, or
 * in force: all streams are the kernel's, and the library makes no call that the program does not
 * make itself. Set once, by rsk_engine_kernel_only(), before the filter is installed; read by all
 * threads, relaxed: the filter is this thread's, or comes by a system call that orders it.
 */
extern _Atomic(bool) rsk_kernel_only_set;
static inline bool rsk_kernel_only(void)
{
	return __builtin_expect(atomic_load_explicit(&rsk_kernel_only_set, memory_order_relaxed),
				0);
}

void rsk_process_init(void); /* called once, before everything else */
/*
 * In the child of a fork, before it has threads: false if a thread of the parent was loading a
 * library. libc's fork() does not wait for that, and the child has the loader's list as it was.
 */
bool rsk_process_can_load(void);
/*
 * Moves the process id to @word, in a page that a child finds zeroed, as its table of descriptors.
 */
void rsk_process_wiped(int *word);

bool rsk_exiting(void); /* in exit() or _exit() */
/* Sets that state; false: it was set before. */
bool rsk_exit_begins(void);

/*
 * CLOCK_MONOTONIC in nanoseconds. One function, not inline: it is called from many places, few of
 * them on the fast path.
 */
uint64_t rsk_now_ns(void);
/* The same clock, cheaper, at most some milliseconds late. */
uint64_t rsk_tick_ns(void);

/* The time @t after @from_ns, of this clock; UINT64_MAX, which means forever, if that overflows. */
static inline uint64_t rsk_until_ns(uint64_t from_ns, const struct timespec *t)
{
	if ((uint64_t)t->tv_sec >= UINT64_MAX / 2 / 1000000000u)
		return UINT64_MAX;
	return from_ns + (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

/*
 * Kernel call counter: calls of this thread that went to the kernel and may have made a descriptor
 * ready there. A wait on an epoll set that did not ask the kernel recently asks it again when this
 * has changed (epoll_wait.c), so that a program sees the effect of its own calls.
 */
extern __thread uint32_t rsk_kernel_calls;

/*
 * The counter, for a caller that keeps or compares it; counting starts with the first call of this
 * function in the process. Earlier calls need not be counted, since there is no older value to
 * compare with. (A value kept by another thread, or by a process before a fork, counts other calls
 * anyway; if it is equal by chance, the kernel's events are reported a moment later.)
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

/*
 * Random bytes of the kernel's. 0; -errno: it gives none (a seccomp filter may refuse it), and this
 * process promotes no stream any more.
 */
int rsk_random(void *to, size_t len);
/* The same; never 0, and without the kernel's some other number. */
uint64_t rsk_random64(void);

/*
 * Moves an own descriptor to a high number and enters it in the table; returns that number or
 * -errno.
 */
int rsk_own_fd(int fd);
/* The same for a copy of an application's descriptor. */
int rsk_own_fd_copy(int fd);
/* Closes an own descriptor; ignores any other. */
void rsk_own_close(int fd);

#endif
