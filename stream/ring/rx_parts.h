/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rx_parts.h - what rx.c (states, fallback), rx_quiesce.c (quiescing), rx_break.c (broken rails),
 * rx_recv.c (bytes of both paths), rx_end.c (what follows them), rx_ring.c (the ring), rx_peek.c
 * (what is unread there), rx_repair.c (damaged slots) and rx_ahead.c (what has overtaken) share of
 * struct rsk_rx. Only these files include it; the caller holds the lock of the direction.
 */
#ifndef RSK_RX_PARTS_H
#define RSK_RX_PARTS_H

#include "rx.h"

/* Checks of an announced slot with a wrong hash before a repair is requested. */
#define RSK_RX_BAD_CHECKS 64
/* Answered requests for one slot before it is to be retransmitted by TCP. */
#define RSK_RX_REPAIRS 8

/*
 * The next slot was checked, and its hash was wrong. Returns 0, or -EPROTO: it will never be right
 * (at once on a fabric where a put has landed when its index has).
 */
int rsk_rx_bad_check(struct rsk_rx *rx);
/*
 * The next slot is damaged, as far as can be told: asks the sender for it, or to retransmit it by
 * TCP (rx_repair.c). Returns 0 or -EPROTO: neither is possible.
 */
int rsk_rx_ask(struct rsk_rx *rx);
/* A slot is at the next index, and is not whole or has a wrong index: it lands, or is damaged. */
bool rsk_rx_is_damaged(const struct rsk_rx *rx);
/* Is there a command of the sender in the ring, whatever is before it? */
bool rsk_rx_has_command(const struct rsk_rx *rx);
/* A new promotion begins, or another rail: what was asked for is not there any more. */
static inline void rsk_rx_repair_reset(struct rsk_rx *rx)
{
	uint32_t answered = rx->repair.answered;

	memset(&rx->repair, 0, sizeof(rx->repair));
	rx->repair.answered = answered;
}
/*
 * While quiesced because of a slot that stays wrong, or after rsk_rx_ask_answer(): if the sender
 * has answered that request, it will not retransmit, since it had left the ring before. Goes on in
 * the ring.
 */
void rsk_rx_see_refusal(struct rsk_rx *rx);

/* Handles the sender's control word, if it is new. Returns 0 or -EPROTO. */
int rsk_rx_take_word(struct rsk_rx *rx);

/* DRAIN_TCP, and the position is reached: goes on to ONRING. */
void rsk_rx_arrive(struct rsk_rx *rx);

/*
 * The peer reported an impossible position: puts the machine into a valid state; the caller ends
 * the stream. Returns -EPROTO.
 */
int rsk_rx_refuse(struct rsk_rx *rx);

/* Goes on to TCP, from any state; off the ring that is a demotion. */
static inline void rsk_rx_to_tcp(struct rsk_rx *rx)
{
	rx->counts.demotions += rx->state == RSK_RX_ONRING;
	rx->state = RSK_RX_TCP;
	/* With the ring ends the gap that was named (rsk_rx_look()). */
	if (rx->tags.on)
		rsk_txn_tags_close_gap(rx->tags.machine);
}

/* No answer to QUIESCED is waited for any more; a fallback race goes on. */
static inline void rsk_rx_unquiesce(struct rsk_rx *rx)
{
	if (rsk_rx_is_quiesced(rx))
		rx->fallback.step = RSK_FALLBACK_NONE;
}

void rsk_rx_free_overread(struct rsk_rx *rx);

/* The first cell that the sender must not write yet. */
uint64_t rsk_rx_free_below(const struct rsk_rx *rx);

/* Puts our control word, with the current credit. Returns 0 or -errno of the rail. */
int rsk_rx_say(struct rsk_rx *rx, uint32_t what, uint64_t pos);

/* Publishes credit where the sender can look it up. */
void rsk_rx_publish_consumed(struct rsk_rx *rx);

/* The slot at the next index, if it is of this rail (below the ring limit). */
static inline bool rsk_rx_peek(const struct rsk_rx *rx, const struct rsk_ring_rx *ring,
			       struct rsk_slot_view *v)
{
	return (__builtin_expect(!rx->rail_loss.limit, 1) || ring->next < rx->rail_loss.limit) &&
	       rsk_ring_peek(ring, v);
}

