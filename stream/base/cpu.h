/* SPDX-License-Identifier: BSD-2-Clause */
/* cpu.h - what differs by processor, for loops that spin and for shared words. */
#ifndef RSK_CPU_H
#define RSK_CPU_H

#include <stdatomic.h>

/* Tells the processor that this thread spins. */
static inline void rsk_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/*
 * A full fence between an atomic read-modify-write (seq_cst) and the accesses after it. On x86-64
 * the former is one. On aarch64 it is not: loads after it may be executed before its store.
 */
static inline void rsk_fence_after_rmw(void)
{
#if defined(__x86_64__) || defined(__i386__)
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif
