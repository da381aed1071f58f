// SPDX-License-Identifier: BSD-2-Clause
/* cmd_reasons.c - rsock reasons: prints the table of reason codes with their cures. */
#include "rsock.h"

#include "json.h"

#include <rsock/reason.h>

static const struct option_row options[] = {
	{ "--json", NULL, "one JSON object on one line" },
	{ NULL, NULL, NULL },
};

static int print_json(void)
{
	json_t *rows = json_array();

	for (unsigned int code = 0; code < RSK_REASON_COUNT; code++) {
		const struct rsk_reason_row *row = rsk_reason_row(code);

		json_array_append_new(rows, json_pack("{s:i,s:s,s:s,s:s}", "code", (int)code,
						      "reason", row->token, "meaning",
						      row->sentence, "cure", row->cure));
	}
	return json_print(json_pack("{s:o}", "reasons", rows));
}

static int run(const struct command *self, int argc, char **argv)
{
	struct args a = args_begin(self, argc, argv);
	bool json = false;
	int arg;

	while ((arg = args_next(&a)) != ARG_END) {
		if (arg == ARG_STOP)
			return a.status;
		json = true;
	}
	if (json)
		return print_json();
	for (unsigned int code = 0; code < RSK_REASON_COUNT; code++) {
		const struct rsk_reason_row *row = rsk_reason_row(code);

		printf("%s%s\n    %s\n    Cure: %s\n", code ? "\n" : "", row->token, row->sentence,
		       row->cure);
	}
	return EXIT_OK;
}

const struct command cmd_reasons = {
	.name = "reasons",
	.help = "list each reason code, its meaning and its cure",
	.options = options,
	.run = run,
};
