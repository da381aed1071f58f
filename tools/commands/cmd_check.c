// SPDX-License-Identifier: BSD-2-Clause
/*
 * cmd_check.c - rsock check: would a stream to this server be accelerated? It connects and
 * examines the process that accepted (check_server.c); or, if the server echoes, as rsock check
 * --serve does, it sends until the stream is promoted (check_echo.c).
 */
#include "rsock.h"

#include "check.h"
#include "echo.h"
#include "library.h"
#include "launch.h"
#include "start.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	OPT_JSON,
	OPT_TIMEOUT,
	OPT_ECHO,
	OPT_SERVE,
	OPT_BIND,
	OPT_ONCE,
	OPT_PROBE,
};

static const struct option_row options[] = {
	{ "--json", NULL, "one JSON object on one line" },
	{ "--timeout", "SECONDS", "how long to wait for the server (2), for promotion (15)" },
	{ "--echo", NULL,
	  "the server echoes: send until the stream is promoted, and time round trips" },
	{ "--serve", NULL, "be that server, with librsock.so; the only argument is PORT" },
	{ "--bind", "ADDRESS", "--serve: listen at this address, not on loopback" },
	{ "--once", NULL, "--serve: exit after the first client" },
	{ "--probe", NULL, "one half of --echo, with the environment of this process; JSON" },
	{ NULL, NULL, NULL },
};

/* Runs the echo server. A process without the library executes itself again with it. */
static int serve(const char *bind, const char *port, bool once, char **argv)
{
	char own[PATH_MAX], library[PATH_MAX], path[PATH_MAX], host[128], service[16];
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);
	struct proc self;
	int fds[4], n, status;

	proc_read(getpid(), &self);
	if (self.loaded != ANSWER_YES) {
		if (getenv("RSOCK_CHECK_SERVE"))
			return failure("librsock.so was not loaded");
		if (launch_own_path(own))
			return failure("cannot find this tool's own file");
		status = start_prepare(own, library, path);
		if (status)
			return status;
		setenv("RSOCK_CHECK_SERVE", "1", 1);
		execv(path, argv);
		return failure("cannot execute this tool again: %s", strerror(errno));
	}
	n = echo_listen(bind, port, fds);
	if (n < 0)
		return failure("cannot listen on port %s: %s", port, strerror(-n));
	for (int i = 0; i < n; i++) {
		len = sizeof(name);
		if (getsockname(fds[i], (struct sockaddr *)&name, &len) == 0 &&
		    getnameinfo((struct sockaddr *)&name, len, host, sizeof(host), service,
				sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
			printf("echo on %s port %s\n", host, service);
	}
	fflush(stdout);
	n = echo_serve(fds, n, once);
	return n ? failure("%s", strerror(-n)) : EXIT_OK;
}

/* Splits "HOST:PORT" in place, and checks the number of words and the port. */
static int words_split(const struct command *self, char *words[2], int n, bool port_alone)
{
	uint64_t number;
	char *colon;

	if (n == 1 && !port_alone) {
		colon = strrchr(words[0], ':');
		if (!colon)
			return usage_error(self, "HOST and PORT are needed");
		*colon = 0;
		words[1] = colon + 1;
		if (words[0][0] == '[' && colon[-1] == ']') {
			colon[-1] = 0;
			words[0]++;
		}
	} else if (n != (port_alone ? 1 : 2)) {
		return usage_error(self, "%s",
				   port_alone ? "PORT is needed, and nothing else" :
						"HOST and PORT are needed");
	} else if (port_alone) {
		words[1] = words[0];
	}
	if (parse_number(words[1], port_alone ? 0 : 1, UINT16_MAX, &number))
		return usage_error(self, "'%s' is not a port", words[1]);
	return 0;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct args a = args_begin(self, argc, argv);
	bool set[OPT_PROBE + 1] = { false };
	struct check check = { 0 };
	const char *bind = NULL;
	char *words[2] = { NULL };
	int arg, n = 0, status;

	while ((arg = args_next(&a)) != ARG_END) {
		if (arg == ARG_STOP)
			return a.status;
		if (arg == ARG_WORD) {
			if (n == 2)
				return usage_error(self, "only one server: '%s'", a.value);
			words[n++] = a.argv[a.at - 1];
			continue;
		}
		set[arg] = true;
		if (arg == OPT_BIND)
			bind = a.value;
		if (arg == OPT_TIMEOUT && parse_seconds(a.value, &check.timeout_ns))
			return usage_error(self, "--timeout '%s': must be seconds, at most a day",
					   a.value);
	}
	if ((bind || set[OPT_ONCE]) && !set[OPT_SERVE])
		return usage_error(self, "--bind and --once need --serve");
	if (set[OPT_SERVE] && (set[OPT_ECHO] || set[OPT_PROBE]))
		return usage_error(self, "--serve excludes --echo and --probe");
	status = words_split(self, words, n, set[OPT_SERVE]);
	if (status)
		return status;
	if (set[OPT_SERVE]) /* argv[-1] is the name of the program, which serve() executes */
		return serve(bind, words[1], set[OPT_ONCE], argv - 1);
	check.host = words[0];
	check.port = words[1];
	check.json = set[OPT_JSON];
	if (set[OPT_PROBE])
		return check_probe(&check);
	return set[OPT_ECHO] ? check_echo(&check) : check_server(&check);
}

const struct command cmd_check = {
	.name = "check",
	.help = "tell whether a stream to this server would be accelerated",
	.words = "HOST PORT",
	.details =
		"Without --echo it sends nothing and examines the process that accepts.\n"
		"With --echo it tests both ends: rsock check --serve PORT there,\n"
		"rsock check --echo HOST PORT here.\n"
		"Exit status 0: accelerated, or would be; 1: not; 3: no connection, no echo, or\n"
		"unknown.",
	.options = options,
	.run = run,
};
