// SPDX-License-Identifier: BSD-2-Clause
/* cmd_map.c - rsock map: asks rsockd's port mapper client for the RDMA address of a service. */
#include <string.h>

#include "daemon.h"
#include "json.h"
#include "rsock.h"

enum {
	SOCKET,
	JSON
};

static const struct option_row options[] = {
	{ "--socket", "PATH", "the daemon's control socket (" DAEMON_SOCKET ")" },
	{ "--json", NULL, "one JSON object on one line" },
	{ NULL, NULL, NULL },
};

static const char *text(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s ? s : "none";
}

static int tell(const json_t *answer)
{
	const json_t *rdma = json_object_get(answer, "rdma"),
		     *asked = json_object_get(answer, "asked");
	const char *outcome = text(answer, "outcome");

	if (strcmp(outcome, "mapped") == 0) {
		printf("mapped: %s port %d (rule %s, device %s)\n", text(rdma, "ip"),
		       (int)json_integer_value(json_object_get(rdma, "port")), text(answer, "rule"),
		       text(answer, "device"));
		return EXIT_OK;
	}
	if (strcmp(outcome, "not-asked") == 0)
		printf("not asked: this host's policy says %s (nearest rule %s)\n",
		       text(answer, "verdict"), text(answer, "rule"));
	else if (strcmp(outcome, "refused") == 0)
		printf("refused by %s: that host's policy, or there is no such service\n",
		       text(asked, "ip"));
	else
		printf("no answer from %s port %d: no rsockd or iwpmd answers there\n",
		       text(asked, "ip"), (int)json_integer_value(json_object_get(asked, "port")));
	return EXIT_NO;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct args a = args_begin(self, argc, argv);
	const char *words[2] = { NULL, NULL }, *path = DAEMON_SOCKET;
	json_t *question, *answer;
	bool json = false;
	int arg, rc, n = 0;

	while ((arg = args_next(&a)) != ARG_END) {
		if (arg == ARG_STOP)
			return a.status;
		if (arg == SOCKET)
			path = a.value;
		else if (arg == JSON)
			json = true;
		else if (n < 2)
			words[n++] = a.value;
		else
			return usage_error(self, "unknown argument '%s'", a.value);
	}
	if (n < 2)
		return usage_error(self, "a host and a port are needed");
	rc = daemon_question(words[0], words[1], &question);
	if (rc != EXIT_OK)
		return rc;
	rc = daemon_ask(path, "POST", "/v1/map", question, &answer);
	if (rc != EXIT_OK)
		return rc;
	if (json) {
		rc = strcmp(text(answer, "outcome"), "mapped") == 0 ? EXIT_OK : EXIT_NO;
		return json_print(answer) == EXIT_OK ? rc : EXIT_FAILED;
	}
	rc = tell(answer);
	json_decref(answer);
	return rc;
}

const struct command cmd_map = {
	.name = "map",
	.help = "ask rsockd for the RDMA address of a service",
	.words = "HOST PORT",
	.options = options,
	.run = run,
};
