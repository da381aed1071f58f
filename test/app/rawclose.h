/* SPDX-License-Identifier: BSD-2-Clause */
/* rawclose.h - close() by an instruction of our own: no preloaded library can see it. */
#ifndef APP_RAWCLOSE_H
#define APP_RAWCLOSE_H

#include <sys/syscall.h>

static inline int raw_close(int fd)
{
#if defined(__x86_64__)
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"((long)SYS_close), "D"((long)fd)
			 : "rcx", "r11", "memory");
	return (int)ret;
#elif defined(__aarch64__)
	register long nr __asm__("x8") = SYS_close;
	register long ret __asm__("x0") = fd;

	__asm__ volatile("svc 0" : "+r"(ret) : "r"(nr) : "memory");
	return (int)ret;
#else
#error "which instruction makes a system call here?"
#endif
}

#endif
