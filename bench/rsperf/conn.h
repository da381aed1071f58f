/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection of a test, as a state machine over two halves. What happens when a half has
 * moved its bytes is decided by the connection's role (server.c and load.c); how the thread
 * waits is decided by drive.c. Owned by the thread that drives it; in a test that runs both ways
 * with --wait recv a second thread has the receiving half (fields rx*), and only `wants` and
 * `stop` are shared.
 */
#ifndef RSK_CONN_H
#define RSK_CONN_H

#include <stdatomic.h>

#include "rsperf.h"

/* The load of a stream repeats after so many bytes: 61 * 64, so that no power of two fits. */
#define RSK_PATTERN_BYTES 3904u
#define RSK_SINK_BYTES (64u << 10)

struct rsk_conn;

struct rsk_role {
	int (*sent)(struct rsk_conn *c);     /* the sending half has sent all it was given */
	int (*received)(struct rsk_conn *c); /* the receiving half has all it asked for */
	int (*streamed)(struct rsk_conn *c); /* checked another piece of a stream */
	int (*eof)(struct rsk_conn *c);
};

struct rsk_cursor {
	uint8_t *at; /* borrowed */
	size_t len;
	size_t done;
};

struct rsk_conn {
	const struct rsk_role *role;
	void *owner; /* borrowed: the role's own */
	int fd;	     /* owned */
	struct rsk_hello ask;
	bool in_hello;
	atomic_uint wants; /* RSK_IN, RSK_OUT; 0: ended */
	atomic_bool stop;  /* server: the client has had enough */

	struct rsk_cursor tx;
	uint8_t *tx_buf; /* owned: pattern, or message */
	bool in_tally;

	struct rsk_cursor rx;
	uint8_t *rx_buf; /* owned */
	bool rx_stream;
	size_t rx_overread; /* bytes at the end that may be the tally: 0 or RSK_MSG_BYTES */
	size_t rx_held;	    /* bytes held at the start of rx_buf */

	uint8_t hello[RSK_MSG_BYTES];

	/* Last, and never cleared with the rest: the watch over a run reads them at any time. */
	_Atomic uint64_t tx_bytes; /* after the hello; written by the sending half only */
	_Atomic uint64_t rx_bytes; /* the same, less what is held; receiving half only */
};

/* Takes over fd. */
void rsk_conn_init(struct rsk_conn *c, const struct rsk_role *role, void *owner, int fd);
void rsk_conn_fini(struct rsk_conn *c);

/* After the hello: the buffers that the test needs. */
int rsk_conn_prepare(struct rsk_conn *c);

void rsk_conn_begin_tx(struct rsk_conn *c, uint8_t *at, size_t len);
void rsk_conn_begin_rx(struct rsk_conn *c, uint8_t *at, size_t len);
/* The next message of the pattern, from where the stream now is. */
void rsk_conn_begin_pattern(struct rsk_conn *c);
/* Receives and checks the pattern from here on; hold: a tally may follow it. */
void rsk_conn_begin_sink(struct rsk_conn *c, bool hold);

/* One system call; 1, or -errno (-EAGAIN: not now). */
int rsk_conn_tx(struct rsk_conn *c, int flags);
int rsk_conn_rx(struct rsk_conn *c);

void rsk_hello_encode(uint8_t out[static RSK_MSG_BYTES], const struct rsk_hello *h);
int rsk_hello_decode(struct rsk_hello *h, const uint8_t in[static RSK_MSG_BYTES]);
void rsk_tally_encode(uint8_t out[static RSK_MSG_BYTES], const struct rsk_tally *t);
int rsk_tally_decode(struct rsk_tally *t, const uint8_t in[static RSK_MSG_BYTES]);

#endif
