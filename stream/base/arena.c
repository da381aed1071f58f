// SPDX-License-Identifier: BSD-2-Clause
/* arena.c - the engine's allocator: see arena.h. */
#include "arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <rsock/sys.h>

#include "lock.h"

#define ARENA_BYTES (1ull << 30) /* virtual; pages are touched as needed */
#define GRAIN 64u
/* Multiples of GRAIN; the classes above are powers of two. */
#define SMALL_CLASSES 32u
#define SMALL_SHIFT 11 /* log2 of the largest small class */
#define MAX_SHIFT 26
#define CLASSES (SMALL_CLASSES + MAX_SHIFT - SMALL_SHIFT)
/* Free blocks of at least this size return their pages. */
#define DROP_BYTES (64u << 10)

/* The allocator's own state, at the start of the arena. */
struct arena_head {
	struct rsk_lock lock;
	uint32_t pad;
	uint64_t used;		     /* bytes from the start, under lock */
	struct block *free[CLASSES]; /* by size class, under lock */
};

/* In front of every block. It has 64 bytes, so that the payload is aligned to a cache line. */
struct block {
	struct block *next; /* while the block is free */
	uint32_t class;
	uint32_t magic;
	uint8_t pad[48];
};
_Static_assert(sizeof(struct block) == 64, "block header");
#define MAGIC_USED 0x72736b75u
#define MAGIC_FREE 0x72736b66u

_Static_assert(SMALL_CLASSES *GRAIN == 1u << SMALL_SHIFT, "size classes meet");

static _Atomic(struct arena_head *) arena;

static uint64_t class_bytes(uint32_t class)
{
	return class < SMALL_CLASSES ? (class + 1) * (uint64_t)GRAIN :
				       2ull << (SMALL_SHIFT + class - SMALL_CLASSES);
}

/* Returns CLASSES if @size is too large. */
static uint32_t class_of(size_t size)
{
	uint32_t class = size <= GRAIN ? 0 : (uint32_t)((size - 1) / GRAIN);

	if (size <= SMALL_CLASSES * GRAIN)
		return class;
	for (class = SMALL_CLASSES; class < CLASSES && class_bytes(class) < size; class ++)
		;
	return class;
}

static struct arena_head *arena_get(void)
{
	struct arena_head *a = atomic_load_explicit(&arena, memory_order_acquire), *none = NULL;
	long p;

	if (a)
		return a;
	p = (long)rsk_sys_mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p < 0 && p > -4096)
		return NULL;
	a = (struct arena_head *)p;
	a->used = (sizeof(*a) + 63) & ~63ull;
	/*
	 * Release: a thread that sees the pointer also sees the head. If two threads do this at
	 * once, the slower one unmaps its arena.
	 */
	if (!atomic_compare_exchange_strong_explicit(&arena, &none, a, memory_order_acq_rel,
						     memory_order_acquire)) {
		rsk_sys_munmap(a, ARENA_BYTES);
		return none;
	}
	return a;
}

void *rsk_arena_alloc_raw(size_t size)
{
	struct arena_head *a = arena_get();
	uint32_t class = class_of(size);
	struct block *b;

	if (!a || class == CLASSES)
		return NULL;
	rsk_lock(&a->lock);
	b = a->free[class];
	if (b) {
		a->free[class] = b->next;
	} else if (a->used + sizeof(*b) + class_bytes(class) <= ARENA_BYTES) {
		b = (struct block *)(void *)((uint8_t *)a + a->used);
		/*
		 * Relaxed: rsk_arena_at() also reads it without the lock, with offsets of blocks
		 * allocated before.
		 */
		__atomic_store_n(&a->used, a->used + sizeof(*b) + class_bytes(class),
				 __ATOMIC_RELAXED);
		b->class = class;
		b->magic = MAGIC_FREE;
	}
	if (b)
		b->magic = MAGIC_USED;
	rsk_unlock(&a->lock);
	return b ? b + 1 : NULL;
}

void *rsk_arena_alloc(size_t size)
{
	void *p = rsk_arena_alloc_raw(size);

	if (p)
		memset(p, 0, size);
	return p;
}

void rsk_arena_free(void *p)
{
	struct arena_head *a = atomic_load_explicit(&arena, memory_order_acquire);
	struct block *b;

	if (!p || !a)
		return;
	b = (struct block *)p - 1;
	if (b->magic != MAGIC_USED)
		return;
	if (class_bytes(b->class) >= DROP_BYTES) {
		uintptr_t from = ((uintptr_t)p + 4095) & ~4095ul;
		uintptr_t to = ((uintptr_t)p + class_bytes(b->class)) & ~4095ul;

		rsk_sys_madvise((void *)from, to - from, MADV_DONTNEED);
	}
	rsk_lock(&a->lock);
	b->magic = MAGIC_FREE;
	b->next = a->free[b->class];
	a->free[b->class] = b;
	rsk_unlock(&a->lock);
}

void rsk_arena_fork(bool before)
{
	struct arena_head *a = atomic_load_explicit(&arena, memory_order_acquire);

	if (!a)
		return;
	if (before)
		rsk_lock(&a->lock);
	else
		rsk_unlock(&a->lock);
}

int rsk_arena_holds(const void *p)
{
	const uint8_t *a = (const uint8_t *)atomic_load_explicit(&arena, memory_order_acquire);

	return a && (const uint8_t *)p >= a && (const uint8_t *)p < a + ARENA_BYTES;
}

uint32_t rsk_arena_offset(const void *p)
{
	return (uint32_t)((const uint8_t *)p - (const uint8_t *)atomic_load(&arena));
}

void *rsk_arena_at(uint32_t offset)
{
	struct arena_head *a = atomic_load_explicit(&arena, memory_order_acquire);

	if (!a || offset % 64 || offset < sizeof(*a) ||
	    offset >= __atomic_load_n(&a->used, __ATOMIC_RELAXED))
		return NULL;
	return (uint8_t *)a + offset;
}
