/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pair.h - state and functions of bin/verbs_pair (pair.c): two processes, rails between them by
 * librsock-verbs.so, and a TCP connection by which they coordinate.
 */
#ifndef PAIR_H
#define PAIR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <rsock/clock.h>

#include "control_word.h"
#include "mech_verbs.h"
#include "ring.h"
#include "segment.h"
#include "verbs.h"

#define PAIR_RING (64u << 10)
#define PAIR_CELLS (PAIR_RING / RSK_CELL_BYTES)
#define PAIR_MAX_STREAMS 256u
#define PAIR_MAX_THREADS 4u
#define PAIR_LINKS 2u
#define PAIR_ASLEEP_MS                                                                             \
	20000 /* a thread that sleeps longer than this with work to do has lost a wake-up */

/* What the client asks for; it sends this structure to the server as it is. */
struct pair_plan {
	uint32_t streams, threads, seconds, links, rounds;
	uint32_t largest;  /* payload of a slot */
	uint32_t ping;	   /* one slot at a time in each direction */
	uint32_t bytes;	   /* of a transfer */
	uint32_t timer_ms; /* until a ring is requested again */
	uint32_t fail; /* percent of the registrations that fail in a transfer; drawn from dice */
	uint32_t dice;
	char methods[8]; /* of transfers */
	char way;	 /* d: direct, i: indirect, s: changes all the time */
	char mode[15];
};

/* Both directions of one stream. Owned by its thread while that runs. */
struct pair_stream {
	uint32_t sid;
	struct rsk_key key_out, key_in;
	struct rsk_ring_tx tx;
	struct rsk_ring_rx rx;
	uint64_t out, in; /* bytes */
	uint64_t credit_said, answer_word_seen;
	uint64_t dice;
	bool fin_out, fin_in;
};

struct pair_link {
	struct pair *p;
	uint32_t number, round;
	struct rsk_seg seg;
	struct rsk_verbs_rail *rail;
	_Atomic(int) up, downs, err;
	int doorbell[RSK_SEG_DOORBELLS];
	struct pair_stream stream[PAIR_MAX_STREAMS];
	pthread_t thread[PAIR_MAX_THREADS];
	_Atomic(uint32_t) running;
};

struct pair {
	const struct rsk_verbs_module *m;
	/* Of librsock-verbs-mech.so; librsock-verbs.so has none. */
	const struct rsk_mech_verbs *mech;
	struct rsk_verbs *v;
	uint64_t counts[RSK_STATS_VERBS_COUNT];
	struct pair_plan plan;
	struct pair_link link[PAIR_LINKS];
	int tcp, call_fd;
	bool server;
	uint16_t port; /* of rdma_cm */
	_Atomic(bool) stop;
	_Atomic(uint64_t) slept, woken_late;
};

#define PAIR_FAIL(...)                                                                             \
	do {                                                                                       \
		fprintf(stderr, "verbs_pair: " __VA_ARGS__);                                       \
		fputc('\n', stderr);                                                               \
		_Exit(1);                                                                          \
	} while (0)

/* What each end registered for the other one. */
struct pair_keys {
	struct rsk_verbs_end end;
	uint32_t ctl[PAIR_MAX_STREAMS / RSK_SEG_REACH];
	uint32_t ring[PAIR_MAX_STREAMS];
	uint32_t way[PAIR_MAX_STREAMS];
};

extern struct pair_keys pair_ours, pair_theirs; /* of the link that came up last */

/* link.c: all of these end the program on failure. */
void pair_tell(struct pair *p, const void *what, size_t n);
void pair_hear(struct pair *p, void *what, size_t n);
void pair_rendezvous(struct pair *p, char what);
void pair_keep(struct pair *p, int ms);
void pair_keep_until(struct pair *p, _Atomic(int) *what, int value, const char *say);
void pair_make_segments(struct pair_link *l);
void pair_bring_up(struct pair_link *l, const struct rsk_verbs_addr *from);
void pair_load(struct pair *p);

/*
 * flow.c: threads that move data over a link. Thread N of T has the streams whose number modulo T
 * is N.
 */
void pair_flow_init(struct pair_link *l);
void pair_flow_start(struct pair_link *l);
void pair_flow_join(struct pair_link *l);
/* Wakes all threads, so that they see that the rail broke. */
void pair_flow_wake(struct pair_link *l);
/* The callback host->news(). */
void pair_flow_news(struct pair_link *l, uint32_t sid, uint32_t what);

/* transfer.c: mode transfer. */
void pair_transfers(struct pair *p, const struct rsk_verbs_addr *from);
/* locked.c: mode locked. */
void pair_locked(struct pair *p, const struct rsk_verbs_addr *from);

/* mailboxes.c: mode mailboxes. */
void pair_mailboxes(struct pair *p, const struct rsk_verbs_addr *from);

#endif
