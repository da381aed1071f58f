// SPDX-License-Identifier: BSD-2-Clause
/* port_json.c - see port_json.h. */
#include "port_json.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "conf_value.h"

#define BUS_MOST 1000000000000000 /* 1000 Tbit/s, as of rates in the configuration */

static const char *const classes[] = {
	[RSK_CONF_QOS_HIGH] = "high",
	[RSK_CONF_QOS_BEST_EFFORT] = "best-effort",
};

static json_t *prefix_json(const struct rsk_conf_prefix *p)
{
	char ip[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 4];

	inet_ntop(p->ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET, p->ip, ip, sizeof(ip));
	snprintf(text, sizeof(text), "%s/%u", ip, p->bits);
	return json_string(text);
}

void rsk_port_json_put(json_t *object, const struct rsk_port_report *r)
{
	json_t *reach;

	if (r->bus.bps)
		json_object_set_new(object, "bus_bps", json_integer((json_int_t)r->bus.bps));
	if (r->bus.numa)
		json_object_set_new(object, "numa_node", json_integer(r->bus.numa - 1));
	if (r->spare)
		json_object_set_new(object, "spare", json_true());
	if (r->qos != RSK_CONF_QOS_ANY)
		json_object_set_new(object, "class", json_string(classes[r->qos]));
	if (!r->n_reach)
		return;
	reach = json_array();
	for (size_t i = 0; i < r->n_reach; i++)
		json_array_append_new(reach, prefix_json(&r->reach[i]));
	json_object_set_new(object, "reach", reach);
}

/* True if it is absent, or from 0 to @most; *out is unchanged, or the number. */
static bool take_number(const json_t *v, json_int_t most, json_int_t *out)
{
	if (!v)
		return true;
	*out = json_integer_value(v);
	return json_is_integer(v) && *out >= 0 && *out <= most;
}

static bool take_class(const json_t *v, enum rsk_conf_qos *out)
{
	const char *text = json_string_value(v);

	if (!v)
		return true;
	for (int i = RSK_CONF_QOS_HIGH; text && i <= RSK_CONF_QOS_BEST_EFFORT; i++) {
		*out = (enum rsk_conf_qos)i;
		if (strcmp(text, classes[i]) == 0)
			return true;
	}
	return false;
}

static bool take_reach(const json_t *v, struct rsk_port_report *out)
{
	if (!v)
		return true;
	/* An empty list would say "nothing", which a configuration cannot. */
	if (!json_is_array(v) || !json_array_size(v) || json_array_size(v) > RSK_PORT_REACH_MOST)
		return false;
	for (; out->n_reach < json_array_size(v); out->n_reach++) {
		const char *text = json_string_value(json_array_get(v, out->n_reach));

		if (!text || rsk_conf_prefix(text, &out->reach[out->n_reach]) < 0)
			return false;
	}
	return true;
}

bool rsk_port_json_take(const json_t *object, struct rsk_port_report *out)
{
	const json_t *spare = json_object_get(object, "spare");
	json_int_t bps = 0, numa = -1;

	*out = (struct rsk_port_report){ 0 };
	if (!take_number(json_object_get(object, "bus_bps"), BUS_MOST, &bps) ||
	    !take_number(json_object_get(object, "numa_node"), RSK_NUMA_NODES_MOST - 1, &numa) ||
	    (spare && !json_is_boolean(spare)) ||
	    !take_class(json_object_get(object, "class"), &out->qos) ||
	    !take_reach(json_object_get(object, "reach"), out))
		return false;
	out->bus = (struct rsk_bus){ .bps = (uint64_t)bps, .numa = (uint32_t)(numa + 1) };
	out->spare = json_is_true(spare);
	return true;
}
