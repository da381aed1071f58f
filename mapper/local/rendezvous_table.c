// SPDX-License-Identifier: BSD-2-Clause
/* rendezvous_table.c - see rendezvous_table.h. */
#include "rendezvous_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pm_hash.h"
#include <utlist.h>

struct rsk_rendezvous_table_seat {
	struct rsk_rendezvous_table_end end;
	/* The tuple without the fields about which the two ends may differ */
	struct rsk_tuple key;
	uint64_t since_ns;
	struct rsk_rendezvous_table_of *of;
	struct rsk_rendezvous_table_seat *prev, *next;	     /* list by age */
	struct rsk_rendezvous_table_seat *of_prev, *of_next; /* the process's list, by age */
	UT_hash_handle hh;
};

struct rsk_rendezvous_table_pair {
	uint32_t low, high;
};

struct rsk_rendezvous_table_link {
	struct rsk_rendezvous_table_pair pair;
	uint64_t link;
	struct rsk_rendezvous_table_of *of[2];
	UT_hash_handle hh;
};

/* Everything of one process. */
struct rsk_rendezvous_table_of {
	uint32_t process;
	uint32_t n;
	struct rsk_rendezvous_table_seat *seats;
	uint32_t n_links;
	UT_hash_handle hh;
};

static struct rsk_tuple key_of(const struct rsk_tuple *tuple)
{
	struct rsk_tuple key = *tuple;

	key.scope = 0;
	key.pad = 0;
	key.pad2 = 0;
	return key;
}

static struct rsk_rendezvous_table_of *of(const struct rsk_rendezvous_table *m, uint32_t process)
{
	struct rsk_rendezvous_table_of *o;

	HASH_FIND(hh, m->of, &process, sizeof(process), o);
	return o;
}

static struct rsk_rendezvous_table_of *of_made(struct rsk_rendezvous_table *m, uint32_t process)
{
	struct rsk_rendezvous_table_of *o = of(m, process);

	if (o)
		return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->process = process;
	HASH_ADD(hh, m->of, process, sizeof(process), o);
	return o;
}

static void of_put(struct rsk_rendezvous_table *m, struct rsk_rendezvous_table_of *o)
{
	if (o->n || o->n_links)
		return;
	HASH_DEL(m->of, o);
	free(o);
}

/* ---- waiting ends ---- */

static struct rsk_rendezvous_table_seat *seat_at(const struct rsk_rendezvous_table *m,
						 const struct rsk_tuple *tuple)
{
	struct rsk_tuple key = key_of(tuple);
	struct rsk_rendezvous_table_seat *s;

	HASH_FIND(hh, m->seats, &key, sizeof(key), s);
	return s;
}

static void seat_free(struct rsk_rendezvous_table *m, struct rsk_rendezvous_table_seat *s)
{
	struct rsk_rendezvous_table_of *o = s->of;

	HASH_DEL(m->seats, s);
	DL_DELETE(m->oldest, s);
	DL_DELETE2(o->seats, s, of_prev, of_next);
	o->n--;
	of_put(m, o);
	free(s);
}

void rsk_rendezvous_table_expire(struct rsk_rendezvous_table *m, uint64_t now_ns)
{
	while (m->oldest && now_ns - m->oldest->since_ns > RSK_RENDEZVOUS_TABLE_WAIT_NS) {
		m->expired++;
		seat_free(m, m->oldest);
	}
}

static void make_room(struct rsk_rendezvous_table *m, uint32_t process, uint64_t now_ns)
{
	const struct rsk_rendezvous_table_of *o;

	rsk_rendezvous_table_expire(m, now_ns);
	o = of(m, process);
	if (o && o->n >= RSK_RENDEZVOUS_TABLE_MOST_OF_ONE) {
		m->pushed_out++;
		seat_free(m, o->seats);
	} else if (HASH_COUNT(m->seats) >= RSK_RENDEZVOUS_TABLE_MOST) {
		m->pushed_out++;
		seat_free(m, m->oldest);
	}
}

static int sit(struct rsk_rendezvous_table *m, const struct rsk_rendezvous_table_end *end,
	       uint64_t now_ns)
{
	struct rsk_rendezvous_table_seat *s = calloc(1, sizeof(*s));
	struct rsk_rendezvous_table_of *o = s ? of_made(m, end->process) : NULL;

	if (!o) {
		free(s);
		return -ENOMEM;
	}
	s->end = *end;
	s->key = key_of(&end->tuple);
	s->since_ns = now_ns;
	s->of = o;
	HASH_ADD(hh, m->seats, key, sizeof(s->key), s);
	DL_APPEND(m->oldest, s);
	DL_APPEND2(o->seats, s, of_prev, of_next);
	o->n++;
	return 0;
}

int rsk_rendezvous_table_lookup(struct rsk_rendezvous_table *m,
				const struct rsk_rendezvous_table_end *end, uint64_t now_ns,
				struct rsk_rendezvous_table_end *other)
{
	struct rsk_tuple mirror = rsk_tuple_mirror(&end->tuple);
	struct rsk_rendezvous_table_seat *own = seat_at(m, &end->tuple), *s;

	if (own)
		seat_free(m, own);
	s = seat_at(m, &mirror);
	if (s && s->end.process != end->process && s->end.connecting != end->connecting) {
		*other = s->end;
		seat_free(m, s);
		m->met++;
		return 1;
	}
	make_room(m, end->process, now_ns);
	return sit(m, end, now_ns);
}

const struct rsk_rendezvous_table_end *
rsk_rendezvous_table_waits(const struct rsk_rendezvous_table *m, const struct rsk_tuple *tuple)
{
	const struct rsk_rendezvous_table_seat *s = seat_at(m, tuple);

	return s ? &s->end : NULL;
}

