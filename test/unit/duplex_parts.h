/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * duplex_parts.h - shared by the files of the duplex model: duplex.c (the two ends) and
 * duplex_net.c (what lies between them).
 */
#ifndef DUPLEX_PARTS_H
#define DUPLEX_PARTS_H

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "chaos.h"
#include "dice.h"
#include "duplex.h"
#include "rails.h"
#include "rx.h"
#include "tx.h"

#define TX_WORD_OFF 0u
#define RX_WORD_OFF 64u
#define CREDIT_OFF 128u
#define CREDIT_BYTES (RSK_MAILBOX_FRAME_BYTES + (uint32_t)sizeof(struct rsk_mailbox_credit))
#define RING_OFF 192u

struct way;

struct end {
	struct rsk_tcp c;
	struct way *w;
};

/* One direction: the sender's machine at one end, the receiver's at the other. */
struct way {
	struct duplex *d;
	uint32_t id;
	struct rsk_tx tx;
	struct rsk_rx rx;
	struct end at_tx, at_rx;
	uint8_t *fifo;
	uint64_t fifo_in, fifo_out;
	bool fifo_end;
	bool owes; /* the last value that the sender's machine reported */

	uint64_t sent, received;
	bool fin_asked, ended;
	bool in_tx, in_rx; /* a call of this machine is running: no other may begin */
	bool leaving;	   /* inside rsk_rx_fall_back() */
	bool was_broken;   /* rx has reported C, tx has not received it yet */
	uint64_t c_pos, c_cell;
	_Atomic(uint64_t) taken;
	_Atomic(uint64_t) promotion_end;
	uint64_t first_lap;
	uint32_t widest; /* cells that the laps have used at the most */
	bool off[2];	 /* operator request: at the sender, at the receiver */
	/* of @looks: the credit that the sender's progress thread has looked up */
	struct rsk_key looked_key;
	struct rsk_mailbox_reader looks;
	uint32_t looked; /* number of the newest key */
	uint32_t mute;	 /* the receiver makes no call for so many turns */
	/* The part of the stream's record that the receiver writes when it looks ahead. */
	struct rsk_stats_ahead ahead;
	/* of @harm: the slot that a bit was flipped in last, and how often */
	uint64_t harmed_at;
	uint32_t harmed;
};

/*
 * A message between the two progress threads (../../stream/remote/remote_msg.h), as far as it is
 * modelled here.
 */
struct word {
	enum {
		WORD_BREAK,
		WORD_RESUME,
		WORD_RAIL,
		WORD_RING
	} what;
	uint32_t epoch;
	uint64_t pos, cell, owed, ring_end;
};
#define WORDS 64u

/*
 * One end's progress thread: it serves way[i]'s sender and way[!i]'s receiver
 * (../../stream/remote/remote_rail.c).
 */
struct progress {
	bool up, established, heard;
	bool open; /* the peer has said where its ring is, so it may be proposed */
	uint32_t epoch;
	struct word inbox[WORDS]; /* a FIFO: the control connection */
	uint32_t first, n;
};

struct duplex {
	const struct duplex_config *config;
	struct duplex_sums *sums;
	uint64_t rng;
	uint32_t depth;
	bool finishing;
	bool calm;	 /* no more breaks, no more operator requests */
	bool over;	 /* a stream has ended with an error */
	bool rail_there; /* of the progress threads' epoch */
	struct progress progress[2];
	uint64_t key[2];
	uint8_t *segment[2];
	size_t segment_bytes;
	struct rsk_chaos chaos[2];
	struct rsk_rail shm[2];
	struct rsk_rail *rail[2];
	struct duplex_rails *rails; /* of duplex_rails.c; NULL: there is one rail */
	struct way way[2];
	uint8_t *out, *in;
};

/*
 * Criterion reports every assertion, also those that pass, through a pipe, which is too slow for
 * one assertion per byte.
 */
#define CHECK(d, what, fmt, ...)                                                                   \
	do {                                                                                       \
		if (!(what))                                                                       \
			cr_assert_fail("seed %" PRIu64 ": " fmt, (d)->config->seed,                \
				       ##__VA_ARGS__);                                             \
	} while (0)

static inline uint64_t below(struct duplex *d, uint64_t n)
{
	return dice_roll(&d->rng) % n;
}

static inline bool chance(struct duplex *d, uint32_t percent)
{
	return below(d, 100) < percent;
}

static inline bool may_break(const struct duplex *d)
{
	return d->config->breaks || d->config->renews;
}

/* One random step of an end. Does nothing if a call of that end is running. */
void duplex_act_tx(struct way *w);
void duplex_act_rx(struct way *w);
void duplex_send(struct way *w);
void duplex_fin(struct way *w);

/* Toggles an operator request that keeps one end of a direction off the ring. */
void duplex_request_tx(struct way *w);
void duplex_request_rx(struct way *w);

/*
 * duplex_message_bytes() draws how many bytes to move at once. duplex_cut() cuts @len bytes into a
 * few runs, some of them empty, and returns the number of runs.
 */
size_t duplex_message_bytes(struct duplex *d);
int duplex_cut(struct duplex *d, uint8_t *base, size_t len, struct iovec iov[static 6]);

/* Runs the peer's machine while this one is inside a call. */
void duplex_meanwhile(struct way *w);

/* A byte queue with an end and little room. It returns EAGAIN or takes a part at random. */
extern const struct rsk_tcp_ops duplex_fifo_ops;

/* duplex_link.c: breaks, and new rails. */
void duplex_link_init(struct duplex *d);
void duplex_link_step(struct duplex *d);
void duplex_break_step(struct duplex *d);

/* duplex_credit.c: the receiver's mailbox, and the sender's reads of it. */
void duplex_credit_init(struct way *w);
void duplex_credit_step(struct duplex *d);

/* duplex_harm.c: bits flip in the receivers' memory. */
void duplex_harm_step(struct duplex *d);
/*
 * The sender reports what it retransmits after a break. If that is not what a damaged slot makes
 * missing, the stream ends, and the run.
 */
void duplex_owe(struct way *w, uint64_t to, uint64_t ring_end);

/* duplex_txn_tags.c: transactions, as both ends know them, over several rails. */
void duplex_txn_tags_init(struct way *w);
void duplex_txn_tags_check(struct way *w);
void duplex_txn_tags_end(struct way *w);
struct duplex_gaps {
	uint32_t n;
	struct {
		uint64_t from, to;
	} at[1024];
};
/*
 * A rail failed; the receiver of @w has reported the gaps @gaps and the missing transactions
 * @missing.
 */
void duplex_txn_tags_missing(struct way *w, const struct duplex_gaps *gaps,
			     const struct rsk_txn_tags_missing *missing);

/* duplex_rails.c: several rails, served by the progress threads of duplex_progress.c. */
void duplex_several_init(struct duplex *d);
void duplex_several_fini(struct duplex *d);
void duplex_several_step(struct duplex *d);
void duplex_several_sum(struct duplex *d);

/* Makes the segments of both ends, and the rails between them, as the configuration says. */
void duplex_rails_init(struct duplex *d);

#endif
