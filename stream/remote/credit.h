/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * credit.h - a sender whose ring is full looks up in the memory of the receiver on another host how
 * much has been read (<rsock/mailbox.h>). A receiver sends credit in a control word once an eighth
 * of the ring is free; one that reads a little at a time does not reach that for long, and the
 * sender could not tell it from one that does not read at all. Senders, and those who wait for
 * room, call rsk_credit_want(); the progress thread does the rest.
 */
#ifndef RSK_CREDIT_H
#define RSK_CREDIT_H

#include <stdint.h>

#define RSK_CREDIT_READERS 8u /* per link at once; half of what a rail has room for */

struct rsk_mailbox_reader;
struct rsk_remote;
struct rsk_stream;

/*
 * rsk_credit_want - the ring of @s, whose link is to another host, is full, or pacing holds the
 * sender back: the progress thread looks up the credit, or adds to the bucket, after a while, and
 * again until there is room; then it wakes whoever waits. Call with tx_lock held. Any thread,
 * signal-safe; makes a system call only when no look-up is pending for the link.
 */
void rsk_credit_want(struct rsk_stream *s);

/*
 * The look-ups that are due, called by the progress thread; and when the next one is due
 * (UINT64_MAX: none).
 */
void rsk_credit_work(struct rsk_remote *r, uint64_t now_ns);
uint64_t rsk_credit_next_ns(const struct rsk_remote *r);

/* Fills @all with the readers that may have an RDMA READ in flight, and returns their number. */
uint32_t rsk_credit_readers(const struct rsk_remote *r,
			    struct rsk_mailbox_reader *all[static RSK_CREDIT_READERS]);

#endif
