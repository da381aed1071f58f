/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * local.h - rsockd on this host, from a process's side (<rsock/local.h>): it is told of our statistics and listening
 * sockets, and asked about streams whose peer the registry does not know. Nothing here waits; without rsockd nothing
 * here does anything. Only for pairing.c, which holds its lock around each call, but for rsk_local_forked().
 */
#ifndef RSK_STREAM_LOCAL_H
#define RSK_STREAM_LOCAL_H

#include "stream.h"
#include "verbs.h"

/* Connects, if that is due: at most once a second it is tried, or looked whether rsockd is still there. */
void rsk_local_hello(void);

/* Without the lock: was it looked for in this process, and has it what there is to hand over? */
bool rsk_local_settled(void);

/* Without the lock: is it time to look again? */
bool rsk_local_due(void);

/* Is rsockd there, as far as this process knows? */
bool rsk_local_there(void);

/* Asks about a stream that is SEEKING: each rsockd once, the accepting end some times. */
void rsk_local_lookup(struct rsk_stream *s, int fd);

/*
 * The mapping @handle is for this stream: of the connecting end, that it uses it; of the accepting one, whether it
 * is (the answer: rsk_remote_ops, rsk_pm_transaction_answered()), where somebody came to @here of ours.
 * False: rsockd is not there, or has so much to read that it was not told; no answer will come.
 */
bool rsk_local_link(struct rsk_stream *s, int fd, uint64_t handle,
		    const struct rsk_verbs_addr *here);

/* Without the lock: no stream uses it any more. */
void rsk_local_unlink_later(uint64_t handle);

/* Tells what has come up since: where rails are accepted, mappings that are not used any more. */
void rsk_local_tell(void);

/*
 * The socket that it answers on, -1: there is none. *number: another one with another rsockd; *waits: something is to
 * be said when there is room.
 */
int rsk_local_fd(uint32_t *number, bool *waits);

/* Takes in what it has said. */
void rsk_local_hear(void);

void rsk_local_listening(int fd);

/* Another connection to it, for the caller to close (rsk_own_close()); -errno. No lock is needed. */
int rsk_local_dial(void);

/* In the child: what it inherited is its parent's. No lock is held or needed yet. */
void rsk_local_forked(void);

#endif
