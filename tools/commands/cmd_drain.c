// SPDX-License-Identifier: BSD-2-Clause
/* cmd_drain.c - rsock drain: rsockd makes no new sessions on a device; existing ones continue. */
#include "daemon.h"
#include "json.h"
#include "rsock.h"

enum {
	UNDO,
	SOCKET,
	JSON
};

static const struct option_row options[] = {
	{ "--undo", NULL, "use the device again" },
	{ "--socket", "PATH", "the daemon's control socket (" DAEMON_SOCKET ")" },
	{ "--json", NULL, "one JSON object on one line" },
	{ NULL, NULL, NULL },
};

static int run(const struct command *self, int argc, char **argv)
{
	struct args a = args_begin(self, argc, argv);
	const char *device = NULL, *path = DAEMON_SOCKET;
	bool undo = false, json = false;
	json_t *answer;
	int arg, rc;

	while ((arg = args_next(&a)) != ARG_END) {
		if (arg == ARG_STOP)
			return a.status;
		if (arg == UNDO)
			undo = true;
		else if (arg == SOCKET)
			path = a.value;
		else if (arg == JSON)
			json = true;
		else if (!device)
			device = a.value;
		else
			return usage_error(self, "unknown argument '%s'", a.value);
	}
	if (!device)
		return usage_error(self, "a device is needed; rsock policy show lists them");
	rc = daemon_ask(path, "POST", "/v1/drain",
			json_pack("{s:s,s:b}", "device", device, "on", !undo), &answer);
	if (rc != EXIT_OK)
		return rc;
	if (json)
		return json_print(answer);
	printf("%s is %s\n", device, json_string_value(json_object_get(answer, "state")));
	json_decref(answer);
	return EXIT_OK;
}

const struct command cmd_drain = {
	.name = "drain",
	.help = "place no new sessions on a device; existing ones continue",
	.words = "DEVICE",
	.options = options,
	.run = run,
};
