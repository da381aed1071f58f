/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kin.h - which of this process's sockets another process has, too, since a fork.
 *
 * A stream is promoted only while exactly one process holds it, and a child's memory is its own. So each fork of a
 * process that holds streams makes a pair of sockets. Its end tells that the other process, with all that it has
 * forked since, is gone, or executes another program: what was held by both is this one's alone. A message tells that
 * one socket of those was closed there. A message that is lost, or never sent, leaves a stream on TCP. One that lies
 * can harm only streams that its sender has the socket of.
 *
 * Who is forked keeps the sockets of its parent's earlier children, but does not use them, as long as it has a stream
 * of theirs: so their end comes when no descendant of the parent has it either.
 *
 * Each function takes the lock of its own (docs/locks.md), and no other.
 */
#ifndef RSK_KIN_H
#define RSK_KIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In each object that several processes may have the descriptor of; zeroed with the object. */
struct rsk_shared {
	_Atomic(uint32_t)
		others; /* forks by which other processes may hold it; under kin's lock, read without */
	_Atomic(bool)
		changed; /* one of them has said that it did what this process cannot see (rsk_kin_changed()) */
	uint64_t serial; /* tells this life of the object from others; 0: never shared; kin's lock */
};

/* Around a fork, all with the join lock held. @each calls @add for all that the child will have. */
void rsk_kin_fork(void (*each)(void (*add)(struct rsk_shared *obj)));
void rsk_kin_fork_parent(bool ok);
void rsk_kin_fork_child(void);

bool rsk_kin_fd(int fd); /* in a child, one thread: is it one of these sockets? */

/* Takes in what the others have said. No lock held; a system call for each of them. */
void rsk_kin_check(void);

/*
 * Before an exec: a descriptor of it stays open, and the next program may use it. So that one's end counts, not the
 * exec. @on false: the exec failed.
 */
void rsk_kin_survives(struct rsk_shared *obj, bool on);

/* This process has no descriptor of it any more. */
void rsk_kin_closed(struct rsk_shared *obj);

/* To those who may have it: it is not as they know it any more. */
void rsk_kin_changed(struct rsk_shared *obj);

/* May another process have it? What has been said since the last rsk_kin_check() is not known. */
static inline bool rsk_kin_shares(const struct rsk_shared *obj)
{
	return __builtin_expect(atomic_load(&obj->others) != 0, 0);
}

#endif
