/* SPDX-License-Identifier: BSD-2-Clause */
/* check.h - the tests behind rsock check. */
#ifndef RSK_TOOLS_CHECK_H
#define RSK_TOOLS_CHECK_H

#include "explain.h"

#include <stdbool.h>
#include <stdint.h>

struct check {
	const char *host;
	const char *port;
	uint64_t timeout_ns; /* 0: the test's own */
	bool json;
};

/* Each returns an exit status. */
int check_server(const struct check *check); /* connects, and looks at who accepts */
int check_echo(const struct check *check);   /* both ways of check_probe(), compared */
int check_probe(const struct check *check);  /* sends until promoted; one line of JSON */

#endif /* RSK_TOOLS_CHECK_H */
