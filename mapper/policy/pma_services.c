// SPDX-License-Identifier: BSD-2-Clause
/*
 * pma_services.c - see pma.h: what the streams of services carry, as processes report it, and the
 * level of transactions below which a service makes its node count as overloaded.
 */
#include <errno.h>

#include "pma_parts.h"

#define RATE_TOLD 1e-3 /* per second; a smaller rate is as good as none */

int rsk_pma_measured(struct rsk_pma *a, uint32_t uid, uint16_t ap_port, uint64_t bytes)
{
	uint32_t service = a->conf->service_at[ap_port];

	if (!service)
		return -ENOENT;
	if (uid != RSK_PMA_NOBODY)
		rsk_measures_stream_ended(&a->bound.measures[service - 1], uid, (double)bytes);
	return 0;
}

/*
 * Whoever could report a service's transactions without having it could have all others slowed
 * down.
 */
static bool is_believed(const struct rsk_conf_service *s, uint32_t uid)
{
	for (size_t i = 0; i < s->n_transactions_of; i++)
		if (s->transactions_of[i] == uid)
			return true;
	return !uid;
}

int rsk_pma_transactions(struct rsk_pma *a, uint32_t uid, enum rsk_pma_side side, uint16_t ap_port,
			 uint64_t n, uint64_t now_ns)
{
	uint32_t service = a->conf->service_at[ap_port];
	struct rsk_measures *m = service ? &a->bound.measures[service - 1] : NULL;

	if (!m)
		return -ENOENT;
	if (uid == RSK_PMA_NOBODY)
		return 0;
	rsk_measures_transactions(m, uid, (int)side, (double)n, now_ns);
	if (side == RSK_PMA_AP && is_believed(&a->conf->services[service - 1], uid))
		m->level.n += n;
	return 0;
}

void rsk_pma_period(struct rsk_pma *a, uint64_t now_ns)
{
	uint64_t period_ns = a->period_at_ns ? now_ns - a->period_at_ns : 0;

	a->period_at_ns = now_ns;
	a->service_below = false;
	for (uint32_t i = 0; i < a->conf->n_services; i++) {
		struct rsk_level *l = &a->bound.measures[i].level;

		if (rsk_level_period(l, a->conf->services[i].transactions_wanted, period_ns))
			rsk_pma_tell(a, l->below ? RSK_PMA_SERVICE_BELOW : RSK_PMA_SERVICE_RELIEF,
				     a->conf->services[i].name);
		a->service_below |= l->below;
	}
	rsk_pma_watch_node(a);
}

/* False: nothing worth telling was measured. */
static bool view_user(const struct rsk_measures_user *u, uint64_t now_ns,
		      struct rsk_pma_user_view *out)
{
	*out = (struct rsk_pma_user_view){ .uid = u->uid,
					   .stream_bytes = rsk_mean_of(&u->stream_bytes) };
	for (int side = 0; side < 2; side++)
		out->transactions_per_s[side] = rsk_rate_now(&u->transactions[side], now_ns);
	return out->stream_bytes >= 0 || out->transactions_per_s[0] >= RATE_TOLD ||
	       out->transactions_per_s[1] >= RATE_TOLD;
}

size_t rsk_pma_services(const struct rsk_pma *a, uint64_t now_ns, struct rsk_pma_service_view *out,
			size_t max)
{
	size_t n = 0;

	for (uint32_t i = 0; i < a->conf->n_services; i++) {
		const struct rsk_measures *m = &a->bound.measures[i];
		struct rsk_pma_service_view v = {
			.name = a->conf->services[i].name,
			.decisions_per_s = { rsk_rate_now(&m->decisions[0], now_ns),
					     rsk_rate_now(&m->decisions[1], now_ns) },
		};

		for (uint32_t k = 0; k < m->users.n; k++)
			v.n_users += view_user(&m->users.of[k], now_ns, &v.of[v.n_users]);
		if (v.decisions_per_s[0] < RATE_TOLD && v.decisions_per_s[1] < RATE_TOLD &&
		    !v.n_users)
			continue;
		if (n < max)
			out[n] = v;
		n++;
	}
	return n;
}
