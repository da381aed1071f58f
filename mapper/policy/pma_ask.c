// SPDX-License-Identifier: BSD-2-Clause
/* pma_ask.c - see pma_ask.h. */
#include "pma_ask.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "pma_ask_parts.h"

static struct rsk_lease *of_timer(struct rsk_deadline *d)
{
	return (struct rsk_lease *)(void *)((char *)d - offsetof(struct rsk_lease, timer));
}

void rsk_ask_init(struct rsk_ask *a, const struct rsk_ask_config *config)
{
	*a = (struct rsk_ask){ .config = *config };
}

void rsk_ask_fini(struct rsk_ask *a)
{
	while (a->by_id)
		rsk_lease_drop(a, a->by_id);
}

static void tell(struct rsk_lease *l, const struct rsk_ask_answer *answer)
{
	rsk_ask_done *done = l->done;

	l->done = NULL;
	if (done)
		done(l->user, l->id, answer);
}

static void tell_unheard(struct rsk_ask *a, struct rsk_lease *l)
{
	static const struct rsk_ask_answer unheard = { .verdict = RSK_PMA_UNHEARD };

	if (l->done)
		a->count.unheard++;
	tell(l, &unheard);
}

/* ---- questions ---- */

enum rsk_ask_found rsk_ask_find(struct rsk_ask *a, const struct rsk_ask_key *key, uint64_t now_ns,
				uint64_t *id, const struct rsk_ask_answer **answer)
{
	struct rsk_lease *l;

	rsk_ask_tick(a, now_ns);
	HASH_FIND(kinds, a->kinds, key, sizeof(*key), l);
	/* After that time the central agent may have given our leases to others. */
	if (!l || now_ns >= a->good_until_ns)
		return RSK_ASK_UNKNOWN;
	a->count.leased++;
	*answer = &l->answer;
	if (l->state == RSK_LEASE_REFUSED)
		return RSK_ASK_REFUSAL;
	*id = l->id;
	rsk_lease_leave(a, l);
	l->state = RSK_LEASE_AGREED;
	return RSK_ASK_LEASE;
}

int rsk_ask_start(struct rsk_ask *a, const struct rsk_ask_key *key, rsk_ask_done *done, void *user,
		  uint64_t now_ns)
{
	struct rsk_lease *l;

	if (a->silent) {
		a->count.skipped++;
		return -EHOSTDOWN;
	}
	if (a->questions >= a->config.max_questions) {
		a->count.full++;
		return -EBUSY;
	}
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	*l = (struct rsk_lease){ .id = ++a->last_id, .key = *key, .done = done, .user = user };
	HASH_ADD(hh, a->by_id, id, sizeof(l->id), l);
	DL_APPEND(a->queued, l);
	a->questions++;
	a->count.asked++;
	rsk_deadline_set(&a->timers, &l->timer, now_ns + a->config.timeout_ns);
	return 0;
}

/* ---- messages ---- */

void rsk_ask_changed(struct rsk_ask *a, uint64_t now_ns)
{
	if (!a->silent && a->report_due_ns > now_ns)
		a->report_due_ns = now_ns;
}

static struct rsk_ask_item item_of(const struct rsk_lease *l)
{
	return (struct rsk_ask_item){
		.id = l->id, .key = l->key, .answer = l->answer, .used = l->used
	};
}

static void put(struct rsk_ask *a, struct rsk_ask_item *items, size_t *n, const struct rsk_lease *l)
{
	items[*n] = item_of(l);
	a->sent[(*n)++] = l->id;
}

/* Adds held leases that were not reported in this round yet. Returns true if these are the last. */
static bool next_page(struct rsk_ask *a, struct rsk_ask_item *items, size_t *n)
{
	for (const struct rsk_lease *l = a->by_local; l; l = l->by_local.next) {
		if (l->resumed == a->resume)
			continue;
		if (*n == RSK_ASK_BATCH)
			return false;
		put(a, items, n, l);
	}
	return true;
}

static void take_questions(struct rsk_ask *a, struct rsk_ask_item *items, size_t *n)
{
	struct rsk_lease *l;

	while ((l = a->queued) && *n < RSK_ASK_BATCH) {
		DL_DELETE(a->queued, l);
		l->state = RSK_LEASE_SENT;
		put(a, items, n, l);
	}
}

