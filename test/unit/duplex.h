/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * duplex.h - both ends of a stream in one thread: two directions of tx and rx machines over a FIFO companion and
 * a fabric of choice, driven at random from a seed, also in the middle of each other's calls. Every byte is
 * known from its position; every struct is validated after every step; whatever is wrong ends the test.
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
	uint32_t fifo_bytes; /* room of the companion, each way */
	bool interleave;     /* the other end acts inside our companion calls */
	bool leave;	     /* receivers may leave */
	bool breaks;	     /* the rails may break (not on shm) */
	bool renews;	     /* they break again and again, and come back (not on shm) */
	bool quiesced;	     /* receivers ask for all to be repeated (not on shm), and come back */
	bool pauses;	     /* receivers leave at once, and come back (shm) */
	bool requests;	     /* either end may be kept off the ring for a while */
	uint32_t rails;	     /* so many, that die and come back one by one (reliable) */
	bool early_fin;	     /* kernel's FIN right behind the FIN slot (shm, nobody leaves) */
};

/* Sums over runs: a test asserts that what it is about did happen. */
struct duplex_sums {
	uint64_t faults, bytes, ring_bytes, slots, laps,
		restarts; /* restarts: rings that had one */
	uint64_t promotions, demotions, leaves, resent_bytes, held_reads, breaks, resumes;
	uint64_t renewals,
		promoted_again; /* ends that had another rail; promotions over such a one */
	uint64_t peeks, counts, file_bytes, fins_on_ring, fins_on_tcp, repairs, retries,
		busy_falls_back, doubts, twice_bytes;
	uint64_t requests, sent_off; /* wishes; moves at the receiver's word */
	uint64_t rails_lost, all_lost, rails_back,
		gaps;			    /* rails that died, of several; and were there again */
	uint64_t put_again, by_rail[4];	    /* slots; bytes of slots */
	uint64_t tagged, overtook;	    /* transactions of last promotions */
	uint64_t missing[3], missing_first; /* when a rail died, by enum rsk_order_kind */
	uint64_t stalls;		    /* sends that found too many under way */
	uint64_t read_lost; /* of rails that were up here, that they are closed there */
	uint64_t looked, looked_new, freed_cells; /* mailboxes of the receivers' */
	uint64_t quiesced, repeats; /* BACK said, AGAIN heard of with bytes that were unread */
	uint64_t ended_first;	    /* by receivers that leave */
	uint64_t pauses,
		paused_again; /* promotions that receivers ended; where the sender was first */
};

/* One run from start to both ends of stream; asserts all along. */
void duplex_run(const struct duplex_config *config, struct duplex_sums *sums);

#endif
