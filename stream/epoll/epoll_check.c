// SPDX-License-Identifier: BSD-2-Clause
/* epoll_check.c - checks the invariants of an epoll set's shadow. The property tests call it. */
#include "arena.h"
#include "epollset.h"
#include "stream.h"

#define REGS_MAX 1000000 /* more than this: the list is a cycle */

static bool known_to_its_stream(const struct rsk_reg *r)
{
	uint32_t n = 0;

	for (const struct rsk_reg *p = r->stream->regs; p; p = p->next_of_stream)
		if (p == r)
			return true;
		else if (++n == REGS_MAX)
			return false;
	return false;
}

static bool valid_reg(const struct rsk_epoll *e, const struct rsk_reg *r)
{
	if (!rsk_arena_holds(r) || !r->live || r->set != e || !r->stream || !known_to_its_stream(r))
		return false;
	if (r->queued && (!r->tagged || !r->armed))
		return false;
	if (r->named && !(r->events & EPOLLONESHOT) && !(r->events & EPOLLET))
		return false;
	if (r->parked)
		return r->tagged && !r->armed && !r->events && !r->named;
	return r->armed || (r->events & EPOLLONESHOT);
}

bool rsk_epoll_validate(const struct rsk_epoll *e)
{
	uint32_t regs = 0, tagged = 0, unnamed = 0, queued = 0, ready = 0;
	const struct rsk_reg *last = NULL;

	for (const struct rsk_reg *r = e->regs; r; r = r->next_of_set) {
		if (!valid_reg(e, r) || ++regs == REGS_MAX)
			return false;
		tagged += r->tagged;
		unnamed += r->key_fd < 0;
		queued += r->queued;
	}
	for (const struct rsk_reg *r = e->ready; r; r = r->next_ready) {
		if (!r->queued || r->set != e || r->prev_ready != last || ++ready > queued)
			return false;
		last = r;
	}
	return tagged == e->tagged && unnamed == e->unnamed && ready == queued &&
	       last == e->ready_tail && rsk_epoll_links_validate(&e->links) &&
	       (!e->links.n || e->belled) && atomic_load(&e->fds);
}
