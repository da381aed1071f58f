/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_ask.h - the local policy agent's side of its exchange with the central one: questions on their way, and the
 * leases that came of them. A pure machine: the clock and messages are handed in, what carries them is told what to
 * send; one message is on its way at a time, so that what it says arrives in its order.
 *
 * A lease is a session that the central agent has on its books for us, under a number of our own choice: so that it can
 * be given back whether its answer came or not. It serves one session at a time; if its session ends before its time
 * is over, the next question of the same kind is answered by it, without a word to the central agent.
 *
 *	ask --> QUEUED --message--> SENT --map--> HELD by a reservation of ours --it is released--> IDLE
 *	IDLE --time, or too many--> ENDING --message--> gone        SENT --a refusal that may be kept--> REFUSED
 *	no answer in time, or the exchange fails: its asker is told UNHEARD, and the number is given back (ENDING)
 *
 * Once an exchange has failed the central agent counts as silent, and questions are answered UNHEARD at once, until a report
 * gets through. A central agent that does not know us (it was started anew, or has given us up) is told of all that is HELD
 * before anything is asked. One thread.
 */
#ifndef RSK_PMA_ASK_H
#define RSK_PMA_ASK_H

#include "deadline.h"
#include "pma.h"
#include "pma_config.h"

#define RSK_ASK_BATCH 64 /* questions, or held leases, in a message */
#define RSK_ASK_IDS 512	 /* numbers in a message that gives back or confirms */

/* What makes two questions the same one. All zero but for what is set. */
struct rsk_ask_key {
	uint8_t cp_ip[16], ap_ip[16];
	uint8_t at_ip[16]; /* where our side has put it; zero: the central agent's to choose */
	uint32_t uid;
	uint16_t ap_port;
	uint8_t ipv, side, one, placed; /* one: of a connection, not a service mapping */
	uint8_t pad[2];
};
_Static_assert(sizeof(struct rsk_ask_key) == 60, "no hidden padding: it is hashed");

struct rsk_ask_answer {
	enum rsk_pma_verdict verdict;
	char rule[RSK_ASK_NAME], device[RSK_ASK_NAME]; /* "": none */
	uint8_t ip[16];
	uint16_t port;
	uint8_t pm_time_s, priority, dscp, redirect_ipv, redirect_ip[16];
	uint64_t rate_bps;
	struct rsk_ledger_need need;
	uint64_t lease_ns; /* how long it may be kept; 0: this once */
};

enum rsk_ask_kind {
	RSK_ASK_NOTHING,
	RSK_ASK_REPORT, /* with leases that are held, if it is not known what the central agent knows */
	RSK_ASK_DECIDE,
	RSK_ASK_RELEASE,
	RSK_ASK_CONFIRM,
	RSK_ASK_KINDS
};

#define RSK_ASK_COUNTERS(X)                                                                        \
	X(asked, "questions to the central agent")                                                 \
	X(leased, "answered by a lease, without a word to it")                                     \
	X(mapped, "that it agreed to")                                                             \
	X(refused, "that it refused")                                                              \
	X(unheard, "that it did not answer in time")                                               \
	X(skipped, "not asked, since it is silent")                                                \
	X(full, "not asked, since too many are open")                                              \
	X(messages, "messages that it answered")                                                   \
	X(failures, "messages that it did not answer, or not as it should")                        \
	X(resumed, "times that it had to be told what is held")

struct rsk_ask_counters {
#define RSK_ASK_FIELD(name, text) uint64_t name;
	RSK_ASK_COUNTERS(RSK_ASK_FIELD)
#undef RSK_ASK_FIELD
};

struct rsk_lease;

/* What a message is made of: so many leases, of which @id and @key (and @answer, if held) are to be said. */
struct rsk_ask_item {
	uint64_t id;
	struct rsk_ask_answer answer;
	struct rsk_ask_key key;
	bool used;
};

