/* SPDX-License-Identifier: BSD-2-Clause */
/* measure.h - statistics for rsock bench: medians, and how the streams of the runs travelled. */
#ifndef RSK_TOOLS_MEASURE_H
#define RSK_TOOLS_MEASURE_H

#include <rsock/reason.h>
#include <stddef.h>
#include <stdint.h>

/* The fewest values from which median_interval() can compute an interval. */
#define MEASURE_LEAST 6

/* Sorts @values. */
double median(double *values, size_t n);

/*
 * The 95 % confidence interval of the median, by order statistics (sign test), which assumes
 * nothing about the distribution (W. J. Conover, Practical Nonparametric Statistics, 3.2). Sorts
 * @values. 0, or -EINVAL: fewer than MEASURE_LEAST values, or too many.
 */
int median_interval(double *values, size_t n, double *low, double *high);

/* Sums over all streams in the statistics files of processes that have exited. */
struct travelled {
	uint64_t streams;
	uint64_t direct; /* promoted, with bytes in the ring */
	uint64_t ring_bytes;
	uint64_t tcp_bytes;
	uint64_t reason[RSK_REASON_COUNT]; /* of the others */
};

/*
 * Adds the contents of a file that RSOCK_STAT_FILE named: one JSON object a line. Lines that are
 * not JSON are ignored. Changes @lines.
 */
void travelled_add(struct travelled *sum, char *lines);

#endif /* RSK_TOOLS_MEASURE_H */
