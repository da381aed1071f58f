/* SPDX-License-Identifier: BSD-2-Clause */
/* locked_rail.h - locked access over a rail: members of struct rsk_mech_verbs (mech_verbs.h). */
#ifndef RSK_LOCKED_RAIL_H
#define RSK_LOCKED_RAIL_H

#include "inner.h"
#include "mech_verbs.h"

int rsk_locked_rail_reg(struct rsk_verbs_rail *r);
int rsk_locked_rail_start(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token);
uint64_t rsk_locked_rail_atomics(void);

/* Does the device have atomic operations? They are atomic among themselves only. */
bool rsk_locked_rail_can(struct ibv_context *ctx);

#endif
