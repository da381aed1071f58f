/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota_json.h - the two kinds of entries of the ledger in etcd, and their keys:
 *
 *	PREFIX/ledger/capacity/NODE/RNIC	the owner's offer
 *		{"run": "16 digits", "sessions": 56, "state": "up", "addresses": ["10.0.0.1"],
 *		 "used": {"HOLDER": 3}}
 *	PREFIX/ledger/quota/NODE/RNIC/HOLDER	what a host holds
 *		{"run": "16 digits", "sessions": 4, "addresses": ["10.0.0.2"]}
 *
 * In keys '/' and '%' of a name are %2F and %25, and HOLDER is a NODE. Members that are not known
 * are left out. Anything else that is wrong makes the entry unreadable as a whole. Pure.
 */
#ifndef RSK_QUOTA_JSON_H
#define RSK_QUOTA_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "claims.h"
#include "etcd_msg.h"
#include "pm_addr.h"

#define RSK_QUOTA_NAME 256u /* of a node or an RNIC, as in keys, with its zero */
#define RSK_QUOTA_ADDRESSES RSK_CLAIMS_ADDRESSES
#define RSK_QUOTA_SESSIONS UINT32_MAX
#define RSK_QUOTA_BYTES (96u << 10)

/* Of an RNIC, as its owner tells it. */
enum rsk_quota_state {
	RSK_QUOTA_UP,
	RSK_QUOTA_FULL, /* whoever has no quota need not ask */
	RSK_QUOTA_DRAINING,
	RSK_QUOTA_DOWN,
};
const char *rsk_quota_state_name(enum rsk_quota_state s);

struct rsk_quota_used {
	char holder[RSK_QUOTA_NAME];
	uint64_t sessions;
};

struct rsk_quota_addresses {
	struct rsk_pm_addr ips[RSK_QUOTA_ADDRESSES];
	size_t n;
};

/* Owns @used. All zero: empty. */
struct rsk_quota_capacity {
	char run[17];
	uint64_t sessions;
	enum rsk_quota_state state;
	struct rsk_quota_addresses at;
	struct rsk_quota_used *used; /* at most RSK_CLAIMS_HOLDERS */
	size_t n_used;
};

struct rsk_quota_entry {
	char run[17];
	uint64_t sessions;
	struct rsk_quota_addresses at;
};

/* Return 0; -EPROTO: it is no such entry, and *out is empty; -ENOMEM. */
int rsk_quota_capacity_take(const struct rsk_etcd_kv *kv, struct rsk_quota_capacity *out);
int rsk_quota_entry_take(const struct rsk_etcd_kv *kv, struct rsk_quota_entry *out);
void rsk_quota_capacity_free(struct rsk_quota_capacity *c);
/* Allocated texts; NULL: no memory. */
char *rsk_quota_capacity_text(const struct rsk_quota_capacity *c);
char *rsk_quota_entry_text(const struct rsk_quota_entry *e);

/* A name as it is in keys. False: it does not fit. */
bool rsk_quota_escape(const char *name, char out[static RSK_QUOTA_NAME]);
/*
 * Splits the part of a key behind its head at '/' into exactly @n names, printable and not empty.
 */
bool rsk_quota_split(const char *tail, size_t bytes, char (*names)[RSK_QUOTA_NAME], size_t n);

bool rsk_quota_addresses_have(const struct rsk_quota_addresses *a, uint8_t ipv,
			      const uint8_t ip[static 16]);

#endif
