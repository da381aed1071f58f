/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * turns.h - how soon rsockd gets a processor when a message wakes it. main.c calls it.
 */
#ifndef RSK_TURNS_H
#define RSK_TURNS_H

/*
 * Asks the scheduler for short turns (a slice of 0.1 ms, the shortest there is): on busy processors
 * who needs a short turn gets it before the running program's turn is over. Affects the calling
 * thread and those that it makes. Kernels before 6.12 have one slice for all, and ignore it; a
 * scheduling policy or nice value that somebody has set stays. Needs no privilege. Source:
 * sched_setattr(2), sched_attr.sched_runtime of SCHED_OTHER.
 */
void rsk_turns_short(void);

#endif
