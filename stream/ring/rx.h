/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rx.h - the receiving half of a direction: from which carrier the next byte comes.
 *
 *	TCP --proposed, no thread in a plain wait, position known--> WATCHING --RING(N) seen--> SWITCHING
 *	SWITCHING --position N reached on the companion--> ONRING --MOVE slot--> TCP
 *	any --leave(): "I have consumed up to C, go on by TCP"--> TCP for good
 *	ONRING --rest(): "back to C", nothing is read--> TCP at the sender's AGAIN; ONRING, if it had moved already
 *
 * A pure machine like tx.h. Guarded by the stream's rx lock. Nothing here blocks.
 */
#ifndef RSK_RX_H
#define RSK_RX_H

#include <errno.h>

#include "tcp_socket.h"
#include "control_word.h"
#include "mailbox.h"
#include "txn_tags.h"
#include "ring.h"

/* A rail broke, or its sender is gone: is there more of what was put than has come? It is repeated by TCP, if so. */
enum rsk_rx_owed {
	RSK_RX_OWED_NOTHING,
	RSK_RX_OWED_UNKNOWN, /* until the sender says so: its end may be ahead of bytes */
	RSK_RX_OWED_TO	     /* all before this position: an end that comes earlier is a reset */
};

enum rsk_rx_state {
	RSK_RX_TCP,
	RSK_RX_WATCH,
	RSK_RX_DRAIN_TCP,
	RSK_RX_ONRING
};

struct rsk_rx {
	struct rsk_ring_rx ring;
	struct rsk_key key;
	struct rsk_rail *rail;
	uint64_t word_off;		     /* of our rx_word in the peer's segment */
	const struct rsk_control_word *word; /* the peer's tx_word in our segment */
	uint64_t word_seen;
	_Atomic(uint64_t) *
		consumed; /* our exact index, for the peer to get() at the end of life; may be NULL */
	struct rsk_mailbox credit; /* the same for a peer that cannot read @consumed; at NULL: none */

	_Atomic(uint64_t)
		*ended; /* rsk_promotion_end(), for rsk_rx_pause(); NULL: not on this fabric */

	uint8_t state;	     /* enum rsk_rx_state */
	bool fell_back;	     /* TCP for good */
	bool gave_up;	     /* positions cannot be had */
	bool stay_off;	     /* answers no proposal, and says GO: rsk_rx_stay_off() */
	uint64_t ring_limit; /* the rail broke: the ring ends before this index; 0: it did not */
	uint64_t renew_seed; /* another rail is there, under that key, for when that is read; 0: none */
	uint64_t last_cell; /* a sender that ended in order has put so far; 0: none has said so */
	bool fin;	    /* FIN slot taken: end of stream */
	bool tcp_eof;	    /* the companion showed its end */
	bool tcp_ahead; /* it had bytes when it was looked at on the ring: not due before the ring says so */
	bool lost;    /* the sender is dead, or its rail for good: what has not come never will */
	uint8_t owed; /* enum rsk_rx_owed */
	uint64_t owed_to; /* RSK_RX_OWED_TO: that position */
	int tcp_err; /* the companion showed this error (-errno); to be delivered once, after the data */
	bool err_told; /* one that ends the stream was, the companion's or ours: behind it is the end alone */
	uint32_t paused; /* the promotion that we ended, until the sender says that it knows; 0: none */
	bool ours;	 /* this promotion was ended by rsk_rx_end_it(), and nothing was said yet */
	bool jumps;	 /* slots of that one may lie behind ring.next that are nobody's any more */
	uint32_t gen;	   /* of the promotion watched or on */
	uint32_t proposed; /* newest proposal seen */
	uint64_t pos;	   /* of the next byte to deliver; valid from the first WATCHING on */
	uint64_t switch_pos;
	uint64_t switch_cell;
	uint64_t ring_bytes; /* delivered from the ring */
	uint64_t credit_sent;
	uint8_t *partial; /* one verified slot, delivered in part; arena memory */
	uint32_t partial_len, partial_off;
	uint64_t partial_cell; /* its index: no credit beyond it */
	uint64_t counted_to;   /* slots from ring.next up to here were counted (SYNC); less: none */
	uint64_t counted_bytes;
	uint64_t whole_to; /* slots below this index were found whole, where a put lands bit by bit */
	uint64_t part_at;    /* the next one was not, */
	uint32_t part_looks; /* at so many looks */
	bool fallback_race; /* a LEAVE met a MOVE: did the sender heed it? The word tells, before the next byte */
	bool applied;	       /* it did */
	uint64_t fallback_pos; /* what that LEAVE said, or BACK */
	bool quiesced; /* BACK was said, and its answer has not come: nothing is to be had meanwhile */
	bool asked;    /* the sender is to repeat what lies in the ring, and reads it there */
	bool repeated;	   /* some of what lay in the ring comes by the companion once more */
	uint64_t skip;	   /* bytes repeated on the companion that the ring gave us too */
	uint8_t *overread; /* bytes of the companion read beyond switch_pos: due after the MOVE */
	size_t overread_len, overread_off;
	uint32_t promotions, demotions;
	struct rsk_control_word own_word; /* our rx_word, as last put */
	struct rsk_order_form form; /* of the marks, where the sender writes some; of width 0: none */
	struct rsk_txn_tags_rx *tags; /* arena memory */
	bool tagged; /* this promotion's slots are told to it; the state says whether that is over */
};

