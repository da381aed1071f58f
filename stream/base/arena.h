/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arena.h - the engine's memory allocator, for streams, links, epoll shadows and buffers. The
 * memory is private to the process. A child of a fork has a copy at the same addresses, so that
 * pointers stay valid, and what it writes there is its own (docs/adr/privileges.md).
 *
 * The arena is one mapping, reserved at the first use and touched as needed. Blocks have a few
 * sizes, with a free list for each. Objects that a stale pointer may still reach (streams) are
 * never freed; their owner keeps a free list of its own. Large free blocks return their pages
 * (MADV_DONTNEED). The arena is not freed at exit.
 */
#ifndef RSK_ARENA_H
#define RSK_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns zeroed memory of at least @size bytes (at most 64 MiB), aligned to 64 bytes; NULL: none
 * is left. Does not use the heap. Takes the arena's lock; signal-safe inside a signal-deferred
 * section.
 */
void *rsk_arena_alloc(size_t size);
void *rsk_arena_alloc_raw(size_t size); /* as rsk_arena_alloc(), with undefined content */
void rsk_arena_free(void *p);		/* @p may be NULL */

/*
 * Called before (@before) and after a fork: takes and drops the lock, so that the copy is
 * consistent.
 */
void rsk_arena_fork(bool before);

/*
 * A 32-bit name for a block, its offset. rsk_arena_at() returns NULL if @offset cannot be that of a
 * block.
 */
uint32_t rsk_arena_offset(const void *p);
void *rsk_arena_at(uint32_t offset);

/* Is @p inside the arena? For validation. */
int rsk_arena_holds(const void *p);

#endif
