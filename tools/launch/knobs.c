// SPDX-License-Identifier: BSD-2-Clause
/* knobs.c - see knobs.h. */
#include "knobs.h"

#include "rsock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct knob {
	const char *option;
	const char *variable;
	const char *value; /* the name of its value in the help; NULL: it takes none */
	uint64_t least;	   /* bounds of a number; both 0: it is not a number */
	uint64_t most;
	const char *fixed; /* the value of the variable where the option takes none */
} knobs[] = {
#define X(option, variable, value, least, most, fixed, help)                                       \
	{ option, variable, value, least, most, fixed },
	KNOB_ROWS(X)
#undef X
};

static bool is_level(const char *text)
{
	static const char *const levels[] = { "off", "error", "info", "debug" };

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (strcmp(text, levels[i]) == 0)
			return true;
	return false;
}

int knob_set(const struct command *cmd, int knob, const char *value)
{
	const struct knob *k = &knobs[knob];
	uint64_t number;

	if (!k->value)
		value = k->fixed;
	else if (k->most && parse_number(value, k->least, k->most, &number))
		return usage_error(cmd, "%s '%s': must be a number from %" PRIu64 " to %" PRIu64,
				   k->option, value, k->least, k->most);
	else if (strcmp(k->option, "--log") == 0 && !is_level(value))
		return usage_error(cmd, "--log '%s': must be off, error, info or debug", value);
	else if (!*value)
		return usage_error(cmd, "%s needs %s", k->option, k->value);
	return setenv(k->variable, value, 1) ? failure("no memory") : 0;
}

/* Whether @key names @option: "ring_kb", "ring-kb" and "RSOCK_RING_KB" all mean "--ring-kb". */
static bool same_key(const char *key, size_t len, const char *option)
{
	if (len > 6 && strncmp(key, "RSOCK_", 6) == 0) {
		key += 6;
		len -= 6;
	}
	option += 2;
	if (strlen(option) != len)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = key[i] == '_' ? '-' : key[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if (c != option[i])
			return false;
	}
	return true;
}

int knob_set_pair(const struct command *cmd, const char *pair)
{
	size_t len = strcspn(pair, "=");

	if (!pair[len])
		return usage_error(cmd, "'%s' is not KEY=VALUE", pair);
	for (int i = 0; i < KNOB_COUNT; i++)
		if (knobs[i].value && same_key(pair, len, knobs[i].option))
			return knob_set(cmd, i, pair + len + 1);
	return usage_error(cmd,
			   "unknown policy '%.*s'; known: spin-us, ring-kb, earn-calls, earn-bytes",
			   (int)len, pair);
}

const char *knob_variable(size_t i)
{
	return i < KNOB_COUNT ? knobs[i].variable : NULL;
}
