/* SPDX-License-Identifier: BSD-2-Clause */
/* join.h - how streams are paired: the lock under which that is done, the steps, and what the keeper asks there. */
#ifndef RSK_JOIN_H
#define RSK_JOIN_H

#include <stdbool.h>

#include <rsock/tuple.h>

#include "stream.h"

void rsk_join_take(void);
bool rsk_join_try(void); /* false: another thread has it */
void rsk_join_give(void);

/*
 * Lock held. Somebody on another host says he holds the other end of @ours, by the mapping @handle: is that end
 * here, and rsockd asked about him (rsk_remote_ops)? 0; -ENOENT; -EAGAIN: it could not be asked.
 */
struct rsk_verbs_addr;
int rsk_join_ask_about(const struct rsk_tuple *ours, uint64_t handle,
		       const struct rsk_verbs_addr *here);

/* ---- steps of a stream ---- */

void rsk_join_step(struct rsk_stream *s, int fd);
/* The other end is expected, or has been asked. */
static inline bool rsk_stream_is_paired_now(const struct rsk_stream *s)
{
	uint32_t phase = rsk_stream_phase(s);

	return phase == RSK_PHASE_JOINING ||
	       (phase == RSK_PHASE_SEEKING && atomic_load_explicit(&s->soon, memory_order_relaxed));
}

/*
 * A thread is about to wait for @s in the kernel, or has @heard of one of these: what the next
 * step of its pairing may come by, to be waited for as well; where it was heard of, the step is
 * made. Not for ever: a peer may make one readable and say nothing. How many of @out, 0: none.
 */
uint32_t rsk_join_watch(struct rsk_stream *s, int fd, bool heard, struct pollfd *out,
			uint32_t room);
void rsk_join_forget(struct rsk_stream *s);
void rsk_join_sweep(void); /* a link has lost its last stream */
/* Around a fork: in the parent before it; then in the parent (@ok: there is a child) and in the child. */
void rsk_join_fork(void);
void rsk_join_fork_parent(void);
void rsk_join_fork_child(void);
void rsk_join_leave(void);	 /* see rsk_links_leave() */
void rsk_join_listening(int fd); /* a TCP socket listens */
void rsk_join_look(void);	 /* rsockd, and what it says */
void rsk_join_hello(void); /* rsockd, if this process has not looked for it yet: steps do it later */

#endif
