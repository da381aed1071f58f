/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request.h - writes an operator request (rsock demote, promote) into a stream's live record, and
 * checks it.
 */
#ifndef RSK_TOOLS_REQUEST_H
#define RSK_TOOLS_REQUEST_H

#include "scan.h"

/* The states of a request: X(state, token, exit status, sentence). */
#define REQUEST_ROWS(X)                                                                            \
	X(DONE, "done", EXIT_OK, "done")                                                           \
	X(GIVEN_UP, "given-up", EXIT_NO, "it was given up before, and stays on TCP")               \
	X(ASKED, "asked", EXIT_UNKNOWN,                                                            \
	  "seen; one of the two ends has to make another call first")                              \
	X(WAITING, "waiting", EXIT_UNKNOWN,                                                        \
	  "it has made no call yet; its next call reads the request")                              \
	X(OVERRULED, "overruled", EXIT_UNKNOWN, "another request has replaced this one")           \
	X(GONE, "gone", EXIT_UNKNOWN, "it has ended")                                              \
	X(DENIED, "denied", EXIT_UNKNOWN, "no permission to write its process's statistics")       \
	X(TOO_OLD, "too-old", EXIT_UNKNOWN, "its process's library does not support requests")

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
 * Maps the live segment that @seg is a copy of, for writing; the caller calls munmap(). The file is
 * opened through /proc/PID/fd of a process that holds it, and is verified to be the same file and
 * sealed against shrinking. 0; -EACCES: no permission to write; -ENOENT: gone; other -errno.
 */
int segment_open(const struct segment *seg, struct rsk_stats_segment **live);

/*
 * Writes the request into @live, if that is still the stream that @seen is a copy of. Returns
 * REQUEST_WAITING, and *word is the word that was written; or REQUEST_DONE, REQUEST_GIVEN_UP,
 * REQUEST_GONE or REQUEST_TOO_OLD, and nothing was written. Changes nothing else.
 */
enum request_state request_put(struct rsk_stats_stream *live, const struct rsk_stats_stream *seen,
			       enum rsk_stats_request kind, uint64_t *word);

/* The present state of the request @word: any state but DENIED and TOO_OLD. Pure. */
enum request_state request_check(const struct rsk_stats_stream *live, uint64_t word);

#endif /* RSK_TOOLS_REQUEST_H */
