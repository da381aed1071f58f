/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kin.h - tracks which of this process's sockets and epoll sets another process holds, too, since a
 * fork. The fork code, stream.c, epoll_adopt.c and fd.c call it.
 *
 * A stream is promoted only while exactly one process holds it, and a child's memory is its own. So
 * each fork of a process that holds streams makes a pair of sockets. Hangup on one end says that
 * the other process, with all processes that it has forked since, is gone, or executes another
 * program: what both held is this process's alone. A message says that one socket of those was
 * closed there. A message that is lost, or never sent, leaves a stream on TCP. A false one can harm
 * only streams whose socket its sender holds.
 *
 * A child keeps the sockets of its parent's earlier children, but does not use them, as long as it
 * has a stream of theirs: so their hangup comes only when no descendant of the parent holds the
 * stream either.
 *
 * Each function takes kin's lock (docs/locks.md), and no other.
 */
#ifndef RSK_KIN_H
#define RSK_KIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Embedded in each object whose descriptor several processes may hold; zeroed with the object. */
struct rsk_shared {
	/*
	 * Number of forks by which other processes may hold it; changed under kin's lock, read
	 * without.
	 */
	_Atomic(uint32_t) others;
	/* One of them has announced a change that this process cannot see (rsk_kin_changed()). */
	_Atomic(bool) changed;
	/* Generation of the object, to tell it from earlier ones; 0: never shared; kin's lock. */
	uint64_t serial;
};

/*
 * Called around a fork, all with the pairing lock held. @each calls @add for each object that the
 * child will hold.
 */
void rsk_kin_fork(void (*each)(void (*add)(struct rsk_shared *obj)));
void rsk_kin_fork_parent(bool ok);
void rsk_kin_fork_child(void);

bool rsk_kin_fd(int fd); /* in a single-threaded child: whether @fd is one of these sockets */

/*
 * Processes the messages of the other processes; one system call for each of them. Any lock before
 * kin's in docs/locks.md may be held.
 */
void rsk_kin_check(void);

/*
 * Before an exec: a descriptor of the object stays open, and the next program may use it. So the
 * end of that program counts, not the exec. @on false: the exec failed.
 */
void rsk_kin_survives(struct rsk_shared *obj, bool on);

/* This process has no descriptor of the object any more. */
void rsk_kin_closed(struct rsk_shared *obj);

/* Tells the processes that may hold it that it has changed. */
void rsk_kin_changed(struct rsk_shared *obj);

/* Whether another process may hold it, as of the last rsk_kin_check(). */
static inline bool rsk_kin_shares(const struct rsk_shared *obj)
{
	return __builtin_expect(atomic_load(&obj->others) != 0, 0);
}

#endif
