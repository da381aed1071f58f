/* SPDX-License-Identifier: BSD-2-Clause */
/* quota_own_parts.h - between quota_own.c and quota_claims.c. Only these two include it. */
#ifndef RSK_QUOTA_OWN_PARTS_H
#define RSK_QUOTA_OWN_PARTS_H

#include "quota_own.h"

/* 0 or -ENOMEM; the caller calls close() in either case. */
int rsk_quota_own_claims_open(struct rsk_quota_own *o, struct event_base *base);
void rsk_quota_own_claims_close(struct rsk_quota_own *o);

/* Gives the claims to the policy agent, as etcd has them and as they are being written. */
void rsk_quota_own_claim(struct rsk_quota_own *o);
/*
 * The same from the event loop: all changes until then cost once; 10 ms after the last time at the
 * earliest. Not for what has to count before a call to etcd is sent.
 */
void rsk_quota_own_claim_soon(struct rsk_quota_own *o);

#endif
