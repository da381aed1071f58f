/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter_start.c - tests programs that begin under a seccomp filter that the process has set which
 * executes them.
 */
#include "filter.h"

#include <spawn.h>

/* What the dynamic linker and libc call at the start of a program. */
static const struct sock_filter filter_start[] = {
	NR,
	ANY(execve),
	ANY(execveat),
	ANY(brk),
	ANY(mmap),
	ANY(munmap),
	ANY(mprotect),
	ANY(openat),
	ANY(read),
	ANY(pread64),
	ANY(close),
	ANY(newfstatat),
	ANY(fstat),
	ANY(readlinkat),
	ANY(faccessat),
#ifdef SYS_access
	ANY(access),
	ANY(arch_prctl),
	ANY(readlink),
#endif
	ANY(set_tid_address),
	ANY(set_robust_list),
	ANY(rseq),
	ANY(prlimit64),
	ANY(futex),
	ANY(write),
	ANY(clone3),
	ANY(wait4),
	ANY(rt_sigprocmask),
	ANY(rt_sigaction),
	WITH(clone, 0, CLONE_VM | CLONE_VFORK | SIGCHLD),
	WITH(clone, 0, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD),
	WITH(getrandom, 2, GRND_NONBLOCK),
	ANY(exit_group),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

/* Preloaded, and under the filter from its first instruction. */
HELPER(under)
{
	(void)argc;
	LOG("under it: %s", argv[1]);
	return 0;
}

/* Each way to begin a program, in a process of its own that has the filter. */
static void begin(int how)
{
	char **argv = app_self_argv("under", how ? "spawned" : "executed", NULL);
	pid_t pid = (pid_t)MUST(fork()), other;

	if (!pid) {
		if (filter_prctl(filter_start, sizeof(filter_start) / sizeof(filter_start[0])))
			_exit(126);
		if (how == 0)
			execv(app_self(), argv);
		else if (how == 1)
			execve(app_self(), argv, environ);
		else if (posix_spawn(&other, app_self(), NULL, NULL, argv, environ) == 0)
			app_reap(other, "spawned");
		_exit(how == 2 ? 0 : 127);
	}
	app_reap(pid, "child");
}

CASE(executed, 0, "a program that is executed under a filter lives as it does without the library")
{
	for (int how = 0; how < 3; how++)
		if (SRV)
			begin(how);
}
