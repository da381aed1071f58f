// SPDX-License-Identifier: BSD-2-Clause
/* deadline.c - see deadline.h. */
#include "deadline.h"

#include <errno.h>
#include <stdlib.h>

void rsk_deadlines_fini(struct rsk_deadlines *q)
{
	for (size_t i = 0; i < q->n; i++)
		q->heap[i]->at = 0;
	free(q->heap);
	*q = (struct rsk_deadlines){ 0 };
}

int rsk_deadlines_reserve(struct rsk_deadlines *q, size_t n)
{
	struct rsk_deadline **heap;

	if (n <= q->room)
		return 0;
	heap = reallocarray(q->heap, n, sizeof(struct rsk_deadline *));
	if (!heap)
		return -ENOMEM;
	q->heap = heap;
	q->room = n;
	return 0;
}

static void place(struct rsk_deadlines *q, size_t i, struct rsk_deadline *d)
{
	q->heap[i] = d;
	d->at = i + 1;
}

static void up(struct rsk_deadlines *q, size_t i, struct rsk_deadline *d)
{
	while (i && q->heap[(i - 1) / 2]->due_ns > d->due_ns) {
		place(q, i, q->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	place(q, i, d);
}

static void down(struct rsk_deadlines *q, size_t i, struct rsk_deadline *d)
{
	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < q->n && q->heap[child + 1]->due_ns < q->heap[child]->due_ns)
			child++;
		if (child >= q->n || q->heap[child]->due_ns >= d->due_ns)
			break;
		place(q, i, q->heap[child]);
		i = child;
	}
	place(q, i, d);
}

int rsk_deadline_set(struct rsk_deadlines *q, struct rsk_deadline *d, uint64_t due_ns)
{
	uint64_t was = d->due_ns;

	if (!d->at) {
		int rc = q->n < q->room ? 0 : rsk_deadlines_reserve(q, q->room ? 2 * q->room : 64);

		if (rc < 0)
			return rc;
		d->due_ns = due_ns;
		up(q, q->n++, d);
		return 0;
	}
	d->due_ns = due_ns;
	if (due_ns < was)
		up(q, d->at - 1, d);
	else
		down(q, d->at - 1, d);
	return 0;
}

void rsk_deadline_clear(struct rsk_deadlines *q, struct rsk_deadline *d)
{
	struct rsk_deadline *last;
	size_t i = d->at - 1;

	if (!d->at)
		return;
	d->at = 0;
	last = q->heap[--q->n];
	if (last == d)
		return;
	if (i && q->heap[(i - 1) / 2]->due_ns > last->due_ns)
		up(q, i, last);
	else
		down(q, i, last);
}

struct rsk_deadline *rsk_deadlines_take(struct rsk_deadlines *q, uint64_t now_ns)
{
	struct rsk_deadline *d = q->n ? q->heap[0] : NULL;

	if (!d || d->due_ns > now_ns)
		return NULL;
	rsk_deadline_clear(q, d);
	return d;
}

bool rsk_deadlines_validate(const struct rsk_deadlines *q)
{
	if (q->n > q->room)
		return false;
	for (size_t i = 0; i < q->n; i++)
		if (q->heap[i]->at != i + 1 ||
		    (i && q->heap[(i - 1) / 2]->due_ns > q->heap[i]->due_ns))
			return false;
	return true;
}
