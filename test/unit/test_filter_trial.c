// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_filter_trial.c - tries filters that are in force, in child processes: one for each call that
 * the library needs, which kills for that call alone.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"
#include "filter_trial.h"
#include "progress.h"
#include "syscall_filter.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(at))
#define IF_EQ(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(k), yes, no)
#define RETURN(k) BPF_STMT(BPF_RET | BPF_K, k)
#define ARG(i) (offsetof(struct seccomp_data, args) + 8 * (size_t)(i))

#define DIED 100 /* by SIGSYS: the trial itself made the call */
#define BROKEN 101
#define BORROWS 16

/* Of the filter that this process is under. */
static int said(void)
{
	int got = rsk_filter_try();

	return got != RSK_TRIAL_KILLED && rsk_filter_borrows() ? got | BORROWS : got;
}

/* Under a filter that answers @what to @call: what the trial says, or DIED. */
static int tried(const struct rsk_filter_call *call, uint32_t what)
{
	struct sock_filter code[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		IF_EQ(call->nr, 0, call->index < 0 ? 1 : 3),
		RETURN(what),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { COUNT(code), code };
	int status = 0;
	pid_t pid;

	if (call->index >= 0) {
		code[2] = (struct sock_filter)LOAD(ARG(call->index));
		code[3] = (struct sock_filter)IF_EQ(call->value, 0, 1);
		code[4] = (struct sock_filter)RETURN(what);
	}
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		if (rsk_filter_is_there() || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
			syscall(SYS_exit_group, BROKEN);
		syscall(SYS_exit_group, said());
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		return DIED;
	cr_assert(WIFEXITED(status), "call %d: %#x", call->nr, (unsigned int)status);
	cr_assert_neq(WEXITSTATUS(status), BROKEN);
	return WEXITSTATUS(status);
}

/* What the trial makes itself; what it does not try. */
static int expected(const struct rsk_filter_call *call)
{
	switch (call->nr) {
	case SYS_mmap:
		return call->value == (PROT_READ | PROT_WRITE) ? DIED : RSK_TRIAL_KILLED;
	case SYS_munmap:
	case SYS_clone:
	case SYS_wait4:
		return DIED;
	case SYS_rt_sigreturn:
	case SYS_restart_syscall:
		return RSK_TRIAL_PASSED | BORROWS;
	default:
		return RSK_TRIAL_KILLED;
	}
}

static void each_call(uint32_t what)
{
	const struct rsk_filter_call *call;
	size_t n;

	call = rsk_filter_needed(&n);
	for (size_t i = 0; i < n; i++) {
		if (call[i].nr == SYS_exit_group) /* the test makes it itself */
			continue;
		cr_expect_eq(tried(&call[i], what), expected(&call[i]), "row %zu, call %d", i,
			     call[i].nr);
	}
}

Test(filter_trial, each_call_killed, .timeout = 60)
{
	each_call(SECCOMP_RET_KILL_PROCESS);
}

Test(filter_trial, each_call_trapped, .timeout = 60)
{
	each_call(SECCOMP_RET_TRAP);
}

Test(filter_trial, errors_kill_nobody)
{
	struct rsk_filter_call call = { SYS_memfd_create, RSK_FILTER_ANY, 0 };

	cr_assert_eq(tried(&call, SECCOMP_RET_ERRNO | EPERM), RSK_TRIAL_PASSED | BORROWS);
	call.nr = SYS_clone;
	cr_assert_eq(tried(&call, SECCOMP_RET_ERRNO | EPERM), RSK_TRIAL_NOT);
	call.nr = SYS_mmap;
	cr_assert_eq(tried(&call, SECCOMP_RET_ERRNO | ENOMEM), RSK_TRIAL_NOT);
}

Test(filter_trial, other_calls_killed)
{
	struct rsk_filter_call call = { SYS_swapoff, RSK_FILTER_ANY, 0 };

	cr_assert_eq(tried(&call, SECCOMP_RET_KILL_PROCESS), RSK_TRIAL_STRICT | BORROWS);
	cr_assert_eq(tried(&call, SECCOMP_RET_ERRNO | EPERM), RSK_TRIAL_PASSED | BORROWS);
	call.nr = SYS_pidfd_getfd;
	cr_assert_eq(tried(&call, SECCOMP_RET_KILL_PROCESS), RSK_TRIAL_STRICT);
}

/* What was tried tells nothing of a filter that comes later. */
Test(filter_trial, another_filter)
{
	struct sock_filter code[] = { RETURN(SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { COUNT(code), code };

	cr_assert(rsk_filter_borrows());
	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
	cr_assert(!rsk_filter_borrows());
	cr_assert_eq(rsk_filter_try(), RSK_TRIAL_PASSED);
	cr_assert(rsk_filter_borrows());
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
	cr_assert(!rsk_filter_borrows());
}

/* In memory that a child shares. */
static volatile sig_atomic_t *handled;

static void on_signal(int sig)
{
	(void)sig;
	*handled = 1;
}

static void handle(int sig)
{
	handled = mmap(NULL, sizeof(*handled), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	cr_assert_neq((void *)handled, MAP_FAILED);
	signal(sig, on_signal);
}

/* The program's own handler of traps does not run for the library's calls. */
Test(filter_trial, handler_of_the_program)
{
	struct sock_filter code[] = { LOAD(offsetof(struct seccomp_data, nr)),
				      IF_EQ(SYS_eventfd2, 0, 1), RETURN(SECCOMP_RET_TRAP),
				      RETURN(SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { COUNT(code), code };

	handle(SIGSYS);
	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
	cr_assert(rsk_filter_is_there());
	cr_assert_eq(rsk_filter_try(), RSK_TRIAL_KILLED);
	cr_assert_eq(*handled, 0);
	syscall(SYS_eventfd2, 0, 0);
	cr_assert_eq(*handled, 1);
}

/* Under a filter that kills for what it does not list. */
Test(filter_trial, no_links_to_other_hosts)
{
	cr_assert(!rsk_progress_failed());
	rsk_engine_within_host();
	cr_assert(rsk_progress_failed());
	cr_assert_eq(rsk_progress_start(), -ENODEV);
}

/* A child has the restart block of a poll() that was stopped: restart_syscall() would go on. */
Test(filter_trial, after_a_stopped_poll, .timeout = 20)
{
	int way[2], status;
	char byte = 'x';
	pid_t pid;

	cr_assert_eq(pipe(way), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		struct pollfd p = { .fd = way[0], .events = POLLIN };

		if (poll(&p, 1, -1) != 1 || read(way[0], &byte, 1) != 1)
			_exit(BROKEN);
		_exit(rsk_filter_try());
	}
	for (int i = 0; i < 20; i++) { /* in its poll() by then */
		usleep(10000);
		kill(pid, SIGSTOP);
		cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
		kill(pid, SIGCONT);
	}
	cr_assert_eq(write(way[1], &byte, 1), 1);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == RSK_TRIAL_PASSED);
}

/* Nothing of a child is left, and nobody hears of it. */
Test(filter_trial, leaves_nothing)
{
	int status;

	handle(SIGCHLD);
	cr_assert_eq(rsk_filter_try(), RSK_TRIAL_PASSED);
	cr_assert_eq(*handled, 0);
	cr_assert_eq(waitpid(-1, &status, WNOHANG | __WALL), -1);
	cr_assert_eq(errno, ECHILD);
}
