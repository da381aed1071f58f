/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs one case in its modes and compares the transcripts. */
#ifndef APP_RUNNER_H
#define APP_RUNNER_H

#include <stdbool.h>

struct app_case;

struct runner_options {
	unsigned int modes; /* bit per mode to compare with plain; 0: all */
	int runs;
	bool show;
};

/* Adds a mode by name; -EINVAL for none of this name. */
int runner_mode(struct runner_options *opt, const char *name);
/* 0: every mode's transcripts equal plain's and the direct assertion held; else 1, told on stdout. */
int runner_case(const struct runner_options *opt, const struct app_case *cs);

/*
 * stat.c: asks the rsock tool; true when each of these processes has at least so many open streams
 * whose both directions go, and went, through the ring. Else why[] says what the tool showed. @port: of that port at
 * either end; 0: of any.
 */
bool runner_stat_ring(const char *tool, const int *pids, int count, int streams, int port,
		      char *why, int why_len);

#endif
