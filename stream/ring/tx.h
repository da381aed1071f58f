/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx.h - the sending half of a direction: decides which path takes the next byte, and when that
 * changes. The engine's sending calls and the progress thread call it.
 *
 *	TCP --propose--> PROPOSED --peer watches, N known--> ONRING
 *	ONRING --FALLBACK_TX slot / FALLBACK_RX--> TCP
 *	ONRING --FALLBACK_RX(C) with unread slots-->
 *		RESEND (from C by TCP, before anything newer) --> TCP
 *	ONRING --QUIESCED(C), RETRANSMIT slot--> HELD --that slot has arrived--> RESEND
 *	ONRING --rail broken--> BROKEN (until the control connection reports C) --> RESEND
 *
 * A pure machine: no clock, and no system call except through the TCP socket's calls
 * (tcp_socket.h). Guarded by the stream's tx lock. Positions count the bytes of the stream; the
 * kernel's count is less by what went through the ring.
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
	/* RESEND must not begin: the quiesced receiver does not have RETRANSMIT yet. */
	RSK_TX_HELD,
	RSK_TX_BROKEN
};

/*
 * What the receiver has answered of the newest promotion.
 *
 *	NOTHING   WATCHING, in PROPOSED                         WATCHING  rsk_tx_serve()
 *	WATCHING  SWITCHED, or REQ_FALLBACK or QUIESCED that
 *		  says the same, since the ring began           SWITCHED  rsk_tx_serve()
 *	any       a new proposal; another rail                  NOTHING   rsk_tx_propose(),
 *									  rsk_tx_renew()
 */
enum rsk_tx_answered {
	RSK_ANSWERED_NOTHING,
	RSK_ANSWERED_WATCHING,
	/* It has seen where the ring begins. */
	RSK_ANSWERED_SWITCHED
};

/* Whether the peer still reads the ring. It does not come back: rsk_tx_reader_gone(). */
enum rsk_tx_reader {
	RSK_READER_THERE,
	RSK_READER_CLOSED,
	/* Without a word of the peer: its link is gone. */
	RSK_READER_LOST
};

/*
 * The end of the stream, as this end has sent it.
 *
 *	OPEN       shut down, and the kernel's FIN at once      DONE  rsk_tx_fin()
 *	OPEN, DONE shut down, and something is retransmitted    DUE   rsk_tx_fin_later()
 *	DUE        everything is retransmitted                  DONE  rsk_tx_fin_now()
 *	DUE        another call, or process, sends it           DONE  rsk_tx_fin_done()
 */
enum rsk_tx_end {
	RSK_FIN_OPEN,
	/* The kernel's FIN is deferred until everything is retransmitted. */
	RSK_FIN_DUE,
	RSK_FIN_DONE
};

enum {
	/* The receiver's REQ_FALLBACK; it reads the ring to its end. */
	RSK_TX_STAY_ASKED = 1,
	/* An operator request. */
	RSK_TX_STAY_OWN = 2,
	/* Another process, which cannot put, may use the stream. */
	RSK_TX_STAY_FORK = 4,
	/* The process ends: what it still puts could not be retransmitted. */
	RSK_TX_STAY_END = 8,
};

/* Owner: the stream, under its tx lock. What each call checks comes first. */
struct rsk_tx {
	struct rsk_ring_tx ring;
	struct rsk_key key;
	/* The receiver's RX control word. */
	struct {
		const struct rsk_control_word *at; /* in our segment; borrowed */
		uint64_t seen;			   /* hash of the newest one accepted */
	} answer;

