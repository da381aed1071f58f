// SPDX-License-Identifier: BSD-2-Clause
/* test_lock.c - tests the lock between threads, between processes, and after its owner's death. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sigdefer.h"
#include "lock.h"

#define ROUNDS 200000u

struct shared {
	struct rsk_lock lock;
	uint64_t count; /* not atomic, protected by the lock */
	uint64_t inside;
};

static struct shared *shared_new(void)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(s, MAP_FAILED);
	return s;
}

static void *count_up(void *arg)
{
	struct shared *s = arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		rsk_lock(&s->lock);
		if (s->inside++)
			abort();
		s->count++;
		s->inside--;
		rsk_unlock(&s->lock);
	}
	return NULL;
}

Test(lock, keeps_threads_apart)
{
	struct shared *s = shared_new();
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, count_up, s), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	cr_assert_eq(s->count, 4ull * ROUNDS);
	cr_assert_eq(atomic_load(&s->lock.word), 0);
	cr_assert_eq(rsk_sigdefer_depth, 0);
}

Test(lock, keeps_processes_apart)
{
	struct shared *s = shared_new();
	pid_t pid[3];
	int status;

	for (int i = 0; i < 3; i++) {
		pid[i] = fork();
		cr_assert_geq(pid[i], 0);
		if (pid[i] == 0) {
			rsk_tid = 0;
			count_up(s);
			_exit(0);
		}
	}
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(waitpid(pid[i], &status, 0), pid[i]);
		cr_assert_eq(status, 0);
	}
	cr_assert_eq(s->count, 3ull * ROUNDS);
	cr_assert_eq(atomic_load(&s->lock.word), 0);
}

Test(lock, trylock_does_not_wait)
{
	struct shared *s = shared_new();

	cr_assert_not(rsk_lock_mine(&s->lock));
	cr_assert(rsk_trylock(&s->lock));
	cr_assert(rsk_lock_mine(&s->lock));
	cr_assert_eq(rsk_sigdefer_depth, 1);
	cr_assert_not(rsk_trylock(&s->lock));
	cr_assert_eq(rsk_sigdefer_depth, 1, "a lock not had is a section not entered");
	rsk_unlock(&s->lock);
	cr_assert_eq(rsk_sigdefer_depth, 0);
	cr_assert(rsk_trylock(&s->lock));
	rsk_unlock(&s->lock);
}

/*
 * The owner is killed while it holds the lock: the next one gets the lock and is told of the death,
 * once.
 */
Test(lock, survives_its_owner)
{
	struct shared *s = shared_new();
	int status, ready[2];
	char byte;
	pid_t pid;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		rsk_tid = 0;
		rsk_lock(&s->lock);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	cr_assert_not(rsk_trylock(&s->lock));
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(rsk_lock(&s->lock), "not told that the owner died");
	rsk_unlock(&s->lock);
	cr_assert_not(rsk_lock(&s->lock));
	rsk_unlock(&s->lock);
	cr_assert_eq(atomic_load(&s->lock.word), 0);
}

struct sleeper {
	struct shared *s;
	_Atomic(int) has;
};

static void *take_and_give(void *arg)
{
	struct sleeper *w = arg;

	rsk_lock(&w->s->lock);
	atomic_store(&w->has, 1);
	rsk_unlock(&w->s->lock);
	return NULL;
}

/* The unlock wakes a waiter that sleeps in the kernel: without it the join would not return. */
Test(lock, wakes_all_sleepers, .timeout = 20)
{
	struct sleeper w[3];
	struct shared *s = shared_new();
	pthread_t thread[3];

	rsk_lock(&s->lock);
	for (int i = 0; i < 3; i++) {
		w[i] = (struct sleeper){ .s = s };
		cr_assert_eq(pthread_create(&thread[i], NULL, take_and_give, &w[i]), 0);
	}
	while (!(atomic_load(&s->lock.word) & RSK_LOCK_WAITERS))
		sched_yield();
	for (int i = 0; i < 3; i++)
		cr_assert_not(atomic_load(&w[i].has));
	rsk_unlock(&s->lock);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	cr_assert_eq(atomic_load(&s->lock.word), 0);
}
