/* SPDX-License-Identifier: BSD-2-Clause */
/* put.h - a put of the machines: they neither know nor care whether the fabric sends it at once. */
#ifndef RSK_PUT_H
#define RSK_PUT_H

#include "fabric.h"
#include "sigdefer.h"

/* In a guarded section. What the fabric only notes goes out with due(), or at the section's end. 0 or -errno. */
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
