/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * txn_tags.h - transaction tags: connects the order machines (order.h) to the two halves of a
 * direction (tx.c, rx.c, ring.c). A send() is a transaction, its slots are the packets, and on a
 * link with several rails each packet carries a tag.
 *
 * Sender: tags are written only while more than one rail is up; with one rail, slots arrive in ring
 * order. Slots without a tag are recorded as such. A transaction begins with the first slot of a
 * send() and ends with the slot that takes its last byte. If there is no room for the rest, or a
 * file ends early, the transaction stays open, and the next data belongs to it. A command that ends
 * the promotion is its last packet.
 *
 * Receiver: takes slots in ring order. The machine is told of each slot when it is taken; of slots
 * further ahead whenever the next one is missing and the reader would wait (rx_ahead.c), and of all
 * of them when a rail has failed (rsk_rx_missing()). Transactions that are not complete then are
 * missing, and are known by number.
 *
 * Both machines start anew in each promotion, at number 0, and have no meaning between two
 * promotions. They start when there is more than one rail (rsk_tx_several()), or when a tag arrives
 * (rsk_rx_txn_tags_begin()), so a link with one rail has no cost from them. Guarded by the
 * direction's lock; in memory that a fork copies, allocated when first needed and kept. If the
 * allocation fails, this end writes no tags and ignores those of the peer.
 */
#ifndef RSK_TXN_TAGS_H
#define RSK_TXN_TAGS_H

#include "order.h"
#include "ring.h"

#include <rsock/stats.h>

/*
 * Maximum number of transactions under way, unless the index can distinguish fewer. Part of the
 * protocol: the same at both ends.
 */
#define RSK_TXN_TAGS_WINDOW 512u

static inline uint32_t rsk_txn_tags_window(const struct rsk_order_form *form)
{
	uint32_t span = rsk_order_span(form);

	return span < RSK_TXN_TAGS_WINDOW ? span : RSK_TXN_TAGS_WINDOW;
}

struct rsk_txn_tags_tx {
	struct rsk_order_tx order;
	uint64_t begun; /* first place at this start; slots put before may still be untaken */
	struct rsk_order_sent sent[RSK_TXN_TAGS_WINDOW];
};

/* What a receiver is missing, as far as it can tell from what it has. */
struct rsk_txn_tags_missing {
	uint32_t transactions; /* below the newest that has arrived, and not complete */
	uint32_t first;	       /* of these, those whose first packet has not arrived */
	uint64_t lowest;       /* number of the first of them; 0 if there are none */
};

struct rsk_txn_tags_rx {
	struct rsk_order_rx order;
	/*
	 * All slots of the transactions below this number were taken when credit was last given. (A
	 * transaction that was seen ahead is complete before it is taken.)
	 */
	uint64_t credited;
	/* Of what is seen ahead; borrowed; NULL: nothing is counted. */
	struct rsk_stats_ahead *record;
	/* Slots that have overtaken the next one: rx_ahead.c. */
	struct {
		uint64_t at;	  /* the index at which the next look goes on */
		uint64_t next;	  /* the ring's next index at the last look; 0: there was none */
		uint32_t in_vain; /* looks since then that saw nothing new */
		/* What a reader missed that found nothing; none when all that was seen is taken. */
		struct rsk_txn_tags_missing gap;
	} ahead;
	struct rsk_order_element elements[RSK_TXN_TAGS_WINDOW];
	uint64_t places[]; /* RSK_ORDER_WORDS of the ring's cells */
};

/*
 * rsk_txn_tags_tx_begin, rsk_txn_tags_rx_begin - slots have tags from @place of a ring of @cells
 * on, for the rest of a promotion. *@marks is allocated if it is NULL; its owner frees it. Returns
 * true if the machine was started; false if @form is none (width 0), or there is no memory.
 */
bool rsk_txn_tags_tx_begin(struct rsk_txn_tags_tx **tags, const struct rsk_order_form *form,
			   uint32_t cells, uint64_t place);
bool rsk_txn_tags_rx_begin(struct rsk_txn_tags_rx **tags, const struct rsk_order_form *form,
			   uint32_t cells, uint64_t place);

/*
 * rsk_txn_tags_next - is the next data slot a packet? Returns 1: yes; 0: it has no tag; -EAGAIN: it
 * is one, but so many transactions are under way that credit has to arrive first.
 */
int rsk_txn_tags_next(struct rsk_order_tx *tx, struct rsk_rail *rail);

/* The tag of a command slot, which ends an open transaction; 0 if none is open. */
static inline uint16_t rsk_txn_tags_end(const struct rsk_order_tx *tx)
{
	return rsk_order_tx_within(tx) ? rsk_order_tx_tag(tx, true) : 0;
}

/*
 * Records that a slot was put. Returns false if the machine and the ring disagree; then the machine
 * must not be used any more.
 */
bool rsk_txn_tags_put(struct rsk_order_tx *tx, const struct rsk_slot_head *head);

/*
 * rsk_txn_tags_take - the slot at the ring's next index, whose hash was right, is being taken.
 * Returns 0, or -EPROTO: a correct sender does not write that tag.
 */
int rsk_txn_tags_take(struct rsk_txn_tags_rx *tags, const struct rsk_slot_head *head);

/*
 * Records a slot further ahead whose hash was right. True: it was not seen before. An error in its
 * tag is reported when it is taken.
 */
bool rsk_txn_tags_ahead(struct rsk_txn_tags_rx *tags, const struct rsk_slot_head *head);

/*
 * Returns whether so much was taken since credit was last given that the sender may be waiting for
 * credit, even if the ring has room. @staged: the newest slot was delivered only in part.
 */
bool rsk_txn_tags_credit_due(const struct rsk_txn_tags_rx *tags, bool partial);
void rsk_txn_tags_credited(struct rsk_txn_tags_rx *tags, bool partial);

struct rsk_txn_tags_missing rsk_txn_tags_count(const struct rsk_txn_tags_rx *tags);

/* What is missing now becomes the gap, in the stream's record too; or there is none. */
void rsk_txn_tags_name_gap(struct rsk_txn_tags_rx *tags);
void rsk_txn_tags_close_gap(struct rsk_txn_tags_rx *tags);

#endif
