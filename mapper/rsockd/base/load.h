/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load.h - how busy this node is, for policy rules that depend on it: the processes that run or
 * wait to run, averaged over a minute (proc(5), loadavg), divided by the number of processors. The
 * agent reads it before a decision, and at most once a second, so that an idle daemon does not wake
 * up for it.
 */
#ifndef RSK_LOAD_H
#define RSK_LOAD_H

#include <stdint.h>

struct rsk_load {
	int fd;
	long processors;
	uint64_t read_ns; /* time of the last read; 0: never read */
};

/* 0 or -errno. */
int rsk_load_open(struct rsk_load *l);
void rsk_load_close(struct rsk_load *l);

/*
 * Reads the load into *load if the last read is at least a second ago. Returns 1 if *load was
 * written, 0 if it is too early, or -errno.
 */
int rsk_load_check(struct rsk_load *l, uint64_t now_ns, double *load);

#endif
