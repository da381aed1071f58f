/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pending_pairs.h - pending pairs, see pending_pairs.c. The pairing lock is held around each call.
 */
#ifndef RSK_PENDING_PAIRS_H
#define RSK_PENDING_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_link;
struct rsk_stream;

/*
 * The connecting end @s, whose descriptor is @fd, has a mapping: its request is sent now if
 * possible.
 */
void rsk_pending_pairs_ask_over(struct rsk_stream *s, int fd);

/*
 * Sends the requests that could not go over @l before, as many as there is room for. The progress
 * thread calls it.
 */
void rsk_pending_pairs_work(struct rsk_link *l);

/*
 * The link with that name could not be made, or is gone: rsockd is asked again for the streams that
 * wait for it. @refused: by the address to which it was to go; rsockd is told that first. @why: the
 * other end's reason, enum rsk_reason; 0: it gave none. The progress thread calls it.
 */
void rsk_pending_pairs_lost(uint64_t nonce, bool refused, uint32_t why);

#endif
