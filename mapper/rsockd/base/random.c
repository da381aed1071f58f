// SPDX-License-Identifier: BSD-2-Clause
/* random.c - see random.h. */
#include "random.h"

#include <sys/random.h>

uint64_t rsk_random_u64(void)
{
	uint64_t v = 0;

	while (!v)
		if (getrandom(&v, sizeof(v), 0) != sizeof(v))
			v = 0;
	return v;
}
