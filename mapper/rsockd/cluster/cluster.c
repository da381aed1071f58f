// SPDX-License-Identifier: BSD-2-Clause
/* cluster.c - see cluster.h. */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>

#include "document_ops.h"

/* What this host tells the others about the document changes with it. */
static int take_document(void *ctx, const char *text, size_t bytes, bool apply, char *error,
			 size_t n)
{
	struct rsk_cluster *c = ctx;
	int rc = c->take(c->ctx, text, bytes, apply, error, n);

	if (apply)
		rsk_member_changed(&c->member);
	return rc;
}

static int open_all(struct rsk_cluster *c, struct event_base *base, struct rsk_disk *disk,
		    const struct rsk_conf_daemon *conf, const struct rsk_services_source *from)
{
	const struct rsk_conf_cluster *k = &conf->cluster;
	int rc = rsk_member_self_init(&c->self, conf, from->pma, &c->document);

	rsk_member_list_init(&c->list, c->etcd, k->prefix, &c->document);
	if (rc == 0)
		rc = rsk_document_open(&c->document, base, c->etcd, disk, k, take_document, c);
	if (rc == 0)
		rc = rsk_member_open(&c->member, base, c->etcd, k->prefix, k->lease_ns, &c->self);
	if (rc == 0)
		rc = rsk_services_open(&c->services, base, c->etcd, conf, &c->member, from);
	return rc < 0 ? rc :
			rsk_roles_open(&c->roles, base, c->etcd, conf, &c->member, from->pma,
				       c->on_roles, c->ctx);
}

struct rsk_cluster *rsk_cluster_open(struct event_base *base, struct rsk_disk *disk,
				     const struct rsk_conf_daemon *conf,
				     const struct rsk_services_source *from,
				     rsk_document_take *take, void (*roles)(void *ctx), void *ctx,
				     char *error, size_t n)
{
	struct rsk_cluster *c = calloc(1, sizeof(*c));

	if (!c) {
		snprintf(error, n, "no memory");
		return NULL;
	}
	c->take = take;
	c->on_roles = roles;
	c->ctx = ctx;
	c->etcd = rsk_etcd_new(base, &conf->cluster, error, n);
	if (c->etcd && open_all(c, base, disk, conf, from) == 0)
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
	rsk_member_list_fini(&c->list);
	rsk_document_ops_close(&c->document);
	rsk_roles_close(&c->roles);
	rsk_services_close(&c->services);
	rsk_member_close(&c->member);
	rsk_document_close(&c->document);
	rsk_member_self_fini(&c->self);
	rsk_etcd_free(c->etcd);
	free(c);
}
