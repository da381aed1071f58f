// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_order.c - the order of the kernel's events and of rings' events in one result that has
 * both. epoll_answer.c calls it.
 *
 * The kernel's list is in order, and so is ours, and neither has timestamps. But a level-triggered
 * registration that was reported stays in its list, before all that become ready later; and one
 * that can send when it is registered is ready from then on. So events that the last result
 * reported come first, in that order; then come those that were registered earlier. The order of
 * the rest is unknown (epoll_answer.c).
 */
#include "epoll_order.h"

#define NEW UINT64_MAX
#define REGISTERED RSK_EPOLL_TOLD /* values from here on are for registrations */
#define MOST_EVENTS 16
#define MOST_REGS 64 /* the newest ones */

static uint64_t place_of(const struct rsk_epoll *e, const struct epoll_event *ev)
{
	const struct rsk_reg *r = e->regs;

	for (uint32_t i = 0; i < e->told_n; i++)
		if (e->told[i] == ev->data.u64)
			return i;
	if (!(ev->events & EPOLLOUT))
		return NEW;
	for (uint32_t i = 0; r && i < MOST_REGS; i++, r = r->next_of_set)
		if (r->data == ev->data.u64 && !r->parked)
			return REGISTERED + r->changed;
	return NEW;
}

static bool goes_first(uint64_t ring, uint64_t kernel)
{
	if (ring != NEW && kernel != NEW)
		return ring < kernel;
	return ring < REGISTERED;
}

void rsk_epoll_told_as(struct rsk_epoll *e, uint64_t was, uint64_t data)
{
	for (uint32_t i = 0; i < e->told_n; i++)
		if (e->told[i] == was)
			e->told[i] = data;
}

void rsk_epoll_remember_all(struct rsk_epoll *e, const struct epoll_event *evs, int n)
{
	e->told_n = (uint32_t)(n < RSK_EPOLL_TOLD ? n : RSK_EPOLL_TOLD);
	for (uint32_t i = 0; i < e->told_n; i++)
		e->told[i] = evs[i].data.u64;
}

void rsk_epoll_arrange(const struct rsk_epoll *e, struct epoll_event *evs, int k, int n)
{
	struct epoll_event rings[MOST_EVENTS];
	uint64_t at[MOST_EVENTS];
	int left = n - k;

	if (k <= 0 || left <= 0 || n > MOST_EVENTS)
		return;
	for (int i = 0; i < n; i++)
		at[i] = place_of(e, &evs[i]);
	for (int i = 0; i < left; i++)
		rings[i] = evs[k + i];
	/*
	 * Merges from the last place to the first: the kernel's events move towards the end as
	 * needed.
	 */
	while (left > 0) {
		/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): at[] is set below n */
		bool ring_last = k == 0 || !goes_first(at[n - 1], at[k - 1]);

		evs[k + left - 1] = ring_last ? rings[left - 1] : evs[k - 1];
		if (ring_last) {
			left--;
			n--;
		} else {
			k--;
		}
	}
}
