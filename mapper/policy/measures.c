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

void rsk_rate_note(struct rsk_rate *r, double n, uint64_t now_ns)
{
	r->per_s = rsk_rate_now(r, now_ns) + n * 1e9 / (double)RSK_RATE_TIME_NS;
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

static const struct rsk_measures_user *find(const struct rsk_measures_users *m, uint32_t uid)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (m->of[i].uid == uid)
			return &m->of[i];
	return NULL;
}

/* Returns a free entry, or else that of the user with the oldest report. */
static struct rsk_measures_user *place(struct rsk_measures_users *m)
{
	struct rsk_measures_user *oldest = &m->of[1];

	if (m->n < RSK_MEASURES_USERS)
		return &m->of[m->n++];
	for (uint32_t i = 2; i < m->n; i++)
		if (m->of[i].last < oldest->last)
			oldest = &m->of[i];
	return oldest;
}

/* The user's entry, for a report. */
static struct rsk_measures_user *reported(struct rsk_measures_users *m, uint32_t uid)
{
	struct rsk_measures_user *u = (struct rsk_measures_user *)find(m, uid);

	if (!m->n)
		m->n = 1; /* entry 0 is root's */
	if (!u) {
		u = uid ? place(m) : &m->of[0];
		*u = (struct rsk_measures_user){ .uid = uid };
	}
	u->last = ++m->told;
	return u;
}

void rsk_measures_stream_ended(struct rsk_measures *m, uint32_t uid, double bytes)
{
	rsk_mean_note(&reported(&m->users, uid)->stream_bytes, bytes);
}

void rsk_measures_transactions(struct rsk_measures *m, uint32_t uid, int side, double n,
			       uint64_t now_ns)
{
	rsk_rate_note(&reported(&m->users, uid)->transactions[side], n, now_ns);
}

double rsk_measures_stream_bytes(const struct rsk_measures *m, uint32_t uid)
{
	const struct rsk_measures_user *u = find(&m->users, uid);
	double own = u ? rsk_mean_of(&u->stream_bytes) : RSK_NOT_MEASURED;

	return own < 0 && uid && m->users.n ? rsk_mean_of(&m->users.of[0].stream_bytes) : own;
}

double rsk_measures_transaction_rate(const struct rsk_measures *m, uint32_t uid, int side,
				     uint64_t now_ns)
{
	const struct rsk_measures_user *u = uid ? find(&m->users, uid) : NULL;
	double own = u ? rsk_rate_now(&u->transactions[side], now_ns) : 0;

	return own + (m->users.n ? rsk_rate_now(&m->users.of[0].transactions[side], now_ns) : 0);
}

bool rsk_level_period(struct rsk_level *l, uint64_t wanted_per_s, uint64_t period_ns)
{
	double per_s = period_ns ? (double)l->n * 1e9 / (double)period_ns : 0;
	bool below = per_s < (double)wanted_per_s && per_s * RSK_LEVEL_IDLE >= (double)wanted_per_s;

	l->n = 0;
	l->periods = below == l->below ? 0 : l->periods + 1;
	if (l->periods < RSK_LEVEL_PERIODS)
		return false;
	l->below = below;
	l->periods = 0;
	return true;
}
