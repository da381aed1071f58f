// SPDX-License-Identifier: BSD-2-Clause
/* json.c - see json.h. */
#include "json.h"

#include "rsock.h"

int json_print(json_t *root)
{
	int err;

	if (!root)
		return failure("no memory");
	err = json_dumpf(root, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(root);
	if (err)
		return failure("cannot write the output");
	putchar('\n');
	return EXIT_OK;
}