enum rsk_ask_kind rsk_ask_next_message(struct rsk_ask *a, uint64_t now_ns,
				       struct rsk_ask_item *items, size_t *n, bool *resume,
				       bool *last)
{
	const struct rsk_lease *l;

	*n = 0;
	*resume = false;
	*last = true;
	if (a->going != RSK_ASK_NOTHING)
		return RSK_ASK_NOTHING;
	if (now_ns >= a->report_due_ns) {
		a->going = RSK_ASK_REPORT;
		a->report_due_ns = now_ns + a->config.report_ns;
		a->reported_ns = now_ns;
		*resume = !a->known;
		if (!a->known)
			*last = next_page(a, items, n);
	} else if (a->silent || !a->known) {
		return RSK_ASK_NOTHING;
	} else if (a->queued) {
		a->going = RSK_ASK_DECIDE;
		take_questions(a, items, n);
	} else if (a->ending) {
		a->going = RSK_ASK_RELEASE;
		for (l = a->ending; l && *n < RSK_ASK_IDS; l = l->next)
			put(a, items, n, l);
	} else if (a->confirming) {
		a->going = RSK_ASK_CONFIRM;
		for (l = a->confirming; l && *n < RSK_ASK_IDS; l = l->c_next)
			put(a, items, n, l);
	}
	a->n_sent = *n;
	a->last_page = *last;
	return a->going;
}

static void on_answer(struct rsk_ask *a, struct rsk_lease *l, const struct rsk_ask_answer *answer,
		      uint64_t now_ns)
{
	uint64_t id = l->id;

	l->answer = *answer;
	l->until_ns = answer->lease_ns > UINT64_MAX - now_ns ? UINT64_MAX - 1 :
							       now_ns + answer->lease_ns;
	if (answer->verdict != RSK_PMA_MAP) {
		a->count.refused++;
		if (answer->lease_ns && a->idle < a->config.max_idle) {
			rsk_ask_done *done = l->done;

			rsk_lease_keep(a, l, RSK_LEASE_REFUSED);
			l->done = NULL;
			if (done)
				done(l->user, id, answer);
			return;
		}
		tell(l, answer);
		l = rsk_lease_by_id(a, id);
		if (l)
			rsk_lease_drop(a, l);
		return;
	}
	a->count.mapped++;
	rsk_lease_leave(a, l);
	l->state = RSK_LEASE_AGREED;
	tell(l, answer);
	/* If done() has not bound it, it is not used. */
	rsk_ask_give_up(a, id, now_ns);
}

static void on_answers(struct rsk_ask *a, const uint64_t *ids, const struct rsk_ask_answer *answers,
		       size_t n, uint64_t now_ns)
{
	for (size_t i = 0; i < n; i++) {
		struct rsk_lease *l = rsk_lease_by_id(a, ids[i]);

		if (l && l->state == RSK_LEASE_SENT)
			on_answer(a, l, &answers[i], now_ns);
	}
	/* Questions without an answer. */
	for (size_t i = 0; i < a->n_sent; i++) {
		struct rsk_lease *l = rsk_lease_by_id(a, a->sent[i]);

		if (!l || l->state != RSK_LEASE_SENT)
			continue;
		tell_unheard(a, l);
		rsk_lease_end(a, l);
	}
}

void rsk_ask_hold(struct rsk_ask *a, uint64_t hold_ns)
{
	if (hold_ns / 3 < a->config.report_ns)
		a->config.report_ns = hold_ns / 3 ? hold_ns / 3 : 1;
	a->good_until_ns = a->reported_ns + hold_ns;
}

void rsk_ask_answered(struct rsk_ask *a, const uint64_t *ids, const struct rsk_ask_answer *answers,
		      size_t n, uint64_t now_ns)
{
	struct rsk_lease *l;

	a->silent = false;
	a->count.messages++;
	switch (a->going) {
	case RSK_ASK_DECIDE:
		on_answers(a, ids, answers, n, now_ns);
		break;
	case RSK_ASK_RELEASE:
		for (size_t i = 0; i < a->n_sent; i++)
			if ((l = rsk_lease_by_id(a, a->sent[i])) && l->state == RSK_LEASE_ENDING)
				rsk_lease_drop(a, l);
		break;
	case RSK_ASK_CONFIRM:
		for (size_t i = 0; i < a->n_sent; i++)
			if ((l = rsk_lease_by_id(a, a->sent[i])) && l->to_confirm) {
				DL_DELETE2(a->confirming, l, c_prev, c_next);
				l->to_confirm = false;
			}
		break;
	case RSK_ASK_REPORT:
		for (size_t i = 0; i < a->n_sent; i++)
			if ((l = rsk_lease_by_id(a, a->sent[i])))
				l->resumed = a->resume;
		a->part += !a->known;
		if (!a->last_page)
			a->report_due_ns = now_ns;
		else
			a->known = true;
		break;
	default:
		break;
	}
	/* Only now, because a callback may ask more. */
	a->going = RSK_ASK_NOTHING;
}

