// SPDX-License-Identifier: BSD-2-Clause
/* say.c - see say.h. */
#include "say.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "clock.h"

#define LINE_NS (60000000000ull / RSK_SAY_IN_MINUTE)

static struct {
	uint64_t full_ns; /* from this time on there is room for RSK_SAY_AT_ONCE lines */
	uint64_t left_out, told;
} log_of = { 0 };

static bool room(uint64_t now_ns)
{
	uint64_t full = log_of.full_ns > now_ns ? log_of.full_ns : now_ns;

	if (full + LINE_NS > now_ns + RSK_SAY_AT_ONCE * LINE_NS) {
		log_of.left_out++;
		return false;
	}
	log_of.full_ns = full + LINE_NS;
	return true;
}

void rsk_say(const char *format, ...)
{
	char line[512];
	va_list args;

	if (!room(rsk_clock_ns()))
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (log_of.left_out > log_of.told)
		fprintf(stderr, "rsockd: %" PRIu64 " lines were left out\n",
			log_of.left_out - log_of.told);
	log_of.told = log_of.left_out;
	fprintf(stderr, "rsockd: %s\n", line);
}

static void of_libevent(int severity, const char *text)
{
	if (severity >= EVENT_LOG_MSG)
		rsk_say("%s", text);
}

void rsk_say_open(void)
{
	event_set_log_callback(of_libevent);
}

uint64_t rsk_say_left_out(void)
{
	return log_of.left_out;
}
