// SPDX-License-Identifier: BSD-2-Clause
/*
 * cmd_policy.c - rsock policy: checks a configuration file; shows what rsockd decides and why,
 * and what it has promised; makes rsockd read its configuration again. policy_cluster.c has the
 * parts about the cluster's document, policy_members.c, policy_services.c, policy_roles.c and
 * policy_ledger.c those about its hosts.
 */
#include <string.h>

#include "conf.h"
#include "daemon.h"
#include "json.h"
#include "policy.h"
#include "rsock.h"

enum {
	SIDE,
	BASE,
	NOTE,
	SOCKET,
	JSON
};

static const struct option_row options[] = {
	{ "--side", "SIDE",
	  "explain: the side that decides, cp (connecting) or ap (accepting); default: cp" },
	{ "--base", "REV",
	  "push, rollback: only if this revision is the current one; 0: if there is none" },
	{ "--note", "TEXT", "push, rollback: what history is to show about it" },
	{ "--socket", "PATH", "the daemon's control socket (" DAEMON_SOCKET ")" },
	{ "--json", NULL, "one JSON object on one line" },
	{ NULL, NULL, NULL },
};

static int check(const struct asked *q)
{
	struct rsk_conf *conf;
	char error[512] = "";
	int rc;

	if (q->n != 2)
		return usage_error(q->self, "policy check takes a file");
	rc = rsk_conf_load(q->words[1], &conf, error, sizeof(error));
	if (rc == 0)
		rsk_conf_free(conf);
	if (q->json) {
		int printed = json_print(json_pack("{s:s,s:b,s:s?}", "file", q->words[1], "right",
						   rc == 0, "error", rc ? error : NULL));

		return printed != EXIT_OK ? printed : rc ? EXIT_NO : EXIT_OK;
	}
	if (rc)
		printf("%s\n", error);
	else
		printf("%s is valid\n", q->words[1]);
	return rc ? EXIT_NO : EXIT_OK;
}

static int explain(const struct asked *q)
{
	json_t *question, *answer, *steps;
	const char *verdict, *ip = NULL;
	int rc, port = 0;
	size_t i;

	if (q->n != 3)
		return usage_error(q->self, "policy explain takes a host and a port");
	if (strcmp(q->side, "cp") != 0 && strcmp(q->side, "ap") != 0)
		return usage_error(q->self, "--side '%s' is neither cp nor ap", q->side);
	rc = daemon_question(q->words[1], q->words[2], &question);
	if (rc != EXIT_OK)
		return rc;
	if (json_object_set_new(question, "side", json_string(q->side)) < 0) {
		json_decref(question);
		return failure("no memory");
	}
	rc = daemon_ask(q->path, "POST", "/v1/explain", question, &answer);
	if (rc != EXIT_OK)
		return rc;
	verdict = json_string_value(json_object_get(answer, "verdict"));
	rc = verdict && strcmp(verdict, "map") == 0 ? EXIT_OK : EXIT_NO;
	if (q->json)
		return json_print(answer) == EXIT_OK ? rc : EXIT_FAILED;
	json_array_foreach(json_object_get(answer, "steps"), i, steps)
		printf("%s\n", json_string_value(steps));
	printf("verdict: %s\n", verdict ? verdict : "unknown");
	json_unpack(answer, "{s:{s:s,s?i}}", "address", "ip", &ip, "port", &port);
	if (ip && port)
		printf("address: %s port %d\n", ip, port);
	else if (ip)
		printf("address: %s\n", ip);
	json_decref(answer);
	return rc;
}

static long long number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static int show(const struct asked *q)
{
	json_t *answer, *device;
	size_t i;
	int rc;

	if (q->n != 1)
		return usage_error(q->self, "policy show takes no other argument");
	rc = daemon_ask(q->path, "GET", "/v1/devices", NULL, &answer);
	if (rc != EXIT_OK)
		return rc;
	if (q->json)
		return json_print(answer);
	printf("%-16s %-16s %-9s %9s %9s %9s %9s %9s %9s %9s %9s %5s  %s\n", "DEVICE", "NODE",
	       "STATE", "SESSIONS", "PROMISED", "RAILS", "MOST", "GBIT/S", "CARRIED", "OTHERS",
	       "BUS", "NUMA", "WHY");
	json_array_foreach(json_object_get(answer, "devices"), i, device)
	{
		const char *why = json_string_value(json_object_get(device, "why_down"));

		printf("%-16s %-16s %-9s %9lld %9lld %9lld %9lld "
		       "%9.2f %9.2f %9.2f %9.2f %5lld  %s\n",
		       json_string_value(json_object_get(device, "name")),
		       json_string_value(json_object_get(device, "node")),
		       json_string_value(json_object_get(device, "state")),
		       number(device, "sessions"), number(device, "promised"),
		       number(device, "rails"), number(device, "sessions_max"),
		       (double)number(device, "bps") / 1e9,
		       (double)number(device, "carried_bps") / 1e9,
		       (double)number(device, "others_bps") / 1e9,
		       (double)number(device, "bus_bps") / 1e9, number(device, "numa_node"),
		       why ? why : "-");
	}
	policy_show_cluster(json_object_get(answer, "cluster"));
	json_decref(answer);
	return EXIT_OK;
}

static int reload(const struct asked *q)
{
	json_t *answer;
	int rc;

	if (q->n != 1)
		return usage_error(q->self, "policy reload takes no other argument");
	rc = daemon_ask(q->path, "POST", "/v1/reload", json_object(), &answer);
	if (rc != EXIT_OK)
		return rc;
	if (q->json)
		return json_print(answer);
	json_decref(answer);
	printf("read again; promises stay valid\n");
	return EXIT_OK;
}

static const struct {
	const char *name;
	int (*run)(const struct asked *q);
} parts[] = {
	{ "check", check },
	{ "explain", explain },
	{ "show", show },
	{ "reload", reload },
	{ "push", policy_push },
	{ "history", policy_history },
	{ "diff", policy_diff },
	{ "rollback", policy_rollback },
	{ "members", policy_members },
	{ "services", policy_services },
	{ "roles", policy_roles },
	{ "ledger", policy_ledger },
};

static int run(const struct command *self, int argc, char **argv)
{
	struct args a = args_begin(self, argc, argv);
	struct asked q = { .self = self, .side = "cp", .path = DAEMON_SOCKET };
	int arg;

	while ((arg = args_next(&a)) != ARG_END) {
		if (arg == ARG_STOP)
			return a.status;
		if (arg == SIDE)
			q.side = a.value;
		else if (arg == BASE)
			q.base = a.value;
		else if (arg == NOTE)
			q.note = a.value;
		else if (arg == SOCKET)
			q.path = a.value;
		else if (arg == JSON)
			q.json = true;
		else if (q.n < 3)
			q.words[q.n++] = a.value;
		else
			return usage_error(self, "unknown argument '%s'", a.value);
	}
	for (size_t i = 0; q.n && i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcmp(q.words[0], parts[i].name) == 0)
			return parts[i].run(&q);
	return usage_error(self, "check, explain, show, reload, push, history, diff, rollback, "
				 "members, services, roles or ledger is needed");
}

const struct command cmd_policy = {
	.name = "policy",
	.help = "check rsockd's configuration, explain its decisions, change the cluster's",
	.words = "check FILE | explain HOST PORT | show | reload | push FILE | history | "
		 "diff [REV] | rollback REV | members | services | roles | ledger",
	.options = options,
	.run = run,
};
