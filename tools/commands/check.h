/* SPDX-License-Identifier: BSD-2-Clause */
/* check.h - the tests of rsock check; cmd_check.c parses the command line and calls them. */
#ifndef RSK_TOOLS_CHECK_H
#define RSK_TOOLS_CHECK_H

#include "explain.h"

#include <stdbool.h>
#include <stdint.h>

struct check {
	const char *host;
	const char *port;
	uint64_t timeout_ns; /* 0: the default of the test */
	bool json;
};

/* Each returns an exit status. */
int check_server(const struct check *check); /* connects and examines the accepting process */
int check_echo(const struct check *check);   /* check_probe() with and without the library */
int check_probe(const struct check *check);  /* sends until promoted; prints a line of JSON */

#endif /* RSK_TOOLS_CHECK_H */
