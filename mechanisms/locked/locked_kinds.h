/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locked_kinds.h - the kinds of locked access (fabric/locked.h) that the port table has no use for:
 * fetch-and-add and compare-and-swap of a word, and a lock that is kept for several accesses.
 * Source: US2016043965. They are operations on the same records, by the same initiators. No code of
 * the library calls this: docs/adr/mechanisms.md.
 */
#ifndef RSK_LOCKED_KINDS_H
#define RSK_LOCKED_KINDS_H

#include "locked.h"

enum {
	/* Adds words[0] to shared[at], not a sum. */
	RSK_LOCKED_ADD = RSK_LOCKED_KINDS,
	/* Stores words[0] to shared[at], not a sum, if it is @expected. */
	RSK_LOCKED_SWAP,
	/* Takes and keeps the lock: until UNLOCK only this holder's accesses are executed. */
	RSK_LOCKED_LOCK,
	/* Releases it; -ESTALE: it was broken. */
	RSK_LOCKED_UNLOCK,
	RSK_LOCKED_ALL_KINDS
};

/*
 * rsk_locked_kinds_begin, _plan, _run, _shm - as rsk_locked_begin(), _plan(), _run() and
 * rsk_shm_locked(), for all kinds: those of locked.h and those above.
 */
int rsk_locked_kinds_begin(struct rsk_locked *op, uint64_t bytes);
int rsk_locked_kinds_plan(const struct rsk_locked *op, const struct rsk_locked_view *view,
			  struct rsk_locked_next *next);
int rsk_locked_kinds_run(void *record, struct rsk_locked *op);
int rsk_locked_kinds_shm(struct rsk_rail *rail, struct rsk_locked *op);

/* The former value of the word, once an ADD or a SWAP is done. */
uint64_t rsk_locked_kinds_old(const struct rsk_locked *op);

#endif