size_t rsk_rendezvous_table_count(const struct rsk_rendezvous_table *m)
{
	return HASH_COUNT(m->seats);
}

/* ---- links ---- */

static struct rsk_rendezvous_table_link *link_at(const struct rsk_rendezvous_table *m, uint32_t a,
						 uint32_t b)
{
	struct rsk_rendezvous_table_pair pair = { a < b ? a : b, a < b ? b : a };
	struct rsk_rendezvous_table_link *l;

	HASH_FIND(hh, m->links, &pair, sizeof(pair), l);
	return l;
}

uint64_t rsk_rendezvous_table_link(const struct rsk_rendezvous_table *m, uint32_t a, uint32_t b)
{
	const struct rsk_rendezvous_table_link *l = link_at(m, a, b);

	return l ? l->link : 0;
}

int rsk_rendezvous_table_link_set(struct rsk_rendezvous_table *m, uint32_t a, uint32_t b,
				  uint64_t link)
{
	struct rsk_rendezvous_table_link *l = link_at(m, a, b);
	struct rsk_rendezvous_table_of *low, *high;

	if (l) {
		l->link = link;
		return 0;
	}
	l = calloc(1, sizeof(*l));
	low = l ? of_made(m, a < b ? a : b) : NULL;
	high = low ? of_made(m, a < b ? b : a) : NULL;
	if (!high) {
		if (low)
			of_put(m, low);
		free(l);
		return -ENOMEM;
	}
	l->pair = (struct rsk_rendezvous_table_pair){ low->process, high->process };
	l->link = link;
	l->of[0] = low;
	l->of[1] = high;
	HASH_ADD(hh, m->links, pair, sizeof(l->pair), l);
	low->n_links++;
	high->n_links++;
	return 0;
}

static void link_free(struct rsk_rendezvous_table *m, struct rsk_rendezvous_table_link *l)
{
	struct rsk_rendezvous_table_of *low = l->of[0], *high = l->of[1];

	HASH_DEL(m->links, l);
	free(l);
	low->n_links--;
	of_put(m, low);
	high->n_links--;
	of_put(m, high);
}

void rsk_rendezvous_table_link_lost(struct rsk_rendezvous_table *m, uint32_t process, uint64_t link)
{
	struct rsk_rendezvous_table_link *l, *next;

	HASH_ITER(hh, m->links, l, next)
		if (l->link == link && (l->pair.low == process || l->pair.high == process)) {
			link_free(m, l);
			return;
		}
}

/* ---- processes ---- */

void rsk_rendezvous_table_each(const struct rsk_rendezvous_table *m, uint32_t process,
			       void (*fn)(void *ctx, const struct rsk_rendezvous_table_end *end),
			       void *ctx)
{
	const struct rsk_rendezvous_table_of *o = of(m, process);

	for (const struct rsk_rendezvous_table_seat *s = o ? o->seats : NULL; s; s = s->of_next)
		fn(ctx, &s->end);
}

void rsk_rendezvous_table_gone(struct rsk_rendezvous_table *m, uint32_t process)
{
	struct rsk_rendezvous_table_of *o = of(m, process);
	struct rsk_rendezvous_table_link *l, *next;
	struct rsk_rendezvous_table_seat *s, *next_s;

	if (!o)
		return;
	o->n_links++; /* keeps the entry from being freed with the last thing of it */
	for (s = o->seats; s; s = next_s) {
		next_s = s->of_next;
		seat_free(m, s);
	}
	if (o->n_links > 1)
		HASH_ITER(hh, m->links, l, next)
			if (l->of[0] == o || l->of[1] == o)
				link_free(m, l);
	o->n_links--;
	of_put(m, o);
}

void rsk_rendezvous_table_fini(struct rsk_rendezvous_table *m)
{
	struct rsk_rendezvous_table_of *o = m->of, *next_o;
	struct rsk_rendezvous_table_seat *s = m->oldest, *next_s;
	struct rsk_rendezvous_table_link *l = m->links, *next_l;

	/* The hash tables are cleared; their elements remain lists. */
	HASH_CLEAR(hh, m->of);
	HASH_CLEAR(hh, m->seats);
	HASH_CLEAR(hh, m->links);
	for (; o; o = next_o) {
		next_o = o->hh.next;
		free(o);
	}
	for (; s; s = next_s) {
		next_s = s->next;
		free(s);
	}
	for (; l; l = next_l) {
		next_l = l->hh.next;
		free(l);
	}
	*m = (struct rsk_rendezvous_table){ 0 };
}

bool rsk_rendezvous_table_validate(const struct rsk_rendezvous_table *m)
{
	struct rsk_rendezvous_table_of *o, *next;
	size_t seats = 0, links = 0, counted = 0;
	const struct rsk_rendezvous_table_seat *s;

	HASH_ITER(hh, m->of, o, next) {
		if (!o->n && !o->n_links)
			return false;
		DL_COUNT2(o->seats, s, counted, of_next);
		if (counted != o->n || o->n > RSK_RENDEZVOUS_TABLE_MOST_OF_ONE)
			return false;
		seats += o->n;
		links += o->n_links;
	}
	DL_COUNT(m->oldest, s, counted);
	for (s = m->oldest; s && s->next; s = s->next)
		if (s->since_ns > s->next->since_ns)
			return false;
	return counted == seats && counted == HASH_COUNT(m->seats) &&
	       counted <= RSK_RENDEZVOUS_TABLE_MOST && links == 2 * HASH_COUNT(m->links);
}
