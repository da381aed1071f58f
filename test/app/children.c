/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * children.c - tests streams that forked children make themselves, while their parents have streams
 * of their own: both are direct, and neither disturbs the other. Between hosts a child has to open
 * the RDMA device again (test/rdma/rdma_apps.py).
 */
#include "app.h"

#define BYTES 300000
#define CHUNK 10000
#define READY 1 /* flags: the child of side 0, of side 1, has a stream */
#define DONE 3	/* flags: the parent of side 0, of side 1, has used its own meanwhile */

/* All bytes of one direction, then all of the other. */
static void exchange(int fd, const char *who, unsigned int seed)
{
	bool sent, got;

	if (CLI) {
		sent = app_send_pattern(fd, BYTES, CHUNK, seed);
		got = app_recv_pattern(fd, BYTES, CHUNK, seed + 1);
	} else {
		got = app_recv_pattern(fd, BYTES, CHUNK, seed);
		sent = app_send_pattern(fd, BYTES, CHUNK, seed + 1);
	}
	LOG("%s: sent %d, got %d", who, sent, got);
}

static void own_stream(void)
{
	int fd = app_open(WARM);

	exchange(fd, "own stream", 10);
	app_sync();
	app_close(fd);
}

/* @forks: this side's child does it; otherwise this process. */
static void by_child(bool forks, void (*run)(void))
{
	pid_t child;

	if (!forks) {
		run();
		return;
	}
	child = (pid_t)MUST(fork());
	if (!child) {
		run();
		exit(0);
	}
	app_reap(child, "child");
}

/* A stream that was there before the children is direct again after them. */
static void goes_on(int fd)
{
	app_sync();
	app_warm(fd);
	app_expect_rings(1);
	exchange(fd, "parent's stream", 20);
	app_sync();
	app_close(fd);
}

static void with_child(bool server, bool client, void (*run)(void))
{
	int fd = app_open(WARM);

	by_child(SRV ? server : client, run);
	goes_on(fd);
}

CASE(of_client, DIRECT | LONG_RUN, "a child of the client connects a stream of its own")
{
	with_child(false, true, own_stream);
}

CASE(of_server, DIRECT | LONG_RUN, "a child of the server accepts a stream of its own")
{
	with_child(true, false, own_stream);
}

/* A child whose own child has a stream, too. */
static void own_and_childs(void)
{
	with_child(true, true, own_stream);
}

CASE(of_both, DIRECT | LONG_RUN, "children of both, and children of those")
{
	with_child(true, true, own_and_childs);
}

CASE(one_after_another, DIRECT | LONG_RUN, "three children of each side, one after another")
{
	int fd = app_open(WARM);

	for (int i = 0; i < 3; i++)
		by_child(true, own_stream);
	goes_on(fd);
}

CASE(after_close, DIRECT | LONG_RUN, "the parents have closed their stream before the fork")
{
	app_close(app_open(WARM));
	by_child(true, own_stream);
	own_stream();
}

/* The child has let go of its parent's stream, and has its own until the parent has used that. */
static void beside_parent(int inherited)
{
	int fd;

	app_close(inherited);
	fd = app_open(WARM);
	app_flag_set(READY + app_side, 1);
	app_flag_wait(DONE + app_side);
	exchange(fd, "own stream", 10);
	app_close(fd);
}

CASE(beside, DIRECT | LONG_RUN, "parents and children have direct streams at the same time")
{
	int fd = app_open(WARM);
	pid_t child = (pid_t)MUST(fork());

	if (!child) {
		beside_parent(fd);
		exit(0);
	}
	app_flag_wait(READY + app_side);
	app_warm(fd);
	app_expect_rings(1);
	exchange(fd, "parent's stream", 20);
	app_flag_set(DONE + app_side, 1);
	app_reap(child, "child");
	app_sync();
	app_close(fd);
}

/* ---- other threads of the parent hold libc's locks at the fork ---- */

#define THREADS 3

static _Atomic(bool) over;

static void allocate(void *arg)
{
	for (size_t i = 1; !atomic_load(&over); i++) {
		void *p = malloc(1 + i * 7919 % 100000);

		if (p)
			memset(p, 1, 1);
		free(p);
	}
}

CASE(of_busy, DIRECT | LONG_RUN, "children of processes whose other threads allocate memory")
{
	struct app_thread thread[THREADS];
	int fd = app_open(WARM);

	for (int i = 0; i < THREADS; i++)
		app_thread_start(&thread[i], allocate, NULL);
	by_child(true, own_stream);
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++)
		app_thread_join(&thread[i]);
	goes_on(fd);
}

/* ---- children that libc knows nothing of ---- */

CASE(of_raw_fork, LONG_RUN, "children of _Fork(), in which malloc may not be used")
{
	int fd = app_open(WARM);
	pid_t child = (pid_t)MUST(_Fork());

	if (!child) {
		own_stream();
		_exit(0);
	}
	app_reap(child, "child");
	goes_on(fd);
}