	uint8_t state;	     /* enum rsk_tx_state */
	uint8_t answered;    /* enum rsk_tx_answered */
	uint8_t reader;	     /* enum rsk_tx_reader */
	uint8_t fin;	     /* enum rsk_tx_end */
	bool peer_fell_back; /* never propose again */
	/*
	 * Another process retransmits: nothing more is sent here, since it would come before that.
	 */
	bool passed_on;
	/* Positions cannot be determined: never propose again. */
	bool gave_up;
	uint8_t stay_off; /* RSK_TX_STAY_*: fall back, and do not propose */
	uint32_t gen;
	uint64_t pos;	     /* of the next byte; valid from the first promotion on */
	uint64_t ring_bytes; /* carried by the ring for good */
	/* Of this promotion. */
	struct {
		uint64_t pos, cell;
	} start;
	/* The position that the receiver had reached in this promotion, as far as is known. */
	uint64_t read_pos;
	uint64_t moved_tcp_pos; /* the kernel's count at the fallback */
	uint64_t lap_ended;	/* index after the newest slot of no bytes */
	/* rsk_promotion_end(); NULL: the receiver never pauses. */
	_Atomic(uint64_t) *ended;
	/* The receiver's requests to put a slot again: tx_repair.c. */
	struct {
		uint64_t index; /* of the slot; valid while @due */
		uint64_t last;	/* the one that was put again last */
		uint32_t times; /* how often @last was */
		/* Numbers: of the newest request, and of the newest that is answered. */
		uint32_t seen, answered;
		uint32_t gen; /* the promotion that the request is about */
		bool due;     /* a request is not answered yet */
		bool command; /* it includes the command at the ring's end */
	} repair;
	/* What is retransmitted by TCP; valid in RESEND and HELD. */
	struct {
		uint32_t len, off; /* slot in @scratch, and how much of it was sent */
		uint64_t cell;	   /* next slot to retransmit */
		uint64_t pos;	   /* position of the byte at @off */
		uint64_t asked;	   /* the position in QUIESCED, once that is answered */
		/* [RSK_SLOT_MAX_PAYLOAD], during RESEND; arena memory. */
		uint8_t *scratch;
	} resend;
	struct {
		/* All slots before this index are in the peer's memory, even if the rail breaks. */
		uint64_t safe_to;
		/*
		 * There is another rail, with this key, for when everything is retransmitted; 0:
		 * none.
		 */
		uint64_t renew_seed;
		/* Cells of a lap (rsk_tx_laps()) over another rail; 0: all. */
		uint32_t lap_cells;
		/* The rail broke since the ring began: nothing is put there any more. */
		bool ring_over;
	} rail_loss;
	/* Our TX control word. */
	struct {
		uint64_t off;		      /* in the peer's segment */
		struct rsk_control_word word; /* as last put */
	} own;
	/* Of pacing (rsk_tx_pace()); valid while bps is not 0. */
	struct {
		uint64_t bps;
		/* Cells that were added since that time. */
		uint64_t base_ns, added;
	} pace;
	/* Of the transaction tags. */
	struct {
		struct rsk_order_form form; /* if there are several rails; width 0: none */
		/* Number of the promotion of which some slots have tags; 0: none. */
		uint32_t promotion;
		/* Arena memory; ring.order points into it once there was more than one rail. */
		struct rsk_txn_tags_tx *machine;
	} tags;
	struct {
		uint32_t promotions, demotions;
	} counts;
};

/*
 * @ring_off, @word_off: of the ring and of our TX control word in the peer's segment; @answer: the
 * peer's RX control word in the own segment. @rail and @answer are borrowed.
 */
void rsk_tx_init(struct rsk_tx *tx, struct rsk_rail *rail, uint64_t ring_off, uint32_t cells,
		 uint64_t word_off, const struct rsk_control_word *answer, uint64_t key_seed);
/*
 * Called directly after rsk_tx_init(): over several rails slots have transaction tags of that form,
 * which the receiver knows.
 */
static inline void rsk_tx_tag(struct rsk_tx *tx, const struct rsk_order_form *form)
{
	tx->tags.form = *form;
}

/*
 * Bytes that were put are to be retransmitted by TCP, or may be: the receiver has ended the
 * promotion, and its control word on that is under way.
 */
static inline bool rsk_tx_owes(const struct rsk_tx *tx)
{
	return tx->state >= RSK_TX_RESEND || (tx->state == RSK_TX_ONRING && tx->ended &&
					      rsk_promotion_ended_by_rx(tx->ended, tx->gen));
}

/*
 * The receiver asks for a slot again, and that cannot be done yet (something is under way).
 * rsk_tx_serve() does it when everything has arrived.
 */
static inline bool rsk_tx_repair_due(const struct rsk_tx *tx)
{
	return tx->repair.due;
}

/* What was put is retransmitted by TCP, now or when the receiver has RETRANSMIT. */
static inline bool rsk_tx_retransmits(const struct rsk_tx *tx)
{
	return tx->state == RSK_TX_RESEND || tx->state == RSK_TX_HELD;
}

/* Goes on to TCP, from any state; off the ring that is a demotion. */
static inline void rsk_tx_to_tcp(struct rsk_tx *tx)
{
	tx->counts.demotions += tx->state == RSK_TX_ONRING;
	tx->state = RSK_TX_TCP;
}

/* The first report counts: a peer that has closed is not lost later. */
static inline void rsk_tx_reader_gone(struct rsk_tx *tx, enum rsk_tx_reader how)
{
	if (tx->reader == RSK_READER_THERE)
		tx->reader = how;
}

