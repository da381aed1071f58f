/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll_order.h - the order of the events in one result: what the last result reported, and when
 * registrations were added. The set's lock is held.
 */
#ifndef RSK_EPOLL_ORDER_H
#define RSK_EPOLL_ORDER_H

#include "epollset.h"

/*
 * The first @k of @n events are the kernel's, the others come from rings. Puts them into the order
 * in which they became ready, as far as that is known.
 */
void rsk_epoll_arrange(const struct rsk_epoll *e, struct epoll_event *evs, int k, int n);
/* Where the last result reported the data @was, it is @data now. */
void rsk_epoll_told_as(struct rsk_epoll *e, uint64_t was, uint64_t data);
void rsk_epoll_remember_all(struct rsk_epoll *e, const struct epoll_event *evs, int n);

/* Remembers what a result reports, for the order of the next one. */
static inline void rsk_epoll_remember(struct rsk_epoll *e, const struct epoll_event *evs, int n)
{
	if (__builtin_expect(n > 1, 0)) {
		rsk_epoll_remember_all(e, evs, n);
	} else {
		e->told[0] = evs[0].data.u64; /* there is room for at least one */
		e->told_n = (uint32_t)n;
	}
}

/* Called when a registration is added or changed. */
static inline void rsk_epoll_note_data(struct rsk_epoll *e, struct rsk_reg *r, uint64_t data)
{
	if (__builtin_expect(e->told_n && r->data != data, 0))
		rsk_epoll_told_as(e, r->data, data);
	r->data = data;
	r->changed = ++e->changed;
}

#endif
