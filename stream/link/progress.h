/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * progress.h - the library's one thread in a process, which there is only where a link to another host is wanted: it
 * makes rails, registers memory, speaks with the other keepers, notices what breaks. It carries no byte of a stream
 * but what an application that makes no call owes (recovery.h). Signals blocked, named rsock-progress; gone in a child
 * after fork, which has none.
 *
 * It works inside a guarded section and holds the busy lock whenever it does not sleep; a fork waits for that lock,
 * so that a child never inherits a library of ours in the middle of something. Order of locks: busy, then join
 * (pairing.c), then a stream's.
 */
#ifndef RSK_PROGRESS_H
#define RSK_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* What it works for; its thread calls, the busy lock is held. Set once, at the start of the process. */
struct rsk_progress_job {
	int (*open)(void); /* 0 or -errno: there is nothing to do here, and no keeper */
	void (*work)(uint64_t now_ns);
	uint64_t (*next_ns)(void); /* when there is work again; UINT64_MAX */
	bool (*settled)(
		bool first);  /* all that was put has arrived; @first: asked for the first time */
	void (*forked)(void); /* in a child */
};
extern const struct rsk_progress_job *rsk_progress_job;

/* A descriptor that it polls. Owned by whoever watches; the keeper's thread only. */
struct rsk_watch {
	int fd;
	void (*ready)(struct rsk_watch *w, uint32_t events); /* may unwatch, not free, itself */
};

int rsk_progress_watch(struct rsk_watch *w, uint32_t events,
		       bool anew); /* @anew: else changed. 0 or -errno */
void rsk_progress_unwatch(struct rsk_watch *w);

/*
 * Starts it, unless it runs. 0; -EAGAIN: not from here (a signal handler, where nothing may be allocated), the next
 * call may; -errno: there will be none.
 */
int rsk_progress_start(void);
bool rsk_progress_runs(void);	/* in this process */
bool rsk_progress_there(void);	/* the same, or it is about to */
bool rsk_progress_failed(void); /* nor will it ever */
void rsk_progress_call(void);	/* something is to be done; any thread, signal-safe */
bool rsk_progress_is_me(void);	/* is the caller its thread? */

/*
 * The process is about to end, or to become another program: all that was put is to arrive first. Waits for it, at
 * most so long; then for what streams that were closed still owe.
 */
void rsk_progress_finish(uint64_t timeout_ns);

void rsk_progress_fork(void); /* before; the busy lock is taken */
void rsk_progress_fork_parent(void);
void rsk_progress_fork_child(void);

#endif
