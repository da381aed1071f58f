// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_progress_fork.c - tests which children of a process with a progress thread may have one of
 * their own.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"
#include "process.h"
#include "progress.h"

bool __wrap_rsk_process_can_load(void);

static bool can_load = true;
static _Atomic(int) opened, forked;
static int open_error;
static bool open_waits;
static sem_t go_on;

bool __wrap_rsk_process_can_load(void)
{
	return can_load;
}

static int open_here(void)
{
	atomic_fetch_add(&opened, 1);
	if (open_waits)
		sem_wait(&go_on);
	return open_error;
}

static void work(uint64_t now_ns)
{
}

static uint64_t next_ns(void)
{
	return UINT64_MAX;
}

static bool settled(bool first)
{
	return true;
}

static void on_fork(void)
{
	atomic_fetch_add(&forked, 1);
}

static const struct rsk_progress_job job = { .open = open_here,
					     .work = work,
					     .next_ns = next_ns,
					     .settled = settled,
					     .forked = on_fork };

static const struct rsk_host host = { .ppoll = ppoll, .epoll_pwait = epoll_pwait };

static void begin(void)
{
	setenv("RSOCK_DAEMON", "", 1);
	rsk_engine_init(&host);
	sem_init(&go_on, 0, 0);
	rsk_progress_job = &job;
}

static void start(void)
{
	cr_assert_eq(rsk_progress_start(), 0);
	while (!rsk_progress_runs() && !rsk_progress_failed())
		sched_yield();
}

/* Returns what @child returns in a child. */
static int in_child(bool by_libc, int (*child)(void))
{
	int status;
	pid_t pid;

	rsk_progress_fork();
	pid = fork();
	if (pid == 0) {
		alarm(20);
		rsk_pid = getpid();
		rsk_progress_fork_child(by_libc);
		_exit(child());
	}
	rsk_progress_fork_parent();
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status), "status %#x", (unsigned int)status);
	return WEXITSTATUS(status);
}

#define WANT(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return __LINE__ % 256;                                                     \
	} while (0)

/* It has none yet, and makes one that works. */
static int makes_own(void)
{
	int had = atomic_load(&opened);

	WANT(!rsk_progress_runs() && !rsk_progress_there() && !rsk_progress_failed());
	WANT(rsk_progress_start() == 0);
	while (!rsk_progress_runs())
		WANT(!rsk_progress_failed());
	WANT(atomic_load(&opened) == had + 1);
	rsk_progress_finish(UINT64_MAX / 4); /* returns when the thread has answered */
	return 0;
}

static int makes_none(void)
{
	int had = atomic_load(&opened);

	WANT(!rsk_progress_runs() && rsk_progress_failed());
	WANT(rsk_progress_start() == -ENODEV);
	WANT(atomic_load(&opened) == had);
	return 0;
}

/* As its parent, which has none: it may have one. */
static int childs_makes_own(void)
{
	WANT(!rsk_progress_runs() && atomic_load(&forked) == 1);
	return in_child(true, makes_own);
}

static int both_make_own(void)
{
	int rc = makes_own();

	return rc ? rc : in_child(true, makes_own);
}

Test(progress_fork, a_child_makes_its_own, .init = begin)
{
	start();
	cr_assert_eq(in_child(true, makes_own), 0);
	cr_assert_eq(in_child(true, childs_makes_own), 0);
	cr_assert_eq(in_child(true, both_make_own), 0);
	cr_assert(rsk_progress_runs(), "the parent's goes on");
	rsk_progress_finish(UINT64_MAX / 4);
}

Test(progress_fork, not_where_malloc_may_not_be_used, .init = begin)
{
	start();
	cr_assert_eq(in_child(false, makes_none), 0);
}

Test(progress_fork, not_where_a_thread_was_loading_a_library, .init = begin)
{
	start();
	can_load = false;
	cr_assert_eq(in_child(true, makes_none), 0);
}

Test(progress_fork, not_of_a_parent_that_was_still_opening, .init = begin)
{
	open_waits = true;
	cr_assert_eq(rsk_progress_start(), 0);
	while (!atomic_load(&opened))
		sched_yield();
	cr_assert_eq(in_child(true, makes_none), 0);
	sem_post(&go_on);
	start();
	open_waits = false;
	cr_assert_eq(in_child(true, makes_own), 0);
}

Test(progress_fork, not_of_a_parent_that_failed, .init = begin)
{
	open_error = -ENOMEM;
	start();
	cr_assert_eq(in_child(true, makes_none), 0);
}

Test(progress_fork, of_a_parent_that_has_none, .init = begin)
{
	cr_assert_eq(in_child(false, makes_own), 0, "as before: nothing of it is inherited");
}