/* Owns its leases. */
struct rsk_ask {
	struct rsk_ask_config config;
	struct rsk_lease *by_id, *by_local; /* uthash: all; those HELD */
	struct rsk_lease *kinds;	    /* uthash, by key: lists of IDLE ones and REFUSED */
	struct rsk_lease *queued, *ending, *confirming;
	struct rsk_deadlines timers;
	uint64_t last_id;
	uint32_t questions, idle, held, n_ending;
	bool silent, known; /* the central agent does not answer; it knows what we hold */
	uint64_t report_due_ns, reported_ns;
	uint64_t good_until_ns; /* the central agent keeps what is ours on its books */
	uint64_t resume;	/* a round of telling what is held, */
	uint32_t part;		/* and so many parts of it have got through */
	enum rsk_ask_kind going;
	uint64_t sent[RSK_ASK_IDS];
	size_t n_sent;
	bool last_page;
	struct rsk_ask_counters count;
};

/* done(): once, for each that was asked; never from within rsk_ask_start(). */
typedef void rsk_ask_done(void *user, uint64_t id, const struct rsk_ask_answer *answer);

void rsk_ask_init(struct rsk_ask *a, const struct rsk_ask_config *config);
/* Nobody is told any more. */
void rsk_ask_fini(struct rsk_ask *a);

enum rsk_ask_found {
	RSK_ASK_UNKNOWN, /* it has to be asked */
	RSK_ASK_LEASE,	 /* agreed to, and *id is to be bound to its session at once */
	RSK_ASK_REFUSAL, /* refused a while ago */
};
/* What is known without a word to the central agent; *answer is borrowed until anything is done. */
enum rsk_ask_found rsk_ask_find(struct rsk_ask *a, const struct rsk_ask_key *key, uint64_t now_ns,
				uint64_t *id, const struct rsk_ask_answer **answer);

/* 0; -EHOSTDOWN: it is silent; -EBUSY: too many are open; -ENOMEM: done() is not called. NULL: nobody waits for it. */
int rsk_ask_start(struct rsk_ask *a, const struct rsk_ask_key *key, rsk_ask_done *done, void *user,
		  uint64_t now_ns);
/* @user is not interested any more; what comes of it is kept, or given back. */
void rsk_ask_forget(struct rsk_ask *a, const void *user);

/* A lease that is agreed to (of done() or find()) belongs to this reservation; else it is given up. */
void rsk_ask_bind(struct rsk_ask *a, uint64_t id, uint64_t local);
void rsk_ask_give_up(struct rsk_ask *a, uint64_t id, uint64_t now_ns);

/* What becomes of a reservation; no effect on one that has no lease. */
void rsk_ask_confirmed(struct rsk_ask *a, uint64_t local);
void rsk_ask_released(struct rsk_ask *a, uint64_t local, uint64_t now_ns);
void rsk_ask_moved(struct rsk_ask *a, uint64_t from, uint64_t to);
/* Its lease's answer and kind; false: it has none. */
bool rsk_ask_of(const struct rsk_ask *a, uint64_t local, struct rsk_ask_key *key,
		const struct rsk_ask_answer **answer);

/* ---- messages ---- */

/* Something has changed that the central agent is to hear of soon. */
void rsk_ask_changed(struct rsk_ask *a, uint64_t now_ns);

/*
 * The next one to send, if none is on its way: then it is. @items: room for RSK_ASK_IDS; *n of them are filled in.
 * Of a report *resume says that it tells what is held, *last that this is the last part of it; a->part is its number.
 */
enum rsk_ask_kind rsk_ask_next_message(struct rsk_ask *a, uint64_t now_ns,
				       struct rsk_ask_item *items, size_t *n, bool *resume,
				       bool *last);

/* It was answered: of DECIDE with @answers to @ids. */
void rsk_ask_answered(struct rsk_ask *a, const uint64_t *ids, const struct rsk_ask_answer *answers,
		      size_t n, uint64_t now_ns);
/* What the answer to a report says: without a word from us it keeps ours so long, counted from when that was sent. */
void rsk_ask_hold(struct rsk_ask *a, uint64_t hold_ns);
/* The central agent does not know us: what it was asked is asked again, after it has been told what is held. */
void rsk_ask_unknown(struct rsk_ask *a, uint64_t now_ns);
/* No answer, or none that makes sense. */
void rsk_ask_failed(struct rsk_ask *a, uint64_t now_ns);

/* When rsk_ask_tick() has something to do, or a message may be due. */
uint64_t rsk_ask_next(const struct rsk_ask *a);
void rsk_ask_tick(struct rsk_ask *a, uint64_t now_ns);

bool rsk_ask_validate(const struct rsk_ask *a);

#endif
