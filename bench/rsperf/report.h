/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report.h - prints the results of a run for people or as one JSON object. Used by client.c,
 * limit.c and calls.c.
 */
#ifndef RSK_REPORT_H
#define RSK_REPORT_H

#include "rsperf.h"

struct hdr_histogram;

struct rsk_report {
	const struct rsk_opts *opts;
	const struct hdr_histogram *times; /* NULL if nothing was timed individually */
	double seconds;			   /* measured duration, for times */
	double out_bytes_per_s;		   /* summed over connections */
	double in_bytes_per_s;
	uint64_t out_bytes;
	uint64_t in_bytes;
	double cpu_user_s; /* of the whole process, including the warm-up */
	double cpu_sys_s;
	uint64_t sleeps; /* voluntary context switches */
	double idle_s;	 /* to open and use --idle streams */
};

/* All return 0, or -errno if writing to stdout failed. */
int rsk_report_client(const struct rsk_report *r);
int rsk_report_limit(const struct rsk_report *r);
int rsk_report_calls(const struct rsk_opts *opts, uint64_t calls, double seconds);

#endif
