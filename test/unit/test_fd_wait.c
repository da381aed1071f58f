// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_fd_wait.c - tests fd waits: four sleepers on descriptors that as many others close at any
 * moment. No sleeper sleeps on, each goes on with the file that it began to wait for, and no
 * duplicate is left over.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena.h"
#include "dice.h"
#include "engine.h"
#include "link.h"
#include "fd_wait.h"
#include "stream.h"
#include "plain_host.h"
#include "sockets.h"

enum {
	PAIRS = 4,
	ROUNDS = 3000
};

static struct rsk_stream *s;

/*
 * number: the sleeper's descriptor, -1: closed. The other thread removes it as fd.c does, and then
 * closes it.
 */
static struct pair {
	_Atomic(int) number;
	uint32_t doorbell;
	uint32_t early, late, wrong;
} pairs[PAIRS];

static bool same_file(int fd, ino_t ino)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == ino;
}

static void sleep_once(struct pair *p, int fd, ino_t ino)
{
	struct rsk_fd_wait *fd_wait = rsk_fd_wait_begin(s, fd, p->doorbell);
	struct pollfd doorbell = { .fd = s->link->wait_fd[p->doorbell], .events = POLLIN };
	struct epoll_event rung[2];
	int refuge;

	cr_assert_not_null(fd_wait);
	if (atomic_load(&p->number) != fd) {
		p->early++;
		refuge = rsk_fd_wait_end(fd_wait);
		if (refuge >= 0)
			rsk_own_close(refuge);
		return;
	}
	while (rsk_fd_wait_refuge(fd_wait) == -1) {
		cr_assert_eq(poll(&doorbell, 1, 20000), 1, "nobody rang");
		cr_assert_geq(epoll_wait(doorbell.fd, rung, 2, 0), 0);
	}
	refuge = rsk_fd_wait_end(fd_wait);
	p->late++;
	p->wrong += refuge < 0 || !same_file(refuge, ino);
	rsk_own_close(refuge);
}

static void *sleeper(void *arg)
{
	struct pair *p = arg;
	struct stat st;
	int ends[2];

	for (uint32_t i = 0; i < ROUNDS; i++) {
		cr_assert_eq(pipe(ends), 0);
		cr_assert_eq(fstat(ends[0], &st), 0);
		atomic_store(&p->number, ends[0]);
		sleep_once(p, ends[0], st.st_ino);
		while (atomic_load(&p->number) != -2)
			sched_yield();
		close(ends[1]);
	}
	return NULL;
}

static void *closer(void *arg)
{
	struct pair *p = arg;
	uint64_t dice = p->doorbell + 1;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		int fd;

		while (atomic_load(&p->number) < 0)
			sched_yield();
		for (uint64_t turns = dice_roll(&dice) % 3000; turns; turns--)
			atomic_signal_fence(memory_order_seq_cst);
		fd = atomic_exchange(&p->number, -1);
		rsk_fd_wait_disturb(s, fd, true);
		close(fd);
		atomic_store(&p->number, -2);
	}
	return NULL;
}

Test(fd_wait, nobody_sleeps_on)
{
	pthread_t thread[PAIRS][2];
	uint32_t before, early = 0, late = 0;

	rsk_engine_init(&plain_host);
	s = rsk_arena_alloc(sizeof(*s));
	cr_assert_not_null(s);
	s->link = rsk_link_new(true);
	cr_assert_not_null(s->link);
	cr_assert_eq(rsk_link_make_doorbells(s->link), 0);
	before = open_files();
	for (uint32_t i = 0; i < PAIRS; i++) {
		pairs[i] = (struct pair){ .number = -2, .doorbell = i };
		cr_assert_eq(pthread_create(&thread[i][0], NULL, sleeper, &pairs[i]), 0);
		cr_assert_eq(pthread_create(&thread[i][1], NULL, closer, &pairs[i]), 0);
	}
	for (uint32_t i = 0; i < PAIRS; i++) {
		cr_assert_eq(pthread_join(thread[i][0], NULL), 0);
		cr_assert_eq(pthread_join(thread[i][1], NULL), 0);
		cr_assert_eq(pairs[i].wrong, 0);
		early += pairs[i].early;
		late += pairs[i].late;
	}
	cr_assert_eq(early + late, PAIRS * ROUNDS);
	cr_assert_gt(late, 0);
	cr_assert_eq(open_files(), before);
}

Test(fd_wait, a_number_that_nobody_was_seen_to_close)
{
	struct rsk_fd_wait *fd_wait;
	struct pollfd doorbell;
	int fd;

	rsk_engine_init(&plain_host);
	s = rsk_arena_alloc(sizeof(*s));
	s->link = rsk_link_new(true);
	cr_assert_eq(rsk_link_make_doorbells(s->link), 0);
	fd = eventfd(0, 0);
	fd_wait = rsk_fd_wait_begin(s, fd, 1);
	rsk_fd_wait_disturb(s, fd + 1, true);
	cr_assert_eq(rsk_fd_wait_refuge(fd_wait), -1);
	rsk_fd_wait_disturb(s, fd, false);
	cr_assert_eq(rsk_fd_wait_refuge(fd_wait), RSK_FD_WAIT_NOWHERE);
	doorbell = (struct pollfd){ .fd = s->link->wait_fd[1], .events = POLLIN };
	cr_assert_eq(poll(&doorbell, 1, 0), 1);
	cr_assert_eq(rsk_fd_wait_end(fd_wait), RSK_FD_WAIT_NOWHERE);
	/* A child has no fd waits of its parent's other threads, and can have its own. */
	fd_wait = rsk_fd_wait_begin(s, fd, 2);
	rsk_fd_waits_forked();
	rsk_fd_wait_disturb(s, fd, true);
	cr_assert_geq(rsk_fd_wait_refuge(fd_wait), 0);
	rsk_own_close(rsk_fd_wait_end(fd_wait));
	close(fd);
}
