// SPDX-License-Identifier: BSD-2-Clause
/*
 * policy_ledger.c - rsock policy ledger: what this host offers of its RNICs to others, and holds of
 * theirs. rsockd knows it from etcd: see docs/adr/cluster.md.
 */
#include <stdio.h>

#include "daemon.h"
#include "json.h"
#include "policy.h"

static long long number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key, const char *without)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : without;
}

static void print_own(const json_t *rnic)
{
	json_t *one;
	size_t i;

	printf("%-24s %8lld %8lld %8lld %8lld\n", text(rnic, "rnic", ""), number(rnic, "limit"),
	       number(rnic, "booked"), number(rnic, "offered"), number(rnic, "kept"));
	json_array_foreach(json_object_get(rnic, "holders"), i, one)
		printf("  %-22s holds %lld, uses %lld\n", text(one, "holder", ""),
		       number(one, "quota"), number(one, "used"));
}

static void print_remote(const json_t *rnic)
{
	printf("%-40s %-10s %8lld %8lld %8lld\n", text(rnic, "rnic", ""),
	       text(rnic, "state", "unreadable"), number(rnic, "offered"), number(rnic, "quota"),
	       number(rnic, "used"));
}

int policy_ledger(const struct asked *q)
{
	json_t *answer, *one;
	size_t i;
	int rc;

	if (q->n != 1)
		return usage_error(q->self, "policy ledger takes no other argument");
	rc = daemon_ask(q->path, "GET", "/v1/policy/ledger", NULL, &answer);
	if (rc != EXIT_OK)
		return rc;
	if (q->json)
		return json_print(answer);
	printf("the ledger is %s%s%s\n", text(answer, "state", ""),
	       json_is_null(json_object_get(answer, "error")) ? "" : ": ",
	       text(answer, "error", ""));
	printf("\n%-24s %8s %8s %8s %8s\n", "RNIC", "LIMIT", "BOOKED", "OFFERED", "KEPT");
	json_array_foreach(json_object_get(answer, "own"), i, one) print_own(one);
	printf("\n%-40s %-10s %8s %8s %8s\n", "REMOTE RNIC", "STATE", "OFFERED", "QUOTA", "USED");
	json_array_foreach(json_object_get(answer, "remote"), i, one) print_remote(one);
	json_decref(answer);
	return EXIT_OK;
}
