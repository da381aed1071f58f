/* SPDX-License-Identifier: BSD-2-Clause */
/* pairing.h - how streams are paired: the lock under which that is done, the steps, and what the keeper asks there. */
#ifndef RSK_PAIRING_H
#define RSK_PAIRING_H

#include <stdbool.h>

#include <rsock/tuple.h>

#include "stream.h"

void rsk_pairing_take(void);
bool rsk_pairing_try(void); /* false: another thread has it */
void rsk_pairing_give(void);

/*
 * Lock held. Somebody on another host says he holds the other end of @ours, by the mapping @handle: is that end
 * here, and rsockd asked about him (rsk_remote_ops)? 0; -ENOENT; -EAGAIN: it could not be asked.
 */
struct rsk_verbs_addr;
int rsk_pairing_ask_about(const struct rsk_tuple *ours, uint64_t handle,
			  const struct rsk_verbs_addr *here);

/* ---- steps of a stream ---- */

void rsk_pairing_step(struct rsk_stream *s, int fd);
/* The other end is expected, or has been asked. */
static inline bool rsk_stream_is_paired_now(const struct rsk_stream *s)
{
	uint32_t phase = rsk_stream_phase(s);

	return phase == RSK_PHASE_PAIRING ||
	       (phase == RSK_PHASE_LOOKUP && atomic_load_explicit(&s->soon, memory_order_relaxed));
}

/*
 * A thread is about to wait for @s in the kernel, or has @heard of one of these: what the next
 * step of its pairing may come by, to be waited for as well; where it was heard of, the step is
 * made. Not for ever: a peer may make one readable and say nothing. How many of @out, 0: none.
 */
uint32_t rsk_pairing_watch(struct rsk_stream *s, int fd, bool heard, struct pollfd *out,
			   uint32_t room);
void rsk_pairing_forget(struct rsk_stream *s);
void rsk_pairing_sweep(void); /* a link has lost its last stream */
/* Around a fork: in the parent before it; then in the parent (@ok: there is a child) and in the child. */
void rsk_pairing_fork(void);
void rsk_pairing_fork_parent(void);
void rsk_pairing_fork_child(void);
void rsk_pairing_leave(void);	    /* see rsk_links_leave() */
void rsk_pairing_listening(int fd); /* a TCP socket listens */
void rsk_pairing_check(void);	    /* rsockd, and what it says */
void rsk_pairing_hello(
	void); /* rsockd, if this process has not looked for it yet: steps do it later */

#endif
