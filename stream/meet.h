/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meet.h - the door of this process, and links to others. Only for join.c, which holds its lock around each call.
 */
#ifndef RSK_MEET_H
#define RSK_MEET_H

#include <stdint.h>

#include "handshake.h"
#include "link.h"
#include "registry.h"

uint64_t rsk_random64(void); /* never 0 */

/* Listens, if it does not yet; 0 or -errno. The nonce names the door in the registry. */
int rsk_door_open(void);
uint64_t rsk_door_nonce(void);

/* Closes this process's copy of the door: a child's inherited one is its parent's. */
void rsk_door_leave(void);

/* The link to the process whose door has that nonce, perhaps a new one, still GREETING. NULL: none can be had. */
struct rsk_link *rsk_meet_at(uint64_t nonce);

/* Opens the door to whoever knocked, hears whoever spoke. */
void rsk_meet(void);

/* The other end is gone, or not to be trusted any more. */
void rsk_link_dead(struct rsk_link *l);

/* transact.c's: a validated message about a stream, of a link that is UP. */
void rsk_join_message(struct rsk_link *l, const struct rsk_link_msg *m,
		      const struct rsk_pm_msg *pm);

#endif
