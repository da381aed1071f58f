/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * duplex.h - a model that runs both ends of a stream in one thread: two directions of tx and rx
 * machines over a FIFO in place of the TCP socket, and a fabric of choice. It is driven at random
 * from a seed, also in the middle of each other's calls. Every byte follows from its position,
 * every struct is validated after every step, and any violation fails the test. The tests of the
 * state machines call duplex_run().
 */
#ifndef RSK_DUPLEX_H
#define RSK_DUPLEX_H

#include <stdbool.h>
#include <stdint.h>

enum duplex_fabric {
	DUPLEX_SHM,
	DUPLEX_RELIABLE,
	DUPLEX_WILD
};

struct duplex_config {
	enum duplex_fabric fabric;
	uint64_t seed;
	uint32_t steps;
	uint32_t cells;
	/* laps begin with so many cells, and become wider (not on shm); 0: all */
	uint32_t lap_cells;
	uint32_t fifo_bytes; /* room of the TCP socket, each way */
	bool interleave;     /* the other end acts inside our calls on the TCP socket */
	bool leave;	     /* receivers may fall back */
	bool breaks;	     /* the rails may break (not on shm) */
	bool renews;	     /* they break again and again, and come back (not on shm) */
	/* receivers quiesce, ask for a retransmission, and come back (not on shm) */
	bool quiesced;
	bool pauses;   /* receivers end the promotion at once, and come back (shm) */
	bool requests; /* either end may be kept off the ring for a while */
	/* bits flip in slots that have landed and are unread (not on shm) */
	bool harm;
	uint32_t rails; /* number of rails that fail and come back one by one (reliable) */
	bool early_fin; /* the kernel's FIN right behind the FIN slot (shm, no fallbacks) */
};

/* Sums over several runs: a test asserts that the event which it is about did happen. */
struct duplex_sums {
	/* restarts: rings that had one */
	uint64_t faults, bytes, ring_bytes, slots, laps, restarts;
	uint64_t promotions, demotions, leaves, resent_bytes, held_reads, breaks, resumes;
	/* renewals: ends that had another rail; promoted_again: promotions over such a rail */
	uint64_t renewals, promoted_again;
	uint64_t peeks, counts, file_bytes, fins_on_ring, fins_on_tcp, repairs, retries,
		busy_falls_back, doubts, twice_bytes;
	uint64_t requests, sent_off; /* operator requests; fallbacks that the receiver requested */
	/* rails that failed, of several; all at once; that came back; gaps that were reported */
	uint64_t rails_lost, all_lost, rails_back, gaps;
	uint64_t put_again, by_rail[4]; /* slots; bytes of slots */
	uint64_t tagged, overtook;	/* transactions of the last promotions */
	/* slots that were seen ahead; transactions complete before a lower one; steps with a gap */
	uint64_t ahead, ahead_overtook, gap_steps;
	uint64_t missing[3], missing_first; /* when a rail failed, by enum rsk_order_kind */
	uint64_t stalls;		    /* sends that found too many transactions under way */
	uint64_t read_lost; /* rails up here that the peer's status showed as closed */
	uint64_t looked, looked_new, freed_cells; /* of the receivers' mailboxes */
	uint64_t quiesced, repeats; /* QUIESCED sent; RETRANSMIT received with unread bytes */
	uint64_t ended_first;	    /* by receivers that fall back */
	/* bits that flipped; runs that ended, as the rail broke behind a sender that had left */
	uint64_t harmed, harm_ends;
	/* promotions that receivers ended; pauses repeated since the sender ended one first */
	uint64_t pauses, paused_again;
	/* laps that ended before the ring did; how often laps became wider, narrower */
	uint64_t last_slots, wider, narrower;
};

/* One run from the start to the end of stream at both ends; asserts all along. */
void duplex_run(const struct duplex_config *config, struct duplex_sums *sums);

#endif
