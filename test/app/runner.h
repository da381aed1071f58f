/* SPDX-License-Identifier: BSD-2-Clause */
/* runner.h - runs one case in its modes and compares the transcripts. */
#ifndef APP_RUNNER_H
#define APP_RUNNER_H

#include <stdbool.h>

struct app_case;

struct runner_options {
	unsigned int modes; /* a bit per mode to compare with plain; 0: all */
	int runs;
	bool show;
};

/* Adds a mode by name. Returns 0, or -EINVAL if there is none of this name. */
int runner_mode(struct runner_options *opt, const char *name);
/*
 * Returns 0 if every mode's transcripts equal plain's and the direct assertion held; else 1, with a
 * report on stdout.
 */
int runner_case(const struct runner_options *opt, const struct app_case *cs);

/*
 * stat.c: asks the rsock tool. Returns true if each of the two processes has at least as many open
 * streams as @streams says whose both directions are on the ring, and have moved bytes through it;
 * else why[] says what the tool showed. @port: only streams with that port at either end; 0: any.
 */
bool runner_stat_ring(const char *tool, const int pids[static 2], const int streams[static 2],
		      int port, char *why, int why_len);

#endif
