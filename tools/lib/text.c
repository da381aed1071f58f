// SPDX-License-Identifier: BSD-2-Clause
/* text.c - text for output: untrusted names, sizes, users; and the clock. See rsock.h. */
#include "rsock.h"

#include <inttypes.h>
#include <pwd.h>

#include <rsock/clock.h>

const char *text_clean(char *out, size_t cap, const char *text, size_t max)
{
	size_t i;

	for (i = 0; i < max && i + 1 < cap && text[i]; i++)
		out[i] = text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
	out[i] = 0;
	return out;
}

const char *size_text(char buf[static 16], uint64_t bytes)
{
	static const char units[] = "BkMGTPE";
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1000 && unit + 2 < sizeof(units)) {
		value /= 1000;
		unit++;
	}
	if (unit == 0)
		snprintf(buf, 16, "%" PRIu64 "B", bytes);
	else
		snprintf(buf, 16, "%.1f%c", value, units[unit]);
	return buf;
}

const char *user_text(char buf[static 33], uid_t uid)
{
	const struct passwd *pw = getpwuid(uid);

	if (pw)
		return text_clean(buf, 33, pw->pw_name, 33);
	snprintf(buf, 33, "%u", uid);
	return buf;
}
