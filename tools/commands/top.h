/* SPDX-License-Identifier: BSD-2-Clause */
/* top.h - the table of rsock top: what is in it, in which order, and how a line reads. */
#ifndef RSK_TOOLS_TOP_H
#define RSK_TOOLS_TOP_H

#include "json.h"
#include "records.h"
#include "tuple.h"

/* X(code, token, key of the keyboard, what it means) */
#define TOP_SORTS(X)                                                                               \
	X(RATE, "rate", 'r', "bytes a second, both ways")                                          \
	X(BYTES, "bytes", 'b', "bytes since the stream began")                                     \
	X(PID, "pid", 'p', "process")                                                              \
	X(REASON, "reason", 'w', "why it is on TCP; those first")

enum top_sort {
#define X(code, token, key, help) TOP_SORT_##code,
	TOP_SORTS(X)
#undef X
	TOP_SORT_COUNT
};

/* One open stream end. */
struct top_row {
	uint32_t pid;
	char comm[17]; /* clean */
	char local[RSK_ADDR_TEXT];
	char peer[RSK_ADDR_TEXT];
	uint8_t tx; /* enum rsk_path */
	uint8_t rx;
	uint8_t reason; /* enum rsk_reason, or what somebody wrote there */
	uint8_t peer_reason;
	uint32_t demotions;
	uint64_t tx_rate;
	uint64_t rx_rate;
	uint64_t bytes;
};

/* Owned: top_free(). */
struct top {
	struct top_row *row;
	size_t count;
	size_t direct;
	uint64_t ring_rate; /* bytes a second of all, by path */
	uint64_t tcp_rate;
};

/* What is shown: of process @pid, 0: of all. 0 or -ENOMEM. */
int top_take(const struct segment *before, const struct segment *now, uint32_t pid,
	     enum top_sort sort, struct top *out);
void top_free(struct top *top);

/* -1: no such order. */
int top_sort_named(const char *token);
int top_sort_of_key(int key);

#define TOP_LINE 256
const char *top_heading(char line[static TOP_LINE]);
const char *top_line(const struct top_row *row, char line[static TOP_LINE]);
const char *top_summary(const struct top *top, char line[static TOP_LINE]);
json_t *top_json(const struct top *top);

/* --- screen.c ---------------------------------------------------------------------------- */

struct top_request {
	enum scan_whose whose;
	uint32_t pid;
	uint64_t interval_ns;
	uint64_t count; /* of tables; 0: without end */
	enum top_sort sort;
};

/* On the terminal, until q. An exit status. */
int top_screen(struct top_request *req);

#endif /* RSK_TOOLS_TOP_H */
