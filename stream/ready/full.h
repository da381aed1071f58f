/* SPDX-License-Identifier: BSD-2-Clause */
/* full.h - a sender before a full ring: when it is woken, and when it goes back to TCP. */
#ifndef RSK_FULL_H
#define RSK_FULL_H

#include "stream.h"

/* Work (rsk_stream_work()) between two proposals; more where the ring was left because it was full. */
#define RSK_REPROPOSE_WORK 32

/*
 * When a writer whose ring is full goes back to TCP, if nothing is taken out meanwhile: TCP has room for some
 * megabytes more. Longer than a busy machine lets a reader wait for its turn; and longer still while the reader has
 * not come to the ring, since what lies before it on the companion is of that size already.
 */
#define RSK_FULL_LIMIT_NS 50000000ull
#define RSK_FULL_FIRST_NS 100000000ull

static inline uint64_t rsk_stream_full_until(const struct rsk_stream *s)
{
	return (s->tx_full_ns ? s->tx_full_ns : rsk_now_ns()) +
	       (s->tx.ring.credit <= s->tx.start_cell ? RSK_FULL_FIRST_NS : RSK_FULL_LIMIT_NS);
}

/*
 * tx_lock held. Who finds the ring full is woken when half of it is free, not for every bit of credit: the reader, who
 * may see an older word, wakes it earlier at the worst, and reaches this one at the latest when the ring is empty.
 */
void rsk_full_want_room(struct rsk_stream *s);

/* tx_lock held. The ring is full: without progress for too long, it is left. True when it was. */
bool rsk_full_fell_back(struct rsk_stream *s, struct rsk_tcp *c);

/* The same of a sender that sleeps; none of its locks is held, a set's may be. Who waits for room in a set is told. */
bool rsk_stream_fall_back_full(struct rsk_stream *s, int fd);

#endif
