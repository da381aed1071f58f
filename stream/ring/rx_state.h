/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rx_state.h - the state of the receiving half of a direction: see rx.h, which includes it. The
 * files of the machine (rx_parts.h) change it. Other floors read it, and write little: that a
 * stream gave up, an error of its TCP socket, and what a new process or a relay begins with.
 */
#ifndef RSK_RX_STATE_H
#define RSK_RX_STATE_H

#include "control_word.h"
#include "mailbox.h"
#include "txn_tags.h"
#include "ring.h"

/*
 * A rail broke, its sender is gone, or was asked to retransmit: was more put than has arrived? If
 * so, it is retransmitted by TCP.
 */
enum rsk_rx_owed {
	RSK_RX_OWED_NOTHING,
	/* Until the sender says so: the end of the TCP socket may overtake bytes. */
	RSK_RX_OWED_UNKNOWN,
	/* All before this position: an end that comes earlier is a reset. */
	RSK_RX_OWED_TO
};

enum rsk_rx_state {
	RSK_RX_TCP,
	RSK_RX_WATCH,
	RSK_RX_DRAIN_TCP,
	RSK_RX_ONRING
};

/*
 * A fallback of this end that has begun and is not settled. One at a time: each begins at NONE. It
 * is apart from @fell_back, which can be set while a race is still to be settled.
 *
 *	step            event                                   next      function
 *	NONE            the promotion is ended, not said yet    ENDED     rsk_rx_end_it()
 *	NONE            QUIESCED is put                         QUIESCED  rsk_rx_quiesce()
 *	NONE            FALLBACK_RX is put                      RACE      rsk_rx_fall_back()
 *	ENDED           FALLBACK_RX is put                      NONE      rsk_rx_fall_back()
 *	QUIESCED        the answer, or a command before it      NONE      rsk_rx_see_answer(),
 *							rsk_rx_see_retransmit()
 *	QUIESCED        no answer can come, or is needed        NONE      rsk_rx_break(),
 *							rsk_rx_unquiesce() for lose, close, refuse
 *	RACE            the sender's word RETRANSMIT            APPLIED   rsk_rx_take_word()
 *	RACE, APPLIED   no command crossed FALLBACK_RX, or the
 *			sender applied it                       NONE      rsk_rx_fall_back()
 *	RACE, APPLIED   a byte by TCP: it was applied or not    NONE      rsk_rx_recv()
 *	RACE            a proposal: it was not applied          NONE      rsk_rx_serve()
 *	APPLIED         on the ring: follows the sender         NONE      rsk_rx_serve()
 *	any             another rail; a relay has the stream    NONE      rsk_rx_renew(),
 *							rsk_rx_relay_done()
 */
enum rsk_rx_fallback {
	RSK_FALLBACK_NONE,
	/* The sender does not know of it yet, and sends nothing by TCP until it does. */
	RSK_FALLBACK_ENDED,
	/* QUIESCED was said and not answered yet; nothing can be read meanwhile. */
	RSK_FALLBACK_QUIESCED,
	/*
	 * Fallback race: our FALLBACK_RX and a FALLBACK_TX crossed. Whether the sender applied ours
	 * is known from its control word, before the next byte is delivered.
	 */
	RSK_FALLBACK_RACE,
	RSK_FALLBACK_APPLIED
};

/*
 * Owner: the stream, under its rx lock. What each call checks comes first, then what belongs to a
 * path, then what is needed when a promotion ends.
 */
struct rsk_rx {
	struct rsk_ring_rx ring;
	struct rsk_key key;
	struct rsk_rail *rail; /* borrowed */
	/* The sender's TX control word. */
	struct {
		const struct rsk_control_word *at; /* in our segment; borrowed */
		uint64_t seen;			   /* hash of the newest one accepted */
	} word;
	/* How the sender learns which cells are free again, besides our control word. */
	struct {
		/* Our exact index, which the peer may get() when the stream ends; may be NULL. */
		_Atomic(uint64_t) *consumed;
		/* The same, for a peer that cannot read @consumed; @mailbox.at NULL: not used. */
		struct rsk_mailbox mailbox;
		uint64_t sent; /* the newest that a control word carried */
	} credit;
	/* For rsk_promotion_end() in rsk_rx_pause(); NULL: not on this fabric. */
	_Atomic(uint64_t) *ended;

