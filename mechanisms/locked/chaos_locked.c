// SPDX-License-Identifier: BSD-2-Clause
/*
 * chaos_locked.c - locked access on the fabric for tests (chaos_locked.h). Requests and answers
 * travel as messages that can be late, lost, duplicated and, where they are not reliable, corrupted
 * (and so dropped). As with a reliable queue pair, the initiator repeats what was not answered, and
 * the target executes requests in order and once, tries a lock that is held once per step, and
 * answers a repeated request again. A break leaves what was under way executed or not, at random,
 * and reports neither.
 */
#include <errno.h>
#include <stdlib.h>

#include "chaos_locked.h"

/* Added to the longest ordinary round trip. */
#define REPEAT_STEPS 8u

/* An operation, from when it is issued until its answer has arrived. */
struct order {
	struct order *next;
	struct rsk_locked *op; /* the initiator's, borrowed */
	uint64_t token, sequence, repeat_steps;
	/* At the target: */
	struct rsk_locked copy;
	struct rsk_locker locker;
	uint32_t tries;
	bool executed;
	int status;
};

struct message {
	struct message *next;
	uint64_t due_steps, sequence;
	bool answer;
};

struct rsk_chaos_orders {
	struct order *first;	  /* by sequence */
	struct message *messages; /* unordered */
	/* Next sequence to issue; next sequence that the target executes. */
	uint64_t issued, expected;
	struct order *executing;
};

static void *get(size_t bytes)
{
	void *p = calloc(1, bytes);

	/* Without memory a test proves nothing. */
	if (!p)
		abort();
	return p;
}

static struct order *order_of(const struct rsk_chaos_orders *l, uint64_t sequence)
{
	struct order *o = l->first;

	while (o && o->sequence != sequence)
		o = o->next;
	return o;
}

static void launch(struct rsk_chaos *c, uint64_t sequence, bool answer, uint64_t delay)
{
	struct message *m = get(sizeof(*m));

	*m = (struct message){ .next = c->orders->messages,
			       .due_steps = c->now_steps + delay,
			       .sequence = sequence,
			       .answer = answer };
	c->orders->messages = m;
}

static void say(struct rsk_chaos *c, uint64_t sequence, bool answer)
{
	uint64_t delay = 0;

	if (rsk_chaos_happens(c, RSK_CHAOS_DUPLICATE))
		launch(c, sequence, answer, rsk_chaos_below(c, c->config.delay_steps) + 1);
	if (rsk_chaos_happens(c, RSK_CHAOS_LATE))
		launch(c, sequence, answer, rsk_chaos_below(c, c->config.late_steps) + 1);
	if (rsk_chaos_happens(c, RSK_CHAOS_DROP) || rsk_chaos_happens(c, RSK_CHAOS_CORRUPT))
		return;
	if (rsk_chaos_happens(c, RSK_CHAOS_DELAY))
		delay = rsk_chaos_below(c, c->config.delay_steps) + 1;
	launch(c, sequence, answer, delay);
}

static void ask(struct rsk_chaos *c, struct order *o)
{
	o->repeat_steps = c->now_steps + 2ull * c->config.delay_steps + REPEAT_STEPS;
	say(c, o->sequence, false);
}

/* The target tries the operation that is next in order. */
static void execute(struct rsk_chaos *c, struct order *o)
{
	int rc;

	o->copy.by = &o->locker;
	rc = rsk_locked_kinds_run(c->peer_segment + o->locker.off, &o->copy);
	o->tries++;
	if (rc == -EBUSY && o->tries <= o->op->retries)
		return;
	o->status = rc;
	o->executed = true;
	c->orders->executing = NULL;
	c->orders->expected++;
	say(c, o->sequence, true);
}

static void asked(struct rsk_chaos *c, uint64_t sequence)
{
	struct rsk_chaos_orders *l = c->orders;
	struct order *o = order_of(l, sequence);

	if (!o || l->executing == o)
		return;
	if (o->executed)
		say(c, sequence, true);
	else if (sequence == l->expected)
		l->executing = o;
	/* A request that has overtaken another is dropped, and will be repeated. */
}

