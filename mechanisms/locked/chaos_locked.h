/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chaos_locked.h - locked access over the fabric for tests (fabric/chaos.h), as a target would
 * execute it that retries by itself.
 */
#ifndef RSK_CHAOS_LOCKED_H
#define RSK_CHAOS_LOCKED_H

#include "chaos.h"
#include "locked_kinds.h"

/*
 * rsk_chaos_locked - starts an operation of any kind. @op is borrowed until it is done. Returns 0:
 * the rail's poll() will return a completion with @token; -EINVAL; -ENETDOWN: the rail is broken.
 */
int rsk_chaos_locked(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token);

#endif
