/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rawclose.h - close() and dup3() by a system call instruction of the test's own, which no
 * preloaded library can see.
 */
#ifndef APP_RAWCLOSE_H
#define APP_RAWCLOSE_H

#include <sys/syscall.h>

static inline int raw_call(long number, long a, long b, long c)
{
#if defined(__x86_64__)
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return (int)ret;
#elif defined(__aarch64__)
	register long nr __asm__("x8") = number;
	register long ret __asm__("x0") = a;
	register long second __asm__("x1") = b;
	register long third __asm__("x2") = c;

	__asm__ volatile("svc 0" : "+r"(ret) : "r"(nr), "r"(second), "r"(third) : "memory");
	return (int)ret;
#else
#error "which instruction makes a system call here?"
#endif
}

static inline int raw_close(int fd)
{
	return raw_call(SYS_close, fd, 0, 0);
}

/* Closes @to as well. */
static inline int raw_dup(int fd, int to)
{
	return raw_call(SYS_dup3, fd, to, 0);
}

#endif
