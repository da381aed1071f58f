/* SPDX-License-Identifier: BSD-2-Clause */
/* cpu.h - the few instructions that differ by processor. */
#ifndef RSK_CPU_H
#define RSK_CPU_H

static inline void rsk_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
