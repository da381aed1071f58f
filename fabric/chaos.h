/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chaos.h - a fabric for tests: one-sided memory with all permitted faults, reproducible from a
 * seed.
 *
 * The window is a private mirror. A put is copied at once and cut into pieces, which land in the
 * peer's segment when rsk_chaos_step() reaches their time: late, in any order, twice (the second
 * time long after newer puts), with a bit flipped, or never; and the rail can break. A get fetches
 * what is there when it lands, which may be late, or piece by piece, each at a time of its own.
 * Only the seed and the calls determine what happens, so a run can be repeated. Never part of
 * librsock.so. Not thread-safe: one test, one thread.
 */
#ifndef RSK_CHAOS_H
#define RSK_CHAOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric.h"

/* Faults of a put; each is counted. */
enum rsk_chaos_fault {
	/* Lands in pieces, each at its own time; a get is fetched in such pieces. */
	RSK_CHAOS_TEAR,
	RSK_CHAOS_DELAY,     /* lands later than it was put */
	RSK_CHAOS_REORDER,   /* a newer piece lands before this one */
	RSK_CHAOS_DUPLICATE, /* lands twice, soon */
	RSK_CHAOS_LATE,	     /* lands once more, long after */
	RSK_CHAOS_DROP,	     /* a piece never lands */
	RSK_CHAOS_CORRUPT,   /* a piece lands with a bit flipped */
	/* The rail breaks: what is under way may or may not land. */
	RSK_CHAOS_BREAK,
	RSK_CHAOS_FAULTS
};

struct rsk_chaos_config {
	/*
	 * Probability of each fault per million puts. REORDER results from delays and has no
	 * probability of its own.
	 */
	uint32_t ppm[RSK_CHAOS_FAULTS];
	uint32_t delay_steps; /* longest ordinary delay */
	uint32_t late_steps;  /* longest delay of a late copy */
	/*
	 * caps = RELIABLE: DROP, CORRUPT, DUPLICATE and LATE never happen, and puts of the same
	 * bytes land in the order in which they were put (as on one reliable queue pair); otherwise
	 * a control word could stay stale forever.
	 */
	bool reliable;
	/* At most that many bytes land per step; 0: no limit. */
	uint32_t bytes_per_step;
};

struct rsk_chaos;
struct rsk_chaos_piece;
struct rsk_chaos_orders;

/* What chaos.c calls for operations that it does not execute itself. */
struct rsk_chaos_more {
	void (*step)(struct rsk_chaos *c);
	bool (*busy)(const struct rsk_chaos *c);
	void (*cut)(struct rsk_chaos *c); /* the rail breaks */
	void (*close)(struct rsk_chaos *c);
};

/* Owned by the test. The rail is embedded: pass &chaos->rail to tx and rx. */
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
	bool refused; /* a put was refused since then */
	/* Puts do not land and no error is reported, as on a cable that was pulled. */
	bool swallows;
	bool shut; /* what flow() reports */
	/* With bytes_per_step: end of the queue, in bytes since the first step. */
	uint64_t line;
	uint64_t flying_bytes, landed_bytes;
	uint64_t next_token;
	struct rsk_completion *done; /* gets that poll() can return */
	uint32_t done_count, done_space;
	/* Operations that mechanisms/chaos_locked.c adds; NULL: none was ever begun. */
	const struct rsk_chaos_more *more;
	struct rsk_chaos_orders *orders; /* locked accesses under way, owned by it */
};

/* A mixture in which every fault happens often; breaks are left to the test (ppm 0). */
extern const struct rsk_chaos_config rsk_chaos_wild;
/* Tears, delays and reorders only. */
extern const struct rsk_chaos_config rsk_chaos_reliable;

/*
 * rsk_chaos_open - a rail from the owner of @segment to the owner of @peer_segment (both borrowed,
 * @bytes each). Returns 0 or -ENOMEM.
 */
int rsk_chaos_open(struct rsk_chaos *c, const struct rsk_chaos_config *config, uint64_t seed,
		   uint8_t *segment, uint8_t *peer_segment, size_t bytes);
void rsk_chaos_close(struct rsk_chaos *c);

/* Advances the virtual clock by one step: what is due lands. */
void rsk_chaos_step(struct rsk_chaos *c);

/* Steps until nothing is under way. */
void rsk_chaos_settle(struct rsk_chaos *c);

/* Breaks the rail now: puts fail from here on; each piece under way lands or is lost, at random. */
void rsk_chaos_break(struct rsk_chaos *c);

/*
 * Puts fail from here on. What is under way continues, until the other end closes too:
 * rsk_chaos_break().
 */
void rsk_chaos_stop(struct rsk_chaos *c);

/* Makes the rail work again, as another rail over the same memory. */
void rsk_chaos_repair(struct rsk_chaos *c);

/* The total number of faults so far. */
uint64_t rsk_chaos_injected(const struct rsk_chaos *c);
bool rsk_chaos_validate(const struct rsk_chaos *c);

/* ---- for rsk_chaos_more ---- */
bool rsk_chaos_happens(struct rsk_chaos *c, enum rsk_chaos_fault fault);
uint64_t rsk_chaos_below(struct rsk_chaos *c, uint64_t n);
void rsk_chaos_done(struct rsk_chaos *c, uint64_t token, int status);

#endif
