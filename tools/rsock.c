// SPDX-License-Identifier: BSD-2-Clause
/* rsock.c - shows what librsock does with the streams of this user's programs. */
#include "rsock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = { &cmd_stat, &cmd_reasons };

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void help(void)
{
	puts("usage: rsock <command> [options]\n"
	     "\n"
	     "Shows how the TCP streams of programs that run with librsock.so travel.\n"
	     "\n"
	     "commands:");
	for (size_t i = 0; i < COMMANDS; i++)
		printf("  %-10s %s\n", commands[i]->name, commands[i]->help);
	puts("\n"
	     "  --help     this text; after a command: the command's options\n"
	     "  --version  the version");
}

static void usage_line(FILE *to, const struct command *cmd)
{
	fprintf(to, "usage: rsock %s", cmd->name);
	for (const struct option_row *o = cmd->options; o && o->name; o++) {
		if (o->value)
			fprintf(to, " [%s %s]", o->name, o->value);
		else
			fprintf(to, " [%s]", o->name);
	}
	fputc('\n', to);
}

void command_help(const struct command *cmd)
{
	usage_line(stdout, cmd);
	printf("\n%s\n", cmd->help);
	if (!cmd->options)
		return;
	putchar('\n');
	for (const struct option_row *o = cmd->options; o->name; o++) {
		char left[40];

		snprintf(left, sizeof(left), "%s %s", o->name, o->value ? o->value : "");
		printf("  %-14s %s\n", left, o->help);
	}
}

int usage_error(const struct command *cmd, const char *fmt, ...)
{
	va_list args;

	fputs("rsock: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	if (cmd)
		usage_line(stderr, cmd);
	else
		fputs("usage: rsock <command> [options]; rsock --help lists the commands\n",
		      stderr);
	return EXIT_USAGE;
}

/* Output that did not get out (a full disk, a closed pipe) is a failure. */
static int finish(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fputs("rsock: cannot write the output\n", stderr);
	return status ? status : EXIT_FAILED;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return usage_error(NULL, "a command is needed");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		help();
		return finish(EXIT_OK);
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("rsock " RSOCK_VERSION);
		return finish(EXIT_OK);
	}
	for (size_t i = 0; i < COMMANDS; i++) {
		const struct command *cmd = commands[i];

		if (strcmp(argv[1], cmd->name) != 0)
			continue;
		for (int a = 2; a < argc; a++) {
			if (strcmp(argv[a], "--help") == 0 || strcmp(argv[a], "-h") == 0) {
				command_help(cmd);
				return finish(EXIT_OK);
			}
		}
		return finish(cmd->run(cmd, argc - 2, argv + 2));
	}
	return usage_error(NULL, "unknown %s '%s'", argv[1][0] == '-' ? "option" : "command",
			   argv[1]);
}