void rsk_rx_init(struct rsk_rx *rx, struct rsk_rail *rail, const uint8_t *ring, uint32_t cells,
		 uint64_t word_off, const struct rsk_control_word *word, uint64_t key_seed);
/* Right behind that: slots that come over several rails have marks of that form. */
static inline void rsk_rx_tag(struct rsk_rx *rx, const struct rsk_order_form *form)
{
	rx->form = *form;
}

/* Right behind rsk_rx_init(), instead of @consumed: how far it has read is published in a mailbox of that place. */
static inline void rsk_rx_publish_at(struct rsk_rx *rx, void *at, uint32_t bytes)
{
	rsk_mailbox_init(&rx->credit, at, bytes, &rx->key);
}

/*
 * A slot at ring.next has a mark, or the rail is one of several of which one was lost: the marks' machine begins
 * there, if it has not in this promotion. False: there is none.
 */
static inline bool rsk_rx_txn_tags_begin(struct rsk_rx *rx)
{
	if (!rx->tagged && rx->state >= RSK_RX_DRAIN_TCP)
		rx->tagged =
			rsk_txn_tags_rx_begin(&rx->tags, &rx->form, rx->ring.cells, rx->ring.next);
	return rx->tagged;
}

/* The marks' machine, while it has all that was taken; NULL. */
static inline struct rsk_txn_tags_rx *rsk_rx_txn_tags(const struct rsk_rx *rx)
{
	return rx->tagged && rx->state >= RSK_RX_DRAIN_TCP ? rx->tags : NULL;
}

void rsk_rx_fini(struct rsk_rx *rx);
bool rsk_rx_validate(const struct rsk_rx *rx);

/* Take in what the sender says; answer a proposal if that can be done now. 0 or -EPROTO. */
int rsk_rx_serve(struct rsk_rx *rx, struct rsk_tcp *c);

/* Credit, where the sender can look it up; and by word where enough of it came together (@all: any). */
void rsk_rx_give_credit(struct rsk_rx *rx, bool all);

/*
 * The end that the companion shows is the stream's. On the ring, where a put may still be under way, it is not: an
 * honest sender's last word comes there, behind its bytes; of a dead one nobody knows what is missing
 * (rsk_rx_lose()). Unless an error was told before: a companion that was aborted while both ends and the rail live
 * leaves no word.
 */
static inline bool rsk_rx_ended(const struct rsk_rx *rx)
{
	if (!rx->tcp_eof || rx->lost || rx->err_told)
		return rx->tcp_eof;
	return rx->owed != RSK_RX_OWED_UNKNOWN &&
	       (rx->state < RSK_RX_WATCH || (rx->rail->ops->caps & RSK_FABRIC_SYNC));
}

/*
 * The companion has bytes, and the sender, who is on the ring, has not said that it goes on there: it does so before it
 * sends any, and between hosts that has arrived then. So calls that no hook saw have sent them, or they are no honest
 * sender's. They wait for the ring, or the link's end, and the bell tells of both.
 */
static inline bool rsk_rx_ahead(const struct rsk_rx *rx)
{
	return rx->tcp_ahead && rx->state == RSK_RX_ONRING;
}

/* An error @err (-errno) is delivered. Others than these may be of one packet, and the stream goes on. */
static inline void rsk_rx_told(struct rsk_rx *rx, int err)
{
	if (err == -ECONNRESET || err == -ECONNABORTED || err == -ETIMEDOUT || err == -EPIPE)
		rx->err_told = true;
}

