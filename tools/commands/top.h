/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * top.h - the table of rsock top: its rows, their order, and their text. cmd_top.c and screen.c
 * show it.
 */
#ifndef RSK_TOOLS_TOP_H
#define RSK_TOOLS_TOP_H

#include "json.h"
#include "records.h"
#include "tuple.h"

/* X(code, token, key on the keyboard, meaning) */
#define TOP_SORTS(X)                                                                               \
	X(RATE, "rate", 'r', "bytes per second, both directions")                                  \
	X(BYTES, "bytes", 'b', "bytes since the stream began")                                     \
	X(PID, "pid", 'p', "process")                                                              \
	X(REASON, "reason", 'w', "reason; streams on TCP first")

enum top_sort {
#define X(code, token, key, help) TOP_SORT_##code,
	TOP_SORTS(X)
#undef X
	TOP_SORT_COUNT
};

/* One open stream end. */
struct top_row {
	uint32_t pid;
	char comm[17]; /* from text_clean() */
	char local[RSK_ADDR_TEXT];
	char peer[RSK_ADDR_TEXT];
	uint8_t tx; /* enum rsk_path */
	uint8_t rx;
	uint8_t reason; /* enum rsk_reason; untrusted: other processes can write it */
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
	uint64_t ring_rate; /* bytes per second of all streams, by path */
	uint64_t tcp_rate;
};

/* Takes the open streams of process @pid, 0: of all, with rates since @before. 0 or -ENOMEM. */
int top_take(const struct segment *before, const struct segment *now, uint32_t pid,
	     enum top_sort sort, struct top *out);
void top_free(struct top *top);

/* An enum top_sort; -1: no such order. */
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
	uint64_t count; /* number of tables; 0: no limit */
	enum top_sort sort;
};

/* Shows the table on the terminal until q is pressed. Returns an exit status. */
int top_screen(struct top_request *req);

#endif /* RSK_TOOLS_TOP_H */
