/* SPDX-License-Identifier: BSD-2-Clause */
/* wishes.h - one wish of all the streams that a target stands for: found, written, waited for. */
#ifndef RSK_TOOLS_WISHES_H
#define RSK_TOOLS_WISHES_H

#include "streams.h"
#include "wish.h"

/* One stream end that is wished for. */
struct wished {
	struct end end;			     /* borrowed from the host */
	struct rsk_stats_stream *live;	     /* in its mapping; NULL: state says why */
	const struct segment *seg;	     /* borrowed: the copy that it was found in */
	const struct rsk_stats_stream *seen; /* and its record there */
	uint64_t word;
	enum wish_state state;
};

/* Owned: wishes_free(), in any case. */
struct wishes {
	struct host host;
	struct wished *at;
	size_t count;
	size_t without; /* streams of processes without the library */
	struct mapping *mapping;
	size_t mappings;
};

/* The streams of a target that the library has. 0; -errno: no /proc, no memory. */
int wishes_find(const struct target *target, struct wishes *out);

/* Wishes it of all of them, and waits until it is done, or so long. */
void wishes_write(struct wishes *all, enum rsk_stats_wish kind);
void wishes_await(struct wishes *all, uint64_t wait_ns);

void wishes_free(struct wishes *all);

#endif /* RSK_TOOLS_WISHES_H */
