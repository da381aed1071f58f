// SPDX-License-Identifier: BSD-2-Clause
/*
 * policy_services.c - rsock policy services: which services the hosts of the cluster offer on RDMA.
 * rsockd knows them from etcd: see docs/adr/cluster.md.
 */
#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "json.h"
#include "policy.h"

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}

/* An address with its port, in brackets if it has colons; port 0: what is said instead. */
static void put_address(const char *address, long long port, const char *without, char *out,
			size_t n)
{
	bool six = strchr(address, ':') != NULL;

	if (port)
		snprintf(out, n, "%s%s%s:%lld", six ? "[" : "", address, six ? "]" : "", port);
	else
		snprintf(out, n, "%s %s", address, without);
}

static void print_service(const json_t *s)
{
	char at[96], rdma[96];

	put_address(text(s, "address"), json_integer_value(json_object_get(s, "port")), "", at,
		    sizeof(at));
	put_address(text(s, "rdma"), json_integer_value(json_object_get(s, "rdma-port")),
		    "(a port on request)", rdma, sizeof(rdma));
	printf("%-16s %-16s %-24s %-12s %-36s %s\n", text(s, "node"), text(s, "name"), at,
	       text(s, "device"), rdma, text(s, "since"));
}

int policy_services(const struct asked *q)
{
	json_t *answer, *one;
	long long left_out;
	size_t i;
	int rc;

	if (q->n != 1)
		return usage_error(q->self, "policy services takes no other argument");
	rc = daemon_ask(q->path, "GET", "/v1/policy/services", NULL, &answer);
	if (rc != EXIT_OK)
		return rc;
	if (q->json)
		return json_print(answer);
	printf("%-16s %-16s %-24s %-12s %-36s %s\n", "NODE", "SERVICE", "ADDRESS", "DEVICE", "RDMA",
	       "SINCE");
	json_array_foreach(json_object_get(answer, "services"), i, one) print_service(one);
	json_array_foreach(json_object_get(answer, "unreadable"), i, one)
		printf("%-16s is unreadable: the entry is not of rsockd\n", json_string_value(one));
	left_out = json_integer_value(json_object_get(answer, "left-out"));
	if (left_out)
		printf("the hosts have left out %lld more\n", left_out);
	if (json_is_true(json_object_get(answer, "more")))
		printf("there are more\n");
	if (!json_is_true(json_object_get(answer, "in-sync")))
		printf("this is what was seen last: %s\n",
		       *text(answer, "error") ? text(answer, "error") : "etcd is being asked");
	json_decref(answer);
	return EXIT_OK;
}
