/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn.h - one connection of a test, as a state machine with a sending and a receiving half. The
 * connection's role (server.c, load.c) decides what happens when a half has moved its bytes;
 * drive.c decides how the thread waits. A connection is owned by the thread that drives it. In a
 * test in both directions with --wait recv a second thread has the receiving half (fields rx*), and
 * only `wants` and `stop` are shared.
 */
#ifndef RSK_CONN_H
#define RSK_CONN_H

#include <stdatomic.h>

#include "rsperf.h"

/*
 * The pattern of a stream repeats after this many bytes: 61 * 64, so that its period is not a power
 * of two.
 */
#define RSK_PATTERN_BYTES 3904u
#define RSK_SINK_BYTES (64u << 10)

struct rsk_conn;

struct rsk_role {
	int (*sent)(struct rsk_conn *c);     /* the sending half has sent all it was given */
	int (*received)(struct rsk_conn *c); /* the receiving half has received all it asked for */
	/* The receiving half has checked another piece of a stream. */
	int (*streamed)(struct rsk_conn *c);
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
	atomic_bool stop;  /* server: the client does not want any more */

	struct rsk_cursor tx;
	uint8_t *tx_buf; /* owned: pattern, or message */
	bool in_tally;

	struct rsk_cursor rx;
	uint8_t *rx_buf; /* owned */
	bool rx_stream;
	size_t rx_overread; /* bytes at the end that may be the tally: 0 or RSK_MSG_BYTES */
	size_t rx_held;	    /* such bytes at the start of rx_buf */

	uint8_t hello[RSK_MSG_BYTES];

	/*
	 * Last, and not cleared with the other fields, since the watch over a run reads them at any
	 * time.
	 */
	_Atomic uint64_t tx_bytes; /* after the hello; written by the sending half only */
	/* The same, without rx_held; written by the receiving half only. */
	_Atomic uint64_t rx_bytes;
};

/* Takes over @fd. */
void rsk_conn_init(struct rsk_conn *c, const struct rsk_role *role, void *owner, int fd);
void rsk_conn_fini(struct rsk_conn *c);

/* After the hello: allocates the buffers that the test needs. 0 or -errno. */
int rsk_conn_prepare(struct rsk_conn *c);

void rsk_conn_begin_tx(struct rsk_conn *c, uint8_t *at, size_t len);
void rsk_conn_begin_rx(struct rsk_conn *c, uint8_t *at, size_t len);
/* Begins sending the next message of the pattern, from the stream's position. */
void rsk_conn_begin_pattern(struct rsk_conn *c);
/* Begins receiving and checking the pattern; hold: a tally may follow it. */
void rsk_conn_begin_sink(struct rsk_conn *c, bool hold);

/* Makes one system call. 1, or -errno (-EAGAIN: not now). */
int rsk_conn_tx(struct rsk_conn *c, int flags);
int rsk_conn_rx(struct rsk_conn *c);

void rsk_hello_encode(uint8_t out[static RSK_MSG_BYTES], const struct rsk_hello *h);
int rsk_hello_decode(struct rsk_hello *h, const uint8_t in[static RSK_MSG_BYTES]);
void rsk_tally_encode(uint8_t out[static RSK_MSG_BYTES], const struct rsk_tally *t);
int rsk_tally_decode(struct rsk_tally *t, const uint8_t in[static RSK_MSG_BYTES]);

#endif
