/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * measures.h - what is measured of a service: decisions in a second, and bytes of a stream. Both forget: the rate by
 * time (monotonic, handed in), the mean by what came later. What streams carried is their processes' word: a mean for
 * each user, by which nobody else is judged, but root's. Pure. One thread.
 */
#ifndef RSK_MEASURES_H
#define RSK_MEASURES_H

#include <stdint.h>

/* What is not known is less than 0. */
#define RSK_NOT_MEASURED (-1.0)

/* Events in a second, each of which counts e times less after so long. */
#define RSK_RATE_TIME_NS 10000000000ull

/* All zero at first. */
struct rsk_rate {
	double per_s; /* as of at_ns */
	uint64_t at_ns;
};

/* One more. A clock that went back counts as one that stands. */
void rsk_rate_note(struct rsk_rate *r, uint64_t now_ns);
double rsk_rate_now(const struct rsk_rate *r, uint64_t now_ns);

/* Says nothing of fewer than LEAST; of up to MOST it is their mean, then each that comes has a part of 1 in MOST. */
#define RSK_MEAN_LEAST 16u
#define RSK_MEAN_MOST 64u

/* All zero at first. */
struct rsk_mean {
	double value;
	uint32_t n; /* up to MOST */
};

void rsk_mean_note(struct rsk_mean *m, double value);
/* Or RSK_NOT_MEASURED. */
double rsk_mean_of(const struct rsk_mean *m);

/* By user; without room the one that was told of longest ago gives way, but root's. All zero at first. */
#define RSK_MEANS_USERS 64u
struct rsk_means {
	uint64_t told; /* so far */
	uint32_t n;    /* of of[]; of[0] is root's, once there is any */
	struct rsk_means_user {
		uint32_t uid;
		uint64_t last; /* of told */
		struct rsk_mean mean;
	} of[RSK_MEANS_USERS];
};

void rsk_means_note(struct rsk_means *m, uint32_t uid, double value);
/* The user's own, or else root's, or RSK_NOT_MEASURED. */
double rsk_means_of(const struct rsk_means *m, uint32_t uid);

/* Of a service of the configuration; all zero at first. */
struct rsk_measures {
	struct rsk_rate decisions[2]; /* by side */
	struct rsk_means stream_bytes;
};

#endif
