/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verdict.h - names of the policy agent's verdicts, as the API, the metrics and pma_json.c use
 * them.
 */
#ifndef RSK_VERDICT_H
#define RSK_VERDICT_H

#include "pma.h"

static inline const char *rsk_verdict_name(enum rsk_pma_verdict v)
{
	static const char *const names[] = {
		[RSK_PMA_MAP] = "map",
		[RSK_PMA_NO_RULE] = "no-rule",
		[RSK_PMA_NO_DEVICE] = "no-device",
		[RSK_PMA_EXHAUSTED] = "exhausted",
		[RSK_PMA_LIMIT] = "limit",
		[RSK_PMA_OVERLOAD] = "overload",
		[RSK_PMA_UNHEARD] = "unheard",
		[RSK_PMA_NOT_WORTH] = "not-worth",
		[RSK_PMA_NO_LISTENER] = "no-listener",
		[RSK_PMA_SOFT_RNIC] = "soft-rnic",
		[RSK_PMA_REMOTE_FULL] = "remote-full",
		[RSK_PMA_REDIRECT] = "elsewhere",
	};

	return v <= RSK_PMA_REDIRECT ? names[v] : "unknown";
}

#endif
