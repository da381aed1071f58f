/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load.h - how busy this node is, for rules that ask: processes that run or wait to, averaged over a minute (proc(5),
 * loadavg), for each processor. Looked up when a decision is made, and not again within a second: an idle
 * daemon does not wake up for it.
 */
#ifndef RSK_LOAD_H
#define RSK_LOAD_H

#include <stdint.h>

struct rsk_load {
	int fd;
	long processors;
	uint64_t read_ns; /* 0: never */
};

/* 0 or -errno. */
int rsk_load_open(struct rsk_load *l);
void rsk_load_close(struct rsk_load *l);

/* Into *load, if the last look is long enough ago. 1: it was; 0: not yet; -errno. */
int rsk_load_check(struct rsk_load *l, uint64_t now_ns, double *load);

#endif
