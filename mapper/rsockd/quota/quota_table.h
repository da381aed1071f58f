/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota_table.h - the quotas that other hosts hold at this node's RNICs, by key, as the watch below
 * PREFIX/ledger/quota/NODE/ tells them. quota_own.c owns it. No clock, no sockets. One thread.
 *
 * An entry that is unreadable is listed and counts for nothing here: whoever has written it gets
 * what is left over. (Who takes a quota counts it as all that there is: quota_take.c.)
 */
#ifndef RSK_QUOTA_TABLE_H
#define RSK_QUOTA_TABLE_H

#include "pm_hash.h"
#include "quota_json.h"
#include "range_watch.h"

#define RSK_QUOTA_TABLE_MOST 16384u

struct rsk_quota_row {
	char rnic[RSK_QUOTA_NAME], holder[RSK_QUOTA_NAME]; /* as in the key */
	bool is_readable;
	struct rsk_quota_entry entry;
	uint64_t revision, lease;
	uint32_t round;
	UT_hash_handle hh; /* by key */
	size_t key_bytes;
	char key[];
};

/* All zero but for the head: empty. */
struct rsk_quota_table {
	size_t head; /* bytes with which all keys begin */
	struct rsk_quota_row *rows;
	uint32_t round;
	bool is_full; /* something was left out since there is too much */
	/* Called when rows have changed */
	void (*changed)(void *ctx);
	void *ctx;
};

extern const struct rsk_range_table rsk_quota_table_watched;

void rsk_quota_table_fini(struct rsk_quota_table *t);

#endif
