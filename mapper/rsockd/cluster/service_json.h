/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * service_json.h - the entry in which a host tells its cluster which services it offers on RDMA, as
 * it is in etcd: a JSON object. Whoever may write to etcd can have written anything there, so
 * nothing is believed before it is checked. services_publish.c writes entries, services_table.c
 * reads them. Pure.
 *
 * "node", "listens" (where its port mapper listens, each "address" and "port"; all zero: all
 * addresses of the family), "services" (each "name", "address" and "port" of the service, "device",
 * "rdma" (the RNIC's address), "rdma-port" (0: one is made on request), "since" (UTC)), "left-out"
 * (how many more there are).
 */
#ifndef RSK_SERVICE_JSON_H
#define RSK_SERVICE_JSON_H

#include "etcd_msg.h"
#include "pm_addr.h"

/* Limits of an entry. What this host has more of is left out of its own. */
#define RSK_SERVICE_MOST 256u
#define RSK_SERVICE_LISTENS 32u
#define RSK_SERVICE_NAME 64u /* of any text but a node's name, with its zero */
#define RSK_SERVICE_NODE 72u
#define RSK_SERVICE_BYTES 98304u

/* A service at one address. The texts are printable ASCII. */
struct rsk_service {
	struct rsk_pm_addr at, rdma; /* rdma: of the same family; port 0: made on request */
	char name[RSK_SERVICE_NAME], device[RSK_SERVICE_NAME], since[RSK_SERVICE_NAME];
};

/* Owns the list. All zero: empty. */
struct rsk_service_entry {
	char node[RSK_SERVICE_NODE];
	struct rsk_service *services;
	size_t n;
	struct rsk_pm_addr listens[RSK_SERVICE_LISTENS];
	size_t n_listens;
	uint64_t left_out;
};

/*
 * Reads the entry of a key whose first @head bytes all keys have; the node's name follows. Returns
 * 0; -EPROTO: it is not valid; -ENOMEM. On failure *out is empty.
 */
int rsk_service_entry_take(const struct rsk_etcd_kv *kv, size_t head,
			   struct rsk_service_entry *out);
void rsk_service_entry_free(struct rsk_service_entry *e);

/* The text of an entry that rsk_service_entry_take() accepts; the caller frees it. NULL: no memory.
 */
char *rsk_service_entry_text(const struct rsk_service_entry *e);

/* A service as a JSON object, as in an entry; a new reference. NULL: no memory. */
json_t *rsk_service_object(const struct rsk_service *s);

/* Copies a text in the form that an entry has: printable, and cut if it is too long. */
void rsk_service_put_text(char *to, size_t room, const char *from);

#endif
