// SPDX-License-Identifier: BSD-2-Clause
/*
 * local_apart.c - brings together the ends of a connection of which one, or both, are in a network
 * namespace of their own (containers): no kernel interface of this daemon shows them, and their
 * addresses may be translated. Each process says what the connection's first segment was; the
 * connecting one when it is asked, since that costs it a look at a segment that it sends. Who but
 * the two ends can know it, and what limits that: docs/adr/containers.md. local_rendezvous.c calls
 * it.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "diag.h"
#include "local_parts.h"
#include "user.h"

/*
 * A user whose processes name another first segment than an end with the same client port may be
 * guessing: so many times at once, and then once in so long, his processes are believed.
 */
#define WRONG_MOST 16u
#define WRONG_NS 1000000000u

void rsk_local_apart_reloaded(struct rsk_local *l)
{
	l->apart = l->settings->between_namespaces;
	l->root_is_many = !rsk_user_root_is_one();
}

static bool is_believed(const struct rsk_local_user *u, uint64_t now_ns)
{
	return u->wrong_ns < now_ns + (uint64_t)WRONG_NS * WRONG_MOST;
}

static void was_wrong(struct rsk_local_user *u, uint64_t now_ns)
{
	if (u->wrong_ns < now_ns)
		u->wrong_ns = now_ns;
	if (u->wrong_ns < now_ns + (uint64_t)WRONG_NS * WRONG_MOST * 2)
		u->wrong_ns += WRONG_NS;
}

/* Which of the two is a guess is not known: the other one may be, too. */
static void differ(void *ctx, const struct rsk_rendezvous_table_end *one,
		   const struct rsk_rendezvous_table_end *other)
{
	struct rsk_local *l = ctx;
	uint64_t now_ns = rsk_clock_ns();
	struct rsk_local_process *a = rsk_local_process(l, one->process),
				 *b = rsk_local_process(l, other->process);

	if (a)
		was_wrong(a->user, now_ns);
	if (b && !(a && a->user == b->user))
		was_wrong(b->user, now_ns);
}

static bool may(const void *ctx, const struct rsk_rendezvous_table_end *one,
		const struct rsk_rendezvous_table_end *other)
{
	return rsk_local_may_introduce(ctx, one, other, true);
}

/* To such an address the kernel sends from that address. */
static bool is_ours(const void *ctx, const struct rsk_tuple *accepting)
{
	struct rsk_pm_addr to = { .port = accepting->peer_port,
				  .ipv = accepting->family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6 },
			   from;

	memcpy(to.ip, accepting->peer, sizeof(to.ip));
	return rsk_diag_source(&to, &from) == 0 && memcmp(from.ip, to.ip, sizeof(to.ip)) == 0;
}

void rsk_local_ask_syn(struct rsk_local *l, struct rsk_local_process *p,
		       const struct rsk_rendezvous_table_end *end)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_ANSWER,
				   .flags = RSK_LOCAL_BY_SYN,
				   .tuple = end->tuple,
				   .cookie = end->cookie,
				   .fd = end->fd,
				   .reason = RSK_REASON_OTHER_NETNS };

	rsk_local_tell(l, p, &m, -1);
}

/* Whose end of this namespace it is, the kernel knows. */
static bool knows_whose(const struct rsk_local *l, const struct rsk_rendezvous_table_end *end)
{
	return end->tuple.netns == l->netns;
}

static void refuse(void *ctx, const struct rsk_rendezvous_table_end *end)
{
	struct rsk_local *l = ctx;
	struct rsk_local_process *p = rsk_local_process(l, end->process);

	if (p && !knows_whose(l, end))
		rsk_local_answer(l, p, end, RSK_REASON_OTHER_USER);
}

/* The connecting end may lead to one that waits. */
static void ask(void *ctx, const struct rsk_rendezvous_table_end *end)
{
	struct rsk_local *l = ctx;
	struct rsk_local_process *p = rsk_local_process(l, end->process);

	if (p)
		rsk_local_ask_syn(l, p, end);
}

bool rsk_local_lookup_apart(struct rsk_local *l, struct rsk_local_process *p,
			    const struct rsk_local_msg *m,
			    const struct rsk_rendezvous_table_end *end)
{
	const struct rsk_syn_ends_calls calls = {
		.may = may,
		.is_ours = is_ours,
		.refuse = refuse,
		.ask = ask,
		.differ = differ,
		.ctx = l,
	};
	struct rsk_rendezvous_table_end ours = *end, theirs;
	struct rsk_syn syn = { 0 };
	uint64_t now_ns = rsk_clock_ns();
	int rc;

	if (m->flags & RSK_LOCAL_BY_SYN)
		syn = rsk_syn_unpack(m->link);
	if (!l->apart || end->no_shm || (!syn.n && !end->connecting) ||
	    (syn.n && !is_believed(p->user, now_ns)))
		return false;
	ours.by_syn = true;
	rc = rsk_syn_ends_look(&l->syn_ends, &ours, &syn, now_ns, &calls, &theirs);
	if (rc == -EPERM)
		l->count.not_allowed++;
	if (rc == -EPERM && !knows_whose(l, end)) {
		rsk_local_answer(l, p, end, RSK_REASON_OTHER_USER);
		return true;
	}
	if (rc == RSK_SYN_ENDS_ASKED)
		return true;
	if (rc != RSK_SYN_ENDS_FOUND)
		return false;
	if (rsk_local_introduce(l, &ours, &theirs))
		l->count.apart++;
	return true;
}