/*
 * On the ring, and there is nothing at the next index: looks at the slots behind it, if the link
 * has more than one rail at the moment. Costs one test where the link can have one only.
 */
void rsk_rx_look(struct rsk_rx *rx);
static inline void rsk_rx_look_ahead(struct rsk_rx *rx)
{
	if (__builtin_expect(rx->tags.form.bits != 0, 0))
		rsk_rx_look(rx);
}

/* If a broken rail's ring is read up to its limit, goes on to TCP. */
void rsk_rx_lift_ring_limit(struct rsk_rx *rx);

void rsk_rx_free_partial(struct rsk_rx *rx);

/* While quiesced: looks for the sender's answer in the ring. Returns 0 or -EPROTO. */
int rsk_rx_see_answer(struct rsk_rx *rx);
/* The answer came as control word @m; nothing if it was found before. Returns 0 or -EPROTO. */
int rsk_rx_see_retransmit(struct rsk_rx *rx, const struct rsk_control_word *m);

/* Puts REQ_FALLBACK, or the word that withdraws REQ_FALLBACK and QUIESCED. */
void rsk_rx_say_stay(struct rsk_rx *rx);

/*
 * rsk_rx_recv_ring() without consuming. Returns bytes, or -errno if there are none. *command: what
 * follows them is a command.
 */
ssize_t rsk_rx_peek_ring(struct rsk_rx *rx, struct rsk_iovcur *dst, bool *command);

/* ---- rx_end.c: nothing more is there ---- */

/*
 * The ring is empty: asks whether the TCP socket reports the end. True: check the ring once more.
 */
bool rsk_rx_ask_tcp(struct rsk_rx *rx, struct rsk_tcp *c);
/*
 * The ring is empty, no more can arrive, and the TCP socket has bytes: the sender, which could not
 * say so in the ring, continues by TCP. It does so only if it was told that all it had put was
 * taken; otherwise it resets the stream (rsk_recovery_lost()). Or the TCP socket has bytes that are
 * not due (rsk_rx_ahead()), and its end after them. On a fabric where a put has landed when it
 * returns, all that the sender had put is in the ring by the time the end shows. Returns 1: check
 * the ring once more; 0: neither is the case; -EPROTO: the sender has put more, as it had reported,
 * or as the ring shows: a slot that is not whole, or a command behind slots that are missing.
 */
int rsk_rx_left_without_a_word(struct rsk_rx *rx, struct rsk_tcp *c);
/*
 * The same, and the TCP socket reports the end, or an error. Returns 0, -errno, or -EAGAIN: more
 * may still arrive.
 */
ssize_t rsk_rx_ring_at_end(struct rsk_rx *rx);
/*
 * On TCP, and the TCP socket reports the end. It is the stream's end, unless bytes before it are
 * missing that were put into a ring and were not retransmitted: the sender ended, or was killed,
 * before it could do so. An end that is this end's own shutdown says nothing of the sender. Returns
 * 0, -ECONNRESET, or -EAGAIN: not known yet.
 */
ssize_t rsk_rx_tcp_at_end(struct rsk_rx *rx, struct rsk_tcp *c);
/*
 * On TCP after a break, and the sender has not reported whether it retransmits what is missing:
 * what the TCP socket has may be newer. Returns -EAGAIN: it may still report; or what recv returns
 * since it is gone.
 */
ssize_t rsk_rx_before_report(struct rsk_rx *rx, struct rsk_tcp *c);

/* When the slot was put; 0: it has no stamp, or none that can be right. */
static inline uint64_t rsk_rx_stamp_of(const struct rsk_rx *rx, const struct rsk_slot_view *v)
{
	uint32_t at = rsk_slot_stamp_off(v->head.len);
	uint64_t ns = 0;

	if (__builtin_expect(v->head.kind & RSK_SLOT_STAMPED, 0) && at && rx->ring.sync)
		memcpy(&ns, v->at + at, sizeof(ns));
	return ns;
}

#endif
