/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_ask.h - the local policy agent's side of its exchange with the central one: open questions,
 * and the leases that result from them. Used by rsockd. A pure state machine: the caller passes the
 * time and messages, and sends what it is told to; one message is in flight at a time, so that
 * messages arrive in order.
 *
 * A lease is a session that the central agent has booked for us, under an id that we have chosen:
 * so it can be released whether its answer came or not. It serves one session at a time; if that
 * session ends before the lease's time is over, the lease answers the next question of the same
 * kind without a message to the central agent.
 *
 *	ask --> QUEUED --message--> SENT --map--> HELD by a reservation --it is released--> IDLE
 *	IDLE --time, or too many--> ENDING --message--> freed
 *	SENT --a refusal that may be kept--> REFUSED
 *	no answer in time, or the exchange fails: the asker gets UNHEARD, the id is ENDING
 *
 * After a failed exchange the central agent counts as silent, and questions are answered UNHEARD at
 * once, until a report succeeds. A central agent that does not know us (it was restarted, or has
 * given us up) is told of all leases that are HELD before anything is asked. One thread.
 */
#ifndef RSK_PMA_ASK_H
#define RSK_PMA_ASK_H

#include "deadline.h"
#include "pma.h"
#include "pma_config.h"

#define RSK_ASK_BATCH 64 /* questions, or held leases, in a message */
#define RSK_ASK_IDS 512	 /* ids in a message that releases or confirms */

/* What makes two questions equal. All zero except what is set. */
struct rsk_ask_key {
	uint8_t cp_ip[16], ap_ip[16];
	/* Where our side has placed it; zero: the central agent chooses */
	uint8_t at_ip[16];
	uint32_t uid;
	uint16_t ap_port;
	/* One: of one connection, not a service mapping */
	uint8_t ipv, side, one, placed;
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
	uint64_t lease_ns; /* how long it may be kept; 0: for this question only */
};

enum rsk_ask_kind {
	RSK_ASK_NOTHING,
	/* With the held leases, if the central agent may not know them */
	RSK_ASK_REPORT,
	RSK_ASK_DECIDE,
	RSK_ASK_RELEASE,
	RSK_ASK_CONFIRM,
	RSK_ASK_KINDS
};

#define RSK_ASK_COUNTERS(X)                                                                        \
	X(asked, "requests to the central agent")                                                  \
	X(leased, "requests answered by a lease, without a message")                               \
	X(mapped, "requests that it granted")                                                      \
	X(refused, "requests that it refused")                                                     \
	X(unheard, "requests that it did not answer in time")                                      \
	X(skipped, "requests not sent because it is silent")                                       \
	X(full, "requests not sent because too many are open")                                     \
	X(messages, "messages that it answered")                                                   \
	X(failures, "messages that it did not answer, or not correctly")                           \
	X(resumed, "times that it had to be told which leases are held")                           \
	X(turns, "times that another one was asked from then on, or none")

struct rsk_ask_counters {
#define RSK_ASK_FIELD(name, text) uint64_t name;
	RSK_ASK_COUNTERS(RSK_ASK_FIELD)
#undef RSK_ASK_FIELD
};

struct rsk_lease;

/* An element of a message: a lease, of which @id, @key and (if held) @answer are sent. */
struct rsk_ask_item {
	uint64_t id;
	struct rsk_ask_answer answer;
	struct rsk_ask_key key;
	bool used;
};

/* Owns its leases. */
struct rsk_ask {
	struct rsk_ask_config config;
	struct rsk_lease *by_id, *by_local; /* hash tables: all; those HELD */
	/* Hash table by key: lists of those IDLE and REFUSED */
	struct rsk_lease *kinds;
	struct rsk_lease *queued, *ending, *confirming;
	struct rsk_deadlines timers;
	uint64_t last_id;
	uint32_t questions, idle, held, n_ending;
	/* The central agent does not answer; it knows what we hold */
	bool silent, known;
	uint64_t report_due_ns, reported_ns;
	/* Until then the central agent keeps our leases booked */
	uint64_t good_until_ns;
	uint64_t resume; /* number of the current round of reporting what is held */
	uint32_t part;	 /* parts of this round that have succeeded */
	enum rsk_ask_kind going;
	uint64_t sent[RSK_ASK_IDS];
	size_t n_sent;
	bool last_page;
	struct rsk_ask_counters count;
};

