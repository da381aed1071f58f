/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * measures.h - measurements of a service: decisions and transactions per second, and bytes per
 * stream. Used by pma.c and pma_services.c. Pure. One thread.
 *
 * All forget: a rate with time (monotonic, passed in), a mean with later values. Processes report
 * what their own streams carry, so transactions and bytes are kept for each user, and no other
 * user's decisions use them, except root's.
 */
#ifndef RSK_MEASURES_H
#define RSK_MEASURES_H

#include <stdbool.h>
#include <stdint.h>

/* An unknown value is negative. */
#define RSK_NOT_MEASURED (-1.0)

/* Events per second; after this time an event counts e times less. */
#define RSK_RATE_TIME_NS 10000000000ull

/* All zero initially. */
struct rsk_rate {
	double per_s; /* at time at_ns */
	uint64_t at_ns;
};

/* Counts @n events. A clock that went back counts as one that stands still. */
void rsk_rate_note(struct rsk_rate *r, double n, uint64_t now_ns);
double rsk_rate_now(const struct rsk_rate *r, uint64_t now_ns);

/*
 * Unknown with fewer than LEAST values; up to MOST it is their mean, then each new value has the
 * weight 1/MOST.
 */
#define RSK_MEAN_LEAST 16u
#define RSK_MEAN_MOST 64u

/* All zero initially. */
struct rsk_mean {
	double value;
	uint32_t n; /* up to MOST */
};

void rsk_mean_note(struct rsk_mean *m, double value);
/* Returns the mean or RSK_NOT_MEASURED. */
double rsk_mean_of(const struct rsk_mean *m);

/*
 * What the streams of a service carry, by user and by side (enum rsk_pma_side). If it is full the
 * user with the oldest report is replaced, except root. All zero initially.
 */
#define RSK_MEASURES_USERS 64u
struct rsk_measures_user {
	uint32_t uid;
	uint64_t last; /* value of @told at the last report */
	struct rsk_mean stream_bytes;
	struct rsk_rate transactions[2];
};

struct rsk_measures_users {
	uint64_t told; /* reports so far */
	uint32_t n;    /* used entries of of[]; of[0] is root's, if there are any */
	struct rsk_measures_user of[RSK_MEASURES_USERS];
};

/*
 * Whether a service carries as many transactions as it should. It does not if it has carried fewer
 * in each of the last PERIODS periods, and it does again after as many that were different. Less
 * than a tenth of what is wanted counts as idle: nobody may want more. All zero initially.
 */
#define RSK_LEVEL_PERIODS 3u
#define RSK_LEVEL_IDLE 10u

struct rsk_level {
	uint64_t n;	  /* transactions in this period */
	uint32_t periods; /* so many, the last ones, spoke for a change of @below */
	bool below;
};

/* A period is over. Returns whether @below has changed. */
bool rsk_level_period(struct rsk_level *l, uint64_t wanted_per_s, uint64_t period_ns);

/* Measurements of a service of the configuration; all zero initially. */
struct rsk_measures {
	struct rsk_rate decisions[2]; /* by side */
	struct rsk_level level;
	struct rsk_measures_users users;
};

void rsk_measures_stream_ended(struct rsk_measures *m, uint32_t uid, double bytes);
void rsk_measures_transactions(struct rsk_measures *m, uint32_t uid, int side, double n,
			       uint64_t now_ns);

/* Returns the user's own mean, or else root's, or RSK_NOT_MEASURED. */
double rsk_measures_stream_bytes(const struct rsk_measures *m, uint32_t uid);
/* Per second, of the user's streams and of root's. */
double rsk_measures_transaction_rate(const struct rsk_measures *m, uint32_t uid, int side,
				     uint64_t now_ns);

#endif
