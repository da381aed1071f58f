// SPDX-License-Identifier: BSD-2-Clause
/*
 * local_vouch.c - whether two processes of different users may share memory: the operator says so,
 * by their users, the service's port, and the control groups (containers, services) that they are
 * in. local_rendezvous.c and local_apart.c ask.
 */
#include <stdlib.h>
#include <string.h>

#include "cgroup.h"
#include "local_parts.h"
#include "user.h"

void rsk_local_vouch_learn(struct rsk_local_process *p)
{
	char path[RSK_CGROUP_BYTES];

	if (rsk_cgroup_of_peer(p->fd, p->pid, path) == 0)
		p->cgroup = strdup(path);
}

static bool names_user(const struct rsk_conf_vouch *v, uint32_t uid)
{
	for (size_t i = 0; i < v->n_users; i++)
		if (rsk_user_same(v->users[i], uid) || v->users[i] == RSK_CONF_ANY_USER)
			return true;
	return false;
}

static bool names_cgroup(const struct rsk_conf_vouch *v, const struct rsk_local_party *party)
{
	bool in = !v->n_cgroups || party->any_cgroup;

	for (size_t i = 0; i < v->n_cgroups && !in; i++)
		in = party->cgroup && rsk_cgroup_is_in(party->cgroup, v->cgroups[i]);
	return in;
}

static bool names_port(const struct rsk_conf_vouch *v, uint16_t service)
{
	bool in = !v->n_ports;

	for (size_t i = 0; i < v->n_ports && !in; i++)
		in = service >= v->ports[i].first && service <= v->ports[i].last;
	return in;
}

/* Streams of two users pass through memory that both can write; so the operator has to allow it. */
static bool is_allowed(const struct rsk_local *l, const struct rsk_local_party *one,
		       const struct rsk_local_party *other, uint16_t service)
{
	const struct rsk_conf_daemon *settings = l->settings;

	for (size_t i = 0; i < settings->n_vouch; i++) {
		const struct rsk_conf_vouch *v = &settings->vouch[i];

		if (names_port(v, service) && names_user(v, one->uid) &&
		    names_user(v, other->uid) && names_cgroup(v, one) && names_cgroup(v, other))
			return true;
	}
	return false;
}

bool rsk_local_may_rendezvous(const struct rsk_local *l, const struct rsk_local_party *one,
			      const struct rsk_local_party *other, uint16_t service)
{
	return rsk_user_same(one->uid, other->uid) || is_allowed(l, one, other, service);
}

/*
 * Root of a container without a user namespace is user 0 outside, too, but may do less than the
 * host's root, and nothing to the next container's: that is not one user. Where this daemon itself
 * is in a user namespace of one user, user 0 is whoever made that.
 */
static bool may_apart(const struct rsk_local *l, const struct rsk_local_party *one,
		      const struct rsk_local_party *other, uint16_t service)
{
	return ((one->uid != 0 || !l->root_is_many) && rsk_user_same(one->uid, other->uid)) ||
	       is_allowed(l, one, other, service);
}

bool rsk_local_may_introduce(const struct rsk_local *l, const struct rsk_rendezvous_table_end *one,
			     const struct rsk_rendezvous_table_end *other, bool apart)
{
	const struct rsk_rendezvous_table_end *accepting = one->connecting ? other : one;
	const struct rsk_local_process *p = rsk_local_process(l, one->process),
				       *q = rsk_local_process(l, other->process);
	struct rsk_local_party a, b;

	if (!p || !q)
		return false;
	a = rsk_local_party(p);
	b = rsk_local_party(q);
	return (apart ? may_apart : rsk_local_may_rendezvous)(l, &a, &b,
							      accepting->tuple.local_port);
}

struct rsk_local_party rsk_local_party(const struct rsk_local_process *p)
{
	return (struct rsk_local_party){ .uid = p->uid, .cgroup = p->cgroup };
}
