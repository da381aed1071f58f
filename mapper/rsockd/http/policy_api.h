/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * policy_api.h - the part of the operator's API that is about the cluster: its document, its
 * members and their services, and what status and metrics say about the cluster. Called by api.c
 * and metrics.c.
 */
#ifndef RSK_POLICY_API_H
#define RSK_POLICY_API_H

#include <event2/buffer.h>
#include <event2/http.h>
#include <jansson.h>

#include "daemon.h"

/* A request with a document, as JSON */
#define RSK_POLICY_BODY_MOST (2 * RSK_CONF_DOCUMENT_MOST)

/* {"text", "base", "note"}; {"revision", "base", "note"} */
void rsk_policy_push(struct rsk_daemon *d, struct evhttp_request *req);
void rsk_policy_rollback(struct rsk_daemon *d, struct evhttp_request *req);
/* {"revision"}, none or 0: the current one */
void rsk_policy_read(struct rsk_daemon *d, struct evhttp_request *req);
void rsk_policy_history(struct rsk_daemon *d, struct evhttp_request *req);
/* The members of the cluster: rsk_member_list_done */
void rsk_policy_members(struct rsk_daemon *d, struct evhttp_request *req);
/* The services that the hosts of the cluster offer on RDMA: rsk_services_list() */
void rsk_policy_services(struct rsk_daemon *d, struct evhttp_request *req);
/* Who is a central policy agent or a central PMSP: rsk_roles_list() */
void rsk_policy_roles(struct rsk_daemon *d, struct evhttp_request *req);
/* The ledger of remote ports: rsk_quotas_list() */
void rsk_policy_ledger(struct rsk_daemon *d, struct evhttp_request *req);

/* What is known of the cluster; NULL: there is none. */
json_t *rsk_policy_status(const struct rsk_daemon *d);
/* Adds figures where there is a cluster. */
void rsk_policy_metrics(const struct rsk_daemon *d, struct evbuffer *out);

#endif
