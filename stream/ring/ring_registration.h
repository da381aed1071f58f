/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring_registration.h - how the initiator of a transfer decides to send, and what the responder answers: the dynamic
 * transfer's automaton (docs/adr/verbs.md; "Hardware Accelerated Dynamic RDMA Method for Gigabit
 * Ethernet"). One transfer is what goes into the ring of one stream: TID is the stream's id. Pure: the clock and
 * the answers are passed in.
 *
 *	request  --valid acknowledgement-->  direct
 *	         --invalid one---------->    indirect, until a valid one comes
 *	         --timeout-->  request again  --timeout-->  indirect, until a valid one comes
 *
 * The responder registers the ring: a valid acknowledgement. It cannot (RLIMIT_MEMLOCK, limits of the device): an
 * invalid one, and it tries again by and by; when that succeeds, a valid one follows. Not even the control blocks:
 * the transfer has to wait, and the stream stays on its companion.
 */
#ifndef RSK_RING_REG_H
#define RSK_RING_REG_H

#include <stdbool.h>
#include <stdint.h>

enum rsk_ring_reg_state {
	RSK_RING_REG_NONE,
	RSK_RING_REG_ASKED, /* a request is out */
	RSK_RING_REG_INDIRECT,
	RSK_RING_REG_DIRECT,
};

/* What happened, for the record. */
enum rsk_ring_reg_cause {
	RSK_RING_REG_REQUESTED,
	RSK_RING_REG_VALID,
	RSK_RING_REG_INVALID,
	RSK_RING_REG_FIRST_TIMEOUT,
	RSK_RING_REG_SECOND_TIMEOUT,
	RSK_RING_REG_LATE_VALID, /* after it had begun indirectly */
	RSK_RING_REG_CAUSES
};

struct rsk_ring_reg {
	uint8_t state; /* enum rsk_ring_reg_state */
	uint8_t timeouts;
	bool owed; /* as responder: we could not register, and are to try again */
	bool ours; /* a stream of this end wants it: else an answer is only kept */
	bool kept; /* an answer that came before: */
	bool kept_valid;
	uint32_t ctl_rkey, ring_rkey;
	uint64_t due_ns;
};

#define RSK_RING_REG_TIMEOUT_NS 200000000ull

/* What the initiator does next. */
enum rsk_ring_reg_action {
	RSK_RING_REG_DO_NOTHING,
	RSK_RING_REG_DO_REQUEST,
	RSK_RING_REG_DO_INDIRECT,
	RSK_RING_REG_DO_DIRECT,
};

/* A transfer begins (or begins anew, on another rail): its request goes out now. */
void rsk_ring_reg_begin(struct rsk_ring_reg *w, uint64_t now_ns,
			uint64_t counts[RSK_RING_REG_CAUSES]);
enum rsk_ring_reg_action rsk_ring_reg_answer(struct rsk_ring_reg *w, bool valid,
					     uint64_t counts[RSK_RING_REG_CAUSES]);
enum rsk_ring_reg_action rsk_ring_reg_tick(struct rsk_ring_reg *w, uint64_t now_ns,
					   uint64_t counts[RSK_RING_REG_CAUSES]);

/* Of a link's streams, by id; grows. */
struct rsk_ring_regs {
	struct rsk_ring_reg *at; /* owned, [n] */
	uint32_t n;
};

/* NULL: no memory. */
struct rsk_ring_reg *rsk_ring_regs_at(struct rsk_ring_regs *all, uint32_t sid);
void rsk_ring_regs_free(struct rsk_ring_regs *all);

#endif
