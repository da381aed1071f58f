/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * requests.h - one operator request to all streams of a target: finds the streams, writes the
 * request and waits. For rsock demote and promote.
 */
#ifndef RSK_TOOLS_REQUESTS_H
#define RSK_TOOLS_REQUESTS_H

#include "streams.h"
#include "request.h"

/* One stream end that gets the request. */
struct requested {
	struct end end;			     /* borrowed from the host */
	struct rsk_stats_stream *live;	     /* in its mapping; NULL: state says why */
	const struct segment *seg;	     /* borrowed: the copy in which it was found */
	const struct rsk_stats_stream *seen; /* its record in that copy */
	uint64_t word;
	enum request_state state;
};

/* Owned: requests_free(), in any case. */
struct requests {
	struct host host;
	struct requested *at;
	size_t count;
	size_t without; /* streams without a record, of processes without the library */
	struct mapping *mapping;
	size_t mappings;
};

/*
 * Finds the streams of a target that have a record of the library. 0; -errno: no /proc, no memory.
 */
int requests_find(const struct target *target, struct requests *out);

/* Writes the request to all of them; waits until all are settled, at most @wait_ns. */
void requests_write(struct requests *all, enum rsk_stats_request kind);
void requests_await(struct requests *all, uint64_t wait_ns);

void requests_free(struct requests *all);

#endif /* RSK_TOOLS_REQUESTS_H */
