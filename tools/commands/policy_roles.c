// SPDX-License-Identifier: BSD-2-Clause
/*
 * policy_roles.c - rsock policy roles: which hosts of the cluster are central policy agents and
 * central PMSPs, and which of them this host asks. rsockd knows them from etcd: see
 * docs/adr/cluster.md.
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

static void print_role(const json_t *r)
{
	const char *address = text(r, "address");
	bool six = strchr(address, ':') != NULL;
	char at[96];

	snprintf(at, sizeof(at), "%s%s%s:%lld", six ? "[" : "", address, six ? "]" : "",
		 json_integer_value(json_object_get(r, "port")));
	printf("%-6s %-16s %-28s %s\n", text(r, "role"), text(r, "node"), at,
	       json_is_true(json_object_get(r, "asked")) ? "yes" : "no");
}

int policy_roles(const struct asked *q)
{
	json_t *answer, *one;
	size_t i;
	int rc;

	if (q->n != 1)
		return usage_error(q->self, "policy roles takes no other argument");
	rc = daemon_ask(q->path, "GET", "/v1/policy/roles", NULL, &answer);
	if (rc != EXIT_OK)
		return rc;
	if (q->json)
		return json_print(answer);
	printf("%-6s %-16s %-28s %s\n", "ROLE", "NODE", "ADDRESS", "FIRST");
	json_array_foreach(json_object_get(answer, "roles"), i, one) print_role(one);
	json_array_foreach(json_object_get(answer, "unreadable"), i, one)
		printf("%-23s is unreadable: the entry is not of rsockd\n", json_string_value(one));
	if (json_is_true(json_object_get(answer, "more")))
		printf("there are more\n");
	if (*text(answer, "not-told"))
		printf("this host's role is not told: %s\n", text(answer, "not-told"));
	if (!json_is_true(json_object_get(answer, "in-sync")))
		printf("this is what was seen last: %s\n",
		       *text(answer, "error") ? text(answer, "error") : "etcd is being asked");
	json_decref(answer);
	return EXIT_OK;
}
