/* SPDX-License-Identifier: BSD-2-Clause */
/* claims_kit.h - for tests of claims: one RNIC, "r" with account 7, whose holder N is 10.0.0.N. */
#ifndef CLAIMS_KIT_H
#define CLAIMS_KIT_H

#include <criterion/criterion.h>
#include <string.h>

#include "claims.h"

static inline uint32_t claims_account(void *ctx, const char *rnic)
{
	(void)ctx;
	return strcmp(rnic, "r") == 0 ? 7 : RSK_CLAIMS_NONE;
}

static inline void claims_set(struct rsk_claims *c, uint64_t offered,
			      const struct rsk_claims_quota *quotas, size_t n)
{
	static const char *const names[] = { "r" };
	struct rsk_pm_addr ips[8];
	struct rsk_claims_holder holders[8];
	const struct rsk_claims_set s = { .rnics = names,
					  .offered = &offered,
					  .n_rnics = 1,
					  .holders = holders,
					  .quotas = quotas,
					  .n_holders = n,
					  .n_quotas = n };

	for (size_t i = 0; i < n; i++) {
		ips[i] = (struct rsk_pm_addr){ .ipv = 4, .ip = { 10, 0, 0, (uint8_t)i } };
		holders[i] = (struct rsk_claims_holder){ .name = "h", .ips = &ips[i], .n_ips = 1 };
	}
	cr_assert_eq(rsk_claims_replace(c, &s), 0);
	rsk_claims_bind(c, claims_account, NULL);
	cr_assert(rsk_claims_validate(c));
}

static inline void claims_book(struct rsk_claims *c, uint8_t host, int by)
{
	const uint8_t ip[16] = { 10, 0, 0, host };

	rsk_claims_book(c, 7, 4, ip, by);
	cr_assert(rsk_claims_validate(c));
}

/* What is kept free beside one more session of that host. */
static inline uint64_t claims_beside(const struct rsk_claims *c, uint8_t host)
{
	const uint8_t ip[16] = { 10, 0, 0, host };

	return rsk_claims_kept_beside(c, 7, 4, ip);
}

#endif
