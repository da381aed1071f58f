/* SPDX-License-Identifier: BSD-2-Clause */
/* wish.h - an operator's wish, written into a stream's record, and what comes of it. */
#ifndef RSK_TOOLS_WISH_H
#define RSK_TOOLS_WISH_H

#include "scan.h"

/* What has come of it: state, word, exit status, sentence. */
#define WISH_ROWS(X)                                                                               \
	X(DONE, "done", EXIT_OK, "done")                                                           \
	X(GIVEN_UP, "given-up", EXIT_NO, "it was given up before, and stays on TCP")               \
	X(ASKED, "asked", EXIT_UNKNOWN,                                                            \
	  "heard; the other end, or this one, has to make another call first")                     \
	X(WAITING, "waiting", EXIT_UNKNOWN,                                                        \
	  "it has made no call yet: it hears of it at its next one")                               \
	X(OVERRULED, "overruled", EXIT_UNKNOWN, "somebody has wished something else meanwhile")    \
	X(GONE, "gone", EXIT_UNKNOWN, "it has ended")                                              \
	X(DENIED, "denied", EXIT_UNKNOWN, "its process's statistics may not be written by us")     \
	X(TOO_OLD, "too-old", EXIT_UNKNOWN, "the process runs a library that knows no wishes")

enum wish_state {
#define X(name, token, status, sentence) WISH_##name,
	WISH_ROWS(X)
#undef X
	WISH_STATES
};

struct wish_row {
	const char *token;
	int status;
	const char *sentence;
};

const struct wish_row *wish_row(enum wish_state state);

/*
 * The live segment that @seg is a copy of, mapped for writing, for munmap(). It is opened by way of a process that
 * holds it, and is the same file, sealed against shrinking. 0; -EACCES: not ours to write; -ENOENT: gone; -errno.
 */
int segment_open(const struct segment *seg, struct rsk_stats_segment **live);

/*
 * Writes the wish into @live, if that still is the stream that @seen is a copy of. WISH_WAITING, and *word what was
 * written; WISH_GIVEN_UP, WISH_GONE, WISH_TOO_OLD: nothing was. Pure but for that word.
 */
enum wish_state wish_put(struct rsk_stats_stream *live, const struct rsk_stats_stream *seen,
			 enum rsk_stats_wish kind, uint64_t *word);

/* What has become of it by now: any of the states but DENIED and TOO_OLD. Pure. */
enum wish_state wish_look(const struct rsk_stats_stream *live, uint64_t word);

#endif /* RSK_TOOLS_WISH_H */
