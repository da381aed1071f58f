// SPDX-License-Identifier: BSD-2-Clause
/* syn_ends.c - see syn_ends.h. */
#include "syn_ends.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

struct rsk_syn_end {
	struct rsk_rendezvous_table_end end;
	struct rsk_syn_range range;
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

/* An end that looks again. */
static void forget(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *end)
{
	struct rsk_syn_end *e, *next;

	DL_FOREACH_SAFE(s->oldest, e, next)
		if (e->end.process == end->process && e->end.cookie == end->cookie)
			drop(s, e);
}

/* Makes room for one more of its user. */
static void make_room(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *end)
{
	struct rsk_syn_end *e, *oldest = NULL;
	size_t n = 0;

	DL_FOREACH(s->oldest, e) {
		if (e->end.uid != end->uid)
			continue;
		if (!oldest)
			oldest = e;
		n++;
	}
	if (n >= RSK_SYN_ENDS_MOST_OF_ONE)
		drop(s, oldest);
	else if (s->n >= RSK_SYN_ENDS_MOST)
		drop(s, s->oldest);
}

static bool overlap(const struct rsk_syn_range *a, const struct rsk_syn_range *b)
{
	return b->first - a->first < a->n || a->first - b->first < b->n;
}

/*
 * In one network namespace the tuples are enough. The connecting end's port is left alone by all
 * translation but one that has to choose another, which is not looked for: before the kernel made
 * the offset of time stamps depend on the ports, two connections of one millisecond between the
 * same addresses had the same stamp.
 */
static bool fits(const struct rsk_syn_end *e, const struct rsk_rendezvous_table_end *end,
		 const struct rsk_syn_range *range)
{
	const struct rsk_rendezvous_table_end *c = end->connecting ? end : &e->end,
					      *a = end->connecting ? &e->end : end;

	return e->end.connecting != end->connecting && e->end.process != end->process &&
	       e->end.tuple.netns != end->tuple.netns && e->end.tuple.family == end->tuple.family &&
	       c->tuple.local_port == a->tuple.peer_port && overlap(&e->range, range);
}

int rsk_syn_ends_look(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *end,
		      const struct rsk_syn_range *range, uint64_t now_ns, rsk_syn_may *may,
		      const void *ctx, struct rsk_rendezvous_table_end *other)
{
	struct rsk_syn_end *e, *found = NULL;
	size_t n = 0;

	if (!range->n || range->n > (end->connecting ? RSK_SYN_RANGE_MOST : 1))
		return 0;
	expire(s, now_ns);
	forget(s, end);
	DL_FOREACH(s->oldest, e) {
		if (!fits(e, end, range))
			continue;
		found = e;
		n++;
	}
	if (n == 1) {
		if (!may(ctx, end->uid, found->end.uid,
			 end->connecting ? found->end.tuple.local_port : end->tuple.local_port))
			return -EPERM;
		*other = found->end;
		drop(s, found);
		return 1;
	}
	make_room(s, end);
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	*e = (struct rsk_syn_end){ .end = *end, .range = *range, .since_ns = now_ns };
	DL_APPEND(s->oldest, e);
	s->n++;
	return 0;
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
