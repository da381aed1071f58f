/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mech_verbs.h - what librsock-verbs-mech.so has besides librsock-verbs.so: locked access over a
 * rail, and the release of a ring's registration. Sources: US2016043965, and the paper of the
 * dynamic transfer. Tests and benchmarks between two hosts load it in place of librsock-verbs.so
 * (RSOCK_VERBS), and look up its table as "rsk_mech_verbs". No code of the library calls this:
 * docs/adr/mechanisms.md.
 */
#ifndef RSK_MECH_VERBS_H
#define RSK_MECH_VERBS_H

#include "locked_kinds.h"
#include "verbs.h"

/* (progress) and (path): fabric/verbs.h. */
struct rsk_mech_verbs {
	/*
	 * (progress) While up: locked() may be called from here on; it needs 33 KiB registered.
	 * Call it again after each up(); a second call does nothing. Returns 0; -EOPNOTSUPP: the
	 * device has no atomic operations; -ENOMEM; -ENOTCONN: no device is known yet.
	 */
	int (*reg_locked)(struct rsk_verbs_rail *r);
	/*
	 * (path) Starts lock, access and unlock of a record in a ring of the peer's segment as one
	 * operation, of any kind. @op is borrowed until it is done. Returns 0: the rail's poll()
	 * will return a completion with @token; -EAGAIN: too many are under way; -EOPNOTSUPP,
	 * -ENOTCONN: see reg_locked(); -EINVAL; -EPIPE.
	 */
	int (*locked)(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token);
	/* Compare-and-swaps posted by all rails of this process. */
	uint64_t (*atomics)(void);
	/*
	 * (progress) Unregisters our ring of @sid, and the window's if nothing is under way. A
	 * write of the peer that is still under way would break the rail, so the peer must first
	 * have closed the ring (set_ring), settled, and reported that.
	 */
	void (*unreg_ring)(struct rsk_verbs_rail *r, uint32_t sid);
};

#endif
