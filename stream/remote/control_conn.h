/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control_conn.h - the control connection of a link to another host: whole messages out and in, nothing blocks. Keeper
 * only.
 */
#ifndef RSK_CONTROL_CONN_H
#define RSK_CONTROL_CONN_H

#include "progress.h"
#include "remote_msg.h"

struct rsk_control_conn {
	struct rsk_watch watch; /* fd -1: closed */
	bool connecting;
	bool paused; /* nothing is read for the moment */
	bool corked; /* nothing is sent for the moment */
	int corked_err;
	struct rsk_remote_msg in;
	size_t in_bytes;
	uint8_t *out; /* owned; [out_room], of which out_from to out_to is to be sent */
	size_t out_from, out_to, out_room;
	/* A checked message. May close. */
	void (*message)(struct rsk_control_conn *c, const struct rsk_remote_msg *m);
	/* The other end is gone, could not be reached, or has sent nonsense; it is closed already. */
	void (*gone)(struct rsk_control_conn *c, int err);
};

/* @fd: connected, or connecting; ours from here on. 0 or -errno (fd is closed). */
int rsk_control_conn_open(struct rsk_control_conn *c, int fd, bool connecting);
void rsk_control_conn_close(struct rsk_control_conn *c);

/* Queues it, sends what goes. False: it is closed, or the other end does not read (gone() was called). */
bool rsk_control_conn_send(struct rsk_control_conn *c, struct rsk_remote_msg *m);
/*
 * Between the two send() only queues, and calls nobody: for one who holds a lock that gone() takes. False: as send().
 */
void rsk_control_conn_cork(struct rsk_control_conn *c);
bool rsk_control_conn_uncork(struct rsk_control_conn *c);
void rsk_control_conn_pause(struct rsk_control_conn *c, bool pause);
/*
 * Shall the kernel give it up when the other host is silent for long (as it does from the beginning)? Where something
 * else tells whether that is there, its network may be gone for a while.
 */
void rsk_control_conn_keep(struct rsk_control_conn *c, bool keep);
/* Is nothing of it on the way, as far as the kernel says? */
bool rsk_control_conn_empty(const struct rsk_control_conn *c);

#endif
