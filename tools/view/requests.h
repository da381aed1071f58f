/* SPDX-License-Identifier: BSD-2-Clause */
/* requests.h - one wish of all the streams that a target stands for: found, written, waited for. */
#ifndef RSK_TOOLS_REQUESTS_H
#define RSK_TOOLS_REQUESTS_H

#include "streams.h"
#include "request.h"

/* One stream end that is wished for. */
struct requested {
	struct end end;			     /* borrowed from the host */
	struct rsk_stats_stream *live;	     /* in its mapping; NULL: state says why */
	const struct segment *seg;	     /* borrowed: the copy that it was found in */
	const struct rsk_stats_stream *seen; /* and its record there */
	uint64_t word;
	enum request_state state;
};

/* Owned: requests_free(), in any case. */
struct requests {
	struct host host;
	struct requested *at;
	size_t count;
	size_t without; /* streams of processes without the library */
	struct mapping *mapping;
	size_t mappings;
};

/* The streams of a target that the library has. 0; -errno: no /proc, no memory. */
int requests_find(const struct target *target, struct requests *out);

/* Wishes it of all of them, and waits until it is done, or so long. */
void requests_write(struct requests *all, enum rsk_stats_request kind);
void requests_await(struct requests *all, uint64_t wait_ns);

void requests_free(struct requests *all);

#endif /* RSK_TOOLS_REQUESTS_H */
