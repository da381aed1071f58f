/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cluster.h - what this daemon shares with others by etcd. Exists only where the configuration has
 * a cluster. The core opens it; the http folder reads it.
 */
#ifndef RSK_CLUSTER_H
#define RSK_CLUSTER_H

#include "document.h"
#include "etcd.h"
#include "member.h"
#include "member_list.h"
#include "member_self.h"
#include "roles.h"
#include "services.h"

struct rsk_cluster {
	struct rsk_etcd *etcd;
	struct rsk_document document;
	struct rsk_member_self self; /* self.node: this host's name, for others */
	struct rsk_member member;
	struct rsk_member_list list;
	struct rsk_services services;
	struct rsk_roles roles;
	rsk_document_take *take;
	void (*on_roles)(void *ctx);
	void *ctx;
};

/*
 * Opens the connection to etcd, starts to read and watch the cluster's document, and registers this
 * host as a member, and its services. @take is called from the event loop, and by
 * rsk_document_start(); @roles from the event loop, when the roles of the cluster have changed.
 * @from is copied; what it points to, and @disk, are borrowed until the
 * cluster is closed. NULL: @error has a line for the operator. Blocks.
 */
struct rsk_cluster *rsk_cluster_open(struct event_base *base, struct rsk_disk *disk,
				     const struct rsk_conf_daemon *conf,
				     const struct rsk_services_source *from,
				     rsk_document_take *take, void (*roles)(void *ctx), void *ctx,
				     char *error, size_t n);
/* @c NULL: nothing. Open operations are not answered. */
void rsk_cluster_close(struct rsk_cluster *c);

#endif
