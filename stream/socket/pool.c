// SPDX-License-Identifier: BSD-2-Clause
/* pool.c - see pool.h. */
#include "pool.h"

#include "arena.h"
#include "stream.h"

/*
 * A stack without a lock, in private memory, allocated at the first use. The low half of first is
 * the arena offset of the first stream, 0: none; the high half counts the changes, so that a thread
 * that takes the first stream with the next_free that it read detects that others took and gave
 * meanwhile. Release when a stream is given, acquire when it is taken.
 */
struct stream_pool {
	_Atomic(uint64_t) first;
};
static _Atomic(struct stream_pool *) pool;

static struct stream_pool *pool_get(void)
{
	struct stream_pool *p = atomic_load_explicit(&pool, memory_order_acquire), *none = NULL;

	if (p)
		return p;
	p = rsk_arena_alloc(sizeof(*p));
	if (!p)
		return NULL;
	if (!atomic_compare_exchange_strong(&pool, &none, p)) {
		rsk_arena_free(p);
		return none;
	}
	return p;
}

static uint64_t changed(uint64_t first, uint32_t offset)
{
	return ((first >> 32) + 1) << 32 | offset;
}

struct rsk_stream *rsk_pool_take(void)
{
	struct stream_pool *p = pool_get();
	struct rsk_stream *s;
	uint64_t first;

	if (!p)
		return NULL;
	first = atomic_load_explicit(&p->first, memory_order_acquire);
	do {
		if (!(uint32_t)first)
			return NULL;
		s = rsk_arena_at((uint32_t)first);
		/* It may be in use again by now, and is still a stream. */
	} while (!atomic_compare_exchange_weak_explicit(
		&p->first, &first,
		changed(first, atomic_load_explicit(&s->next_free, memory_order_relaxed)),
		memory_order_acquire, memory_order_acquire));
	return s;
}

void rsk_pool_give(struct rsk_stream *s)
{
	struct stream_pool *p = pool_get();
	uint64_t first;

	if (!p)
		return; /* no memory: no stream is reused */
	first = atomic_load_explicit(&p->first, memory_order_relaxed);
	do
		atomic_store_explicit(&s->next_free, (uint32_t)first, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&p->first, &first,
						      changed(first, rsk_arena_offset(s)),
						      memory_order_release, memory_order_relaxed));
}