/*
 * Nothing of ours is booked there: only what is held has to be reported. Questions that are on
 * their way are asked again, in their order; one whose asker was told UNHEARD is not.
 */
static void begin_anew(struct rsk_ask *a, uint64_t now_ns)
{
	struct rsk_lease *l, *next;

	DL_FOREACH_SAFE(a->ending, l, next)
		rsk_lease_drop(a, l);
	for (l = a->by_id; l; l = next) {
		next = l->hh.next;
		if (l->state == RSK_LEASE_IDLE)
			rsk_lease_drop(a, l);
	}
	for (size_t i = a->n_sent; i-- > 0 && a->going == RSK_ASK_DECIDE;) {
		l = rsk_lease_by_id(a, a->sent[i]);
		if (!l || l->state != RSK_LEASE_SENT)
			continue;
		if (!rsk_deadline_is_set(&l->timer)) {
			rsk_lease_drop(a, l);
			continue;
		}
		l->state = RSK_LEASE_QUEUED;
		DL_PREPEND(a->queued, l);
	}
	a->going = RSK_ASK_NOTHING;
	a->silent = false;
	a->known = false;
	a->resume++;
	a->part = 0;
	a->report_due_ns = now_ns;
}

void rsk_ask_unknown(struct rsk_ask *a, uint64_t now_ns)
{
	begin_anew(a, now_ns);
	a->count.resumed++;
}

void rsk_ask_turn(struct rsk_ask *a, uint64_t boot, uint64_t now_ns)
{
	struct rsk_lease *l;

	begin_anew(a, now_ns);
	a->good_until_ns = 0;
	a->config.boot = boot;
	a->count.turns++;
	if (boot)
		return;
	/* A callback that asks again gets -EHOSTDOWN. */
	a->silent = true;
	a->report_due_ns = UINT64_MAX;
	while ((l = a->queued)) {
		tell_unheard(a, l);
		rsk_lease_drop(a, l);
	}
}

/*
 * It is unknown whether the central agent has what was reported so far, so everything is reported
 * again. It may or may not know the idle leases, so they are released.
 */
static void begin_again(struct rsk_ask *a)
{
	struct rsk_lease *l, *next;

	a->resume++;
	a->part = 0;
	for (l = a->by_id; l; l = next) {
		next = l->hh.next;
		if (l->state == RSK_LEASE_IDLE)
			rsk_lease_end(a, l);
	}
}

void rsk_ask_failed(struct rsk_ask *a, uint64_t now_ns)
{
	struct rsk_lease *l;

	a->count.failures++;
	a->silent = true;
	a->report_due_ns = now_ns + a->config.report_ns;
	/* In order; a callback that asks again gets -EHOSTDOWN. */
	for (size_t i = 0; i < a->n_sent && a->going == RSK_ASK_DECIDE; i++) {
		l = rsk_lease_by_id(a, a->sent[i]);
		if (l && l->state == RSK_LEASE_SENT) {
			tell_unheard(a, l);
			rsk_lease_end(a, l);
		}
	}
	while ((l = a->queued)) {
		tell_unheard(a, l);
		rsk_lease_drop(a, l);
	}
	if (!a->known)
		begin_again(a);
	a->going = RSK_ASK_NOTHING;
}

uint64_t rsk_ask_next(const struct rsk_ask *a)
{
	uint64_t next = rsk_deadlines_next(&a->timers);
	bool more = a->known && !a->silent && (a->queued || a->ending || a->confirming);

	if (a->going != RSK_ASK_NOTHING)
		return next;
	if (more)
		return 0;
	return a->report_due_ns < next ? a->report_due_ns : next;
}

void rsk_ask_tick(struct rsk_ask *a, uint64_t now_ns)
{
	struct rsk_deadline *d;

	while ((d = rsk_deadlines_take(&a->timers, now_ns))) {
		struct rsk_lease *l = of_timer(d);

		switch (l->state) {
		case RSK_LEASE_QUEUED:
			tell_unheard(a, l);
			rsk_lease_drop(a, l);
			break;
		/* Whether it was granted is unknown; this is decided when its message ends */
		case RSK_LEASE_SENT:
			tell_unheard(a, l);
			break;
		case RSK_LEASE_IDLE:
			rsk_lease_end(a, l);
			break;
		default:
			rsk_lease_drop(a, l); /* REFUSED */
		}
	}
}
