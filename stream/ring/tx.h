/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx.h - the sending half of a direction: which carrier takes the next byte, and how that changes.
 *
 *	TCP --propose--> PROPOSED --peer watches, N known--> RING --MOVE slot / LEAVE--> TCP
 *	RING --LEAVE(C) with unread slots--> RESEND (C.. over TCP, in order, before anything newer) --> TCP
 *	RING --BACK(C), AGAIN slot--> RESEND, held until that slot has arrived --> TCP
 *	RING --rail broken--> BROKEN (waits for the receiver's C by another way) --> RESEND
 *
 * A pure machine: no clock, no system call but through the companion's four. Guarded by the stream's tx lock.
 * Positions count the bytes of the stream; what the kernel counts is less by what went through the ring.
 */
#ifndef RSK_TX_H
#define RSK_TX_H

#include "tcp_socket.h"
#include "control_word.h"
#include "mailbox.h"
#include "txn_tags.h"
#include "ring.h"

enum rsk_tx_state {
	RSK_TX_TCP,
	RSK_TX_PROPOSED,
	RSK_TX_ONRING,
	RSK_TX_RESEND,
	RSK_TX_BROKEN
};

enum {
	RSK_TX_STAY_ASKED = 1, /* the receiver's word (GO), who reads the ring to its end */
	RSK_TX_STAY_OWN = 2,   /* an operator's wish */
	RSK_TX_STAY_FORK = 4,  /* another process may use it, which cannot put */
	RSK_TX_STAY_END = 8,   /* the process ends: what it still puts nobody could repeat */
};

struct rsk_tx {
	struct rsk_ring_tx ring;
	struct rsk_key key;
	uint64_t word_off;		       /* of our tx_word in the peer's segment */
	const struct rsk_control_word *answer; /* the peer's rx_word in our segment */
	uint64_t answer_seen;		       /* hash of the newest one believed */
	_Atomic(uint64_t) *ended;	       /* rsk_promotion_end(); NULL: no receiver pauses */
	uint8_t *scratch; /* [RSK_SLOT_MAX_PAYLOAD], while RESEND; arena memory */

	uint8_t state;	/* enum rsk_tx_state */
	bool watched;	/* the peer answered this proposal */
	bool ring_over; /* the rail broke since the ring began: nothing is put there any more */
	bool acked;	/* the receiver has seen where the ring begins */
	bool peer_fell_back; /* never propose again */
	bool peer_closed;    /* nobody reads the ring any more */
	bool lost;	     /* that is so without a word of the peer: its link is gone */
	bool fin;
	bool fin_due; /* the kernel's FIN was put off until all is repeated */
	bool passed_on; /* another process repeats: nothing more is sent here, that would come before it */
	bool gave_up;	  /* positions cannot be had: never propose again */
	uint8_t stay_off; /* RSK_TX_STAY_*: to move, and not to propose */
	uint32_t gen;
	uint32_t repair_seen;
	uint64_t pos;			/* of the next byte; valid from the first promotion on */
	uint64_t ring_bytes;		/* carried by the ring for good */
	uint64_t start_pos, start_cell; /* of this promotion */
	uint64_t read_pos; /* that the receiver had reached in this promotion, as far as is known */
	uint64_t moved_tcp_pos;		 /* the kernel's count when the ring was left */
	uint64_t resend_cell;		 /* next slot to repeat */
	uint32_t resend_len, resend_off; /* slot in scratch, how much of it went */
	uint64_t resend_pos;		 /* position of the byte at resend_off */
	bool held; /* RESEND must not begin: the receiver, who rests, has not got AGAIN yet */
	uint32_t promotions, demotions;
	struct rsk_control_word word; /* our tx_word, as last put */
	uint64_t safe_to; /* all slots before this index are the peer's, also when the rail breaks */
	uint64_t renew_seed; /* another rail is there, under that key: once all is repeated; 0: none */
	struct rsk_order_form form; /* of the marks, where the rail is several; of width 0: none */
	struct rsk_txn_tags_tx
		*tags;	 /* arena memory; ring.order is its, once there was more than one rail */
	uint32_t tagged; /* of that promotion some slots have marks; 0: of none */
};

void rsk_tx_init(struct rsk_tx *tx, struct rsk_rail *rail, uint64_t ring_off, uint32_t cells,
		 uint64_t word_off, const struct rsk_control_word *answer, uint64_t key_seed);
/* Right behind that: over several rails slots are marked in that form, of which the receiver knows. */
static inline void rsk_tx_tag(struct rsk_tx *tx, const struct rsk_order_form *form)
{
	tx->form = *form;
}

/*
 * Bytes that were put are to be repeated by TCP, or may be: the receiver has ended the promotion, and what it says of
 * that is on its way.
 */
static inline bool rsk_tx_owes(const struct rsk_tx *tx)
{
	return tx->state >= RSK_TX_RESEND || (tx->state == RSK_TX_ONRING && tx->ended &&
					      rsk_promotion_ended_by_rx(tx->ended, tx->gen));
}

/* More than one rail is up: from here on slots of this promotion have marks. Until then they need no machine. */
void rsk_tx_several(struct rsk_tx *tx);

void rsk_tx_fini(struct rsk_tx *tx);
bool rsk_tx_validate(const struct rsk_tx *tx);

/* Ask the receiver whether it watches; later calls go on from its answer. 0, or -EAGAIN/-EPERM when no use. */
int rsk_tx_propose(struct rsk_tx *tx);

/*
 * rsk_tx_serve - take in what the receiver said (credit, watching, leave, repair) and act on it.
 * 0; -EAGAIN: a LEAVE cannot be heeded now, send nothing; -EPROTO (the peer breaks the rules: the link is not
 * to be used any more).
 */
int rsk_tx_serve(struct rsk_tx *tx, struct rsk_tcp *c);

/*
 * rsk_tx_credit - what the receiver's mailbox says: cells are free again that it has not told of yet. 1: it has read
 * on since what was known; 0: it has not, or that is of another promotion; -EPROTO: that cannot be.
 */
int rsk_tx_credit(struct rsk_tx *tx, const struct rsk_mailbox_credit *is);

/* Which of its words was taken in last; also without the lock. */
static inline uint64_t rsk_tx_answer_seen(const struct rsk_tx *tx)
{
	return __atomic_load_n(&tx->answer_seen, __ATOMIC_RELAXED);
}

/* On the ring, and the receiver has said nothing new: rsk_tx_serve() has nothing to do. */
static inline bool rsk_tx_on_fast_path(const struct rsk_tx *tx)
{
	return tx->state == RSK_TX_ONRING && !tx->stay_off &&
	       !rsk_control_word_fresh(tx->answer, tx->answer_seen);
}

/*
 * rsk_tx_send - as much of @src as goes now, in the right carrier. Bytes; -EAGAIN: none goes now; other -errno: the
 * companion's. @src advances. Flags go to the companion's send. Of what is read as it is sent: 0 when it has ended;
 * -ENOSYS, also in its rc: not on the ring.
 */
ssize_t rsk_tx_send(struct rsk_tx *tx, struct rsk_tcp *c, struct rsk_iovcur *src, int flags);

/*
 * rsk_tx_send_whole - all of @src in one slot, if the sender is steady and there is room for that. Bytes; 0: not
 * so, or the rail broke: rsk_tx_send() knows what to do. @src advances.
 */
ssize_t rsk_tx_send_whole(struct rsk_tx *tx, struct rsk_iovcur *src);

/*
 * Off the ring, but nothing may go by the companion yet: bytes that could still be lost with the rail come before.
 * Whoever waits for that is woken as for credit.
 */
bool rsk_tx_held_back(const struct rsk_tx *tx);

/* Off the ring, and all that was put is the peer's, whatever becomes of the rail. */
bool rsk_tx_arrived(const struct rsk_tx *tx);

/* The same, and remembered: for a process that has the stream, too, and cannot ask the rail. */
bool rsk_tx_secure(struct rsk_tx *tx);

/* So many bytes at the most may still be lost with the rail; 0: all that was put is the peer's. */
uint64_t rsk_tx_under_way(const struct rsk_tx *tx);

/* Would rsk_tx_send() take a byte from the ring's point of view? (On TCP: ask the kernel.) */
bool rsk_tx_writable(const struct rsk_tx *tx);

/*
 * "From here on the companion": needs no answer. No-op unless on the ring or proposing. 0 or -errno;
 * -EAGAIN on a fabric that is not SYNC while the receiver has not yet said that it knows of the ring.
 */
int rsk_tx_fall_back(struct rsk_tx *tx, struct rsk_tcp *c);

/*
 * @on: move, now or when it can be done (rsk_tx_serve()), and propose nothing until it is taken back. @why:
 * RSK_TX_STAY_*.
 */
void rsk_tx_stay_off(struct rsk_tx *tx, uint8_t why, bool on);

/* "The stream ends here." 0 or -errno; the kernel's FIN is the caller's business. */
int rsk_tx_fin(struct rsk_tx *tx, struct rsk_tcp *c);

/*
 * The same, while rsk_tx_fin_waits(): something is to be repeated, or may be, if the rail breaks
 * before it has arrived, and a socket that is shut takes nothing. The kernel's FIN is put off, and
 * sent by the call that repeats the last byte, or finds that all has arrived; rsk_tx_fin_now() sends
 * it if it is due, for who changes the state itself. rsk_tx_fin() first, where the ring is still in use.
 */
bool rsk_tx_fin_waits(const struct rsk_tx *tx);
void rsk_tx_fin_later(struct rsk_tx *tx);
void rsk_tx_fin_now(struct rsk_tx *tx, struct rsk_tcp *c);

/* The rail broke: nothing more by the ring. Then, when the receiver's position is known: go on from there. */
void rsk_tx_break(struct rsk_tx *tx);
int rsk_tx_resume(struct rsk_tx *tx, struct rsk_tcp *c, uint64_t pos, uint64_t cell);

/* The position before which bytes are repeated, or may have to be, now that the rail has broken; 0: none are. */
static inline uint64_t rsk_tx_owed_to(const struct rsk_tx *tx)
{
	return tx->state >= RSK_TX_RESEND ? tx->pos : 0;
}

/* The receiver, asked for its position, says that it has no such stream any more: as its word CLOSED. */
void rsk_tx_forgotten(struct rsk_tx *tx);

/* What was held is repeated now: the receiver has AGAIN, or has said RESUME, or is gone with nothing to repeat. */
void rsk_tx_unhold(struct rsk_tx *tx);

/*
 * Another rail, after rsk_tx_resume(): under another key, into a ring that begins anew, as soon as what has to be
 * repeated is; it may be proposed again then. What was counted stays.
 */
void rsk_tx_renew(struct rsk_tx *tx, uint64_t key_seed);

/* A fabric that is not RELIABLE: put the mail and what is not credited once more (called on a timer). */
int rsk_tx_tick(struct rsk_tx *tx);

/* After the tx lock's holder was killed inside a section: believe the ring. */
void rsk_tx_recover(struct rsk_tx *tx);

#endif