	uint8_t state;	/* enum rsk_rx_state */
	bool fell_back; /* on TCP for good */
	bool gave_up;	/* the positions cannot be determined */
	/* Answers no proposal, and says REQ_FALLBACK: rsk_rx_stay_off(). */
	bool stay_off;
	bool fin;	   /* FIN slot taken: end of stream */
	uint32_t gen;	   /* of the current or proposed promotion */
	uint32_t proposed; /* newest proposal seen */
	/* Of the next byte to deliver; valid from the first WATCH on. */
	uint64_t pos;
	uint64_t ring_bytes; /* delivered from the ring */
	/* What this end has said to leave the ring, and what the sender makes of it. */
	struct {
		uint8_t step; /* enum rsk_rx_fallback */
		/* The sender is to retransmit what is in the ring, and reads it there. */
		bool asked;
		/* Some of what was in the ring comes once more by TCP. */
		bool repeated;
		/*
		 * Slots of the promotion that we ended may lie from ring.next on; they are not
		 * valid any more.
		 */
		bool jumps;
		/* The promotion that we ended, until the sender has confirmed it; 0: none. */
		uint32_t paused;
		/* From QUIESCED or RACE on: the position in that control word. */
		uint64_t pos;
	} fallback;
	/* Of a rail that broke, of a sender that is gone, and of what is retransmitted. */
	struct {
		/* Ring limit: a rail broke, and the ring ends before this index; 0: none did. */
		uint64_t limit;
		/* There is another rail, with this key, for when the old ring is read; 0: none. */
		uint64_t renew_seed;
		/* A sender that ended in order has put slots below this index; 0: unknown. */
		uint64_t last_cell;
		/*
		 * For RSK_RX_OWED_TO: that position. For OWED_UNKNOWN, after a break: up to where
		 * bytes were found here, UINT64_MAX: it does not matter.
		 */
		uint64_t owed_to;
		/* Cells of the sender's first laps (rsk_rx_laps()) over another rail; 0: all. */
		uint32_t lap_cells;
		uint8_t owed; /* enum rsk_rx_owed */
		/*
		 * No command of the sender was found in that ring, and it has not reported yet
		 * what it retransmits: what the TCP socket has may be newer than what is missing.
		 * Or it is known to be newer, and the sender is gone. With OWED_UNKNOWN.
		 */
		bool no_command;
		/*
		 * The sender is dead, or its rail is gone for good: what has not arrived never
		 * will.
		 */
		bool lost;
	} rail_loss;
	/*
	 * Partial slot: a verified slot that was delivered in part. len 0: there is none, and
	 * @bytes may be NULL.
	 */
	struct {
		uint8_t *bytes; /* arena memory */
		uint32_t len, off;
		uint64_t cell; /* its index: no credit beyond it */
	} partial;
	/* Slots from ring.next up to index @to were counted (SYNC); if less: none. */
	struct {
		uint64_t bytes;
		uint64_t to;
	} counted;
	/* Of the transaction tags. */
	struct {
		/*
		 * The machine is told of this promotion's slots; valid only on the ring
		 * (rsk_rx_txn_tags()).
		 */
		bool on;
		struct rsk_order_form form;	 /* if the sender writes them; width 0: none */
		struct rsk_txn_tags_rx *machine; /* arena memory */
		/* Of what is seen ahead (rx_ahead.c); borrowed; NULL: nothing is counted. */
		struct rsk_stats_ahead *record;
	} tags;
	/* What the TCP socket has reported, until it is due. */
	struct {
		int err;  /* -errno, to be delivered once, after the data; 0: none */
		bool eof; /* its end */
		/*
		 * It had bytes when it was checked on the ring; they are not due before the ring
		 * says so.
		 */
		bool ahead;
		/*
		 * An error that ends the stream was delivered, the socket's or ours: only the end
		 * follows.
		 */
		bool err_told;
	} tcp;
	/* Where the ring begins, from DRAIN_TCP on. */
	struct {
		uint64_t pos;
		uint64_t cell;
	} switch_at;
	/* Overread buffer: TCP bytes read beyond switch_at.pos, due after FALLBACK_TX. */
	struct {
		uint8_t *bytes; /* arena memory */
		size_t len, off;
	} overread;
	/* Bytes retransmitted by TCP that the ring delivered too, and that are dropped. */
	uint64_t skip;
	/* On a fabric where a put lands in pieces. */
	struct {
		uint64_t to;	  /* slots below this index were found whole */
		uint64_t part_at; /* index of the slot that was not whole at the last check */
		uint32_t looks;	  /* checks of that slot */
	} whole;
	/* Of a slot whose hash stays wrong, and that the sender is asked for: rx_repair.c. */
	struct {
		uint64_t index;	   /* of the slot that was asked for last; 0: none */
		uint64_t checked;  /* of the one that rsk_rx_recheck() found damaged last; 0 */
		uint32_t vain;	   /* requests for @index that were answered, in vain */
		uint32_t answered; /* number of the newest request that the sender has answered */
		/* The sender was asked to retransmit @index and what follows by TCP. */
		bool gave_up;
		/* @index was taken after all, and the sender has not been told yet. */
		bool taken;
		/* While quiesced: the sender was asked for its answer once more. */
		bool reminded;
	} repair;
	/* Our RX control word. */
	struct {
		uint64_t off;		      /* in the peer's segment */
		struct rsk_control_word word; /* as last put */
	} own;
	struct {
		uint32_t promotions, demotions;
	} counts;
	/*
	 * When the last byte delivered, and the last one peeked at, had arrived: ns of
	 * CLOCK_REALTIME; 0: not known. Of slots that have it, and of the TCP socket.
	 */
	struct {
		uint64_t taken_ns, peeked_ns;
	} stamp;
};

/* A fallback race is to be settled before the next byte of the TCP socket. */
static inline bool rsk_rx_in_race(const struct rsk_rx *rx)
{
	return rx->fallback.step >= RSK_FALLBACK_RACE;
}

static inline bool rsk_rx_is_quiesced(const struct rsk_rx *rx)
{
	return rx->fallback.step == RSK_FALLBACK_QUIESCED;
}

#endif
