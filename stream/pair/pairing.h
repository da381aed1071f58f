/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pairing.h - how streams are paired: the pairing lock, the steps that a stream's calls take, and
 * what the progress thread asks here.
 */
#ifndef RSK_PAIRING_H
#define RSK_PAIRING_H

#include <stdbool.h>

#include <rsock/tuple.h>

#include "stream.h"

void rsk_pairing_take(void);
bool rsk_pairing_try(void); /* false: another thread has it */
/*
 * *held: the caller had it already, and does not give it back. With @wait, for callers that hold no
 * lock, this waits for it; without, false: another thread has it.
 */
bool rsk_pairing_take_anyhow(bool wait, bool *held);
void rsk_pairing_give(void);

/*
 * Pairing lock held. A process on another host says that it holds the other end of @ours, by the
 * mapping @handle. Returns 0 if that end is here and rsockd has been asked about the peer (the
 * answer goes to rsk_remote_ops); -ENOENT: it is not here; -EAGAIN: rsockd could not be asked.
 */
struct rsk_verbs_addr;
int rsk_pairing_ask_about(const struct rsk_tuple *ours, uint64_t handle,
			  const struct rsk_verbs_addr *here);
/*
 * Pairing lock held. The link for the accepting end @ours came from another address than its
 * mapping names: records the reason.
 */
void rsk_pairing_came_from_elsewhere(const struct rsk_tuple *ours);

/* ---- steps of a stream ---- */

void rsk_pairing_step(struct rsk_stream *s, int fd);
/* True if the pairing is expected to finish soon: the other end is expected, or has been asked. */
static inline bool rsk_stream_is_paired_now(const struct rsk_stream *s)
{
	uint32_t phase = rsk_stream_phase(s);

	return phase == RSK_PHASE_PAIRING ||
	       (phase == RSK_PHASE_LOOKUP && atomic_load_explicit(&s->soon, memory_order_relaxed));
}

/*
 * A thread is about to wait for @s in the kernel, or @heard: one of the descriptors of an earlier
 * call became ready, so that the next step of the pairing is taken. Writes to @out the descriptors
 * by which the next step may come, to be waited for as well. The caller must limit how often it
 * does so: a peer may make one readable and send nothing. Returns the number of entries in @out, 0:
 * none.
 */
uint32_t rsk_pairing_watch(struct rsk_stream *s, int fd, bool heard, struct pollfd *out,
			   uint32_t room);
/*
 * Withdraws the stream's offer from the registry. @wait: as above; without, the offer may stay, and
 * the next call tries again, at the latest that of close(), which waits.
 */
void rsk_pairing_forget(struct rsk_stream *s, bool wait);
void rsk_pairing_sweep(void); /* a link has lost its last stream */
/* Around a fork: in the parent before it; then in the parent, and in the child. */
void rsk_pairing_fork(void);
void rsk_pairing_fork_parent(void);
void rsk_pairing_fork_child(void);
void rsk_pairing_leave(void);	    /* see rsk_links_leave() */
void rsk_pairing_listening(int fd); /* a TCP socket listens */
void rsk_pairing_check(void);	    /* checks whether rsockd is there, and reads its messages */
/* the same, if this process has not looked for rsockd yet: later the steps do it */
void rsk_pairing_hello(void);

#endif
