// SPDX-License-Identifier: BSD-2-Clause
/* filter_trial.c - see filter_trial.h. */
#include "filter_trial.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <rsock/sys.h>

#include "syscall_filter.h"

#define MODE "\nSeccomp:\t"
#define COUNT "\nSeccomp_filters:\t" /* Linux 5.9 */
/* Of a thread's status: all of it, unless it has hundreds of groups. */
#define STATUS_BYTES 4096
#define UNKNOWN (-1)

/* No descriptor, address, length, flag or process: the kernel refuses it. */
#define NOTHING (-1L)

/*
 * How many filters were in force when the trial was made, if it has also made the calls of
 * rsk_filter_borrows(); UNKNOWN: not so. Written before the process has a stream.
 */
static _Atomic(int) tried = UNKNOWN;

static int number_at(const char *at)
{
	int n = 0;

	for (; *at >= '0' && *at <= '9'; at++)
		n = n * 10 + (*at - '0');
	return n;
}

/* Of the calling thread. UNKNOWN: it may have some. */
static int filters(void)
{
	char text[STATUS_BYTES];
	const char *mode, *count;
	ssize_t n;
	int fd = rsk_sys_openat(AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return UNKNOWN;
	n = rsk_sys_read(fd, text, sizeof(text) - 1);
	rsk_sys_close(fd);
	text[n > 0 ? n : 0] = 0;
	mode = strstr(text, MODE);
	if (!mode)
		return UNKNOWN;
	mode += sizeof(MODE) - 1;
	count = *mode == '2' ? strstr(mode, COUNT) : NULL;
	if (count)
		return number_at(count + sizeof(COUNT) - 1);
	return *mode == '0' ? 0 : UNKNOWN;
}

bool rsk_filter_is_there(void)
{
	return filters() != 0;
}

bool rsk_filter_borrows(void)
{
	int now = filters();

	return now == 0 || (now > 0 && now == atomic_load(&tried));
}

/* In memory that the child shares. The child writes it, the parent reads it after its end. */
struct trial {
	_Atomic(bool) needed; /* passed those of needed_calls.def */
	_Atomic(bool) borrows;
	_Atomic(bool) others;
};

/*
 * With arguments that the kernel refuses, but for the one that a row names. The trial itself makes
 * clone() and exit_group(); no filter is known that refuses rt_sigreturn(), and a child has nothing
 * to return from. restart_syscall() would go on with a poll() of the parent's that was stopped: the
 * child has its restart block, too.
 */
static void try_call(const struct rsk_filter_call *call)
{
	long a[6] = { NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING };

	if (call->nr == SYS_clone || call->nr == SYS_exit_group || call->nr == SYS_rt_sigreturn ||
	    call->nr == SYS_restart_syscall)
		return;
	if (call->nr == SYS_kill)
		a[0] = 0; /* its own group; otherwise each process that there is */
	if (call->index >= 0)
		a[call->index] = (long)call->value;
	RSK_SYS6(call->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* No signal handler of the program's runs here, and no core is left. */
static _Noreturn void try_all(struct trial *t)
{
	/* 1: also for a core that goes to a program (core(5)) */
	static const struct rlimit no_core = { 1, 1 };
	const struct rsk_filter_call *call;
	sigset_t all;
	size_t n;

	memset(&all, 0xff, sizeof(all));
	rsk_sys_rt_sigprocmask(SIG_SETMASK, &all, NULL);
	RSK_SYS4(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, NULL);
	call = rsk_filter_needed(&n);
	for (size_t i = 0; i < n; i++)
		try_call(&call[i]);
	atomic_store(&t->needed, true);
	RSK_SYS2(SYS_pidfd_open, NOTHING, NOTHING);
	RSK_SYS3(SYS_pidfd_getfd, NOTHING, NOTHING, NOTHING);
	atomic_store(&t->borrows, true);
	/* One that no list for programs has. */
	RSK_SYS1(SYS_swapoff, NOTHING);
	atomic_store(&t->others, true);
	rsk_sys_exit_group(0);
}

/* Another error: the program has waited for it, or the filter answers by errors. */
static void await(long pid)
{
	while (RSK_SYS4(SYS_wait4, pid, NULL, __WALL, NULL) == -EINTR)
		continue;
}

static enum rsk_trial result(const struct trial *t)
{
	if (!atomic_load(&t->needed))
		return RSK_TRIAL_KILLED;
	return atomic_load(&t->others) ? RSK_TRIAL_PASSED : RSK_TRIAL_STRICT;
}

enum rsk_trial rsk_filter_try(void)
{
	struct trial *t = rsk_sys_mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	enum rsk_trial got = RSK_TRIAL_NOT;
	long pid;

	if (rsk_sys_is_err(t))
		return got;
	/* Without a signal at its end: the program's own handler and wait() do not see it. */
	pid = RSK_SYS5(SYS_clone, 0, 0, 0, 0, 0);
	if (pid == 0)
		try_all(t);
	if (pid > 0) {
		await(pid);
		if (atomic_load(&t->borrows))
			atomic_store(&tried, filters());
		got = result(t);
	}
	rsk_sys_munmap(t, sizeof(*t));
	return got;
}
