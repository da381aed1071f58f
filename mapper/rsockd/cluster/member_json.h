/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * member_json.h - the entry of a member, as it is in etcd: a JSON object, which member_self.c
 * builds. Whoever may write to etcd may have written anything there, so nothing is believed before
 * it is checked. Called by member.c and member_list.c. Pure.
 *
 * "node", "id" (of this run of the daemon), "version", "started" (UTC), "listens" (addresses of
 * the port mapper), "pma" (those of the central policy agent, if it is one), "metrics" (address or
 * null), "rnics" (each "name", "state", "addresses", "bps", "sessions"; 0: no limit), "revision"
 * (of the document that it runs, 0: none), "refused" (null, or "revision" and "why").
 */
#ifndef RSK_MEMBER_JSON_H
#define RSK_MEMBER_JSON_H

#include "etcd_msg.h"

/* Limits of an entry. What this host has more of is left out of its own. */
#define RSK_MEMBER_BYTES 65536u
#define RSK_MEMBER_TEXT 512u /* of a text, with its zero */
#define RSK_MEMBER_LISTENS 32u
#define RSK_MEMBER_RNICS 64u
#define RSK_MEMBER_ADDRESSES 16u /* of an RNIC */

/*
 * What is said of an entry to an operator: a new object with "node" (the key behind its first @head
 * bytes), "readable", and, if it is, the entry's members except "id", and "current": whether
 * @current, the revision of the document, is the one that it runs. Texts are printable ASCII. NULL:
 * no memory.
 */
json_t *rsk_member_row(const struct rsk_etcd_kv *kv, size_t head, uint64_t current);

/* Whether the daemon with this id has written the entry. */
bool rsk_member_is_of(const struct rsk_etcd_kv *kv, const char *id);

#endif
