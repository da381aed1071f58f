// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_conf.c - fuzzes the parser of rsockd's configuration with any bytes: an accepted
 * configuration is valid, and the error message for any other one fits its buffer.
 */
#include "conf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rsk_conf *c = NULL;
	char error[200];
	int rc;

	memset(error, 'x', sizeof(error));
	rc = rsk_conf_parse((const char *)data, size, &c, error, sizeof(error));
	if (rc == 0) {
		require(c && rsk_conf_validate(c));
		rsk_conf_free(c);
		return 0;
	}
	require(rc == -EINVAL && !c);
	require(memchr(error, 0, sizeof(error)) && *error);
	return 0;
}
