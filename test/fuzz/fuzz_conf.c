// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_conf.c - fuzzes the parser of rsockd's configuration with any bytes: an accepted
 * configuration is valid, and the error message for any other one fits its buffer. The same for a
 * document of a cluster.
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

static void check(int rc, struct rsk_conf *c, const char *error, size_t n)
{
	if (rc == 0) {
		require(c && rsk_conf_validate(c));
		rsk_conf_free(c);
		return;
	}
	require(rc == -EINVAL && !c);
	require(memchr(error, 0, n) && *error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char own[] = "rnics: [{name: r0, addresses: [10.0.0.1], group: fast}]\n"
				  "aggregates: [{address: 10.9.0.1, over: [r0]}]\n";
	struct rsk_conf *c = NULL;
	char error[200];
	int rc;

	memset(error, 'x', sizeof(error));
	rc = rsk_conf_parse((const char *)data, size, &c, error, sizeof(error));
	check(rc, c, error, sizeof(error));
	c = NULL;
	memset(error, 'x', sizeof(error));
	rc = rsk_conf_parse_shared(own, sizeof(own) - 1, (const char *)data, size, NULL, &c, error,
				   sizeof(error));
	check(rc, c, error, sizeof(error));
	return 0;
}
