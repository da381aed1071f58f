/* SPDX-License-Identifier: BSD-2-Clause */
/* cpu.h - instructions that differ by processor; used by loops that spin. */
#ifndef RSK_CPU_H
#define RSK_CPU_H

/* Tells the processor that this thread spins. */
static inline void rsk_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
