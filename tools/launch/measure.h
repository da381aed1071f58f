/* SPDX-License-Identifier: BSD-2-Clause */
/* measure.h - what can be said of a few measurements, and of how the streams of a run travelled. */
#ifndef RSK_TOOLS_MEASURE_H
#define RSK_TOOLS_MEASURE_H

#include <rsock/reason.h>
#include <stddef.h>
#include <stdint.h>

/* The fewest from which an interval can be had. */
#define MEASURE_LEAST 6

/* Each sorts @values. */
double median(double *values, size_t n);

/*
 * The 95 % interval of a median: order statistics by the sign test, which asks nothing of how the values are
 * distributed (W. J. Conover, Practical Nonparametric Statistics, 3.2). 0, or -EINVAL: fewer than MEASURE_LEAST.
 */
int median_interval(double *values, size_t n, double *low, double *high);

/* Of all streams that ended programs noted. */
struct travelled {
	uint64_t streams;
	uint64_t direct; /* promoted, and used so */
	uint64_t ring_bytes;
	uint64_t tcp_bytes;
	uint64_t reason[RSK_REASON_COUNT]; /* of those not direct */
};

/* Adds what RSOCK_STAT_FILE got: JSON by lines, taken apart here; lines that are none are passed over. */
void travelled_add(struct travelled *sum, char *lines);

#endif /* RSK_TOOLS_MEASURE_H */
