/* SPDX-License-Identifier: BSD-2-Clause */
/* join.h - the lock under which streams are joined, for the keeper, and what it asks there. */
#ifndef RSK_JOIN_H
#define RSK_JOIN_H

#include <stdbool.h>

#include <rsock/tuple.h>

void rsk_join_take(void);
bool rsk_join_try(void); /* false: another thread has it */
void rsk_join_give(void);

/*
 * Lock held. Somebody on another host says he holds the other end of @ours, by the mapping @handle: is that end
 * here, and rsockd asked about him (rsk_remote_answered())? 0; -ENOENT; -EAGAIN: it could not be asked.
 */
struct rsk_verbs_addr;
int rsk_join_ask_about(const struct rsk_tuple *ours, uint64_t handle,
		       const struct rsk_verbs_addr *here);

#endif
