// SPDX-License-Identifier: BSD-2-Clause
/*
 * daemon_roles.c - see daemon.h: what follows from the roles that hosts have in the cluster, that
 * is, which central agents this daemon asks, and whether it is one. Called by daemon_open.c, and by
 * cluster.c when roles have changed.
 */
#include "daemon.h"
#include "say.h"

static void turn(struct rsk_daemon *d)
{
	const struct rsk_roles_entry *e = rsk_roles_table_agent(&d->cluster->roles.table);
	struct rsk_pma_link *l = &d->link;
	char ip[RSK_PM_IP_TEXT];

	if (!e) {
		if (!l->central_agent.port)
			return;
		rsk_say("the cluster has no central policy agent any more");
		rsk_pma_link_turn(l, NULL, 0);
	} else if (l->role != e->created || !rsk_pm_addr_equal(&l->central_agent, &e->role.at)) {
		rsk_say("the central policy agent is %s, at %s port %u", e->role.node,
			rsk_pm_ip_text(e->role.at.ipv, e->role.at.ip, ip), e->role.at.port);
		rsk_pma_link_turn(l, &e->role.at, e->created);
	}
}

void rsk_daemon_roles(void *ctx)
{
	struct rsk_daemon *d = ctx;

	if (!d->cluster)
		return;
	if (d->link.base && d->settings.pma.central_by_role)
		turn(d);
	rsk_pma_serve_look(&d->serve_pma);
}

uint64_t rsk_daemon_agent_role(void *ctx)
{
	const struct rsk_daemon *d = ctx;

	return d->cluster ? rsk_roles_agent_here(&d->cluster->roles) : 0;
}

bool rsk_daemon_central_pmsp(void *ctx, uint64_t *cursor, struct rsk_pm_addr *out)
{
	const struct rsk_daemon *d = ctx;

	return d->cluster &&
	       rsk_roles_table_pmsp(&d->cluster->roles.table, d->cluster->self.node, cursor, out);
}
