/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring_width.h - how much of a ring between hosts is used. A stream begins with the first
 * RSK_SEG_FIRST_RING bytes of its ring, which is all that either end has registered of it. A sender
 * that finds it full while bytes flow has it made wider: its progress thread asks the receiver to
 * register more, over each rail that is up, and widens the laps (rsk_ring_tx_widen()) when all of
 * them reach it. At rest it becomes narrow again. Design: docs/adr/ring-width.md.
 */
#ifndef RSK_RING_WIDTH_H
#define RSK_RING_WIDTH_H

#include <stdint.h>

struct rsk_remote;
struct rsk_remote_rail;
struct rsk_stream;

/*
 * The ring of @s, whose link is to another host, is full: a wider one is wanted, if this one is the
 * first or was filled several times. The caller calls rsk_credit_want(). tx_lock is held.
 */
void rsk_ring_width_full(struct rsk_stream *s, uint64_t now_ns);

/* Progress thread: asks the peer for what rsk_ring_width_full() has found. */
void rsk_ring_width_work(struct rsk_remote *r, struct rsk_stream *s);

/* Progress thread: a rail reaches more of the peer's ring of @sid, or never will. */
void rsk_ring_width_reached(struct rsk_remote *r, uint32_t sid);

/* Progress thread: bytes of the peer's ring of @sid that a rail has to reach to be of use. */
uint32_t rsk_ring_width_used(const struct rsk_remote *r, uint32_t sid);

/*
 * Progress thread: the wide rings of senders that have put nothing for some seconds, and of streams
 * that have ended, become as narrow as they were at first; what either end has registered and
 * touched of them is given back. A sender does so when the receiver has taken everything.
 */
void rsk_ring_width_rest(struct rsk_remote *r, uint64_t now_ns);

/* Progress thread: the peer uses no more than @bytes of our ring, by that rail. */
void rsk_ring_width_give_back(struct rsk_remote_rail *rail, uint32_t sid, uint32_t bytes);

/*
 * Progress thread: @bytes of our ring are registered with a rail, or with others more. The receiver
 * looks no further; it goes on looking so far until what was there is read.
 */
void rsk_ring_width_given(struct rsk_remote *r, uint32_t sid, uint32_t bytes);

#endif
