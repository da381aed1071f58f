/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's role on a connection: makes the load, times it, checks what comes back. */
#ifndef RSK_LOAD_H
#define RSK_LOAD_H

#include "conn.h"

struct hdr_histogram;

/* What one thread measures over its connections; owned by it until it is joined. */
struct rsk_load {
	const struct rsk_opts *opts; /* borrowed */
	struct hdr_histogram *times; /* owned; ns: round trips, or connections */
	uint64_t from_ns;	     /* when the warm-up ends */
	uint64_t until_ns;	     /* UINT64_MAX: a count ends it */
	uint64_t last_ns;	     /* when the last sample ended */
	_Atomic uint64_t ended;	     /* connections that have ended: a sign of life */
	unsigned int idle_now;	     /* idle streams that are done for now */
};

/* A measured piece of one direction of a stream. */
struct rsk_span {
	uint64_t from_bytes;
	uint64_t from_ns; /* 0: not begun */
	uint64_t to_bytes;
	uint64_t to_ns;
};

struct rsk_load_conn {
	struct rsk_conn conn;
	struct rsk_load *load; /* borrowed */
	uint64_t begun_ns;     /* of the message, or connection, under way */
	uint64_t messages;     /* measured so far; idle: round trips it still owes */
	bool idle;
	struct rsk_span out; /* sending half's */
	struct rsk_span in;  /* receiving half's */
};

/* A stream that rests is to make so many more round trips; not idle any more: the load's. */
void rsk_load_rouse(struct rsk_load_conn *lc, uint64_t calls);

/* Connects nothing: takes a connected fd over, and makes it ready to send the hello. */
void rsk_load_begin(struct rsk_load_conn *lc, struct rsk_load *load, int fd, uint64_t begun_ns);

/* Warm-up and measurement, from now. */
void rsk_load_times(struct rsk_load *load);
bool rsk_load_over(const struct rsk_load *load, uint64_t messages, uint64_t now_ns);
/* A round trip or connection that began and ended so; false where it belongs to the warm-up. */
bool rsk_load_sample(struct rsk_load *load, uint64_t begun_ns, uint64_t now_ns);

#endif
