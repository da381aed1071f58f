/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd.h - helpers for contention tests: a crowd of threads that run to completion, or of child
 * processes that the test kills.
 */
#ifndef RSK_CROWD_H
#define RSK_CROWD_H

#include <criterion/criterion.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/wait.h>

#define CROWD 4u

/* Starts CROWD threads; the argument of each is its number, from 1 on. */
static inline void crowd_begin(pthread_t thread[static CROWD], void *(*run)(void *number))
{
	for (uintptr_t i = 0; i < CROWD; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, run, (void *)(i + 1)), 0);
}

/* Joins the threads. Each returns NULL, or a text that describes the failure. */
static inline void crowd_end(const pthread_t thread[static CROWD])
{
	void *wrong;

	for (uint32_t i = 0; i < CROWD; i++) {
		pthread_join(thread[i], &wrong);
		cr_assert_null(wrong, "%s", (const char *)wrong);
	}
}

/*
 * Kills the children pid[1] to pid[CROWD], all at once. A child that has ended by itself is a
 * failure.
 */
static inline void crowd_kill(const pid_t pid[static CROWD + 1], uint64_t seed)
{
	int status;

	for (uint32_t i = 1; i <= CROWD; i++)
		kill(pid[i], SIGKILL);
	for (uint32_t i = 1; i <= CROWD; i++) {
		cr_assert_eq(waitpid(pid[i], &status, 0), pid[i]);
		cr_assert(WIFSIGNALED(status), "seed %" PRIu64 ": it ended by itself: %x", seed,
			  status);
	}
}

#endif
