/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load.h - the client's role on a connection: generates the load, times it, and checks what comes
 * back. Used by client.c.
 */
#ifndef RSK_LOAD_H
#define RSK_LOAD_H

#include "conn.h"

struct hdr_histogram;

/* What one thread measures over its connections; owned by that thread until it is joined. */
struct rsk_load {
	const struct rsk_opts *opts; /* borrowed */
	struct hdr_histogram *times; /* owned; ns: round trips, or connections */
	uint64_t from_ns;	     /* when the warm-up ends */
	uint64_t until_ns;	     /* UINT64_MAX: a count ends it */
	uint64_t last_ns;	     /* when the last sample ended */
	_Atomic uint64_t ended;	     /* connections that have ended, as a sign of progress */
	unsigned int idle_now;	     /* idle streams that have made their round trips for now */
};

/* The measured part of one direction of a stream. */
struct rsk_span {
	uint64_t from_bytes;
	uint64_t from_ns; /* 0: not begun */
	uint64_t to_bytes;
	uint64_t to_ns;
};

struct rsk_load_conn {
	struct rsk_conn conn;
	struct rsk_load *load; /* borrowed */
	uint64_t begun_ns;     /* start of the message, or connection, under way */
	uint64_t messages;     /* measured so far; for an idle stream: round trips still to make */
	bool idle;
	struct rsk_span out; /* sending half's */
	struct rsk_span in;  /* receiving half's */
};

/*
 * Makes an idle stream do @calls more round trips, or, if it is not idle any more, take part in the
 * load.
 */
void rsk_load_rouse(struct rsk_load_conn *lc, uint64_t calls);

/* Takes over a connected @fd, and prepares sending the hello. */
void rsk_load_begin(struct rsk_load_conn *lc, struct rsk_load *load, int fd, uint64_t begun_ns);

/* Sets the times of warm-up and measurement, from now. */
void rsk_load_times(struct rsk_load *load);
bool rsk_load_over(const struct rsk_load *load, uint64_t messages, uint64_t now_ns);
/* Records a round trip or connection; false if it belongs to the warm-up. */
bool rsk_load_sample(struct rsk_load *load, uint64_t begun_ns, uint64_t now_ns);

#endif
