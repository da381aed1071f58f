// SPDX-License-Identifier: BSD-2-Clause
/* policy.c - see policy.h. */
#include "policy.h"

/* Beyond this the doubling gap would overflow, and no stream lives that long. */
#define LOOKS_LIMIT 32

void rsk_policy_looked(const struct rsk_policy *p, struct rsk_policy_search *s, uint64_t calls)
{
	uint64_t gap = (uint64_t)p->look_calls << (s->looks < LOOKS_LIMIT ? s->looks : LOOKS_LIMIT);

	s->next_at_calls = calls > UINT64_MAX - gap ? UINT64_MAX : calls + gap;
	if (s->looks < UINT32_MAX)
		s->looks++;
}

bool rsk_policy_validate(struct rsk_policy *p)
{
	bool sane = true;

	if (p->look_calls == 0) {
		p->look_calls = 1;
		sane = false;
	}
	if (p->looks_max > LOOKS_LIMIT) {
		p->looks_max = LOOKS_LIMIT;
		sane = false;
	}
	return sane;
}
