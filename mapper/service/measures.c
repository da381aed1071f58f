// SPDX-License-Identifier: BSD-2-Clause
/* measures.c - see measures.h. */
#include "measures.h"

#include <math.h>

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
