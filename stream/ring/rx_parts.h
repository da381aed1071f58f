/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rx_parts.h - what rx.c (states, leaving), rx_quiesce.c (resting), rx_recv.c (bytes of both carriers) and rx_ring.c (the
 * ring) share of struct rsk_rx. Only for these four; the caller holds the lock of the direction.
 */
#ifndef RSK_RX_PARTS_H
#define RSK_RX_PARTS_H

#include "rx.h"

/* Takes in the sender's word, if it is new. 0 or -EPROTO. */
int rsk_rx_take_word(struct rsk_rx *rx);

/* SWITCHING, and the position is reached: on the ring. */
void rsk_rx_arrive(struct rsk_rx *rx);

/* A position that cannot be: the machine is left in a state that is one, the stream is to be ended. -EPROTO. */
int rsk_rx_refuse(struct rsk_rx *rx);

void rsk_rx_free_overread(struct rsk_rx *rx);

/* First cell that the sender must not write yet. */
uint64_t rsk_rx_free_below(const struct rsk_rx *rx);

/* Puts our word; it carries the credit of the moment. 0 or -errno of the rail. */
int rsk_rx_say(struct rsk_rx *rx, uint32_t what, uint64_t pos);

/* Credit, where the sender can look it up. */
void rsk_rx_publish_consumed(struct rsk_rx *rx);

/* What lies at the next index, if it is of this rail. */
static inline bool rsk_rx_peek(const struct rsk_rx *rx, const struct rsk_ring_rx *ring,
			       struct rsk_slot_view *v)
{
	return (__builtin_expect(!rx->ring_limit, 1) || ring->next < rx->ring_limit) &&
	       rsk_ring_peek(ring, v);
}

/* A broken rail's ring is read to its end: the companion goes on. */
void rsk_rx_lift_ring_limit(struct rsk_rx *rx);

void rsk_rx_free_partial(struct rsk_rx *rx);

/* Whoever rests looks for the answer. 0 or -EPROTO. */
int rsk_rx_see_answer(struct rsk_rx *rx);

/* GO, or that GO and BACK are taken back. */
void rsk_rx_say_stay(struct rsk_rx *rx);

/* Commands at the head take no byte of the stream: they are run for whoever looks. 0 or -errno. */
int rsk_rx_run_commands(struct rsk_rx *rx);

/* rsk_rx_recv_ring() without consuming: bytes; -errno where there are none. *command: what comes behind them is one. */
ssize_t rsk_rx_peek_ring(struct rsk_rx *rx, struct rsk_iovcur *dst, bool *command);

#endif