/* The deferred FIN, if there is one, is not sent by this machine any more. */
static inline void rsk_tx_fin_done(struct rsk_tx *tx)
{
	if (tx->fin == RSK_FIN_DUE)
		tx->fin = RSK_FIN_DONE;
}

/*
 * More than one rail is up: from here on slots of this promotion have tags. Before that the tags'
 * machine is not needed.
 */
void rsk_tx_several(struct rsk_tx *tx);

/* Frees the arena memory of the machine. */
void rsk_tx_fini(struct rsk_tx *tx);
bool rsk_tx_validate(const struct rsk_tx *tx);

/*
 * Asks the receiver whether it watches; later calls continue when the answer is there. Returns 0,
 * or -EAGAIN/-EPERM if a proposal is useless now/for good, or -errno of the rail.
 */
int rsk_tx_propose(struct rsk_tx *tx);

/*
 * rsk_tx_serve - handles what the receiver said (credit, WATCHING, FALLBACK_RX, repair, ...).
 * Returns 0; -EAGAIN: a FALLBACK_RX cannot be applied now, send nothing; -EPROTO: the peer breaks
 * the protocol, and the link must not be used any more.
 */
int rsk_tx_serve(struct rsk_tx *tx, struct rsk_tcp *c);

/*
 * rsk_tx_credit - handles the content of the receiver's mailbox: cells that are free again and not
 * reported by control word yet. Returns 1: the receiver has read more than was known; 0: it has
 * not, or the content is of another promotion; -EPROTO: it is impossible.
 */
int rsk_tx_credit(struct rsk_tx *tx, const struct rsk_mailbox_credit *is);

/* Hash of the receiver's control word that was handled last; may be called without the lock. */
static inline uint64_t rsk_tx_answer_seen(const struct rsk_tx *tx)
{
	return __atomic_load_n(&tx->answer.seen, __ATOMIC_RELAXED);
}

/* On the ring, and the receiver has said nothing new: rsk_tx_serve() would do nothing. */
static inline bool rsk_tx_on_fast_path(const struct rsk_tx *tx)
{
	return tx->state == RSK_TX_ONRING && !tx->stay_off &&
	       !rsk_control_word_fresh(tx->answer.at, tx->answer.seen);
}

/*
 * rsk_tx_send - sends as much of @src as possible now, by the current path. Returns bytes; -EAGAIN:
 * none now; other -errno: the TCP socket's. @src advances. @flags go to the TCP socket's send. For
 * a source that is read while it is sent: 0 when it has ended; -ENOSYS, also in its rc: not on the
 * ring.
 */
ssize_t rsk_tx_send(struct rsk_tx *tx, struct rsk_tcp *c, struct rsk_iovcur *src, int flags);

/*
 * rsk_tx_send_whole - sends all of @src in one slot, if the sender is on the fast path and there is
 * room for it. Returns bytes; 0: not possible, or the rail broke, and rsk_tx_send() has to be
 * called;
 * -EFAULT. @src advances.
 */
ssize_t rsk_tx_send_whole(struct rsk_tx *tx, struct rsk_iovcur *src);

/*
 * Off the ring, but nothing may be sent by TCP yet: bytes that could still be lost with the rail
 * come first. A caller that waits for that is woken as for credit.
 */
bool rsk_tx_held_back(const struct rsk_tx *tx);

/* Off the ring, and all that was put is in the peer's memory, even if the rail breaks. */
bool rsk_tx_arrived(const struct rsk_tx *tx);

/*
 * As rsk_tx_arrived(), and remembered: for another process that has the stream too and cannot ask
 * the rail.
 */
bool rsk_tx_secure(struct rsk_tx *tx);

/*
 * The maximum number of bytes that may still be lost with the rail; 0: all that was put is in the
 * peer's memory.
 */
uint64_t rsk_tx_under_way(const struct rsk_tx *tx);

/*
 * Called directly after rsk_tx_init(): a lap uses @cells of the ring's cells (rsk_ring_tx_widen()),
 * also after rsk_tx_renew().
 */
void rsk_tx_laps(struct rsk_tx *tx, uint32_t cells);

/*
 * rsk_tx_narrow - goes back to the laps that rsk_tx_laps() has set, while nothing is unread. True:
 * from now on nothing is put beyond them. False: not yet; call it again when the receiver has taken
 * a slot of no bytes, or when something was sent. Either way, the caller notifies the receiver.
 */
bool rsk_tx_narrow(struct rsk_tx *tx);

/*
 * rsk_tx_set_rate - from now on the ring takes at most @bps bits per second (0: any number): a
 * token bucket whose tokens are cells, frames included, and that holds a tenth of a second's.
 * Between calls of rsk_tx_pace() nothing is added; it returns whether there is more room than
 * before. The time is monotonic. A ring without room for that reason alone is not full:
 * rsk_tx_paced().
 */
