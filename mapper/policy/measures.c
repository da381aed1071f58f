// SPDX-License-Identifier: BSD-2-Clause
/* measures.c - see measures.h. */
#include "measures.h"

#include <math.h>
#include <stddef.h>

double rsk_rate_now(const struct rsk_rate *r, uint64_t now_ns)
{
	uint64_t passed = now_ns > r->at_ns ? now_ns - r->at_ns : 0;

	return r->per_s * exp(-(double)passed / (double)RSK_RATE_TIME_NS);
}

void rsk_rate_note(struct rsk_rate *r, uint64_t now_ns)
{
	r->per_s = rsk_rate_now(r, now_ns) + 1e9 / (double)RSK_RATE_TIME_NS;
	if (now_ns > r->at_ns)
		r->at_ns = now_ns;
}

void rsk_mean_note(struct rsk_mean *m, double value)
{
	if (m->n < RSK_MEAN_MOST)
		m->n++;
	m->value += (value - m->value) / m->n;
}

double rsk_mean_of(const struct rsk_mean *m)
{
	return m->n < RSK_MEAN_LEAST ? RSK_NOT_MEASURED : m->value;
}

static struct rsk_means_user *means_find(const struct rsk_means *m, uint32_t uid)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (m->of[i].uid == uid)
			return (struct rsk_means_user *)&m->of[i];
	return NULL;
}

/* Returns a free entry, or else that of the user with the oldest report. */
static struct rsk_means_user *means_place(struct rsk_means *m)
{
	struct rsk_means_user *oldest = &m->of[1];

	if (!m->n)
		m->n = 1; /* entry 0 is root's */
	if (m->n < RSK_MEANS_USERS)
		return &m->of[m->n++];
	for (uint32_t i = 2; i < m->n; i++)
		if (m->of[i].last < oldest->last)
			oldest = &m->of[i];
	return oldest;
}

void rsk_means_note(struct rsk_means *m, uint32_t uid, double value)
{
	struct rsk_means_user *u = means_find(m, uid);

	if (!u) {
		u = uid ? means_place(m) : &m->of[0];
		*u = (struct rsk_means_user){ .uid = uid };
		if (!m->n)
			m->n = 1;
	}
	u->last = ++m->told;
	rsk_mean_note(&u->mean, value);
}

double rsk_means_of(const struct rsk_means *m, uint32_t uid)
{
	const struct rsk_means_user *u = means_find(m, uid);
	double own = u ? rsk_mean_of(&u->mean) : RSK_NOT_MEASURED;

	return own < 0 && uid && m->n ? rsk_mean_of(&m->of[0].mean) : own;
}
