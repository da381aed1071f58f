// SPDX-License-Identifier: BSD-2-Clause
/* link_refusals.c - see link_refusals.h. */
#include "link_refusals.h"

void rsk_link_refusals_add(struct rsk_link_refusals *r, const struct rsk_pm_addr *service,
			   uint64_t until_ns)
{
	struct rsk_link_refusal *to = &r->at[0];

	for (uint32_t i = 0; i < RSK_LINK_REFUSALS_MOST; i++) {
		struct rsk_link_refusal *one = &r->at[i];

		if (one->until_ns && rsk_pm_addr_equal(&one->service, service)) {
			to = one;
			break;
		}
		if (one->until_ns < to->until_ns)
			to = one;
	}
	*to = (struct rsk_link_refusal){ .service = *service, .until_ns = until_ns };
}

bool rsk_link_refusals_has(const struct rsk_link_refusals *r, const struct rsk_pm_addr *service,
			   uint64_t now_ns)
{
	for (uint32_t i = 0; i < RSK_LINK_REFUSALS_MOST; i++)
		if (now_ns < r->at[i].until_ns && rsk_pm_addr_equal(&r->at[i].service, service))
			return true;
	return false;
}

bool rsk_link_refusals_any(const struct rsk_link_refusals *r, uint64_t now_ns)
{
	for (uint32_t i = 0; i < RSK_LINK_REFUSALS_MOST; i++)
		if (now_ns < r->at[i].until_ns)
			return true;
	return false;
}
