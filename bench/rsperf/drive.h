/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drive.h - two ways to drive connections: a thread that blocks in one, or an event loop over many.
 * Used by client.c and server.c.
 */
#ifndef RSK_DRIVE_H
#define RSK_DRIVE_H

#include "conn.h"
#include "wait.h"

/* Blocks until the connection has ended: 0, or the error that ended it. */
int rsk_drive_blocking(struct rsk_conn *c, bool nonblock);

struct rsk_loop;

struct rsk_loop_ops {
	/*
	 * A connection has ended with @rc, and now belongs to the callee. Returns the connection
	 * that continues in its slot, or NULL.
	 */
	struct rsk_conn *(*ended)(struct rsk_loop *loop, struct rsk_conn *c, int rc);
	/* The listener is readable; NULL if there is none. */
	int (*accept)(struct rsk_loop *loop, int listener);
	/*
	 * Checked before each wait: true ends rsk_loop_run(); NULL: it ends when no connection is
	 * left.
	 */
	bool (*enough)(struct rsk_loop *loop);
};

struct rsk_loop {
	const struct rsk_loop_ops *ops;
	void *owner; /* borrowed */
	struct rsk_waitset ws;
	bool nonblock;
	int listener;		 /* -1: none; else in slot 0, borrowed */
	struct rsk_conn **conns; /* by slot; the owner owns the connections */
	unsigned int first;	 /* slot of the first connection */
	unsigned int end;	 /* slot after the last */
	unsigned int free;	 /* no slot below it is free */
	unsigned int live;
};

int rsk_loop_init(struct rsk_loop *loop, const struct rsk_loop_ops *ops, void *owner,
		  enum rsk_wait_kind kind, bool nonblock, unsigned int capacity, int listener);
void rsk_loop_fini(struct rsk_loop *loop);

/* Adds a connection. Its slot, or -ENFILE: all are taken. */
int rsk_loop_add(struct rsk_loop *loop, struct rsk_conn *c);

/* The connection in this slot, which waited for the other end, now has something to send. */
void rsk_loop_kick(struct rsk_loop *loop, unsigned int slot);

/*
 * Runs until enough() returns true, or no connection is left and there is no listener: 0, or the
 * error of the wait.
 */
int rsk_loop_run(struct rsk_loop *loop);

#endif