void rsk_tx_set_rate(struct rsk_tx *tx, uint64_t bps, uint64_t now_ns);
bool rsk_tx_pace(struct rsk_tx *tx, uint64_t now_ns);
static inline bool rsk_tx_paced(const struct rsk_tx *tx)
{
	return tx->ring.paced_to < rsk_ring_tx_limit(&tx->ring);
}

/* On the ring: has the receiver read from it, and therefore all bytes before it? */
static inline bool rsk_tx_reached(const struct rsk_tx *tx)
{
	return tx->ring.credit > tx->start.cell;
}

/* Would rsk_tx_send() take a byte for the ring? (On TCP: ask the kernel.) */
bool rsk_tx_writable(const struct rsk_tx *tx);

/*
 * Falls back: "the stream continues on the TCP socket". No answer is needed. Does nothing unless on
 * the ring or proposing. Returns 0 or -errno; -EAGAIN on a fabric that is not SYNC while the
 * receiver has not yet said that it knows where the ring begins.
 */
int rsk_tx_fall_back(struct rsk_tx *tx, struct rsk_tcp *c);

/*
 * @on: falls back, now or when it is possible (rsk_tx_serve()), and does not propose until the
 * request is withdrawn. @why: RSK_TX_STAY_*.
 */
void rsk_tx_stay_off(struct rsk_tx *tx, uint8_t why, bool on);

/* "The stream ends here." Returns 0 or -errno. The caller sends the kernel's FIN. */
int rsk_tx_fin(struct rsk_tx *tx, struct rsk_tcp *c);

/*
 * Deferred FIN, while rsk_tx_fin_waits(): something is to be retransmitted, or may be if the rail
 * breaks before it has arrived, and a socket that is shut down takes no more. rsk_tx_fin_later()
 * defers the kernel's FIN. The call that retransmits the last byte, or finds that everything has
 * arrived, sends it. rsk_tx_fin_now() sends it if it is due, for callers that change the state
 * themselves. Where the ring is still in use, call rsk_tx_fin() first.
 */
bool rsk_tx_fin_waits(const struct rsk_tx *tx);
void rsk_tx_fin_later(struct rsk_tx *tx);
void rsk_tx_fin_now(struct rsk_tx *tx, struct rsk_tcp *c);

/*
 * rsk_tx_break - the rail broke: nothing more is put. rsk_tx_resume - the receiver's position is
 * known: continue from there; returns 0, -EAGAIN or -EPROTO.
 */
void rsk_tx_break(struct rsk_tx *tx);
int rsk_tx_resume(struct rsk_tx *tx, struct rsk_tcp *c, uint64_t pos, uint64_t cell);

/*
 * The position before which bytes are retransmitted, or may have to be, after the rail broke; 0:
 * none.
 */
static inline uint64_t rsk_tx_owed_to(const struct rsk_tx *tx)
{
	return tx->state >= RSK_TX_RESEND ? tx->pos : 0;
}

/*
 * The position up to which the receiver reads this promotion's bytes in the ring; 0: there are
 * none. What rsk_tx_owed_to() does not count has to be there.
 */
static inline uint64_t rsk_tx_ring_end(const struct rsk_tx *tx)
{
	if (tx->own.word.what == RSK_TX_RETRANSMIT)
		return tx->own.word.cells ? tx->resend.asked : tx->own.word.pos;
	return tx->own.word.what == RSK_TX_RING && tx->pos > tx->start.pos ? tx->pos : 0;
}

/*
 * The receiver, asked for its position, reports that it does not have the stream any more: handled
 * as its word CLOSED.
 */
void rsk_tx_forgotten(struct rsk_tx *tx);

/*
 * Retransmission that was held may begin: the receiver has RETRANSMIT, has sent RESUME, or is gone
 * with nothing to retransmit.
 */
void rsk_tx_unhold(struct rsk_tx *tx);

/*
 * There is another rail, after rsk_tx_resume(), with another key and an empty ring. It is used when
 * everything is retransmitted, and may be proposed then. The counters are kept.
 */
void rsk_tx_renew(struct rsk_tx *tx, uint64_t key_seed);

/*
 * For a fabric that is not RELIABLE: puts the control word, and what is not credited, again (called
 * on a timer).
 */
int rsk_tx_tick(struct rsk_tx *tx);

/* After the holder of the tx lock was killed inside a section: takes the state from the ring. */
void rsk_tx_recover(struct rsk_tx *tx);

#endif
