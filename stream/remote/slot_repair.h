/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slot_repair.h - a slot from another host shows in the ring, and its hash is not right. As a rule
 * it is landing, and its reader is woken when the rest has landed. If it is damaged, nothing need
 * happen any more that wakes the reader; so readers call rsk_slot_repair_want() when they find one,
 * and the progress thread checks it once more after a while. The same holds for the answer that a
 * quiesced reader waits for, which the sender puts there. The request for it, and what the sender
 * does: rx_repair.c, tx_repair.c.
 */
#ifndef RSK_SLOT_REPAIR_H
#define RSK_SLOT_REPAIR_H

#include <stdint.h>

struct rsk_remote;
struct rsk_stream;

/*
 * rsk_slot_repair_want - rsk_rx_torn() is true of @s: the progress thread checks it after a while,
 * and again as long as that slot stays so. Does nothing for a stream within the host. Call with
 * rx_lock held. Any thread, signal-safe; makes a system call only if no check is pending for the
 * stream, nor for another one of its link.
 */
void rsk_slot_repair_want(struct rsk_stream *s);

/* Progress thread: the checks that are due, and when the next ones are (UINT64_MAX: none). */
void rsk_slot_repair_work(struct rsk_remote *r, uint64_t now_ns);
uint64_t rsk_slot_repair_next_ns(const struct rsk_remote *r);

#endif
