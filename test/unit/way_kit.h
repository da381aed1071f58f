/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * way_kit.h - for tests of one direction of a stream: its sender and its receiver, each with a rail
 * into the other's memory, and a TCP socket between them. The test decides what becomes of puts,
 * and what the TCP socket returns.
 */
#ifndef RSK_WAY_KIT_H
#define RSK_WAY_KIT_H

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "rx.h"
#include "tx.h"

#define CELLS 64u
#define WORD_TX 0u
#define WORD_RX 64u
#define CREDIT 128u
#define RING 192u
#define BYTES (RING + CELLS * RSK_CELL_BYTES)

/* The TCP socket: bytes that are all equal, an end, an error. */
struct wire {
	struct rsk_tcp c; /* must be first */
	uint64_t in, out;
	uint64_t room; /* for unread bytes, if it is narrow */
	bool narrow;
	bool end;
	bool own_end; /* the receiving end has shut reading down: no end of the sender's */
	/* how often it was shut down: afterwards it accepts nothing, and ends behind what it has */
	uint32_t shuts;
	bool not_mine; /* it cannot be shut down now */
	int err;
	/*
	 * so many calls do not see the error yet; the first that does clears it, as in the kernel
	 */
	uint32_t err_late;
};

struct world {
	uint8_t segment[2][BYTES] __attribute__((aligned(64)));
	uint8_t window[2][BYTES] __attribute__((aligned(64)));
	struct rsk_rail rail[2]; /* the sender's, the receiver's */
	bool dark;		 /* puts are lost */
	bool unheard;		 /* nothing is acknowledged */
	bool mute;		 /* the process is a child: nothing is put */
	struct wire wire;
	struct rsk_tx tx;
	struct rsk_rx rx;
};

extern struct world w;

/*
 * at_once: a put has landed when it returns, and is known to have; far: it is known when it is
 * acknowledged.
 */
extern const struct rsk_fabric_ops at_once, far;

/* From the start: nothing sent, both machines on TCP. */
void world_init(const struct rsk_fabric_ops *ops, uint64_t key);
/* From the start, and on to both ends on the ring, after @before bytes of TCP. */
void on_ring(const struct rsk_fabric_ops *ops, uint64_t before);

/* One call, of at most 4096 bytes. Returns its result. */
ssize_t send_some(size_t len);
ssize_t recv_some(size_t len);

#endif
