/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * progress.h - the progress thread, the library's only thread in a process. It exists only where a
 * link to another host is wanted: it makes rails, registers memory, exchanges messages with the
 * progress threads of other hosts, and detects failures. It moves no bytes of a stream, except
 * those still to be repeated for an application that makes no call (recovery.h). Its signals are
 * blocked, and its name is rsock-progress. A child after fork has none until it wants a link.
 *
 * It works inside a signal-deferred section and holds the busy lock whenever it does not sleep; a
 * fork waits for that lock, so that a child never inherits the library in an intermediate state.
 * Lock order: busy, then the pairing lock (pairing.c), then a stream's.
 */
#ifndef RSK_PROGRESS_H
#define RSK_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The work of the thread; remote/ provides it. The thread calls these with the busy lock held. Set
 * once, at the start of the process.
 */
struct rsk_progress_job {
	/* 0 or -errno: there is nothing to do here, and the thread ends. */
	int (*open)(void);
	void (*work)(uint64_t now_ns);
	uint64_t (*next_ns)(void); /* when there is work again; UINT64_MAX: not known */
	/* All that was put has arrived; @first: asked for the first time. */
	bool (*settled)(bool first);
	void (*forked)(void); /* in a child */
};
extern const struct rsk_progress_job *rsk_progress_job;

/*
 * A descriptor that the progress thread polls. Owned by its user; used only in the progress thread.
 */
struct rsk_watch {
	int fd;
	void (*ready)(struct rsk_watch *w, uint32_t events); /* may unwatch, not free, itself */
};

/* @anew: adds it; otherwise changes its events. 0 or -errno. */
int rsk_progress_watch(struct rsk_watch *w, uint32_t events, bool anew);
void rsk_progress_unwatch(struct rsk_watch *w);

/*
 * Starts the thread, unless it runs. 0; -EAGAIN: not possible here (in a signal handler, where
 * nothing may be allocated), the next call may succeed; -errno: it will never start.
 */
int rsk_progress_start(void);
/*
 * It will never run in this process, and no link to another host is made. False: it runs already,
 * or is being started.
 */
bool rsk_progress_forbid(void);
bool rsk_progress_runs(void);	/* in this process */
bool rsk_progress_there(void);	/* the same, or it is about to run */
bool rsk_progress_failed(void); /* it will never run in this process */
void rsk_progress_call(void);	/* wakes it for new work; any thread, signal-safe */
bool rsk_progress_is_me(void);	/* whether the caller is the progress thread */

/*
 * The process is about to exit, or to execute another program: waits, for at most @timeout_ns,
 * until all that was put has arrived; then for bytes that closed streams still have to repeat.
 */
void rsk_progress_finish(uint64_t timeout_ns);

void rsk_progress_fork(void); /* before a fork; takes the busy lock */
void rsk_progress_fork_parent(void);
/*
 * @by_libc: as rsk_fork_child() of engine.h. A thread may be started in the child if it may use
 * malloc() and load libraries there, and the parent's thread was between two rounds. Otherwise none
 * ever runs there.
 */
void rsk_progress_fork_child(bool by_libc);

#endif
