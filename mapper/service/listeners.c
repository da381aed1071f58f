// SPDX-License-Identifier: BSD-2-Clause
/* listeners.c - see listeners.h. */
#include "listeners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pm_hash.h"
#include "pm_msg.h"

/* Stays once it is there: a port that was listened on is so again. */
struct rsk_listeners_port {
	uint16_t port;
	uint32_t n, room;
	struct rsk_listener *
		at; /* in the order of their coming; a socket that several hold is there for each */
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
	HASH_ADD(hh, l->by_port, port, sizeof(port), p);
	return p;
}

static void take_out(struct rsk_listeners *l, struct rsk_listeners_port *p, uint32_t i)
{
	p->n--;
	l->n--;
	l->changes++;
	memmove(&p->at[i], &p->at[i + 1], (p->n - i) * sizeof(*p->at));
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

/* Wherever the socket listened before. */
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

int rsk_listeners_add(struct rsk_listeners *l, const struct rsk_listener *listener)
{
	struct rsk_listeners_port *p = port_of(l, listener->at.port);

	if (!p)
		return -ENOMEM;
	if (rsk_listeners_drop(l, listener->cookie, listener->process) >= RSK_LISTENERS_MOST_OF_ONE)
		return -ENOSPC;
	if (p->n == p->room && grow(p) < 0)
		return -ENOMEM;
	p->at[p->n] = *listener;
	p->at[p->n++].round = l->round;
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

void rsk_listeners_sweep(struct rsk_listeners *l)
{
	l->round++;
}

void rsk_listeners_seen(struct rsk_listeners *l, uint64_t cookie, const struct rsk_pm_addr *at,
			uint32_t uid)
{
	struct rsk_listeners_port *p;

	HASH_FIND(hh, l->by_port, &at->port, sizeof(at->port), p);
	for (uint32_t i = 0; p && i < p->n; i++)
		if (p->at[i].cookie == cookie && p->at[i].uid == uid &&
		    rsk_pm_addr_equal(&p->at[i].at, at))
			p->at[i].round = l->round;
}

void rsk_listeners_swept(struct rsk_listeners *l)
{
	for (struct rsk_listeners_port *p = l->by_port; p; p = p->hh.next)
		for (uint32_t i = p->n; i-- > 0;)
			if (p->at[i].round != l->round)
				take_out(l, p, i);
}

void rsk_listeners_each(const struct rsk_listeners *l,
			void (*each)(void *ctx, const struct rsk_listener *is), void *ctx)
{
	for (const struct rsk_listeners_port *p = l->by_port; p; p = p->hh.next)
		for (uint32_t i = 0; i < p->n; i++)
			each(ctx, &p->at[i]);
}

/* 2: that very address; 1: all of them; 0: not for it. */
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

	/* The table goes; what was in it stays a list. */
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
