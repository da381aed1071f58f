// SPDX-License-Identifier: BSD-2-Clause
/* usage.c - prints the help of a command, usage errors and failures. See rsock.h. */
#include "rsock.h"

#include <stdarg.h>

static void usage_line(FILE *to, const struct command *cmd)
{
	fprintf(to, "usage: rsock %s", cmd->name);
	for (const struct option_row *o = cmd->options; o && o->name; o++) {
		if (o->value)
			fprintf(to, " [%s %s]", o->name, o->value);
		else
			fprintf(to, " [%s]", o->name);
	}
	fprintf(to, "%s%s\n", cmd->words ? " " : "", cmd->words ? cmd->words : "");
}

void command_help(const struct command *cmd)
{
	usage_line(stdout, cmd);
	printf("\n%s\n", cmd->help);
	if (cmd->options)
		putchar('\n');
	for (const struct option_row *o = cmd->options; o && o->name; o++) {
		char left[40];

		snprintf(left, sizeof(left), "%s %s", o->name, o->value ? o->value : "");
		printf("  %-20s %s\n", left, o->help);
	}
	if (cmd->details)
		printf("\n%s\n", cmd->details);
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

int failure(const char *fmt, ...)
{
	va_list args;

	fputs("rsock: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	return EXIT_FAILED;
}
