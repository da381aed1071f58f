/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter.h - seccomp filters for the cases of filter.c. They let through what the library says it
 * needs (needed_calls.def), with exactly those arguments, and what these cases and their harness
 * call themselves; for anything else they have one action.
 */
#ifndef APP_FILTER_H
#define APP_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "app.h"

#define WORD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(at))
#define NR WORD(offsetof(struct seccomp_data, nr))
#define ARG(i) (offsetof(struct seccomp_data, args) + 8 * (size_t)(i))
#define IF_EQ(k, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(k), 0, no)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

#define ANY(name) IF_EQ(SYS_##name, 1), ALLOW
#define WITH(name, index, value)                                                                   \
	IF_EQ(SYS_##name, 6), WORD(ARG(index)), IF_EQ((uint64_t)(value), 3), WORD(ARG(index) + 4), \
		IF_EQ((uint64_t)(value) >> 32, 1), ALLOW, NR

/* What a process on kernel TCP calls in these cases, and at its end. */
#ifdef SYS_poll
#define OWN_OLD ANY(poll), ANY(select), ANY(epoll_wait), ANY(accept),
#else
#define OWN_OLD ANY(accept),
#endif
#define OWN                                                                                        \
	OWN_OLD ANY(clock_nanosleep), ANY(pselect6), ANY(exit),                                    \
		WITH(prctl, 0, PR_SET_NO_NEW_PRIVS), WITH(prctl, 0, PR_SET_SECCOMP), ANY(seccomp), \
		ANY(getppid)
/* fork() and the start of another thread, by libc. */
#define OWN_CLONE                                                                                  \
	WITH(clone, 0, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD), ANY(clone3),          \
		ANY(set_robust_list), ANY(rseq)

static const struct sock_filter filter_exact[] = {
	NR,
	OWN,
	OWN_CLONE,
#define RSK_NEEDED(name) ANY(name),
#define RSK_NEEDED_IF(name, index, value) WITH(name, index, value),
#define RSK_NOT_NEEDED(name, why)
#include <rsock/needed_calls.def>
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static inline int filter_prctl(const struct sock_filter *code, size_t n)
{
	struct sock_fprog prog = { (unsigned short)n, (struct sock_filter *)(uintptr_t)code };

	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static inline int filter_syscall(const struct sock_filter *code, size_t n, unsigned int flags)
{
	struct sock_fprog prog = { (unsigned short)n, (struct sock_filter *)(uintptr_t)code };

	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
}

/* One call is answered with @action, all others are let through. */
static inline int filter_one(int nr, uint32_t action)
{
	struct sock_filter code[] = { NR, IF_EQ(nr, 1), BPF_STMT(BPF_RET | BPF_K, action), ALLOW };

	return filter_prctl(code, sizeof(code) / sizeof(code[0]));
}

#endif