/* The companion's error @n (-errno; others are none) came behind bytes: the next call has it. */
static inline void rsk_rx_keep_error(struct rsk_rx *rx, ssize_t n)
{
	if (n != -ECONNRESET && n != -ECONNABORTED && n != -ETIMEDOUT)
		return;
	rx->tcp_err = (int)n;
	rx->err_told = false;
}

/* The companion's error, to be delivered now; 0: none. Behind it is the end. */
static inline int rsk_rx_take_error(struct rsk_rx *rx)
{
	int err = rx->tcp_err;

	if (err) {
		rx->tcp_err = 0;
		rx->tcp_eof = true;
		rsk_rx_told(rx, err);
	}
	return err;
}

/* On the ring, and the sender has said nothing new: rsk_rx_serve() has nothing to do. */
static inline bool rsk_rx_on_fast_path(const struct rsk_rx *rx)
{
	return rx->state == RSK_RX_ONRING && !rx->fallback_race && !rx->fell_back && !rx->fin &&
	       !rx->quiesced && !rsk_control_word_fresh(rx->word, rx->word_seen);
}

/* rsk_rx_recv() takes no slot more after so many bytes: a sender that sleeps until there is room has to be woken. */
static inline size_t rsk_rx_round_bytes(const struct rsk_rx *rx)
{
	return (size_t)rx->ring.cells * RSK_CELL_BYTES / 2;
}

/*
 * rsk_rx_recv - what can be had now, as a TCP receive queue would give it. Bytes; 0: end of stream;
 * -EAGAIN; -EPROTO: the peer breaks the rules; other -errno: the companion's. @dst advances.
 * @peek: nothing is consumed. @look: also ask the companion while the ring is empty (end, reset).
 */
ssize_t rsk_rx_recv(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst, bool peek,
		    bool look);

/*
 * rsk_rx_recv_ring - as much as lies in stage and ring, of one round. Bytes; 0: nothing, or a command ended it;
 * -EPROTO, -ENOMEM. All that rsk_rx_recv() does while the receiver is steady and there is something, unless it ends
 * with a command: rsk_rx_recv_rest() has what comes behind that, and returns it and @got, which is not 0.
 */
ssize_t rsk_rx_recv_ring(struct rsk_rx *rx, struct rsk_iovcur *dst);
ssize_t rsk_rx_recv_rest(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst, size_t got);

/* Ask the companion whether it shows the stream's end or an error; kept until it is due. */
void rsk_rx_check_tcp(struct rsk_rx *rx, struct rsk_tcp *c);

/* Something to deliver (bytes, end, error) without asking the kernel? */
bool rsk_rx_ready(struct rsk_rx *rx);

/*
 * Bytes deliverable from ring, stage and hold, at least one slot exactly; for FIONREAD and SO_RCVLOWAT. *alone, if
 * not NULL: the companion has none, since the sender is on the ring and has given no command behind those.
 */
uint64_t rsk_rx_pending(struct rsk_rx *rx, bool *alone);

/* Unread data with a command of the sender behind: newer bytes, or the end, may be on the companion. */
bool rsk_rx_moved_on(struct rsk_rx *rx);

/*
 * The end that the companion shows, to a receiver on the ring: where a put may still be under way it says nothing
 * before the sender's last word is here, behind all that is unread.
 */
enum rsk_rx_end {
	RSK_RX_END_BEHIND, /* something is still to come by the ring */
	RSK_RX_END_TCP,	   /* nothing is: it is as the companion shows */
	RSK_RX_END_HERE	   /* and what comes last is the end */
};
enum rsk_rx_end rsk_rx_end(struct rsk_rx *rx);
/* The sender has shut its direction: the ring has that behind all that is unread, or it was read. */
bool rsk_rx_told_end(struct rsk_rx *rx);

/* Nothing is here that has to be read here first: rsk_rx_fall_back() has nothing to repeat. */
static inline bool rsk_rx_drained(const struct rsk_rx *rx)
{
	return (rx->state == RSK_RX_TCP || rx->fin) && !rx->overread_len && !rx->partial_len &&
	       !rx->fallback_race && !rx->skip;
}

/* Is anything unread here (for reset at close)? */
bool rsk_rx_unread(struct rsk_rx *rx);

