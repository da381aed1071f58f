/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm.h - memory that the runner and the two sides of a case share. All users are test programs
 * that trust each other.
 */
#ifndef APP_SHM_H
#define APP_SHM_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define APP_LOG_BYTES (256u * 1024)
#define APP_FLAGS 32

struct app_shm {
	/* the runner sleeps on it: a check is requested, or a child died */
	_Atomic uint32_t attention;
	_Atomic uint32_t check_wanted[2];  /* per side, counts up */
	_Atomic int check_pid[2];	   /* the process of each side that has the streams */
	_Atomic uint32_t check_streams[2]; /* how many of it must be in the ring */
	/* not 0: only this port is checked, and its stream may still be on the way to the ring */
	_Atomic uint32_t check_port;
	/* the answer to that: it is in the ring, or is not waited for any more */
	_Atomic uint32_t check_settled;
	_Atomic uint32_t check_done;
	_Atomic uint32_t aborted;
	_Atomic uint32_t arrived[2];
	_Atomic uint32_t port;
	_Atomic uint32_t flag_turn;
	_Atomic uint64_t flag[APP_FLAGS];
	_Atomic uint32_t log_len[2];
	char log[2][APP_LOG_BYTES];
};

/* By a system call instruction, not through libc: the library under test hooks syscall(). */
static inline long app_futex(_Atomic uint32_t *word, int op, uint32_t val,
			     const struct timespec *timeout)
{
#ifdef __x86_64__
	long ret;
	register const struct timespec *r10 __asm__("r10") = timeout;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"((long)SYS_futex), "D"(word), "S"((long)op), "d"((long)val), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
#else
	return syscall(SYS_futex, word, op, val, timeout, NULL, 0);
#endif
}

static inline void app_futex_wake(_Atomic uint32_t *word)
{
	app_futex(word, FUTEX_WAKE, INT32_MAX, NULL);
}

/* Sleeps while *word == seen, at most @ms milliseconds. */
static inline void app_futex_wait(_Atomic uint32_t *word, uint32_t seen, int ms)
{
	struct timespec ts = { ms / 1000, (ms % 1000) * 1000000L };

	app_futex(word, FUTEX_WAIT, seen, &ts);
}

#endif
