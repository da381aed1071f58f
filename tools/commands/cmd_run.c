// SPDX-License-Identifier: BSD-2-Clause
/* cmd_run.c - rsock run: executes a program with librsock.so preloaded. */
#include "rsock.h"

#include "json.h"
#include "knobs.h"
#include "library.h"
#include "program.h"
#include "start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	OPT_POLICY = KNOB_COUNT,
	OPT_PRINT,
	OPT_JSON,
};

static const struct option_row options[] = {
	KNOB_ROWS(KNOB_OPTION){ "--policy", "KEY=VALUE",
				"one of the options above by its name: ring-kb=64" },
	{ "--print", NULL, "print what would be run, and with which environment; run nothing" },
	{ "--json", NULL, "the same as one JSON object on one line" },
	{ NULL, NULL, NULL },
};

/* A variable's value as a JSON string of printable ASCII; NULL if it is not set. */
static json_t *variable_json(const char *name)
{
	const char *value = getenv(name);
	char clean[4096];

	return value ? json_string(text_clean(clean, sizeof(clean), value, sizeof(clean))) : NULL;
}

static int print_json(const char *path, const char *library, const char *warning)
{
	json_t *env = json_object();
	char clean[2][PATH_MAX];

	if (getenv("LD_PRELOAD"))
		json_object_set_new(env, "LD_PRELOAD", variable_json("LD_PRELOAD"));
	for (size_t i = 0; knob_variable(i); i++)
		if (getenv(knob_variable(i)))
			json_object_set_new(env, knob_variable(i), variable_json(knob_variable(i)));
	return json_print(json_pack("{s:s,s:s,s:o,s:s?}", "program",
				    text_clean(clean[0], PATH_MAX, path, PATH_MAX), "library",
				    text_clean(clean[1], PATH_MAX, library, PATH_MAX),
				    "environment", env, "warning", warning));
}

static int print_text(const char *path, const char *warning)
{
	char clean[PATH_MAX];

	printf("program %s\n", text_clean(clean, PATH_MAX, path, PATH_MAX));
	if (getenv("LD_PRELOAD"))
		printf("LD_PRELOAD=%s\n", getenv("LD_PRELOAD"));
	for (size_t i = 0; knob_variable(i); i++) {
		const char *value = getenv(knob_variable(i));

		/* Two options may stand for one variable. */
		if (value && (i == 0 || strcmp(knob_variable(i), knob_variable(i - 1)) != 0))
			printf("%s=%s\n", knob_variable(i),
			       text_clean(clean, PATH_MAX, value, PATH_MAX));
	}
	if (warning)
		printf("warning: it %s\n", warning);
	return EXIT_OK;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct args a = args_begin(self, argc, argv);
	char library[PATH_MAX], path[PATH_MAX];
	bool print = false, json = false;
	const char *warning;
	int arg, err;

	while ((arg = args_next(&a)) != ARG_END) {
		if (arg == ARG_STOP)
			return a.status;
		err = arg < KNOB_COUNT	? knob_set(self, arg, a.value) :
		      arg == OPT_POLICY ? knob_set_pair(self, a.value) :
					  0;
		if (err)
			return err;
		print |= arg == OPT_PRINT || arg == OPT_JSON;
		json |= arg == OPT_JSON;
	}
	if (a.at == argc)
		return usage_error(self, "a program is needed");
	err = start_prepare(argv[a.at], library, path);
	if (err)
		return err;
	warning = start_warning(path);
	if (json)
		return print_json(path, library, warning);
	if (print)
		return print_text(path, warning);
	if (warning)
		fprintf(stderr, "rsock: %s %s; it runs on plain TCP\n", argv[a.at], warning);
	execv(path, argv + a.at);
	return start_failed(argv[a.at], errno);
}

const struct command cmd_run = {
	.name = "run",
	.help = "run a program with librsock.so",
	.words = "[--] PROGRAM [ARGUMENT...]",
	.details =
		"The program replaces the rsock process, so the exit status is the program's.\n"
		"The library is the one that RSOCK_LIBRARY names, else the one beside this tool.",
	.options = options,
	.program = true,
	.run = run,
};
