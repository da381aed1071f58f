/* SPDX-License-Identifier: BSD-2-Clause */
/* place.h - the pairing lock and the registry of this process. pairing.c calls this. */
#ifndef RSK_PLACE_H
#define RSK_PLACE_H

#include "registry.h"

/*
 * Lock held. Opens this process's own registry: what the child of a fork inherited is its parent's.
 */
void rsk_place_is_mine(void);
struct rsk_registry *rsk_place_registry(void); /* lock held, after rsk_place_is_mine() */

/*
 * In the child: resets the lock, which was held over the fork; then closes the parent's registry.
 */
void rsk_place_forked(void);
void rsk_place_leave(void);

#endif
