/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats_json.h - statistics as JSON, for the library at exit and for the tool.
 *
 * A small writer into a caller's buffer: no stdio, no malloc, no locale, signal-safe. Records may
 * contain anything; the output is valid JSON all the same.
 */
#ifndef RSK_MAPPER_STATS_JSON_H
#define RSK_MAPPER_STATS_JSON_H

#include <rsock/stats.h>
#include <stdbool.h>

/* Upper bound of one stream's object. */
#define RSK_STATS_JSON_STREAM_BYTES 2048u

/* The length counts on beyond the capacity: len > cap afterwards says how much is needed. */
struct rsk_json {
	char *buf; /* borrowed; may be NULL if cap is 0 */
	size_t cap;
	size_t len;
	bool comma; /* the next member or element is preceded by a comma */
};

void rsk_json_init(struct rsk_json *j, char *buf, size_t cap);
void rsk_json_raw(struct rsk_json *j, const char *text);
void rsk_json_open(struct rsk_json *j, char bracket);  /* '{' or '[' */
void rsk_json_close(struct rsk_json *j, char bracket); /* '}' or ']' */
void rsk_json_key(struct rsk_json *j, const char *key);
void rsk_json_u64(struct rsk_json *j, uint64_t value);
void rsk_json_bool(struct rsk_json *j, bool value);

/* Writes text up to its zero, at most max bytes; bytes that are not printable ASCII are escaped. */
void rsk_json_text(struct rsk_json *j, const char *text, size_t max);

/* Write one object each; *rec is the caller's own copy. comm: the name of the stream's process. */
void rsk_stats_json_process(struct rsk_json *j, const struct rsk_stats_process *rec);
void rsk_stats_json_stream(struct rsk_json *j, const struct rsk_stats_stream *rec,
			   const char comm[static 16]);
/* Writes the members only, for callers that add more members to the object. */
void rsk_stats_json_stream_members(struct rsk_json *j, const struct rsk_stats_stream *rec,
				   const char comm[static 16]);

/* Copies a process's record out of shared memory. */
void rsk_stats_copy_process(const struct rsk_stats_process *shared, struct rsk_stats_process *out);

/* Copies a record out of shared memory; false if it is free or was reused meanwhile. */
bool rsk_stats_copy_stream(const struct rsk_stats_stream *shared, struct rsk_stats_stream *out);

/* Writes one process's {"processes":[...],"streams":[...]} and a newline. */
void rsk_stats_json_own(struct rsk_json *j, const struct rsk_stats_segment *seg, uint32_t pid);

/* "ring", "tcp"; "promoted-tx" ...; anything else: "unknown". */
const char *rsk_path_token(unsigned int path);
const char *rsk_event_token(unsigned int kind);

#endif /* RSK_MAPPER_STATS_JSON_H */
