// SPDX-License-Identifier: BSD-2-Clause
/* quota.c - see quota.h. */
#include "quota.h"

#define RESERVE_MOST 4u

/* What is held beyond what is used: as for the bookings of port tables (port_bookings.c). */
static uint64_t reserve(uint64_t offered)
{
	uint64_t part = offered / 16;

	if (part > RESERVE_MOST)
		return RESERVE_MOST;
	return part ? part : 1;
}

void rsk_quota_begin(struct rsk_quota *q, uint64_t now_ns)
{
	q->used++;
	q->busy_ns = now_ns;
}

void rsk_quota_end(struct rsk_quota *q)
{
	if (q->used)
		q->used--;
}

uint64_t rsk_quota_wanted(const struct rsk_quota *q, uint64_t offered, uint64_t now_ns)
{
	bool is_busy = q->busy_ns && now_ns - q->busy_ns < RSK_QUOTA_IDLE_NS;
	uint64_t ahead = is_busy ? reserve(offered) : 0;

	if (q->held < q->used + (ahead + 1) / 2 || q->held > q->used + 2 * ahead)
		return q->used + ahead;
	return q->held;
}

uint64_t rsk_quota_available(uint64_t offered, uint64_t published,
			     const struct rsk_quota_claim *others, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t claim = others[i].quota > others[i].published ? others[i].quota :
									 others[i].published;

		if (claim >= offered)
			return published;
		offered -= claim;
	}
	return offered > published ? offered : published;
}

uint64_t rsk_quota_grant(const struct rsk_quota *q, uint64_t wanted, uint64_t available)
{
	uint64_t most = wanted < available ? wanted : available;

	if (wanted <= q->held)
		return wanted;
	return most > q->held ? most : q->held;
}

void rsk_quota_write(struct rsk_quota *q, uint64_t sessions)
{
	if (sessions < q->held)
		q->held = sessions;
	if (sessions > q->most)
		q->most = sessions;
}

void rsk_quota_seen(struct rsk_quota *q, uint64_t sessions)
{
	q->held = q->most = sessions;
}

bool rsk_quota_validate(const struct rsk_quota *q)
{
	return q->held <= q->most;
}
