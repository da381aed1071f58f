/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chaos.h - a fabric for tests: one-sided memory at its worst, reproducible from a seed.
 *
 * The window is a private mirror. A put is copied at once, cut into pieces, and the pieces land in the peer's
 * segment when rsk_chaos_step() reaches their time: late, in any order, twice (the second time long after newer
 * puts), with a bit turned, or never; and the rail can break. A get fetches what is there when it lands, which may be
 * late, or piece by piece, each at a time of its own. Nothing but the seed and the calls decides, so a run
 * can be repeated. Never part of librsock.so. Not thread-safe: one test, one thread.
 */
#ifndef RSK_CHAOS_H
#define RSK_CHAOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric.h"

/* What can happen to a put; every one is counted. */
enum rsk_chaos_fault {
	RSK_CHAOS_TEAR,	     /* lands in pieces of its own times; a get: is fetched in such */
	RSK_CHAOS_DELAY,     /* lands later than it was put */
	RSK_CHAOS_REORDER,   /* a newer piece lands before this one */
	RSK_CHAOS_DUPLICATE, /* lands twice, soon */
	RSK_CHAOS_LATE,	     /* lands once more, long after */
	RSK_CHAOS_DROP,	     /* a piece never lands */
	RSK_CHAOS_CORRUPT,   /* a piece lands with a bit turned */
	RSK_CHAOS_BREAK,     /* the rail breaks: what is under way may or may not land */
	RSK_CHAOS_FAULTS
};

struct rsk_chaos_config {
	/* Chance of each fault per million puts; REORDER is what delays lead to and has no chance of its own. */
	uint32_t ppm[RSK_CHAOS_FAULTS];
	uint32_t delay_steps; /* longest ordinary delay */
	uint32_t late_steps;  /* longest delay of a late copy */
	/*
	 * caps = RELIABLE: DROP, CORRUPT, DUPLICATE and LATE never happen, and puts of the same bytes land in the
	 * order in which they were put (as on one reliable queue pair); else a mail could stay stale for ever.
	 */
	bool reliable;
	uint32_t bytes_per_step; /* no more lands; 0: any number */
};

struct rsk_chaos_piece;
struct rsk_chaos_orders;

/* Owned by the test. The rail is embedded: hand &chaos->rail to tx and rx. */
struct rsk_chaos {
	struct rsk_rail rail;
	struct rsk_chaos_config config;
	uint8_t *peer_segment; /* borrowed */
	uint64_t rng;
	uint64_t now_steps;
	uint64_t sequence;		/* puts and copies made so far */
	struct rsk_chaos_piece *flying; /* by landing time, owned */
	uint64_t flying_pieces;
	uint64_t faults[RSK_CHAOS_FAULTS];
	uint64_t puts, landed_pieces;
	bool cut;     /* the rail broke with something under way */
	bool refused; /* something was to be put since */
	bool swallows; /* what is put does not land, and nobody is told: as on a cable that was pulled */
	bool shut;     /* flow() says so */
	uint64_t line; /* bytes_per_step: its end, in bytes since the first step */
	uint64_t flying_bytes, landed_bytes;
	uint64_t next_token;
	struct rsk_completion *done; /* gets that are ready to be polled */
	uint32_t done_count, done_space;
	struct rsk_chaos_orders *orders; /* locked accesses under way, owned */
};

/* A fair mixture in which every fault happens often; breaks are left to the test (ppm 0). */
extern const struct rsk_chaos_config rsk_chaos_wild;
/* Tears, delays and reorders only. */
extern const struct rsk_chaos_config rsk_chaos_reliable;

/*
 * rsk_chaos_open - a rail from @segment's owner to the owner of @peer_segment (both borrowed, @bytes each).
 * 0 or -ENOMEM.
 */
int rsk_chaos_open(struct rsk_chaos *c, const struct rsk_chaos_config *config, uint64_t seed,
		   uint8_t *segment, uint8_t *peer_segment, size_t bytes);
void rsk_chaos_close(struct rsk_chaos *c);

/* One step of the virtual clock: what is due lands. */
void rsk_chaos_step(struct rsk_chaos *c);

/* Steps until nothing is under way. */
void rsk_chaos_settle(struct rsk_chaos *c);

/* Breaks the rail now: puts fail from here on; each piece under way lands or is lost, by the dice. */
void rsk_chaos_break(struct rsk_chaos *c);

/* Puts fail from here on; what is under way goes on, until the other end closes, too: rsk_chaos_break(). */
void rsk_chaos_stop(struct rsk_chaos *c);

/* Another rail, over the same memory. */
void rsk_chaos_repair(struct rsk_chaos *c);

uint64_t rsk_chaos_injected(const struct rsk_chaos *c);
bool rsk_chaos_validate(const struct rsk_chaos *c);

/* ---- between chaos.c and chaos_locked.c ---- */
bool rsk_chaos_happens(struct rsk_chaos *c, enum rsk_chaos_fault fault);
uint64_t rsk_chaos_below(struct rsk_chaos *c, uint64_t n);
void rsk_chaos_done(struct rsk_chaos *c, uint64_t token, int status);
int rsk_chaos_locked(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token);
void rsk_chaos_locked_step(struct rsk_chaos *c);
bool rsk_chaos_locked_busy(const struct rsk_chaos *c);
void rsk_chaos_locked_break(struct rsk_chaos *c);
void rsk_chaos_locked_close(struct rsk_chaos *c);

#endif
