/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * credit.h - what a receiver at another host has read, looked up in its memory (<rsock/mailbox.h>) by a sender whose
 * ring is full. Credit comes by word once an eighth of the ring is free; who reads a little at a time does not get so
 * far for long, and the sender cannot tell him from one who does not read at all.
 */
#ifndef RSK_CREDIT_H
#define RSK_CREDIT_H

#include <stdint.h>

#define RSK_CREDIT_READERS 8u /* of a link at once; half of what a rail has room for */

struct rsk_mailbox_reader;
struct rsk_remote;
struct rsk_stream;

/*
 * rsk_credit_want - the ring of @s, whose link is to another host, is full: the keeper looks after a while, and again
 * until it is not. tx_lock held. Any thread, signal-safe; a system call once in a while.
 */
void rsk_credit_want(struct rsk_stream *s);

/* The keeper's rounds, and when the next one is due; UINT64_MAX: none. */
void rsk_credit_work(struct rsk_remote *r, uint64_t now_ns);
uint64_t rsk_credit_next_ns(const struct rsk_remote *r);

/* What may have a get under way. Their number. */
uint32_t rsk_credit_readers(const struct rsk_remote *r,
			    struct rsk_mailbox_reader *all[static RSK_CREDIT_READERS]);

#endif
