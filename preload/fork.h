/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork.h - calls the engine in every way a process can be copied. boot.c, hook_proc.c and
 * hook_syscall.c call it.
 */
#ifndef RSK_FORK_H
#define RSK_FORK_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * A start-up step: from now on libc's own forks (fork, forkpty ...) call the engine. 0 or -errno.
 */
int rsk_fork_boot(void);

/*
 * For a fork that libc's handlers do not see (_Fork, clone without CLONE_VM): call before, and
 * after with what it returned (0: in the child). Both do nothing in a vfork child or without an
 * engine.
 */
void rsk_fork_before(void);
void rsk_fork_after(pid_t pid);

/* The real fork(), libc's handlers and all; errno as from fork(). */
pid_t rsk_fork_libc(void);

#endif
