/* SPDX-License-Identifier: BSD-2-Clause */
/* json.h - what the commands' --json have in common. */
#ifndef RSK_TOOLS_JSON_H
#define RSK_TOOLS_JSON_H

#include <jansson.h>
#include <stdint.h>

/* One line to standard output. Takes @root over; NULL: there was no memory for it. Returns EXIT_OK or EXIT_FAILED. */
int json_print(json_t *root);

/* A counter of 64 bits as what JSON's integers can hold here. */
static inline json_t *json_u64(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

#endif /* RSK_TOOLS_JSON_H */
