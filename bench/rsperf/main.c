/* SPDX-License-Identifier: BSD-2-Clause */
/* main.c - rsperf's main(): the table of subcommands. */
#include <stdio.h>
#include <string.h>

#include "rsperf.h"

static const struct {
	const char *name;
	int (*parse)(struct rsk_opts *opts, int argc, char **argv);
	int (*run)(const struct rsk_opts *opts);
	const char *help;
} rsk_commands[] = {
	{ "server", rsk_opts_parse_server, rsk_server_main,
	  "serve every test; the client says which" },
	{ "client", rsk_opts_parse_client, rsk_client_main,
	  "--lat, --bw, --rate or --conn against a server" },
	{ "limit", rsk_opts_parse_limit, rsk_limit_main,
	  "what two processes of this machine can do without sockets" },
	{ "calls", rsk_opts_parse_calls, rsk_calls_main,
	  "what calls cost that no TCP stream is in" },
};

static void rsk_usage(FILE *out)
{
	fputs("usage: rsperf COMMAND [options]\n", out);
	for (size_t i = 0; i < sizeof(rsk_commands) / sizeof(rsk_commands[0]); i++)
		fprintf(out, "  %-8s %s\n", rsk_commands[i].name, rsk_commands[i].help);
	fputs("'rsperf COMMAND --help' lists a command's options.\n", out);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		rsk_usage(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		rsk_usage(stdout);
		return 0;
	}
	for (size_t i = 0; i < sizeof(rsk_commands) / sizeof(rsk_commands[0]); i++) {
		struct rsk_opts opts;
		int rc;

		if (strcmp(argv[1], rsk_commands[i].name) != 0)
			continue;
		rc = rsk_commands[i].parse(&opts, argc - 1, argv + 1);
		if (rc)
			return rc < 0 ? 0 : rc;
		return rsk_commands[i].run(&opts);
	}
	fprintf(stderr, "rsperf: '%s' is not a command\n", argv[1]);
	rsk_usage(stderr);
	return 2;
}
