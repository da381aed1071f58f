/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay.c - a fuzz target for test/fuzz/replay.c that aborts on one input; teeth_programs.py runs
 * it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 3 && !memcmp(data, "bad", 3))
		abort();
	return 0;
}
