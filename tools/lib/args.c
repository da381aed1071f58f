// SPDX-License-Identifier: BSD-2-Clause
/*
 * args.c - parses the command line of a subcommand with getopt_long(3) and the option rows of the
 * command; parses numbers. Each command's run() calls args_next() in a loop.
 */
#include "rsock.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MOST 32 /* upper bound of a command's option rows */
/* getopt_long()'s code of a long option is LONG + its row, which is above every character code. */
#define LONG 256
#define HELP (LONG + ROWS_MOST)

static int stop(struct args *a, int status)
{
	a->status = status;
	return ARG_STOP;
}

/* Converts the command's rows to getopt_long()'s form. One-letter options are only in @shorts. */
static void describe(const struct command *cmd, char shorts[static 2 * ROWS_MOST + 4],
		     struct option longs[static ROWS_MOST + 2])
{
	size_t n = 0;

	/*
	 * '-': words are returned in place; '+': the first word ends the options. ':': see
	 * getopt(3).
	 */
	shorts[n++] = cmd->program ? '+' : '-';
	shorts[n++] = ':';
	shorts[n++] = 'h';
	*longs++ = (struct option){ "help", no_argument, NULL, HELP };
	for (int i = 0; i < ROWS_MOST && cmd->options && cmd->options[i].name; i++) {
		const struct option_row *row = &cmd->options[i];

		if (row->name[1] == '-') {
			*longs++ = (struct option){ row->name + 2,
						    row->value ? required_argument : no_argument,
						    NULL, LONG + i };
			continue;
		}
		shorts[n++] = row->name[1];
		if (row->value)
			shorts[n++] = ':';
	}
	shorts[n] = 0;
	*longs = (struct option){ 0 };
}

/* The option row that getopt_long()'s return value @code stands for; -1: none. */
static int row_of(const struct command *cmd, int code)
{
	if (code >= LONG)
		return code < HELP ? code - LONG : -1;
	for (int i = 0; code && i < ROWS_MOST && cmd->options && cmd->options[i].name; i++)
		if (cmd->options[i].name[1] == code)
			return i;
	return -1;
}

/*
 * getopt_long() accepts abbreviated names; we do not, because an abbreviation in a script can
 * become ambiguous when an option is added.
 */
static bool is_whole(const struct command *cmd, int code, const char *text)
{
	int row = row_of(cmd, code);
	const char *name = row >= 0 ? cmd->options[row].name : "--help";

	return code < LONG || strcspn(text, "=") == strlen(name);
}

static int wrong(struct args *a, int what, const char *text)
{
	int row = row_of(a->cmd, optopt);
	const struct option_row *of = row >= 0 ? &a->cmd->options[row] : NULL;

	if (text[1] != '-' && !of)
		return stop(a, usage_error(a->cmd, "unknown option '-%c'", optopt));
	if (text[1] == '-' && (!optopt || !is_whole(a->cmd, optopt, text)))
		return stop(a, usage_error(a->cmd, "unknown option '%s'", text));
	if (what == ':' && of)
		return stop(a, usage_error(a->cmd, "%s needs %s", of->name, of->value));
	return stop(a, usage_error(a->cmd, "%s takes no value", of ? of->name : "--help"));
}

static int word(struct args *a, const char *text)
{
	if (!a->cmd->words)
		return stop(a, usage_error(a->cmd, "unknown argument '%s'", text));
	a->value = text;
	return ARG_WORD;
}

int args_next(struct args *a)
{
	char shorts[2 * ROWS_MOST + 4];
	struct option longs[ROWS_MOST + 2];
	const char *text = a->argv[a->at ? a->at : 1];
	int code = -1;

	if (!a->words_only) {
		describe(a->cmd, shorts, longs);
		optind = a->at; /* 0: reinitialises getopt_long() */
		opterr = 0;
		code = getopt_long(a->argc, a->argv, shorts, longs, NULL);
		a->at = optind;
	}
	if (code == -1) {
		a->words_only = true;
		if (a->cmd->program || a->at >= a->argc)
			return ARG_END;
		return word(a, a->argv[a->at++]);
	}
	if (code == 1)
		return word(a, optarg);
	if (code == '?' || code == ':')
		return wrong(a, code, text);
	if (!is_whole(a->cmd, code, text))
		return stop(a, usage_error(a->cmd, "unknown option '%s'", text));
	if (code == HELP || code == 'h') {
		command_help(a->cmd);
		return stop(a, EXIT_OK);
	}
	a->value = optarg;
	return row_of(a->cmd, code);
}

int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long value;
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || value < min || value > max)
		return -EINVAL;
	*out = value;
	return 0;
}

int parse_seconds(const char *text, uint64_t *out_ns)
{
	double value;
	char *end;

	if ((*text < '0' || *text > '9') && *text != '.')
		return -EINVAL;
	/* strtod() also accepts "0x10", "1e9" and "nan". */
	if (strspn(text, "0123456789.") != strlen(text))
		return -EINVAL;
	errno = 0;
	value = strtod(text, &end);
	if (errno || end == text || *end || value < 0.001 || value > 86400)
		return -EINVAL;
	*out_ns = (uint64_t)(value * 1e9);
	return 0;
}
