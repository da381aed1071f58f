/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cluster.h - what this daemon shares with others by etcd. Exists only where the configuration has
 * a cluster. The core opens it; the http folder reads it.
 */
#ifndef RSK_CLUSTER_H
#define RSK_CLUSTER_H

#include "document.h"
#include "etcd.h"

struct rsk_cluster {
	char node[72]; /* what others are told about this host's name */
	struct rsk_etcd *etcd;
	struct rsk_document document;
};

/*
 * Opens the connection to etcd, and starts to read and watch the cluster's document. @take is
 * called from the event loop. NULL: @error has a line for the operator. Blocks.
 */
struct rsk_cluster *rsk_cluster_open(struct event_base *base, const struct rsk_conf_daemon *conf,
				     rsk_document_take *take, void *ctx, char *error, size_t n);
/* @c NULL: nothing. Open operations are not answered. */
void rsk_cluster_close(struct rsk_cluster *c);

#endif
