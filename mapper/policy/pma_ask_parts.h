/* SPDX-License-Identifier: BSD-2-Clause */
/* pma_ask_parts.h - what the sources of the exchange's local side share. Only pma_ask.c and pma_lease.c see it. */
#ifndef RSK_PMA_ASK_PARTS_H
#define RSK_PMA_ASK_PARTS_H

#include "pm_hash.h"
#include "pma_ask.h"

enum rsk_lease_state {
	RSK_LEASE_QUEUED,
	RSK_LEASE_SENT,	  /* its asker waits, or has been told UNHEARD (then it has none) */
	RSK_LEASE_AGREED, /* told, and about to be bound */
	RSK_LEASE_HELD,
	RSK_LEASE_IDLE,
	RSK_LEASE_REFUSED,
	RSK_LEASE_ENDING,
};

struct rsk_lease {
	uint64_t id;
	struct rsk_ask_key key;
	struct rsk_ask_answer answer;
	struct rsk_deadline timer; /* QUEUED, SENT: of the question; IDLE, REFUSED: until when */
	rsk_ask_done *done;
	void *user;
	uint64_t local;	   /* HELD */
	uint64_t until_ns; /* it may be kept */
	uint64_t resumed;  /* in which round the central agent was told of it */
	enum rsk_lease_state state;
	bool used, to_confirm;
	struct rsk_lease *prev, *next;	    /* of queued, ending, or of its kind's */
	struct rsk_lease *c_prev, *c_next;  /* of confirming */
	struct rsk_lease *same;		    /* the first of a kind: its list */
	UT_hash_handle hh, by_local, kinds; /* by id; HELD; the first of a kind */
};

/* By number; by what holds it. */
struct rsk_lease *rsk_lease_by_id(const struct rsk_ask *a, uint64_t id);
struct rsk_lease *rsk_lease_by_local(const struct rsk_ask *a, uint64_t local);

/* Out of whatever its state keeps it in; then it has no timer. */
void rsk_lease_leave(struct rsk_ask *a, struct rsk_lease *l);
void rsk_lease_drop(struct rsk_ask *a, struct rsk_lease *l);
/* To be given back. */
void rsk_lease_end(struct rsk_ask *a, struct rsk_lease *l);
/* IDLE or REFUSED, until its time is over. */
void rsk_lease_keep(struct rsk_ask *a, struct rsk_lease *l, enum rsk_lease_state state);
/* Nobody's any more: kept for the next one, if it may be. */
void rsk_lease_put_by(struct rsk_ask *a, struct rsk_lease *l, uint64_t now_ns);

#endif
