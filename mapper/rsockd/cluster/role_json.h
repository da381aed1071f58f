/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * role_json.h - the entry by which a host says that it is a central policy agent, or a central
 * PMSP, as it is in etcd: a JSON object with "node", "address" and "port". Whoever may write to
 * etcd can have written anything there, so nothing is believed before it is checked.
 * roles_publish.c writes entries, roles_table.c reads them. Pure.
 */
#ifndef RSK_ROLE_JSON_H
#define RSK_ROLE_JSON_H

#include "etcd_msg.h"
#include "pm_addr.h"

#define RSK_ROLE_NODE 72u /* of a node's name, with its zero */
#define RSK_ROLE_BYTES 1024u

enum rsk_role_kind {
	RSK_ROLE_PMA,  /* central policy agent: TCP */
	RSK_ROLE_PMSP, /* central PMSP: UDP */
	RSK_ROLE_KINDS
};

/* As in a key: PREFIX/roles/KIND/NODE. */
extern const char *const rsk_role_names[RSK_ROLE_KINDS];

struct rsk_role {
	enum rsk_role_kind kind;
	char node[RSK_ROLE_NODE]; /* printable ASCII */
	struct rsk_pm_addr at;	  /* one that other hosts can reach */
};

/*
 * Reads the entry of a key whose first @head bytes all keys have; KIND/NODE follow. An entry
 * without a lease is none, since it would stay when its host is gone. Returns 0; -EPROTO: it is not
 * valid; -ENOMEM.
 */
int rsk_role_take(const struct rsk_etcd_kv *kv, size_t head, struct rsk_role *out);

/* The text of an entry that rsk_role_take() accepts; the caller frees it. NULL: no memory. */
char *rsk_role_text(const struct rsk_role *r);

#endif
