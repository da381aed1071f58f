/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * local.h - the process's connection to rsockd on this host (<rsock/local.h>): rsockd is told of
 * our statistics and listening sockets, and asked about streams whose peer the registry does not
 * know. Nothing here waits; without rsockd nothing here does anything. Called by pairing.c and the
 * progress thread with the pairing lock held, except where a comment says otherwise.
 */
#ifndef RSK_STREAM_LOCAL_H
#define RSK_STREAM_LOCAL_H

#include "stream.h"
#include "verbs.h"

/*
 * Connects to rsockd if that is due: at most once a second it tries to connect, or checks whether
 * rsockd is still there.
 */
void rsk_local_hello(void);

/*
 * Without the lock: true if this process has looked for rsockd, and rsockd has our statistics if it
 * is there.
 */
bool rsk_local_settled(void);

/* Without the lock: true if it is time to check again. */
bool rsk_local_due(void);

/* True if rsockd is there, as far as this process knows. */
bool rsk_local_there(void);

/* True if the rsockd that is there is of another version than this library. */
bool rsk_local_is_other_version(void);

/* Asks about a stream in LOOKUP: each rsockd once, for the accepting end several times. */
void rsk_local_lookup(struct rsk_stream *s, int fd);

/* Ends the lookup of a stream whose other end is where this host has no way to, and stays there. */
void rsk_local_given_up(struct rsk_stream *s);

/*
 * Tells rsockd that the mapping @handle is for this stream: the connecting end says that it uses
 * the mapping; the accepting end asks whether it may (the answer goes to rsk_remote_ops,
 * rsk_pm_transaction_answered()), where the peer connected to our address @here; @from: where its
 * link has come from, NULL: not known yet, or rsockd need not compare it; @flags: RSK_LOCAL_PAIR if
 * the link exists, which the answer repeats. False: rsockd is not
 * there, or has so much to read that it could not be told; no answer will come.
 */
bool rsk_local_link(struct rsk_stream *s, int fd, uint64_t handle,
		    const struct rsk_verbs_addr *here, const struct rsk_verbs_addr *from,
		    uint32_t flags);

/*
 * Tells rsockd that the link which this connecting end needs was refused at the address of the
 * mapping @handle, which is given back. False: as for rsk_local_link().
 */
bool rsk_local_link_refused(struct rsk_stream *s, int fd, uint64_t handle);

/* Without the lock: no stream uses the mapping any more. */
void rsk_local_unlink_later(uint64_t handle);

/*
 * Something that rsockd has admitted by the mapping @handle, at the accepting end, has come to
 * nothing: gives the mapping back unless another link or a stream uses it.
 */
void rsk_local_unlink_unused(uint64_t handle);

/* Reports what has changed since: where rails are accepted, mappings that are no longer used. */
void rsk_local_tell(void);

/*
 * The socket of the daemon inbox, -1: there is none. *number changes with each rsockd; *waits:
 * messages wait for room in the socket.
 */
int rsk_local_fd(uint32_t *number, bool *waits);

/* Reads the daemon inbox and acts on the messages. */
void rsk_local_hear(void);

void rsk_local_listening(int fd);

/*
 * Opens another connection to rsockd, which the caller closes (rsk_own_close()); -errno. No lock is
 * needed.
 */
int rsk_local_dial(void);

/*
 * In the child: closes the inherited connection, which is the parent's. No lock is held or needed
 * yet.
 */
void rsk_local_forked(void);

#endif
