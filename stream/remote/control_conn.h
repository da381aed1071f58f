/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control_conn.h - the control connection of a link to another host: a non-blocking TCP connection
 * between the two progress threads, which carries whole messages (remote_msg.h). Only the progress
 * thread calls it.
 */
#ifndef RSK_CONTROL_CONN_H
#define RSK_CONTROL_CONN_H

#include "progress.h"
#include "remote_msg.h"

struct rsk_control_conn {
	struct rsk_watch watch; /* fd -1: closed */
	bool connecting;
	bool paused; /* nothing is read at present */
	bool corked; /* messages are queued but not sent */
	int corked_err;
	struct rsk_remote_msg in;
	size_t in_bytes;
	/* owned; [out_room]; the bytes from out_from to out_to are still to be sent */
	uint8_t *out;
	size_t out_from, out_to, out_room;
	/* Called with each checked message. It may close the connection. */
	void (*message)(struct rsk_control_conn *c, const struct rsk_remote_msg *m);
	/*
	 * Called once, with a message of another version: only its first
	 * RSK_REMOTE_FIXED_BYTES are there, not checked, and nothing more is read. It may close
	 * the connection.
	 */
	void (*other_version)(struct rsk_control_conn *c, const struct rsk_remote_msg *m);
	/*
	 * Called when the connection has already been closed: the peer is gone, could not be
	 * reached, or sent an invalid message.
	 */
	void (*gone)(struct rsk_control_conn *c, int err);
};

/*
 * @fd: connected or connecting; the connection owns it from here on. Returns 0 or -errno (fd is
 * then closed).
 */
int rsk_control_conn_open(struct rsk_control_conn *c, int fd, bool connecting);
void rsk_control_conn_close(struct rsk_control_conn *c);

/*
 * Queues the message and sends what the socket takes. Returns false if the connection is closed, or
 * if the peer does not read and the queue is full (gone() was called).
 */
bool rsk_control_conn_send(struct rsk_control_conn *c, struct rsk_remote_msg *m);
/*
 * Between cork and uncork rsk_control_conn_send() only queues messages and never calls gone(): for
 * callers that hold a lock which gone() takes. rsk_control_conn_uncork() returns false as
 * rsk_control_conn_send() does.
 */
void rsk_control_conn_cork(struct rsk_control_conn *c);
bool rsk_control_conn_uncork(struct rsk_control_conn *c);
void rsk_control_conn_pause(struct rsk_control_conn *c, bool pause);
/*
 * @keep: the kernel closes the connection when the other host is silent for long (TCP keepalive,
 * the default). False: where a rail shows whether the other host is alive, the network of this
 * connection may be down for a while.
 */
void rsk_control_conn_keep(struct rsk_control_conn *c, bool keep);
/*
 * True if, as far as the kernel says, no byte of the connection is still unsent or unacknowledged.
 */
bool rsk_control_conn_empty(const struct rsk_control_conn *c);

#endif
