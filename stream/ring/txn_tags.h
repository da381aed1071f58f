/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * txn_tags.h - the order of transactions (order.h) in the two halves of a direction: a send() is a transaction, its slots
 * are the packets, and of a link whose rails are several each carries a mark.
 *
 * Sender: marks are written only while more than one rail is up; with one, the ring's order is the rail's. Slots
 * without one are noted as such. A transaction begins with a send()'s first slot and ends with the one that takes its
 * last byte; where there is no room for the rest, or a file ends early, it stays open, and what is sent next goes on
 * with it. A command that ends the promotion is its last packet.
 *
 * Receiver: takes in order, as ever; the machine is told of each slot as it is taken, and, when a rail is gone, of all
 * that lies further ahead (rsk_rx_missing()): what is not complete then is missing, by name.
 *
 * Both begin anew in each promotion, at number 0, and mean nothing between two; not before there is more than one
 * rail (rsk_tx_several()), or a mark comes (rsk_rx_txn_tags_begin()): a link with one pays nothing for them. Under the
 * direction's lock; family memory, made when first needed and kept. Without memory there are no marks here, and those
 * that come are not looked at.
 */
#ifndef RSK_TXN_TAGS_H
#define RSK_TXN_TAGS_H

#include "order.h"
#include "ring.h"

/* Transactions under way, at most; or as many as the index can tell apart. Of both ends: a part of the protocol. */
#define RSK_TXN_TAGS_WINDOW 512u

static inline uint32_t rsk_txn_tags_window(const struct rsk_order_form *form)
{
	uint32_t span = rsk_order_span(form);

	return span < RSK_TXN_TAGS_WINDOW ? span : RSK_TXN_TAGS_WINDOW;
}

struct rsk_txn_tags_tx {
	struct rsk_order_tx order;
	uint64_t begun; /* at that place; what was put before may not be taken yet */
	struct rsk_order_sent sent[RSK_TXN_TAGS_WINDOW];
	uint64_t acks[]; /* RSK_ORDER_WORDS of the ring's cells */
};

struct rsk_txn_tags_rx {
	struct rsk_order_rx order;
	uint64_t credited; /* transactions below this number were taken when credit was given last */
	struct rsk_order_element elements[RSK_TXN_TAGS_WINDOW];
	uint64_t places[]; /* RSK_ORDER_WORDS of the ring's cells */
};

/*
 * rsk_txn_tags_tx_begin, rsk_txn_tags_rx_begin - from @place of a ring of @cells on slots of a promotion have marks.
 * *@marks is made if it is NULL; its owner frees it. True: the machine is there; false: @form is none (of width 0), or
 * there is no memory.
 */
bool rsk_txn_tags_tx_begin(struct rsk_txn_tags_tx **tags, const struct rsk_order_form *form,
			   uint32_t cells, uint64_t place);
bool rsk_txn_tags_rx_begin(struct rsk_txn_tags_rx **tags, const struct rsk_order_form *form,
			   uint32_t cells, uint64_t place);

/*
 * rsk_txn_tags_next - is the next data slot a packet? 1; 0: it has no mark; -EAGAIN: it is, and so many transactions are
 * under way that credit has to come first.
 */
int rsk_txn_tags_next(struct rsk_order_tx *tx, struct rsk_rail *rail);

/* Of a command: the mark that ends an open transaction; 0. */
static inline uint16_t rsk_txn_tags_end(const struct rsk_order_tx *tx)
{
	return rsk_order_tx_within(tx) ? rsk_order_tx_tag(tx, true) : 0;
}

/* That slot was put. False: the machine does not have it where the ring has, and is not to be used any more. */
bool rsk_txn_tags_put(struct rsk_order_tx *tx, const struct rsk_slot_head *head);

/*
 * rsk_txn_tags_take - the slot at the ring's next index, whose hash was right, is being taken. 0, or -EPROTO: no honest
 * sender has written that mark.
 */
int rsk_txn_tags_take(struct rsk_txn_tags_rx *tags, const struct rsk_slot_head *head);

/* A slot further ahead is there, its hash right. What is wrong with its mark is told when it is taken. */
void rsk_txn_tags_ahead(struct rsk_txn_tags_rx *tags, const struct rsk_slot_head *head);

/*
 * Has so much been taken since credit was given last that a sender may be waiting for that, whatever room there is in
 * the ring? @staged: of the newest slot not all was delivered.
 */
bool rsk_txn_tags_credit_due(const struct rsk_txn_tags_rx *tags, bool partial);
static inline void rsk_txn_tags_credited(struct rsk_txn_tags_rx *tags, bool partial)
{
	tags->credited = tags->order.low - (partial && tags->order.low);
}

/* What a receiver misses, by what it has. */
struct rsk_txn_tags_missing {
	uint32_t transactions; /* below the newest that has come, and not all there */
	uint32_t first;	       /* of these: their first packet, too, has not come */
	uint64_t lowest;       /* the number of the first of them; 0 transactions: 0 */
};

struct rsk_txn_tags_missing rsk_txn_tags_count(const struct rsk_txn_tags_rx *tags);

#endif
