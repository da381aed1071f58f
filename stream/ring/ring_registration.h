/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring_registration.h - ring registration state: whether a sender writes a ring through an indirect
 * buffer or directly, and what the responder answered. It is the automaton of the dynamic transfer
 * (docs/adr/verbs.md; "Hardware Accelerated Dynamic RDMA Method for Gigabit Ethernet"). One
 * transfer is what goes into the ring of one stream; TID is the stream's id. The progress thread
 * (stream/remote) calls it. Pure: the clock and the answers are passed in.
 *
 *	request  --valid acknowledgement-->  direct
 *	         --invalid one---------->    indirect, until a valid one comes
 *	         --timeout-->  request again  --timeout-->  indirect, until a valid one comes
 *	indirect --timeout-->  request again, each time after twice as long
 *
 * The responder registers the ring and sends a valid acknowledgement. If it cannot (RLIMIT_MEMLOCK,
 * limits of the device), it sends an invalid one once, and tries again from time to time and at
 * each request; when that succeeds, a valid one follows. If not even the control blocks can be
 * registered, the transfer has to wait, and the stream stays on its TCP socket.
 */
#ifndef RSK_RING_REG_H
#define RSK_RING_REG_H

#include <rsock/stats.h>
#include <stdbool.h>
#include <stdint.h>

enum rsk_ring_reg_state {
	RSK_RING_REG_NONE,
	RSK_RING_REG_ASKED, /* a request was sent */
	RSK_RING_REG_INDIRECT,
	RSK_RING_REG_DIRECT,
};

struct rsk_ring_reg {
	uint8_t state;	  /* enum rsk_ring_reg_state */
	uint8_t timeouts; /* in this state, at most RSK_RING_REG_DOUBLINGS */
	bool owed;	  /* as responder: registration failed, and is to be tried again */
	bool ours;	  /* a stream of this end wants it; if not, an answer is only kept */
	bool kept;	  /* an answer that arrived before; the next field is its value */
	bool kept_valid;
	uint32_t ctl_rkey, ring_rkey;
	/* Of that answer: how much of the ring is registered. */
	uint32_t kept_bytes, kept_narrowed;
	/* Bytes of the peer's ring: asked for; reached directly, 0 unless DIRECT. */
	uint32_t asked_bytes, direct_bytes;
	uint32_t first_rkey;  /* of a ring of which only the first bytes are used; 0: not known */
	uint32_t given_bytes; /* as responder: of our ring, that are registered */
	/* NARROWs that this end has sent, and received */
	uint32_t narrowed_out, narrowed_in;
	uint64_t narrowed_ns; /* when the newest was received */
	bool drop_due;	      /* as responder: pages behind what is registered may be dropped */
	uint64_t due_ns;      /* of the next tick; read it by rsk_ring_reg_next() */
};

#define RSK_RING_REG_TIMEOUT_NS 200000000ull
/* In INDIRECT the time is doubled so often, up to 6.4 s */
#define RSK_RING_REG_DOUBLINGS 5u

/* What the initiator does next. */
enum rsk_ring_reg_action {
	RSK_RING_REG_DO_NOTHING,
	RSK_RING_REG_DO_REQUEST,
	RSK_RING_REG_DO_INDIRECT,
	RSK_RING_REG_DO_DIRECT,
};

/* A transfer begins (or begins again, on another rail); its request is sent now. */
void rsk_ring_reg_begin(struct rsk_ring_reg *w, uint64_t now_ns,
			uint64_t counts[RSK_STATS_REG_COUNT]);
/* An acknowledgement arrived, or time has passed. Return what to do next, and count the event. */
enum rsk_ring_reg_action rsk_ring_reg_answer(struct rsk_ring_reg *w, bool valid,
					     uint64_t counts[RSK_STATS_REG_COUNT]);
enum rsk_ring_reg_action rsk_ring_reg_tick(struct rsk_ring_reg *w, uint64_t now_ns,
					   uint64_t counts[RSK_STATS_REG_COUNT]);
/* When rsk_ring_reg_tick() must be called next; UINT64_MAX: never. */
static inline uint64_t rsk_ring_reg_next(const struct rsk_ring_reg *w)
{
	return w->state == RSK_RING_REG_ASKED || w->state == RSK_RING_REG_INDIRECT ? w->due_ns :
										     UINT64_MAX;
}

/* The states of a link's streams, by stream id. The array grows. */
struct rsk_ring_regs {
	struct rsk_ring_reg *at; /* owned, [n] */
	uint32_t n;
};

/* Returns the state of stream @sid, borrowed until the next call; NULL: no memory. */
struct rsk_ring_reg *rsk_ring_regs_at(struct rsk_ring_regs *all, uint32_t sid);
void rsk_ring_regs_free(struct rsk_ring_regs *all);

#endif
