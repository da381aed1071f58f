/* SPDX-License-Identifier: BSD-2-Clause */
/* request.h - an operator's wish, written into a stream's record, and what comes of it. */
#ifndef RSK_TOOLS_REQUEST_H
#define RSK_TOOLS_REQUEST_H

#include "scan.h"

/* What has come of it: state, word, exit status, sentence. */
#define REQUEST_ROWS(X)                                                                            \
	X(DONE, "done", EXIT_OK, "done")                                                           \
	X(GIVEN_UP, "given-up", EXIT_NO, "it was given up before, and stays on TCP")               \
	X(ASKED, "asked", EXIT_UNKNOWN,                                                            \
	  "heard; the other end, or this one, has to make another call first")                     \
	X(WAITING, "waiting", EXIT_UNKNOWN,                                                        \
	  "it has made no call yet: it hears of it at its next one")                               \
	X(OVERRULED, "overruled", EXIT_UNKNOWN, "another request was made meanwhile")              \
	X(GONE, "gone", EXIT_UNKNOWN, "it has ended")                                              \
	X(DENIED, "denied", EXIT_UNKNOWN, "its process's statistics may not be written by us")     \
	X(TOO_OLD, "too-old", EXIT_UNKNOWN,                                                        \
	  "the process runs a library that knows no such requests")

enum request_state {
#define X(name, token, status, sentence) REQUEST_##name,
	REQUEST_ROWS(X)
#undef X
	REQUEST_STATES
};

struct request_row {
	const char *token;
	int status;
	const char *sentence;
};

const struct request_row *request_row(enum request_state state);

/*
 * The live segment that @seg is a copy of, mapped for writing, for munmap(). It is opened by way of a process that
 * holds it, and is the same file, sealed against shrinking. 0; -EACCES: not ours to write; -ENOENT: gone; -errno.
 */
int segment_open(const struct segment *seg, struct rsk_stats_segment **live);

/*
 * Writes the wish into @live, if that still is the stream that @seen is a copy of. REQUEST_WAITING, and *word what was
 * written; REQUEST_GIVEN_UP, REQUEST_GONE, REQUEST_TOO_OLD: nothing was. Pure but for that word.
 */
enum request_state request_put(struct rsk_stats_stream *live, const struct rsk_stats_stream *seen,
			       enum rsk_stats_request kind, uint64_t *word);

/* What has become of it by now: any of the states but DENIED and TOO_OLD. Pure. */
enum request_state request_check(const struct rsk_stats_stream *live, uint64_t word);

#endif /* RSK_TOOLS_REQUEST_H */
