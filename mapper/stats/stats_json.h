/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats_json.h - statistics as JSON, for the library at exit and for the tool.
 *
 * A small writer into a caller's buffer: no stdio, no malloc, no locale, signal-safe.
 * Records may hold anything; what comes out is valid JSON all the same.
 */
#ifndef RSK_MAPPER_STATS_JSON_H
#define RSK_MAPPER_STATS_JSON_H

#include <rsock/stats.h>
#include <stdbool.h>

/* More than any one stream's object can take. */
#define RSK_STATS_JSON_STREAM_BYTES 2048u

/* Counts on beyond its capacity: len > cap afterwards means "this much is needed". */
struct rsk_json {
	char *buf; /* borrowed; may be NULL when cap is 0 */
	size_t cap;
	size_t len;
	bool comma; /* the next member or element needs one before it */
};

void rsk_json_init(struct rsk_json *j, char *buf, size_t cap);
void rsk_json_raw(struct rsk_json *j, const char *text);
void rsk_json_open(struct rsk_json *j, char bracket);  /* '{' or '[' */
void rsk_json_close(struct rsk_json *j, char bracket); /* '}' or ']' */
void rsk_json_key(struct rsk_json *j, const char *key);
void rsk_json_u64(struct rsk_json *j, uint64_t value);
void rsk_json_bool(struct rsk_json *j, bool value);

/* At most max bytes of text, up to its zero; bytes that are not printable ASCII are escaped. */
void rsk_json_text(struct rsk_json *j, const char *text, size_t max);

/* One object each; *rec is the caller's own copy.  comm: of the stream's process. */
void rsk_stats_json_process(struct rsk_json *j, const struct rsk_stats_process *rec);
void rsk_stats_json_stream(struct rsk_json *j, const struct rsk_stats_stream *rec,
			   const char comm[static 16]);
/* Its members alone, for whoever has more to say in the same object. */
void rsk_stats_json_stream_members(struct rsk_json *j, const struct rsk_stats_stream *rec,
				   const char comm[static 16]);

/* Copies a process's record out of shared memory. */
void rsk_stats_copy_process(const struct rsk_stats_process *shared, struct rsk_stats_process *out);

/* Copies a record out of shared memory; false: it is free, or changed hands meanwhile. */
bool rsk_stats_copy_stream(const struct rsk_stats_stream *shared, struct rsk_stats_stream *out);

/* One process's {"processes":[...],"streams":[...]} and a newline. */
void rsk_stats_json_own(struct rsk_json *j, const struct rsk_stats_segment *seg, uint32_t pid);

/* "ring", "tcp"; "promoted-tx" ...; anything else: "unknown". */
const char *rsk_path_token(unsigned int path);
const char *rsk_event_token(unsigned int kind);

#endif /* RSK_MAPPER_STATS_JSON_H */
