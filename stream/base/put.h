/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * put.h - the put that the direction machines call. It hides whether the fabric posts at once or
 * defers the post.
 */
#ifndef RSK_PUT_H
#define RSK_PUT_H

#include "fabric.h"
#include "sigdefer.h"

/*
 * Called in a signal-deferred section. A deferred post goes out with due(), or at the section's
 * end. Returns 0 or -errno.
 */
static inline int rsk_put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	int rc = rsk_rail_put(rail, off, len);

	if (__builtin_expect(rc > 0, 0)) {
		rsk_defer_post(rail);
		return 0;
	}
	return rc;
}

#endif
