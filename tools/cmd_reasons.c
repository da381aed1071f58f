// SPDX-License-Identifier: BSD-2-Clause
/* cmd_reasons.c - rsock reasons: what the reason codes mean and what helps. */
#include "rsock.h"

#include <stdio.h>

static int run(const struct command *self, int argc, char **argv)
{
	if (argc > 0)
		return usage_error(self, "unknown argument '%s'", argv[0]);
	for (unsigned int code = 0; code < RSK_REASON_COUNT; code++) {
		const struct rsk_reason_row *row = rsk_reason_row(code);

		printf("%s%s\n    %s\n    Cure: %s\n", code ? "\n" : "", row->token, row->sentence,
		       row->cure);
	}
	return EXIT_OK;
}

const struct command cmd_reasons = {
	.name = "reasons",
	.help = "what each reason code means, and its cure",
	.run = run,
};
