// SPDX-License-Identifier: BSD-2-Clause
/* policy.c - see policy.h. */
#include "policy.h"

void rsk_policy_looked(const struct rsk_policy *p, struct rsk_policy_search *s, uint64_t now_ns)
{
	uint64_t gap_ns;

	if (!s->looks)
		s->began_ns = now_ns;
	gap_ns = (now_ns - s->began_ns) / RSK_POLICY_LATE_SHARE;
	if (gap_ns < p->look_ns)
		gap_ns = p->look_ns;
	s->next_ns = now_ns > UINT64_MAX - gap_ns ? UINT64_MAX : now_ns + gap_ns;
	if (s->looks < UINT32_MAX)
		s->looks++;
}
