/* SPDX-License-Identifier: BSD-2-Clause */
/* place.h - where this process pairs its streams: the lock under which that is done, and its registry. For pairing.c. */
#ifndef RSK_PLACE_H
#define RSK_PLACE_H

#include "registry.h"

/* Lock held. The child of a fork makes its own registry: what it inherited is its parent's. */
void rsk_place_is_mine(void);
struct rsk_registry *rsk_place_registry(void); /* lock held, behind the above */

/* In the child, where the lock was taken over the fork: it is nobody's; then the parent's registry is left. */
void rsk_place_forked(void);
void rsk_place_leave(void);

#endif
