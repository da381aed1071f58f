// SPDX-License-Identifier: BSD-2-Clause
/*
 * pma_lease.c - see pma_ask.h: leases, their states, and the reservations that they are bound to.
 */
#include <stdlib.h>
#include <utlist.h>

#include "pma_ask_parts.h"

struct rsk_lease *rsk_lease_by_id(const struct rsk_ask *a, uint64_t id)
{
	struct rsk_lease *l;

	HASH_FIND(hh, a->by_id, &id, sizeof(id), l);
	return l;
}

struct rsk_lease *rsk_lease_by_local(const struct rsk_ask *a, uint64_t local)
{
	struct rsk_lease *l;

	HASH_FIND(by_local, a->by_local, &local, sizeof(local), l);
	return l;
}

/* ---- kinds: one list each, found by its first element ---- */

static void kind_add(struct rsk_ask *a, struct rsk_lease *l)
{
	struct rsk_lease *first;

	HASH_FIND(kinds, a->kinds, &l->key, sizeof(l->key), first);
	l->prev = l->next = NULL;
	if (first) {
		/* Insert it after the first element, which stays in the hash table. */
		l->prev = first;
		l->next = first->next;
		if (first->next)
			first->next->prev = l;
		first->next = l;
		return;
	}
	HASH_ADD(kinds, a->kinds, key, sizeof(l->key), l);
}

static void kind_remove(struct rsk_ask *a, struct rsk_lease *l)
{
	struct rsk_lease *next = l->next;

	if (next)
		next->prev = l->prev;
	if (l->prev) {
		l->prev->next = next;
	} else {
		HASH_DELETE(kinds, a->kinds, l);
		if (next)
			HASH_ADD(kinds, a->kinds, key, sizeof(next->key), next);
	}
	l->prev = l->next = NULL;
}

/* ---- states of a lease ---- */

void rsk_lease_leave(struct rsk_ask *a, struct rsk_lease *l)
{
	rsk_deadline_clear(&a->timers, &l->timer);
	if (l->to_confirm) {
		DL_DELETE2(a->confirming, l, c_prev, c_next);
		l->to_confirm = l->used = false;
	}
	switch (l->state) {
	case RSK_LEASE_QUEUED:
		DL_DELETE(a->queued, l);
		a->questions--;
		break;
	case RSK_LEASE_SENT:
		a->questions--;
		break;
	case RSK_LEASE_HELD:
		HASH_DELETE(by_local, a->by_local, l);
		a->held--;
		break;
	case RSK_LEASE_IDLE:
	case RSK_LEASE_REFUSED:
		a->idle--;
		kind_remove(a, l);
		break;
	case RSK_LEASE_ENDING:
		DL_DELETE(a->ending, l);
		a->n_ending--;
		break;
	default:
		break;
	}
}

void rsk_lease_drop(struct rsk_ask *a, struct rsk_lease *l)
{
	rsk_lease_leave(a, l);
	HASH_DEL(a->by_id, l);
	free(l);
}

void rsk_lease_end(struct rsk_ask *a, struct rsk_lease *l)
{
	rsk_lease_leave(a, l);
	l->state = RSK_LEASE_ENDING;
	l->done = NULL;
	DL_APPEND(a->ending, l);
	a->n_ending++;
}

void rsk_lease_keep(struct rsk_ask *a, struct rsk_lease *l, enum rsk_lease_state state)
{
	rsk_lease_leave(a, l);
	l->state = state;
	kind_add(a, l);
	a->idle++;
	rsk_deadline_set(&a->timers, &l->timer, l->until_ns);
}

void rsk_lease_put_by(struct rsk_ask *a, struct rsk_lease *l, uint64_t now_ns)
{
	if (l->until_ns > now_ns && a->idle < a->config.max_idle)
		rsk_lease_keep(a, l, RSK_LEASE_IDLE);
	else
		rsk_lease_end(a, l);
}

