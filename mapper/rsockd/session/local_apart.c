// SPDX-License-Identifier: BSD-2-Clause
/*
 * local_apart.c - brings together the ends of a connection of which one, or both, are in a network
 * namespace of their own (containers): no kernel interface of this daemon shows them, and their
 * addresses may be translated. Each process says which time stamp the first segment had. Who but
 * the two ends can know it, and what limits that: docs/adr/containers.md. local_rendezvous.c calls
 * it.
 */
#include <errno.h>

#include "clock.h"
#include "local_parts.h"
#include "say.h"

/* So many ends of a user's processes are looked for in a second: a guess is one of them. */
#define CLAIMS_A_SECOND 100u
#define CLAIM_NS (1000000000u / CLAIMS_A_SECOND)

void rsk_local_apart_reloaded(struct rsk_local *l)
{
	const struct rsk_conf_daemon *c = l->settings;

	l->apart = c->between_namespaces && (l->secret_stamps || c->weak_time_stamps);
	if (c->between_namespaces && !l->apart)
		rsk_say("the time stamps of this kernel's TCP depend on addresses only: streams "
			"between network namespaces stay on TCP (weak-time-stamps)");
}

/* At most a second's claims at once. */
static bool may_claim(struct rsk_local_user *u, uint64_t now_ns)
{
	if (u->claims_ns + CLAIM_NS * CLAIMS_A_SECOND < now_ns)
		u->claims_ns = now_ns - CLAIM_NS * CLAIMS_A_SECOND;
	if (u->claims_ns >= now_ns)
		return false;
	u->claims_ns += CLAIM_NS;
	return true;
}

/* It was no guess. */
static void give_back(struct rsk_local_user *u)
{
	u->claims_ns -= CLAIM_NS;
}

static bool may(const void *ctx, uint32_t uid, uint32_t other, uint16_t service)
{
	const struct rsk_local *l = ctx;

	return rsk_local_may_rendezvous(l, uid, other, service);
}

bool rsk_local_lookup_apart(struct rsk_local *l, struct rsk_local_process *p,
			    const struct rsk_local_msg *m,
			    const struct rsk_rendezvous_table_end *end)
{
	const struct rsk_syn_range range = { .first = (uint32_t)m->link,
					     .n = (uint32_t)(m->link >> 32) };
	struct rsk_rendezvous_table_end ours = *end, theirs;
	uint64_t now_ns = rsk_clock_ns();
	int rc;

	if (!l->apart || !(m->flags & RSK_LOCAL_BY_SYN) || end->no_shm)
		return false;
	/* It is not told anything, and asks again. */
	if (!may_claim(p->user, now_ns))
		return true;
	ours.by_syn = true;
	rc = rsk_syn_ends_look(&l->syn_ends, &ours, &range, now_ns, may, l, &theirs);
	if (rc == -EPERM) {
		l->count.not_allowed++;
		rsk_local_answer(l, p, end, RSK_REASON_OTHER_USER);
		return true;
	}
	if (rc != 1)
		return false;
	give_back(p->user);
	give_back(rsk_local_process(l, theirs.process)->user);
	if (rsk_local_introduce(l, &ours, &theirs))
		l->count.apart++;
	return true;
}
