// SPDX-License-Identifier: BSD-2-Clause
/* agenda.c - see agenda.h. */
#include "agenda.h"

#include <errno.h>
#include <stdlib.h>

void agenda_fini(struct agenda *q)
{
	for (size_t i = 0; i < q->n; i++)
		q->heap[i]->at = 0;
	free(q->heap);
	*q = (struct agenda){ 0 };
}

static int reserve(struct agenda *q, size_t n)
{
	struct appointment **heap;

	if (n <= q->room)
		return 0;
	heap = reallocarray(q->heap, n, sizeof(struct appointment *));
	if (!heap)
		return -ENOMEM;
	q->heap = heap;
	q->room = n;
	return 0;
}

static void place(struct agenda *q, size_t i, struct appointment *d)
{
	q->heap[i] = d;
	d->at = i + 1;
}

static void up(struct agenda *q, size_t i, struct appointment *d)
{
	while (i && q->heap[(i - 1) / 2]->due_ns > d->due_ns) {
		place(q, i, q->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	place(q, i, d);
}

static void down(struct agenda *q, size_t i, struct appointment *d)
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

int agenda_set(struct agenda *q, struct appointment *d, uint64_t due_ns)
{
	uint64_t was = d->due_ns;

	if (!d->at) {
		int rc = q->n < q->room ? 0 : reserve(q, q->room ? 2 * q->room : 64);

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

void agenda_clear(struct agenda *q, struct appointment *d)
{
	struct appointment *last;
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

struct appointment *agenda_take(struct agenda *q, uint64_t now_ns)
{
	struct appointment *d = q->n ? q->heap[0] : NULL;

	if (!d || d->due_ns > now_ns)
		return NULL;
	agenda_clear(q, d);
	return d;
}

bool agenda_validate(const struct agenda *q)
{
	if (q->n > q->room)
		return false;
	for (size_t i = 0; i < q->n; i++)
		if (q->heap[i]->at != i + 1 ||
		    (i && q->heap[(i - 1) / 2]->due_ns > q->heap[i]->due_ns))
			return false;
	return true;
}