void rsk_ask_bind(struct rsk_ask *a, uint64_t id, uint64_t local)
{
	struct rsk_lease *l = rsk_lease_by_id(a, id);

	if (!l || l->state != RSK_LEASE_AGREED)
		return;
	l->state = RSK_LEASE_HELD;
	l->local = local;
	a->held++;
	HASH_ADD(by_local, a->by_local, local, sizeof(l->local), l);
}

void rsk_ask_give_up(struct rsk_ask *a, uint64_t id, uint64_t now_ns)
{
	struct rsk_lease *l = rsk_lease_by_id(a, id);

	if (l && l->state == RSK_LEASE_AGREED)
		rsk_lease_put_by(a, l, now_ns);
}

/* ---- reservations ---- */

void rsk_ask_confirmed(struct rsk_ask *a, uint64_t local)
{
	struct rsk_lease *l = rsk_lease_by_local(a, local);

	if (!l || l->used)
		return;
	l->used = l->to_confirm = true;
	DL_APPEND2(a->confirming, l, c_prev, c_next);
}

void rsk_ask_released(struct rsk_ask *a, uint64_t local, uint64_t now_ns)
{
	struct rsk_lease *l = rsk_lease_by_local(a, local);

	if (!l)
		return;
	/*
	 * The central agent may have it booked or not: it is reporting time, and this one was not
	 * reported yet.
	 */
	if (!a->known && l->resumed != a->resume)
		rsk_lease_end(a, l);
	else
		rsk_lease_put_by(a, l, now_ns);
}

void rsk_ask_moved(struct rsk_ask *a, uint64_t from, uint64_t to)
{
	struct rsk_lease *l = rsk_lease_by_local(a, from);

	if (!l)
		return;
	HASH_DELETE(by_local, a->by_local, l);
	l->local = to;
	HASH_ADD(by_local, a->by_local, local, sizeof(l->local), l);
}

bool rsk_ask_of(const struct rsk_ask *a, uint64_t local, struct rsk_ask_key *key,
		const struct rsk_ask_answer **answer)
{
	const struct rsk_lease *l = rsk_lease_by_local(a, local);

	if (!l)
		return false;
	*key = l->key;
	*answer = &l->answer;
	return true;
}

bool rsk_ask_validate(const struct rsk_ask *a)
{
	uint32_t questions = 0, idle = 0, held = 0, ending = 0;
	size_t listed = 0;
	const struct rsk_lease *l;

	for (l = a->by_id; l; l = l->hh.next) {
		questions += l->state == RSK_LEASE_QUEUED || l->state == RSK_LEASE_SENT;
		idle += l->state == RSK_LEASE_IDLE || l->state == RSK_LEASE_REFUSED;
		held += l->state == RSK_LEASE_HELD;
		ending += l->state == RSK_LEASE_ENDING;
		if (l->state == RSK_LEASE_AGREED || (l->to_confirm && l->state != RSK_LEASE_HELD) ||
		    (l->done && l->state != RSK_LEASE_QUEUED && l->state != RSK_LEASE_SENT) ||
		    ((l->state == RSK_LEASE_QUEUED || l->state == RSK_LEASE_IDLE ||
		      l->state == RSK_LEASE_REFUSED) &&
		     !rsk_deadline_is_set(&l->timer)) ||
		    (l->state == RSK_LEASE_HELD && rsk_lease_by_local(a, l->local) != l))
			return false;
	}
	for (l = a->kinds; l; l = l->kinds.next)
		for (const struct rsk_lease *k = l; k; k = k->next) {
			if ((k->state != RSK_LEASE_IDLE && k->state != RSK_LEASE_REFUSED) ||
			    memcmp(&k->key, &l->key, sizeof(l->key)) != 0)
				return false;
			listed++;
		}
	return questions == a->questions && idle == a->idle && held == a->held && listed == idle &&
	       ending == a->n_ending && held == HASH_CNT(by_local, a->by_local) &&
	       questions <= a->config.max_questions && idle <= a->config.max_idle &&
	       rsk_deadlines_validate(&a->timers);
}
