// SPDX-License-Identifier: BSD-2-Clause
/*
 * rsock.c - main() of the tool rsock: finds the subcommand in a table and calls it; prints
 * --help, also as JSON, and --version.
 */
#include "rsock.h"

#include "json.h"

#include <string.h>

static const struct command *const commands[] = {
	&cmd_run,     &cmd_stat, &cmd_top,    &cmd_why,	  &cmd_check,  &cmd_bench,
	&cmd_reasons, &cmd_map,	 &cmd_policy, &cmd_drain, &cmd_demote, &cmd_promote,
};

static const struct {
	int code;
	const char *meaning;
} exits[] = {
#define X(name, code, meaning) { code, meaning },
	EXIT_ROWS(X)
#undef X
};

#define ROWS(array) (sizeof(array) / sizeof((array)[0]))

static void help(void)
{
	puts("usage: rsock <command> [options]\n"
	     "\n"
	     "Runs programs with librsock.so; shows which path their TCP streams use, and why.\n"
	     "\n"
	     "commands:");
	for (size_t i = 0; i < ROWS(commands); i++)
		printf("  %-10s %s\n", commands[i]->name, commands[i]->help);
	puts("\n"
	     "  --help     print this text, with --json as JSON; after a command: its options\n"
	     "  --version  print the version\n"
	     "\n"
	     "exit status:");
	for (size_t i = 0; i < ROWS(exits); i++)
		printf("  %-10d %s\n", exits[i].code, exits[i].meaning);
}

/*
 * The command tables as JSON, for shell completion and for the test that compares the manual with
 * them.
 */
static int help_json(void)
{
	json_t *all = json_array(), *codes = json_array();

	for (size_t i = 0; i < ROWS(commands); i++) {
		const struct command *cmd = commands[i];
		json_t *options = json_array();

		for (const struct option_row *o = cmd->options; o && o->name; o++)
			json_array_append_new(options,
					      json_pack("{s:s,s:s?,s:s}", "name", o->name, "value",
							o->value, "help", o->help));
		json_array_append_new(all, json_pack("{s:s,s:s,s:s?,s:b,s:o}", "name", cmd->name,
						     "help", cmd->help, "words", cmd->words,
						     "program", cmd->program, "options", options));
	}
	for (size_t i = 0; i < ROWS(exits); i++)
		json_array_append_new(codes, json_pack("{s:i,s:s}", "code", exits[i].code,
						       "meaning", exits[i].meaning));
	return json_print(json_pack("{s:s,s:o,s:o}", "version", RSOCK_VERSION, "commands", all,
				    "exits", codes));
}

/* Output that could not be written (full disk, closed pipe) is a failure. */
static int finish(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	return failure("cannot write the output");
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return usage_error(NULL, "a command is needed");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		if (argc > 2 && strcmp(argv[2], "--json") == 0)
			return finish(help_json());
		help();
		return finish(EXIT_OK);
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("rsock " RSOCK_VERSION);
		return finish(EXIT_OK);
	}
	for (size_t i = 0; i < ROWS(commands); i++) {
		if (strcmp(argv[1], commands[i]->name) == 0)
			return finish(commands[i]->run(commands[i], argc - 1, argv + 1));
	}
	return usage_error(NULL, "unknown %s '%s'", argv[1][0] == '-' ? "option" : "command",
			   argv[1]);
}