/*
 * From now on the companion only. *again: the peer has to repeat something, and will if it lives and makes a call.
 * 0; -EPROTO; -EBUSY: not left, bytes that lie here have to be read here first. That are bytes that will not be
 * repeated (in hold, or in the ring before a command of the sender); and with @stay, for a reader who can go on here,
 * any byte: it is not made to wait for a call of the peer. The sender is then asked to go (GO): leave once more when
 * rsk_rx_drained(). -EAGAIN: rsk_rx_quiesce().
 */
int rsk_rx_fall_back(struct rsk_rx *rx, bool stay, bool *again);

/*
 * rsk_rx_end_it - ends the promotion before rsk_rx_fall_back() says so, for who does in between what the sender must not
 * disturb: it writes nothing by TCP until it is told from where. False: not on this fabric, or it has given a command,
 * which lies in the ring. Only where no byte is lost if the sender does not live to hear of it: it may have closed, or
 * shut down, its socket meanwhile.
 */
bool rsk_rx_end_it(struct rsk_rx *rx);

/*
 * rsk_rx_quiesce - off the ring where a put takes time, so that the sender's MOVE may be under way and a LEAVE cannot tell
 * what it repeats. The receiver rests: it says from where (BACK) and takes nothing more; the sender's answer comes in
 * the ring, in order with all it has put: AGAIN, and the companion repeats all that was not read, beginning when AGAIN
 * has arrived; or the command that it had given already.
 * 0: off the ring. -EAGAIN: not yet; a later call, of whatever kind, finds the answer. -EBUSY: it had moved on, or had
 * ended: what lies here has to be read here. -EPROTO.
 */
int rsk_rx_quiesce(struct rsk_rx *rx);

/*
 * rsk_rx_pause - off the ring at once, whatever the sender is at, and paired still. Before that, in this order:
 * rsk_rx_stay_off(), a full fence, and all that lies in the ring is read. What the sender puts from then on it repeats
 * by TCP, in the same call (it looks at our word behind each slot). It needs no answer and waits for nobody.
 * 0: on TCP. -EAGAIN: the sender has just given a command, which lies in the ring: read on to it, and once more.
 * -EOPNOTSUPP: not on this fabric; -EPROTO.
 */
int rsk_rx_pause(struct rsk_rx *rx);

/*
 * @on: the sender is asked to move, at its next call, and proposes nothing until that is taken back. What lies in the
 * ring is read as ever. Not while leaving: that is for good.
 */
void rsk_rx_stay_off(struct rsk_rx *rx, bool on);

/* Nobody reads here any more: the sender's next byte meets the companion. */
void rsk_rx_close(struct rsk_rx *rx);

/*
 * The rail broke: what the sender must be told by another way, how much of it is here (a position, and the index
 * after its last slot). What has come is read as ever; from there on the companion has it.
 */
void rsk_rx_break(struct rsk_rx *rx, uint64_t *pos, uint64_t *cell);

/*
 * rsk_rx_owe - what the sender says of that: it had put bytes up to position @to that it repeats, or may have to;
 * 0: it has none to repeat.
 */
void rsk_rx_owe(struct rsk_rx *rx, uint64_t to);

/*
 * rsk_rx_missing - one of several rails is gone, and nothing can come by it any more: @gap is called with each range of
 * indexes in which no whole slot lies, in order, the last one without end (UINT64_MAX). From what was read up to here
 * on; of slots that others carry some may come yet. *missing, set before the last call of @gap: the transactions that
 * this makes, if the slots have marks.
 */
void rsk_rx_missing(struct rsk_rx *rx, uint8_t scratch[static RSK_SLOT_MAX_PAYLOAD],
		    struct rsk_txn_tags_missing *missing,
		    void (*gap)(void *arg, uint64_t from, uint64_t to), void *arg);

/*
 * Another rail, after rsk_rx_break(): under another key, from a ring that begins anew; the sender may propose
 * again. What was counted stays.
 */
void rsk_rx_renew(struct rsk_rx *rx, uint64_t key_seed);

/*
 * The sender is dead, or cannot be reached any more. What was put and has not come is lost: the stream was reset. Who
 * rests reads on: no byte was repeated before AGAIN had arrived. Who watches cannot tell whether the ring had begun.
 */
void rsk_rx_lose(struct rsk_rx *rx);

/* The sender ends in order: @cell, all that it put lies before this index; 0: it is not on the ring. */
void rsk_rx_ending(struct rsk_rx *rx, uint64_t cell);

/* A fabric that is not RELIABLE: say the last word once more (called on a timer). 0 or -errno. */
int rsk_rx_tick(struct rsk_rx *rx);

#endif
