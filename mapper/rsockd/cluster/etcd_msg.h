/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etcd_msg.h - the messages of etcd's v3 API, as its gateway has them in JSON: requests are built,
 * answers are checked and converted. etcd.c and the users of etcd.h call this. Pure.
 *
 * In this JSON, keys and values are base64, 64-bit numbers are strings, and members with the value
 * 0 are left out. Source: etcd's rpc.proto, and the mapping of proto3 to JSON.
 */
#ifndef RSK_ETCD_MSG_H
#define RSK_ETCD_MSG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- requests: new references; NULL: no memory ---- */

struct rsk_etcd_range {
	const char *key;
	/* Also all other keys that begin with @key */
	bool is_prefix;
	bool newest_first; /* by key, descending */
	bool last_changed; /* by revision, descending */
	bool keys_only;
	uint32_t limit; /* 0: none */
};
json_t *rsk_etcd_range(const struct rsk_etcd_range *r);
/* @lease 0: none. */
json_t *rsk_etcd_put(const char *key, const void *value, size_t bytes, uint64_t lease);
json_t *rsk_etcd_delete(const char *key);
/* All keys from @from on that come before @end. */
json_t *rsk_etcd_delete_range(const char *from, const char *end);
/* Events from @revision on. */
json_t *rsk_etcd_watch(const char *key, bool is_prefix, uint64_t revision);
json_t *rsk_etcd_lease_grant(uint64_t seconds);
/* To keep it alive, or to revoke it. */
json_t *rsk_etcd_lease(uint64_t lease);
json_t *rsk_etcd_authenticate(const char *user, const char *password);

/*
 * A transaction without operations yet. It is executed if each compared key has the revision that
 * is given (0: the key does not exist).
 */
json_t *rsk_etcd_txn(void);
int rsk_etcd_txn_compare(json_t *txn, const char *key, uint64_t mod_revision);
/* And if no key that begins with @prefix has a larger revision; one that is gone does not count. */
int rsk_etcd_txn_unchanged(json_t *txn, const char *prefix, uint64_t revision);
/* Take the reference of @request, one of the above; NULL is allowed. 0 or -ENOMEM. */
int rsk_etcd_txn_range(json_t *txn, json_t *request);
int rsk_etcd_txn_put(json_t *txn, json_t *request);
int rsk_etcd_txn_delete(json_t *txn, json_t *request);
/* What is read if the transaction is not executed. */
int rsk_etcd_txn_else_range(json_t *txn, json_t *request);

/* ---- answers ---- */

/* Owns key and value, each followed by a zero that is not counted. */
struct rsk_etcd_kv {
	char *key, *value;
	size_t key_bytes, value_bytes;
	uint64_t mod_revision, create_revision, version, lease;
	bool is_deleted; /* in an event */
};

/* Of a range, a transaction or a watch. The caller frees it; all zero: empty. */
struct rsk_etcd_answer {
	uint64_t revision; /* of the store */
	struct rsk_etcd_kv *kvs;
	size_t n;
	uint64_t count;		   /* range: keys that there are, also beyond its limit */
	bool succeeded;		   /* transaction: it was executed */
	bool created, canceled;	   /* watch */
	uint64_t compact_revision; /* watch: older events do not exist any more */
};

/*
 * Convert an answer. Return 0; -EPROTO: it is not one; -ENOMEM. On failure *out is empty. A
 * transaction's answer has the keys of all of its ranges, in their order.
 */
int rsk_etcd_take_range(const json_t *body, struct rsk_etcd_answer *out);
int rsk_etcd_take_txn(const json_t *body, struct rsk_etcd_answer *out);
/* The "result" of an object of the stream. */
int rsk_etcd_take_watch(const json_t *result, struct rsk_etcd_answer *out);
void rsk_etcd_answer_free(struct rsk_etcd_answer *a);
/*
 * A lease that was granted or kept alive: its number (not 0), and the seconds that are left, 0: it
 * does not exist any more. 0 or -EPROTO.
 */
int rsk_etcd_take_lease(const json_t *body, uint64_t *lease, uint64_t *seconds);
/* Returns the token, borrowed from @body; NULL: there is none, or it is not fit for a header. */
const char *rsk_etcd_take_token(const json_t *body);
/* What an answer says about an error: borrowed text, and the code of gRPC (-1: none). */
const char *rsk_etcd_take_error(const json_t *body, int *code);

/* A 64-bit number that is a string, or a number; absent: 0. 0 or -EPROTO. */
int rsk_etcd_number(const json_t *object, const char *key, uint64_t *out);

/* ---- a stream of objects ---- */

/* Finds the ends of objects in a stream of bytes; all zero at the start of an object. */
struct rsk_json_split {
	uint32_t depth;
	bool in_string, is_escaped;
};

/*
 * Looks at the next @n bytes of an object. Returns how many of them belong to it, if it ends among
 * them; 0: it does not end yet; -EPROTO: what begins here is no object.
 */
ssize_t rsk_json_split(struct rsk_json_split *s, const char *bytes, size_t n);

#endif
