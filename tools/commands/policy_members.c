// SPDX-License-Identifier: BSD-2-Clause
/*
 * policy_members.c - rsock policy members: the hosts of the cluster, what they have, and which
 * revision of the document each runs. rsockd asks etcd for us: see docs/adr/cluster.md.
 */
#include <stdio.h>

#include "daemon.h"
#include "json.h"
#include "policy.h"

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}

static long long number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static void print_list(const char *before, const json_t *list)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one) printf("%s%s", i ? ", " : before, json_string_value(one));
}

static void print_rnic(const json_t *rnic)
{
	printf("  %-16s %-9s", text(rnic, "name"), text(rnic, "state"));
	if (number(rnic, "bps"))
		printf(" %9.2f Gbit/s", (double)number(rnic, "bps") / 1e9);
	else
		printf(" %16s", "");
	print_list("  ", json_object_get(rnic, "addresses"));
	putchar('\n');
}

static void print_member(const json_t *member)
{
	const json_t *refused = json_object_get(member, "refused"), *rnic;
	size_t i;

	if (!json_is_true(json_object_get(member, "readable"))) {
		printf("%-16s is unreadable: the entry is not of rsockd\n", text(member, "node"));
		return;
	}
	printf("%-16s %-10lld %-7s  %-10s %-20s", text(member, "node"), number(member, "revision"),
	       json_is_true(json_object_get(member, "current")) ? "yes" : "no",
	       text(member, "version"), text(member, "started"));
	print_list(" ", json_object_get(member, "listens"));
	print_list("; policy agent ", json_object_get(member, "pma"));
	putchar('\n');
	json_array_foreach(json_object_get(member, "rnics"), i, rnic) print_rnic(rnic);
	if (json_is_object(refused))
		printf("  refuses revision %lld: %s\n", number(refused, "revision"),
		       text(refused, "why"));
}

int policy_members(const struct asked *q)
{
	json_t *answer, *one;
	size_t i;
	int rc;

	if (q->n != 1)
		return usage_error(q->self, "policy members takes no other argument");
	rc = daemon_ask(q->path, "GET", "/v1/policy/members", NULL, &answer);
	if (rc != EXIT_OK)
		return rc;
	if (q->json)
		return json_print(answer);
	printf("%-16s %-10s %-7s  %-10s %-20s %s\n", "NODE", "REVISION", "CURRENT", "VERSION",
	       "STARTED", "LISTENS");
	json_array_foreach(json_object_get(answer, "members"), i, one) print_member(one);
	if (json_is_true(json_object_get(answer, "more")))
		printf("there are more\n");
	json_decref(answer);
	return EXIT_OK;
}
