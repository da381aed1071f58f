/* SPDX-License-Identifier: BSD-2-Clause */
/* pending_pairs.h - see waiting.c. The join lock is held around each call. */
#ifndef RSK_PENDING_PAIRS_H
#define RSK_PENDING_PAIRS_H

#include <stdint.h>

struct rsk_link;
struct rsk_stream;

/* The connecting end @s, whose number here is @fd, has a mapping: its request goes now, if it can. */
void rsk_pending_pairs_ask_over(struct rsk_stream *s, int fd);

/* Those that could not go over @l before, as many as have room now. The keeper's. */
void rsk_pending_pairs_work(struct rsk_link *l);

/* The link of that name could not be had, or is gone: rsockd is asked anew for those that wait. The keeper's. */
void rsk_pending_pairs_lost(uint64_t nonce);

#endif