static void answered(struct rsk_chaos *c, uint64_t sequence)
{
	struct rsk_chaos_orders *l = c->orders;
	struct order **at = &l->first, *o;

	while (*at && (*at)->sequence != sequence)
		at = &(*at)->next;
	o = *at;
	if (!o)
		return; /* it was answered already */
	*at = o->next;
	o->op->tries = o->tries;
	*o->op->by = o->locker;
	rsk_chaos_done(c, o->token, o->status);
	free(o);
}

static struct message *due(struct rsk_chaos *c)
{
	struct message **at = &c->orders->messages, *m;

	while (*at && (*at)->due_steps > c->now_steps)
		at = &(*at)->next;
	m = *at;
	if (m)
		*at = m->next;
	return m;
}

static void locked_step(struct rsk_chaos *c)
{
	struct rsk_chaos_orders *l = c->orders;
	struct message *m;

	if (l->executing)
		execute(c, l->executing);
	while ((m = due(c))) {
		if (m->answer) {
			answered(c, m->sequence);
		} else {
			asked(c, m->sequence);
			if (l->executing && !l->executing->tries)
				execute(c, l->executing);
		}
		free(m);
	}
	for (struct order *o = l->first; o; o = o->next)
		if (c->now_steps >= o->repeat_steps)
			ask(c, o);
}

static bool locked_busy(const struct rsk_chaos *c)
{
	return c->orders->first;
}

static void locked_break(struct rsk_chaos *c)
{
	struct rsk_chaos_orders *l = c->orders;
	bool arrive = true;

	while (l->first) {
		struct order *o = l->first;

		/* Requests arrive in order, up to the first that does not arrive. */
		arrive = arrive && (o->executed || rsk_chaos_below(c, 2));
		if (arrive && !o->executed) {
			o->copy.by = &o->locker;
			rsk_locked_kinds_run(c->peer_segment + o->locker.off, &o->copy);
		}
		l->first = o->next;
		free(o);
	}
	while (l->messages) {
		struct message *m = l->messages;

		l->messages = m->next;
		free(m);
	}
	l->executing = NULL;
	l->expected = l->issued;
}

static void locked_close(struct rsk_chaos *c)
{
	while (c->orders->first) {
		struct order *o = c->orders->first;

		c->orders->first = o->next;
		free(o);
	}
	while (c->orders->messages) {
		struct message *m = c->orders->messages;

		c->orders->messages = m->next;
		free(m);
	}
	free(c->orders);
	c->orders = NULL;
}

static const struct rsk_chaos_more more = { .step = locked_step,
					    .busy = locked_busy,
					    .cut = locked_break,
					    .close = locked_close };

int rsk_chaos_locked(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token)
{
	struct rsk_chaos *c = rail->priv;
	struct order **at, *o;
	int rc;

	if (atomic_load_explicit(&rail->broken, memory_order_relaxed))
		return -ENETDOWN;
	rc = rsk_locked_kinds_begin(op, rail->segment_bytes);
	if (rc < 0)
		return rc;
	if (rsk_chaos_happens(c, RSK_CHAOS_BREAK)) {
		c->faults[RSK_CHAOS_BREAK]--; /* counted once, by rsk_chaos_break() */
		rsk_chaos_break(c);
		return -ENETDOWN;
	}
	if (!c->orders)
		c->orders = get(sizeof(*c->orders));
	c->more = &more;
	o = get(sizeof(*o));
	o->op = op;
	o->token = token;
	o->sequence = c->orders->issued++;
	o->copy = *op;
	o->locker = *op->by;
	o->copy.retries = 0;
	for (at = &c->orders->first; *at; at = &(*at)->next)
		;
	*at = o;
	ask(c, o);
	return 0;
}
