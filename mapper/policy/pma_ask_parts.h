/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_ask_parts.h - shared by the source files of the local side of the exchange. Only pma_ask.c
 * and pma_lease.c include this.
 */
#ifndef RSK_PMA_ASK_PARTS_H
#define RSK_PMA_ASK_PARTS_H

#include "pm_hash.h"
#include "pma_ask.h"

enum rsk_lease_state {
	RSK_LEASE_QUEUED,
	/* The asker waits, or was told UNHEARD (then @done is NULL) */
	RSK_LEASE_SENT,
	RSK_LEASE_AGREED, /* the asker was told, and is about to bind it */
	RSK_LEASE_HELD,
	RSK_LEASE_IDLE,
	RSK_LEASE_REFUSED,
	RSK_LEASE_ENDING,
};

struct rsk_lease {
	uint64_t id;
	struct rsk_ask_key key;
	struct rsk_ask_answer answer;
	/* QUEUED, SENT: of the question; IDLE, REFUSED: until when */
	struct rsk_deadline timer;
	rsk_ask_done *done;
	void *user;
	uint64_t local;	   /* for HELD: the reservation */
	uint64_t until_ns; /* it may be kept until then */
	/* The round in which the central agent was told of it */
	uint64_t resumed;
	enum rsk_lease_state state;
	bool used, to_confirm;
	/* List queued or ending, or of its kind */
	struct rsk_lease *prev, *next;
	struct rsk_lease *c_prev, *c_next; /* list confirming */
	struct rsk_lease *same;		   /* in the first of a kind: its list */
	/* Tables by id; of those HELD; of the first of each kind */
	UT_hash_handle hh, by_local, kinds;
};

/* By id; by the reservation that holds it. */
struct rsk_lease *rsk_lease_by_id(const struct rsk_ask *a, uint64_t id);
struct rsk_lease *rsk_lease_by_local(const struct rsk_ask *a, uint64_t local);

/* Removes it from the lists and tables of its state, and clears its timer. */
void rsk_lease_leave(struct rsk_ask *a, struct rsk_lease *l);
void rsk_lease_drop(struct rsk_ask *a, struct rsk_lease *l);
/* Moves it to ENDING: its release will be sent. */
void rsk_lease_end(struct rsk_ask *a, struct rsk_lease *l);
/* Moves it to IDLE or REFUSED, until its time is over. */
void rsk_lease_keep(struct rsk_ask *a, struct rsk_lease *l, enum rsk_lease_state state);
/* It is not used any more: keeps it for the next question if it may be kept. */
void rsk_lease_put_by(struct rsk_ask *a, struct rsk_lease *l, uint64_t now_ns);

#endif
