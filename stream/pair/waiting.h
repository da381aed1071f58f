/* SPDX-License-Identifier: BSD-2-Clause */
/* waiting.h - see waiting.c. The join lock is held around each call. */
#ifndef RSK_WAITING_H
#define RSK_WAITING_H

#include <stdint.h>

struct rsk_link;
struct rsk_stream;

/* The connecting end @s, whose number here is @fd, has a mapping: its request goes now, if it can. */
void rsk_waiting_ask_over(struct rsk_stream *s, int fd);

/* Those that could not go over @l before, as many as have room now. The keeper's. */
void rsk_waiting_work(struct rsk_link *l);

/* The link of that name could not be had, or is gone: rsockd is asked anew for those that wait. The keeper's. */
void rsk_waiting_lost(uint64_t nonce);

#endif
