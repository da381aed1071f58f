// SPDX-License-Identifier: BSD-2-Clause
/* listeners.c - see listeners.h. */
#include "listeners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pm_hash.h"
#include "pm_msg.h"

/* Is kept once it was made: a port that was listened on will be so again. */
struct rsk_listeners_port {
	uint16_t port;
	uint32_t round;	  /* the last round in which all of them were checked */
	uint32_t checked; /* how many were checked in the current round */
	uint32_t n, room;
	/* In order of registration; a socket that several processes hold has an entry for each */
	struct rsk_listener *at;
	UT_hash_handle hh;
};

static const uint8_t any[16];

static struct rsk_listeners_port *port_of(struct rsk_listeners *l, uint16_t port)
{
	struct rsk_listeners_port *p;

	HASH_FIND(hh, l->by_port, &port, sizeof(port), p);
	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->port = port;
	p->round = l->round - 1;
	HASH_ADD(hh, l->by_port, port, sizeof(port), p);
	return p;
}

static void take_out(struct rsk_listeners *l, struct rsk_listeners_port *p, uint32_t i)
{
	p->n--;
	l->n--;
	l->changes++;
	memmove(&p->at[i], &p->at[i + 1], (p->n - i) * sizeof(*p->at));
	if (p->checked > i)
		p->checked--;
}

static int grow(struct rsk_listeners_port *p)
{
	uint32_t room = p->room ? 2 * p->room : 2;
	struct rsk_listener *at = realloc(p->at, room * sizeof(*at));

	if (!at)
		return -ENOMEM;
	p->at = at;
	p->room = room;
	return 0;
}

/* Removes the entries whatever port the socket listened on. */
uint32_t rsk_listeners_drop(struct rsk_listeners *l, uint64_t cookie, uint32_t process)
{
	uint32_t others = 0;

	for (struct rsk_listeners_port *p = l->by_port; p; p = p->hh.next)
		for (uint32_t i = p->n; i-- > 0;) {
			if (p->at[i].process != process)
				continue;
			if (p->at[i].cookie == cookie)
				take_out(l, p, i);
			else
				others++;
		}
	return others;
}

static size_t of_user(const struct rsk_listeners *l, uint32_t uid)
{
	size_t n = 0;

	for (const struct rsk_listeners_port *p = l->by_port; p; p = p->hh.next)
		for (uint32_t i = 0; i < p->n; i++)
			n += p->at[i].uid == uid;
	return n;
}

int rsk_listeners_add(struct rsk_listeners *l, const struct rsk_listener *listener)
{
	struct rsk_listeners_port *p = port_of(l, listener->at.port);

	if (!p)
		return -ENOMEM;
	if (rsk_listeners_drop(l, listener->cookie, listener->process) >=
		    RSK_LISTENERS_MOST_OF_ONE ||
	    of_user(l, listener->uid) >= RSK_LISTENERS_MOST_OF_USER)
		return -ENOSPC;
	if (p->n == p->room && grow(p) < 0)
		return -ENOMEM;
	p->at[p->n++] = *listener;
	l->n++;
	l->changes++;
	return 0;
}

bool rsk_listeners_hand_over(struct rsk_listeners *l, uint32_t process, uint32_t to)
{
	bool some = false;

	for (struct rsk_listeners_port *p = l->by_port; p; p = p->hh.next)
		for (uint32_t i = 0; i < p->n; i++)
			if (p->at[i].process == process) {
				p->at[i].process = to;
				some = true;
			}
	return some;
}

/* Returns false if @still said LATER. */
static bool check_port(struct rsk_listeners *l, struct rsk_listeners_port *p,
		       enum rsk_listeners_still (*still)(void *ctx, const struct rsk_listener *is),
		       void *ctx)
{
	while (p->checked < p->n) {
		switch (still(ctx, &p->at[p->checked])) {
		case RSK_LISTENERS_THERE:
			p->checked++;
			break;
		case RSK_LISTENERS_GONE:
			take_out(l, p, p->checked);
			break;
		default:
			return false;
		}
	}
	p->checked = 0;
	p->round = l->round;
	return true;
}

void rsk_listeners_check(struct rsk_listeners *l,
			 enum rsk_listeners_still (*still)(void *ctx,
							   const struct rsk_listener *is),
			 void *ctx)
{
	for (struct rsk_listeners_port *p = l->by_port; p; p = p->hh.next)
		if (p->round != l->round && !check_port(l, p, still, ctx))
			return;
	l->round++;
}

void rsk_listeners_each(const struct rsk_listeners *l,
			void (*each)(void *ctx, const struct rsk_listener *is), void *ctx)
{
	for (const struct rsk_listeners_port *p = l->by_port; p; p = p->hh.next)
		for (uint32_t i = 0; i < p->n; i++)
			each(ctx, &p->at[i]);
}

/* 2: that very address; 1: all addresses; 0: no match. */
static int hears(const struct rsk_listener *is, const struct rsk_pm_addr *at)
{
	if (memcmp(is->at.ip, any, 16) == 0)
		return is->at.ipv == at->ipv || is->at.ipv == RSK_PM_IPV6;
	return is->at.ipv == at->ipv && !memcmp(is->at.ip, at->ip, 16) ? 2 : 0;
}

const struct rsk_listener *rsk_listeners_find(const struct rsk_listeners *l,
					      const struct rsk_pm_addr *at)
{
	const struct rsk_listener *best = NULL;
	struct rsk_listeners_port *p;
	int well = 0;

	HASH_FIND(hh, l->by_port, &at->port, sizeof(at->port), p);
	for (uint32_t i = p ? p->n : 0; i-- > 0;) {
		int h = hears(&p->at[i], at);

		if (h > well) {
			well = h;
			best = &p->at[i];
		}
	}
	return best;
}

void rsk_listeners_fini(struct rsk_listeners *l)
{
	struct rsk_listeners_port *p = l->by_port, *next;

	/* The hash table is cleared; its elements remain a list. */
	HASH_CLEAR(hh, l->by_port);
	for (; p; p = next) {
		next = p->hh.next;
		free(p->at);
		free(p);
	}
	l->n = 0;
}

bool rsk_listeners_validate(const struct rsk_listeners *l)
{
	size_t n = 0;

	for (const struct rsk_listeners_port *p = l->by_port; p; p = p->hh.next) {
		if (p->n > p->room)
			return false;
		for (uint32_t i = 0; i < p->n; i++)
			if (p->at[i].at.port != p->port || !p->at[i].process)
				return false;
		n += p->n;
	}
	return n == l->n;
}
