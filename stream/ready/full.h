/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * full.h - what a sender does when the ring is full: when it is woken, and when it falls back to
 * TCP. send.c, wait.c, poll.c and the epoll code call it.
 */
#ifndef RSK_FULL_H
#define RSK_FULL_H

#include "stream.h"

/*
 * Work (rsk_stream_work()) between two proposals to promote; more after the sender fell back
 * because the ring was full.
 */
#define RSK_REPROPOSE_WORK 32

/*
 * How long a full ring may go without progress before its writer falls back to TCP, whose buffers
 * have room for some megabytes more. Longer than a busy machine keeps a reader waiting for a CPU;
 * and longer still while the reader has not reached the ring, since the bytes before it on the TCP
 * socket have that size already.
 */
#define RSK_FULL_LIMIT_NS 50000000ull
#define RSK_FULL_FIRST_NS 100000000ull

static inline uint64_t rsk_stream_full_until(const struct rsk_stream *s)
{
	return (s->full.since_ns ? s->full.since_ns : rsk_now_ns()) +
	       (rsk_tx_reached(&s->tx) ? RSK_FULL_LIMIT_NS : RSK_FULL_FIRST_NS);
}

/*
 * Asks to be woken when half of a full ring is free, not for every bit of credit. A reader that
 * sees an older value wakes the sender earlier at the worst, and reaches this one at the latest
 * when the ring is empty. tx_lock is held.
 */
void rsk_full_want_room(struct rsk_stream *s);

/*
 * The ring is full: if there has been no progress for too long, the sender falls back to TCP. True
 * when it did. tx_lock is held.
 */
bool rsk_full_fell_back(struct rsk_stream *s, struct rsk_tcp *c);

/*
 * The same for a sender that sleeps. Notifies waiters for room in epoll sets. None of the stream's
 * locks is held; a set's may be.
 */
bool rsk_stream_fall_back_full(struct rsk_stream *s, int fd);

#endif
