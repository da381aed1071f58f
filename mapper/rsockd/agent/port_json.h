/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_json.h - converts what a node reports of the configuration of a port (port_report.h) to and
 * from fields of a JSON object. All are optional; a field that has nothing to say is left out. Part
 * of pma_json.c, which checks that there are no other fields. Pure.
 *
 *	"bus_bps": bits per second, "numa_node", "spare": true, "class": "high" | "best-effort",
 *	"reach": ["10.1.0.0/16", ...]
 */
#ifndef RSK_PORT_JSON_H
#define RSK_PORT_JSON_H

#include <jansson.h>

#include "port_report.h"

#define RSK_PORT_JSON_KEYS "bus_bps", "numa_node", "spare", "class", "reach"

void rsk_port_json_put(json_t *object, const struct rsk_port_report *r);

/* False: one of the fields is malformed or out of range. */
bool rsk_port_json_take(const json_t *object, struct rsk_port_report *out);

#endif
