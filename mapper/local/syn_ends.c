// SPDX-License-Identifier: BSD-2-Clause
/* syn_ends.c - see syn_ends.h. */
#include "syn_ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "pm_hash.h"

/* In three lists, each by age. */
struct rsk_syn_end {
	struct rsk_rendezvous_table_end end;
	struct rsk_syn syn;
	bool asked, refused;
	uint64_t since_ns;
	struct rsk_syn_end *prev, *next;		 /* of all */
	struct rsk_syn_end *prev_of_user, *next_of_user; /* of its user */
	struct rsk_syn_end *prev_of_port, *next_of_port; /* of its client port */
};

/* Exist as long as an end of theirs waits. */
struct rsk_syn_user {
	uint32_t uid;
	size_t n;
	struct rsk_syn_end *oldest;
	UT_hash_handle hh;
};

struct rsk_syn_port {
	uint16_t port;
	size_t n;
	struct rsk_syn_end *oldest;
	UT_hash_handle hh;
};

static uint16_t client_port(const struct rsk_rendezvous_table_end *end)
{
	return end->connecting ? end->tuple.local_port : end->tuple.peer_port;
}

static struct rsk_syn_user *user_of(const struct rsk_syn_ends *s, uint32_t uid)
{
	struct rsk_syn_user *u;

	HASH_FIND(hh, s->users, &uid, sizeof(uid), u);
	return u;
}

static struct rsk_syn_port *port_of(const struct rsk_syn_ends *s, uint16_t port)
{
	struct rsk_syn_port *p;

	HASH_FIND(hh, s->ports, &port, sizeof(port), p);
	return p;
}

static void drop_empty_user(struct rsk_syn_ends *s, struct rsk_syn_user *u)
{
	if (!u || u->oldest)
		return;
	HASH_DEL(s->users, u); /* NOLINT(clang-analyzer-unix.Malloc): removed before */
	free(u);
}

static void drop_empty_port(struct rsk_syn_ends *s, struct rsk_syn_port *p)
{
	if (!p || p->oldest)
		return;
	HASH_DEL(s->ports, p); /* NOLINT(clang-analyzer-unix.Malloc): removed before */
	free(p);
}

static void drop(struct rsk_syn_ends *s, struct rsk_syn_end *e)
{
	struct rsk_syn_user *u = user_of(s, e->end.uid);
	struct rsk_syn_port *p = port_of(s, client_port(&e->end));

	DL_DELETE(s->oldest, e);
	DL_DELETE2(u->oldest, e, prev_of_user, next_of_user);
	DL_DELETE2(p->oldest, e, prev_of_port, next_of_port);
	u->n--;
	p->n--;
	s->n--;
	free(e);
	drop_empty_user(s, u);
	drop_empty_port(s, p);
}

static void expire(struct rsk_syn_ends *s, uint64_t now_ns)
{
	while (s->oldest && now_ns - s->oldest->since_ns > RSK_SYN_ENDS_WAIT_NS)
		drop(s, s->oldest);
}

/* The oldest that has this client port. */
static struct rsk_syn_end *first_of_port(const struct rsk_syn_ends *s,
					 const struct rsk_rendezvous_table_end *end)
{
	const struct rsk_syn_port *p = port_of(s, client_port(end));

	return p ? p->oldest : NULL;
}

/* An end that looks again. Returns whether it was asked before. */
static bool forget(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *end)
{
	struct rsk_syn_end *e, *next;
	bool asked = false;

	for (e = first_of_port(s, end); e; e = next) {
		next = e->next_of_port;
		if (e->end.process != end->process || e->end.cookie != end->cookie)
			continue;
		asked |= e->asked;
		drop(s, e);
	}
	return asked;
}

/* Of one user and side, with that client port: those that have named a segment, or have not. */
static bool is_alike(const struct rsk_syn_end *e, const struct rsk_syn_end *what)
{
	return e->end.uid == what->end.uid && e->end.connecting == what->end.connecting &&
	       !e->syn.n == !what->syn.n;
}

