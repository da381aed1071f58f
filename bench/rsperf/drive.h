/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ways to drive connections: a thread that blocks in one, or an event loop over many. */
#ifndef RSK_DRIVE_H
#define RSK_DRIVE_H

#include "conn.h"
#include "wait.h"

/* Blocks until the connection has ended: 0, or what ended it. */
int rsk_drive_blocking(struct rsk_conn *c, bool nonblock);

struct rsk_loop;

struct rsk_loop_ops {
	/* A connection has ended with rc. Returns the connection to go on with in its slot, or
	 * NULL. Owns the old one from here on. */
	struct rsk_conn *(*ended)(struct rsk_loop *loop, struct rsk_conn *c, int rc);
	/* The listener is readable; NULL where there is none. */
	int (*accept)(struct rsk_loop *loop, int listener);
};

struct rsk_loop {
	const struct rsk_loop_ops *ops;
	void *owner; /* borrowed */
	struct rsk_waitset ws;
	bool nonblock;
	int listener;		 /* -1: none; else in the last slot, borrowed */
	struct rsk_conn **conns; /* by slot; what is in it is the owner's */
	unsigned int capacity;
	unsigned int live;
};

int rsk_loop_init(struct rsk_loop *loop, const struct rsk_loop_ops *ops, void *owner,
		  enum rsk_wait_kind kind, bool nonblock, unsigned int capacity, int listener);
void rsk_loop_fini(struct rsk_loop *loop);

/* -ENFILE where all slots are taken. */
int rsk_loop_add(struct rsk_loop *loop, struct rsk_conn *c);

/* Until no connection is left and there is no listener: 0, or why the waiting failed. */
int rsk_loop_run(struct rsk_loop *loop);

#endif
