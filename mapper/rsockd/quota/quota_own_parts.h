/* SPDX-License-Identifier: BSD-2-Clause */
/* quota_own_parts.h - between quota_own.c and quota_claims.c. Only these two include it. */
#ifndef RSK_QUOTA_OWN_PARTS_H
#define RSK_QUOTA_OWN_PARTS_H

#include "quota_own.h"

/* Gives the claims to the policy agent, as etcd has them and as they are being written. */
void rsk_quota_own_claim(struct rsk_quota_own *o);
/* Frees what is known of holders. */
void rsk_quota_own_forget(struct rsk_quota_own *o);

#endif