/* Makes room for one more of its user. */
static void make_room(struct rsk_syn_ends *s, const struct rsk_syn_end *what)
{
	const size_t most = what->syn.n ? RSK_SYN_ENDS_MOST_OF_PORT : RSK_SYN_ENDS_UNNAMED_OF_PORT;
	const struct rsk_syn_user *u = user_of(s, what->end.uid);
	const struct rsk_syn_port *p = port_of(s, client_port(&what->end));
	struct rsk_syn_end *e, *oldest_of_port = NULL;
	size_t of_port = 0;

	for (e = p ? p->oldest : NULL; e; e = e->next_of_port) {
		if (!is_alike(e, what))
			continue;
		if (!oldest_of_port)
			oldest_of_port = e;
		of_port++;
	}
	if (of_port >= most)
		drop(s, oldest_of_port);
	else if (p && p->n >= RSK_SYN_ENDS_MOST_OF_PORT_IN_ALL)
		drop(s, p->oldest);
	else if (u && u->n >= RSK_SYN_ENDS_MOST_OF_ONE)
		drop(s, u->oldest);
	else if (s->n >= RSK_SYN_ENDS_MOST)
		drop(s, s->oldest);
}

static struct rsk_syn_user *user_new(struct rsk_syn_ends *s, uint32_t uid)
{
	struct rsk_syn_user *u = user_of(s, uid);

	if (u)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	HASH_ADD(hh, s->users, uid, sizeof(uid), u);
	return u;
}

static struct rsk_syn_port *port_new(struct rsk_syn_ends *s, uint16_t port)
{
	struct rsk_syn_port *p = port_of(s, port);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->port = port;
	HASH_ADD(hh, s->ports, port, sizeof(port), p);
	return p;
}

/*
 * Whether the two may be the ends of one connection, in two network namespaces or in one (the
 * containers of a pod). The connecting end's port, which is the same at both here, is left alone by
 * all translation but one that has to choose another, which is not looked for.
 */
static bool may_belong(const struct rsk_syn_end *e, const struct rsk_rendezvous_table_end *end)
{
	return e->end.connecting != end->connecting && e->end.process != end->process &&
	       e->end.tuple.family == end->tuple.family;
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
	struct rsk_syn_user *u;
	struct rsk_syn_port *p;

	make_room(s, what);
	e = malloc(sizeof(*e));
	u = user_new(s, what->end.uid);
	p = port_new(s, client_port(&what->end));
	if (!e || !u || !p) {
		free(e);
		drop_empty_user(s, u);
		drop_empty_port(s, p);
		return -ENOMEM;
	}
	*e = *what;
	DL_APPEND(s->oldest, e);
	DL_APPEND2(u->oldest, e, prev_of_user, next_of_user);
	DL_APPEND2(p->oldest, e, prev_of_port, next_of_port);
	u->n++;
	p->n++;
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
	for (e = first_of_port(s, end); e; e = e->next_of_port) {
		bool shares;

		if (!may_belong(e, end))
			continue;
		shares = shares_address(e, end);
		/* Who may not be brought together with an end cannot have it asked, either. */
		if (!calls->may(calls->ctx, end, &e->end)) {
			strange |= shares;
			if (shares && !e->refused)
				calls->refuse(calls->ctx, &e->end);
			e->refused |= shares;
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

void rsk_syn_ends_gone(struct rsk_syn_ends *s, uint32_t process, uint32_t uid)
{
	const struct rsk_syn_user *u = user_of(s, uid);
	struct rsk_syn_end *e, *next;

	for (e = u ? u->oldest : NULL; e; e = next) {
		next = e->next_of_user;
		if (e->end.process == process)
			drop(s, e);
	}
}

void rsk_syn_ends_fini(struct rsk_syn_ends *s)
{
	while (s->oldest)
		drop(s, s->oldest);
}
