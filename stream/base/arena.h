/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arena.h - the engine's memory: private to the process; a child of a fork has a copy, at the same addresses, so that
 * pointers hold, and what it writes there is its own (docs/adr/privileges.md).
 *
 * One mapping, reserved at the first use and touched as needed; blocks of few sizes with a free
 * list for each. Objects that a stale pointer may still reach (streams) are therefore never given back:
 * their owner keeps a free list of his own. Big free blocks give their pages back (MADV_DONTNEED).
 * Freed by nobody at exit.
 */
#ifndef RSK_ARENA_H
#define RSK_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory of at least @size bytes (<= 64 MiB), 64-byte aligned; NULL: none left. Not the heap; signal-safe
 * inside a guard; takes the arena's lock. */
void *rsk_arena_alloc(size_t size);
void *rsk_arena_alloc_raw(size_t size); /* whatever lies there */
void rsk_arena_free(void *p);		/* NULL is fine */

/* Around a fork: the lock is held, so that the copy is whole. */
void rsk_arena_fork(bool before);

/* A short name for a block; rsk_arena_at() checks that it can be one (or NULL). */
uint32_t rsk_arena_offset(const void *p);
void *rsk_arena_at(uint32_t offset);

/* Is @p inside the arena (for validation)? */
int rsk_arena_holds(const void *p);

#endif
