// SPDX-License-Identifier: BSD-2-Clause
/* syn_ends.c - see syn_ends.h. */
#include "syn_ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

struct rsk_syn_end {
	struct rsk_rendezvous_table_end end;
	struct rsk_syn syn;
	bool asked;
	uint64_t since_ns;
	struct rsk_syn_end *prev, *next;
};

static void drop(struct rsk_syn_ends *s, struct rsk_syn_end *e)
{
	DL_DELETE(s->oldest, e);
	s->n--;
	free(e);
}

static void expire(struct rsk_syn_ends *s, uint64_t now_ns)
{
	while (s->oldest && now_ns - s->oldest->since_ns > RSK_SYN_ENDS_WAIT_NS)
		drop(s, s->oldest);
}

/* An end that looks again. Returns whether it was asked before. */
static bool forget(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *end)
{
	struct rsk_syn_end *e, *next;
	bool asked = false;

	DL_FOREACH_SAFE(s->oldest, e, next)
		if (e->end.process == end->process && e->end.cookie == end->cookie) {
			asked |= e->asked;
			drop(s, e);
		}
	return asked;
}

static uint16_t client_port(const struct rsk_rendezvous_table_end *end)
{
	return end->connecting ? end->tuple.local_port : end->tuple.peer_port;
}

/* Makes room for one more of its user. */
static void make_room(struct rsk_syn_ends *s, const struct rsk_syn_end *what)
{
	struct rsk_syn_end *e, *oldest = NULL, *oldest_of_port = NULL;
	size_t n = 0, of_port = 0;

	DL_FOREACH(s->oldest, e) {
		if (e->end.uid != what->end.uid)
			continue;
		if (!oldest)
			oldest = e;
		n++;
		if (!e->syn.n || e->end.connecting != what->end.connecting ||
		    client_port(&e->end) != client_port(&what->end))
			continue;
		if (!oldest_of_port)
			oldest_of_port = e;
		of_port++;
	}
	if (what->syn.n && of_port >= RSK_SYN_ENDS_MOST_OF_PORT)
		drop(s, oldest_of_port);
	else if (n >= RSK_SYN_ENDS_MOST_OF_ONE)
		drop(s, oldest);
	else if (s->n >= RSK_SYN_ENDS_MOST)
		drop(s, s->oldest);
}

/*
 * Whether the two may be the ends of one connection, in two network namespaces or in one (the
 * containers of a pod). The connecting end's port is left alone by all translation but one that has
 * to choose another, which is not looked for.
 */
static bool may_belong(const struct rsk_syn_end *e, const struct rsk_rendezvous_table_end *end)
{
	return e->end.connecting != end->connecting && e->end.process != end->process &&
	       e->end.tuple.family == end->tuple.family && client_port(&e->end) == client_port(end);
}

/*
 * Unrelated connections have the same client port now and then: of two ends of one, an address is
 * the same at both, or the accepting end sees one of this host's, which translates (masquerading).
 */
static bool shares_address(const struct rsk_syn_end *e, const struct rsk_rendezvous_table_end *end)
{
	const struct rsk_tuple *a = &e->end.tuple, *b = &end->tuple;

	return memcmp(a->peer, b->local, sizeof(a->peer)) == 0 ||
	       memcmp(a->local, b->peer, sizeof(a->local)) == 0;
}

/* *@of_end: the answer for an accepting @end, for which it is asked once; -1: not asked yet. */
static bool is_translated(const struct rsk_syn_ends_calls *calls, const struct rsk_syn_end *e,
			  const struct rsk_rendezvous_table_end *end, int *of_end)
{
	if (end->connecting)
		return calls->is_ours(calls->ctx, &e->end.tuple);
	if (*of_end < 0)
		*of_end = calls->is_ours(calls->ctx, &end->tuple);
	return *of_end;
}

static int wait_for(struct rsk_syn_ends *s, const struct rsk_syn_end *what)
{
	struct rsk_syn_end *e;

	make_room(s, what);
	e = malloc(sizeof(*e));
	if (!e)
		return -ENOMEM;
	*e = *what;
	DL_APPEND(s->oldest, e);
	s->n++;
	return 0;
}

int rsk_syn_ends_look(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *end,
		      const struct rsk_syn *syn, uint64_t now_ns,
		      const struct rsk_syn_ends_calls *calls,
		      struct rsk_rendezvous_table_end *other)
{
	struct rsk_syn_end ours = { .end = *end, .syn = *syn, .since_ns = now_ns };
	struct rsk_syn_end *e, *found = NULL;
	bool suspect = false, strange = false;
	int translated = -1, rc;
	size_t n = 0;

	expire(s, now_ns);
	ours.asked = forget(s, end);
	if (end->connecting && !ours.asked)
		ours.syn.n = 0;
	syn = &ours.syn;
	DL_FOREACH(s->oldest, e) {
		bool shares;

		if (!may_belong(e, end))
			continue;
		shares = shares_address(e, end);
		/* Who may not be brought together with an end cannot have it asked, either. */
		if (!calls->may(calls->ctx, end, &e->end)) {
			strange |= shares;
			continue;
		}
		if (!shares && !is_translated(calls, e, end, &translated))
			continue;
		if (e->syn.n && syn->n && rsk_syn_match(&e->syn, syn)) {
			found = e;
			n++;
		} else if (e->syn.n && syn->n) {
			calls->differ(calls->ctx, &e->end, end);
		} else if (end->connecting) {
			suspect = true;
		} else if (!e->asked) {
			e->asked = true;
			calls->ask(calls->ctx, &e->end);
		}
	}
	if (n == 1) {
		*other = found->end;
		drop(s, found);
		return RSK_SYN_ENDS_FOUND;
	}
	rc = wait_for(s, &ours);
	if (rc == 0 && suspect) {
		s->oldest->prev->asked = true; /* the last one, which is this one */
		calls->ask(calls->ctx, end);
		rc = RSK_SYN_ENDS_ASKED;
	}
	return rc == 0 && strange ? -EPERM : rc;
}

void rsk_syn_ends_gone(struct rsk_syn_ends *s, uint32_t process)
{
	struct rsk_syn_end *e, *next;

	DL_FOREACH_SAFE(s->oldest, e, next)
		if (e->end.process == process)
			drop(s, e);
}

void rsk_syn_ends_fini(struct rsk_syn_ends *s)
{
	while (s->oldest)
		drop(s, s->oldest);
}
