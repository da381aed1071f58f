/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zerocopy.h - completions of MSG_ZEROCOPY sends of one stream: their numbers, and which are unread
 * (docs/adr/zerocopy-sends.md). Embedded in struct rsk_stream, zeroed with it. send.c counts,
 * ready.c asks whether any is unread, calls/cmsg.c reads.
 *
 * The kernel numbers the sends of a socket that it has taken with SO_ZEROCOPY and MSG_ZEROCOPY,
 * from 0. The program sees one sequence of three parts: first what the kernel sent before the
 * stream was paired, by its own numbers, which the hooks count; then what the library sent; then,
 * after the stream has been given up, what the kernel sent again, whose numbers go on where the
 * first part ended.
 *
 * The numbers wrap, as the kernel's; parts are told from each other as long as neither has 2^31.
 */
#ifndef RSK_ZEROCOPY_H
#define RSK_ZEROCOPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rsk_zerocopy {
	/*
	 * Low half: sends of the library, whose completions are there at once; high half: how many
	 * of these, the last ones, are unread. Written by any sender and reader, by
	 * compare-and-swap; read by every poll. seq_cst: a sender counts, then looks for sleepers;
	 * a sleeper announces itself, then reads it.
	 */
	_Atomic(uint64_t) ours;
	/*
	 * Part of an answer of the kernel's that is to be told with the next read. Low half: its
	 * first number; high half: how many, 0: none. Written and read by readers, by exchange.
	 */
	_Atomic(uint64_t) rest;
	/*
	 * Sends of the kernel before the stream was paired. Added to by any sender before its call
	 * ends (rsk_op_end()); not changed any more once no plain call is under way, and the
	 * library sends only then. Relaxed.
	 */
	_Atomic(uint32_t) kernel;
	/* Calls under way whose completion is due. Senders write; seq_cst. */
	_Atomic(uint16_t) busy;
	/*
	 * The kernel was given a send after the stream was paired: all further ones are the
	 * kernel's. Set by a sender, before its call; never taken back. Relaxed: senders that
	 * number their sends wait for each other's calls.
	 */
	_Atomic(bool) by_tcp;
};

/* A send of the library is done: its completion is there. */
static inline void rsk_zerocopy_done(struct rsk_zerocopy *z)
{
	uint64_t was = atomic_load(&z->ours);

	while (!atomic_compare_exchange_weak(&z->ours, &was,
					     ((was >> 32) + 1) << 32 | (uint32_t)(was + 1)))
		;
}

/* Whether there ever was one of which a completion comes: also of the kernel's. */
static inline bool rsk_zerocopy_used(const struct rsk_zerocopy *z)
{
	return atomic_load_explicit(&z->kernel, memory_order_relaxed) ||
	       (uint32_t)atomic_load(&z->ours);
}

/* Whether a completion of the library's is unread: POLLERR. */
static inline bool rsk_zerocopy_unread(const struct rsk_zerocopy *z)
{
	return atomic_load(&z->ours) >> 32;
}

/* Whether the stream is to stay with the library, so that what is unread is shown. */
static inline bool rsk_zerocopy_pending(const struct rsk_zerocopy *z)
{
	return __builtin_expect(rsk_zerocopy_unread(z) || atomic_load(&z->busy), 0);
}

/*
 * rsk_zerocopy_take - takes all unread completions that the library has for the program, which are
 * one range: @range[0] to @range[1]. False: there is none. Call it when the kernel has none.
 *
 * rsk_zerocopy_renumber - the same for what the kernel has told: @range, by the kernel's numbers,
 * becomes the program's. Completions that the kernel would have told with it, as they follow, are
 * taken too.
 */
bool rsk_zerocopy_take(struct rsk_zerocopy *z, uint32_t range[static 2]);
void rsk_zerocopy_renumber(struct rsk_zerocopy *z, uint32_t range[static 2]);

#endif
