// SPDX-License-Identifier: BSD-2-Clause
/* cluster.c - see cluster.h. */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>

#include "document_ops.h"

struct rsk_cluster *rsk_cluster_open(struct event_base *base, const struct rsk_conf_daemon *conf,
				     rsk_document_take *take, void *ctx, char *error, size_t n)
{
	struct rsk_cluster *c = calloc(1, sizeof(*c));

	if (!c) {
		snprintf(error, n, "no memory");
		return NULL;
	}
	snprintf(c->node, sizeof(c->node), "%.64s", conf->node);
	c->etcd = rsk_etcd_new(base, &conf->cluster, error, n);
	if (c->etcd &&
	    rsk_document_open(&c->document, base, c->etcd, conf->cluster.prefix, take, ctx) == 0)
		return c;
	if (c->etcd)
		snprintf(error, n, "no memory");
	rsk_cluster_close(c);
	return NULL;
}

void rsk_cluster_close(struct rsk_cluster *c)
{
	if (!c)
		return;
	rsk_document_ops_close(&c->document);
	rsk_document_close(&c->document);
	rsk_etcd_free(c->etcd);
	free(c);
}
