/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * local_say.h - declarations that local.c and local_say.c share: the state of the connection to
 * rsockd, and the messages that are sent over it. No other file includes it. All with the pairing
 * lock held.
 */
#ifndef RSK_STREAM_LOCAL_SAY_H
#define RSK_STREAM_LOCAL_SAY_H

#include <stdbool.h>
#include <stdint.h>

#include "local_out.h"

/* Private to the process; a child makes its own. Under the pairing lock. */
extern struct rsk_rsockd {
	int fd;
	uint32_t number; /* counts rsockds: a stream asks each of them once */
	uint32_t uid;	 /* the user as which it knows us */
	uint16_t rdma;	 /* the port for rails that it knows, 0: none */
	/* a listening socket was not reported, since there was no room for the message */
	bool missed;
	bool shown; /* it has our statistics */
	bool heard; /* it has said something */
	/* The last one that answered was of this version, which is not ours; 0: none. */
	uint32_t other_version;
	/* How many one after the other have closed the connection soon, without a word. */
	uint32_t closed_soon;
	uint64_t began_ns;
	struct rsk_local_out out;
} rsk_rsockd;

/*
 * rsockd is gone, or is of no use any more: closes the connection. @why: -errno, or 0;
 * -EPROTONOSUPPORT: it is of another version.
 */
void rsk_local_drop(int why);

/*
 * Connects to rsockd, and tells it what it has to know of this process: statistics, listening
 * sockets, mappings. Without rsockd the state's fd stays -1.
 */
void rsk_local_handshake(void);

/*
 * True if it is not too early to try again, after the connection that began last. An rsockd that
 * closes each connection at once is tried ever more rarely, up to 32 s; one that is of another
 * version once a minute: an operator replaces it, if anyone. Pure.
 */
bool rsk_local_may_dial(const struct rsk_rsockd *r, uint64_t now_ns);

/*
 * Sends a message. False: rsockd was not told; the caller may try again while it is there. The
 * progress thread, or the next call, sends the messages that wait for room.
 */
bool rsk_local_say(struct rsk_local_msg *m, int fd);

/*
 * The statistics exist from the first stream on, which may come later than the first listening
 * socket.
 */
void rsk_local_say_hello(void);

/*
 * Reports where rails are accepted; every stream that wants to use a mapping has reported it
 * before.
 */
void rsk_local_say_rdma(void);

void rsk_local_say_listening(int fd);
void rsk_local_say_all_listening(void);

#endif
