// SPDX-License-Identifier: BSD-2-Clause
/* args.c - a command line taken apart by the rows of its command, and the numbers in it. */
#include "rsock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int stop(struct args *a, int status)
{
	a->status = status;
	return ARG_STOP;
}

static int option(struct args *a, const char *text)
{
	/* A letter's value may follow it at once: "-n1". */
	bool glued = text[1] != '-' && text[2];
	size_t len = glued ? 2 : strcspn(text, "=");
	const char *value = glued ? text + 2 : text[len] ? text + len + 1 : NULL;

	for (int i = 0; a->cmd->options && a->cmd->options[i].name; i++) {
		const struct option_row *row = &a->cmd->options[i];

		if (strlen(row->name) != len || memcmp(row->name, text, len) != 0)
			continue;
		if (!row->value) {
			if (value)
				return stop(a, usage_error(a->cmd, "%s takes no value", row->name));
			return i;
		}
		if (value) {
			a->value = value;
		} else if (a->at < a->argc) {
			a->value = a->argv[a->at++];
		} else {
			return stop(a, usage_error(a->cmd, "%s needs %s", row->name, row->value));
		}
		return i;
	}
	return stop(a, usage_error(a->cmd, "unknown option '%s'", text));
}

int args_next(struct args *a)
{
	const char *text;

	if (a->at >= a->argc)
		return ARG_END;
	text = a->argv[a->at];
	if (!a->words_only && text[0] == '-' && text[1]) {
		a->at++;
		if (strcmp(text, "--") == 0) {
			a->words_only = true;
			return a->cmd->program ? ARG_END : args_next(a);
		}
		if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
			command_help(a->cmd);
			return stop(a, EXIT_OK);
		}
		return option(a, text);
	}
	if (a->cmd->program)
		return ARG_END;
	a->at++;
	if (!a->cmd->words)
		return stop(a, usage_error(a->cmd, "unknown argument '%s'", text));
	a->value = text;
	return ARG_WORD;
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
	/* No "0x10", no "1e9", no "nan". */
	if (strspn(text, "0123456789.") != strlen(text))
		return -EINVAL;
	errno = 0;
	value = strtod(text, &end);
	if (errno || end == text || *end || value < 0.001 || value > 86400)
		return -EINVAL;
	*out_ns = (uint64_t)(value * 1e9);
	return 0;
}
