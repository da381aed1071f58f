// SPDX-License-Identifier: BSD-2-Clause
/*
 * qos.c - tells processes which differentiated service (rate, DSCP, priority) policy gives their
 * streams: when a mapping is theirs, and again when the configuration or the load of this host has
 * changed. What could not be told, since a process does not read its messages, is told later.
 * local.c, local_ask.c and rails.c call it; see local_parts.h.
 */
#include "local_parts.h"

/* False: the process could not be told. */
static bool tell(struct rsk_local *l, struct rsk_local_process *p, const struct rsk_session *s)
{
	struct rsk_local_msg m = {
		.type = RSK_LOCAL_QOS, .link = s->handle, .cookie = s->cookie, .fd = s->fd
	};

	rsk_agent_qos(&l->agent->ask, s->reservation, &m.qos);
	if (rsk_qos_same(&m.qos, &s->qos))
		return true;
	if (!rsk_local_tell(l, p, &m, -1))
		return false;
	return rsk_sessions_set_qos(&l->sessions, p->number, s->handle, &m.qos);
}

void rsk_local_qos(struct rsk_local *l, struct rsk_local_process *p, uint64_t link)
{
	const struct rsk_session *s = rsk_sessions_find(&l->sessions, p->number, link);

	if (s && !tell(l, p, s))
		l->qos_due = true;
}

static void again(void *ctx, const struct rsk_session *s)
{
	struct rsk_local *l = ctx;
	struct rsk_local_process *p = rsk_local_process(l, s->process);

	if (p && !tell(l, p, s))
		l->qos_due = true;
}

void rsk_local_qos_sweep(struct rsk_local *l)
{
	uint32_t changes = rsk_pma_qos_changes(l->agent->pma);

	if (changes == l->qos_changes && !l->qos_due)
		return;
	l->qos_changes = changes;
	l->qos_due = false;
	rsk_sessions_each(&l->sessions, again, l);
}
