/* SPDX-License-Identifier: BSD-2-Clause */
/* transact.h - see transact.c. Only for join.c, which holds its lock around each call; messages come by meet.h. */
#ifndef RSK_TRANSACT_H
#define RSK_TRANSACT_H

struct rsk_link;
struct rsk_stream;

/*
 * The connecting end asks over @l for @s, whose other end is the peer's number @peer_fd: JOINING from here on, or COLD
 * where there is no place for it.
 */
void rsk_transact(struct rsk_stream *s, int fd, struct rsk_link *l, int peer_fd);

/* It comes to nothing: @s is no stream of its link any more. */
void rsk_transact_undo(struct rsk_stream *s);

#endif