/* done() is called once for each question; never from within rsk_ask_start(). */
typedef void rsk_ask_done(void *user, uint64_t id, const struct rsk_ask_answer *answer);

void rsk_ask_init(struct rsk_ask *a, const struct rsk_ask_config *config);
/* Frees everything; done() is not called. */
void rsk_ask_fini(struct rsk_ask *a);

enum rsk_ask_found {
	RSK_ASK_UNKNOWN, /* the central agent has to be asked */
	/* Agreed to; the caller must bind *id to its session at once */
	RSK_ASK_LEASE,
	RSK_ASK_REFUSAL, /* refused recently */
};
/* Answers a question from leases, without a message; *answer is borrowed until the next call. */
enum rsk_ask_found rsk_ask_find(struct rsk_ask *a, const struct rsk_ask_key *key, uint64_t now_ns,
				uint64_t *id, const struct rsk_ask_answer **answer);

/*
 * Asks the central agent. Returns 0; -EHOSTDOWN: it is silent; -EBUSY: too many questions are open;
 * -ENOMEM. After an error done() is not called. @done NULL: the answer is not needed.
 */
int rsk_ask_start(struct rsk_ask *a, const struct rsk_ask_key *key, rsk_ask_done *done, void *user,
		  uint64_t now_ns);

/*
 * Bind: a lease that was agreed to (by done() or find()) belongs to this reservation. Give up: it
 * is not needed.
 */
void rsk_ask_bind(struct rsk_ask *a, uint64_t id, uint64_t local);
void rsk_ask_give_up(struct rsk_ask *a, uint64_t id, uint64_t now_ns);

/* Changes of a reservation; no effect on one without a lease. */
void rsk_ask_confirmed(struct rsk_ask *a, uint64_t local);
void rsk_ask_released(struct rsk_ask *a, uint64_t local, uint64_t now_ns);
void rsk_ask_moved(struct rsk_ask *a, uint64_t from, uint64_t to);
/* Returns the answer and the key of a reservation's lease; false: it has none. */
bool rsk_ask_of(const struct rsk_ask *a, uint64_t local, struct rsk_ask_key *key,
		const struct rsk_ask_answer **answer);

/* ---- messages ---- */

/* Something has changed that the central agent should learn soon: report at once. */
void rsk_ask_changed(struct rsk_ask *a, uint64_t now_ns);

/*
 * Returns the next message to send and marks it as in flight, if none is. @items: an array of
 * RSK_ASK_IDS; *n are filled in. For a report, *resume: it tells what is held, *last: this is the
 * last part; a->part is the part's number.
 */
enum rsk_ask_kind rsk_ask_next_message(struct rsk_ask *a, uint64_t now_ns,
				       struct rsk_ask_item *items, size_t *n, bool *resume,
				       bool *last);

/* The message in flight was answered; for DECIDE with @answers to @ids. */
void rsk_ask_answered(struct rsk_ask *a, const uint64_t *ids, const struct rsk_ask_answer *answers,
		      size_t n, uint64_t now_ns);
/*
 * From the answer to a report: without a message from us the central agent keeps our leases so
 * long, counted from when the report was sent.
 */
void rsk_ask_hold(struct rsk_ask *a, uint64_t hold_ns);
/*
 * The central agent does not know us: the questions are asked again after it was told what is held.
 */
void rsk_ask_unknown(struct rsk_ask *a, uint64_t now_ns);
/*
 * Another central agent is asked from now on, and the former one's answers are not waited for any
 * more. It is told what is held, and asked what is open; nothing is owed to the former one, which
 * releases what it has booked for us when it does not hear from us. @boot: another number than
 * before, so that an agent that has known us books nothing twice; 0: there is none to ask, as if it
 * were silent.
 */
void rsk_ask_turn(struct rsk_ask *a, uint64_t boot, uint64_t now_ns);
/* No answer, or an invalid one. */
void rsk_ask_failed(struct rsk_ask *a, uint64_t now_ns);

/* Returns when rsk_ask_tick() must be called, or a message may be due. */
uint64_t rsk_ask_next(const struct rsk_ask *a);
void rsk_ask_tick(struct rsk_ask *a, uint64_t now_ns);

bool rsk_ask_validate(const struct rsk_ask *a);

#endif
