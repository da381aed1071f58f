/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ringway.h - how the initiator of a transfer decides to send, and what the responder answers: the dynamic
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
#ifndef RSK_RINGWAY_H
#define RSK_RINGWAY_H

#include <stdbool.h>
#include <stdint.h>

enum rsk_ringway_state {
	RSK_RINGWAY_NONE,
	RSK_RINGWAY_ASKED, /* a request is out */
	RSK_RINGWAY_INDIRECT,
	RSK_RINGWAY_DIRECT,
};

/* What happened, for the record. */
enum rsk_ringway_cause {
	RSK_RINGWAY_REQUESTED,
	RSK_RINGWAY_VALID,
	RSK_RINGWAY_INVALID,
	RSK_RINGWAY_FIRST_TIMEOUT,
	RSK_RINGWAY_SECOND_TIMEOUT,
	RSK_RINGWAY_LATE_VALID, /* after it had begun indirectly */
	RSK_RINGWAY_CAUSES
};

struct rsk_ringway {
	uint8_t state; /* enum rsk_ringway_state */
	uint8_t timeouts;
	bool owed; /* as responder: we could not register, and are to try again */
	bool ours; /* a stream of this end wants it: else an answer is only kept */
	bool kept; /* an answer that came before: */
	bool kept_valid;
	uint32_t ctl_rkey, ring_rkey;
	uint64_t due_ns;
};

#define RSK_RINGWAY_TIMEOUT_NS 200000000ull

/* What the initiator does next. */
enum rsk_ringway_action {
	RSK_RINGWAY_DO_NOTHING,
	RSK_RINGWAY_DO_REQUEST,
	RSK_RINGWAY_DO_INDIRECT,
	RSK_RINGWAY_DO_DIRECT,
};

/* A transfer begins (or begins anew, on another rail): its request goes out now. */
void rsk_ringway_begin(struct rsk_ringway *w, uint64_t now_ns, uint64_t counts[RSK_RINGWAY_CAUSES]);
enum rsk_ringway_action rsk_ringway_answer(struct rsk_ringway *w, bool valid,
					   uint64_t counts[RSK_RINGWAY_CAUSES]);
enum rsk_ringway_action rsk_ringway_tick(struct rsk_ringway *w, uint64_t now_ns,
					 uint64_t counts[RSK_RINGWAY_CAUSES]);

/* Of a link's streams, by id; grows. */
struct rsk_ringways {
	struct rsk_ringway *at; /* owned, [n] */
	uint32_t n;
};

/* NULL: no memory. */
struct rsk_ringway *rsk_ringways_at(struct rsk_ringways *all, uint32_t sid);
void rsk_ringways_free(struct rsk_ringways *all);

#endif
