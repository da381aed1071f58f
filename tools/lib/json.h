/* SPDX-License-Identifier: BSD-2-Clause */
/* json.h - output helpers for the commands' option --json. */
#ifndef RSK_TOOLS_JSON_H
#define RSK_TOOLS_JSON_H

#include <jansson.h>
#include <stdint.h>

/*
 * Writes @root as one line to standard output and takes its reference. NULL means that there was no
 * memory for it. Returns EXIT_OK or EXIT_FAILED.
 */
int json_print(json_t *root);

/* A 64-bit counter as a JSON integer, at most INT64_MAX: jansson's integers are signed. */
static inline json_t *json_u64(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

#endif /* RSK_TOOLS_JSON_H */
