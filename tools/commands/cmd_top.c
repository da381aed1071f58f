// SPDX-License-Identifier: BSD-2-Clause
/* cmd_top.c - rsock top: a table of the busiest streams, on a terminal (screen.c) or in batches. */
#include "rsock.h"

#include "top.h"

#include <limits.h>
#include <string.h>
#include <time.h>

enum {
	OPT_DELAY,
	OPT_COUNT,
	OPT_BATCH,
	OPT_SORT,
	OPT_PID,
	OPT_ALL,
	OPT_JSON,
};

static const struct option_row options[] = {
	{ "-d", "SECONDS", "time between two readings (2)" },
	{ "-n", "COUNT", "print so many tables, then exit" },
	{ "-b", NULL, "batch mode: print the tables one after the other, without a terminal" },
	{ "--sort", "KEY", "the sort key: rate, bytes, pid or reason" },
	{ "--pid", "N", "this process only" },
	{ "--all", NULL, "processes of all users, as far as they can be read" },
	{ "--json", NULL, "batch mode, one JSON object per line" },
	{ NULL, NULL, NULL },
};

static int print_text(const struct top *top)
{
	char line[TOP_LINE];

	puts(top_summary(top, line));
	puts(top_heading(line));
	for (size_t i = 0; i < top->count; i++)
		puts(top_line(&top->row[i], line));
	putchar('\n');
	return EXIT_OK;
}

/*
 * Each table shows rates since the previous scan, so that the first one appears after an interval.
 */
static int batch(const struct top_request *req, bool json)
{
	const struct timespec pause = { (time_t)(req->interval_ns / 1000000000),
					(long)(req->interval_ns % 1000000000) };
	struct segment *before = NULL, *now = NULL;
	int err = segments_scan(req->whose, &now), status = EXIT_OK;

	for (uint64_t i = 0; !err && !status && (!req->count || i < req->count); i++) {
		struct top top;

		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		segments_free(before);
		before = now;
		err = segments_scan(req->whose, &now);
		if (!err)
			err = top_take(before, now, req->pid, req->sort, &top);
		if (err)
			break;
		status = json ? json_print(top_json(&top)) : print_text(&top);
		top_free(&top);
		/* The reader of a pipe has closed it. */
		if (fflush(stdout) || ferror(stdout))
			break;
	}
	segments_free(before);
	segments_free(now);
	return err ? failure("cannot read /proc: %s", strerror(-err)) : status;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct args a = args_begin(self, argc, argv);
	struct top_request req = { .interval_ns = 2000000000 };
	bool plain = false, json = false;
	uint64_t pid = 0;
	int arg, sort;

	while ((arg = args_next(&a)) != ARG_END) {
		if (arg == ARG_STOP)
			return a.status;
		plain |= arg == OPT_BATCH || arg == OPT_JSON;
		json |= arg == OPT_JSON;
		if (arg == OPT_ALL)
			req.whose = SCAN_ALL;
		if (arg == OPT_DELAY && parse_seconds(a.value, &req.interval_ns))
			return usage_error(self, "-d '%s': must be seconds, at most a day",
					   a.value);
		if (arg == OPT_COUNT && parse_number(a.value, 1, UINT64_MAX, &req.count))
			return usage_error(self, "-n '%s': must be a number from 1", a.value);
		if (arg == OPT_PID && parse_number(a.value, 1, INT_MAX, &pid))
			return usage_error(self, "'%s' is not a process number", a.value);
		if (arg == OPT_SORT) {
			sort = top_sort_named(a.value);
			if (sort < 0)
				return usage_error(self, "--sort '%s': rate, bytes, pid or reason",
						   a.value);
			req.sort = (enum top_sort)sort;
		}
	}
	req.pid = (uint32_t)pid;
	return plain ? batch(&req, json) : top_screen(&req);
}

const struct command cmd_top = {
	.name = "top",
	.help = "show the busiest streams on a screen that is refreshed",
	.details = "Keys: q quits; r, b, p and w sort by rate, bytes, process and reason;\n"
		   "arrows and page keys scroll.",
	.options = options,
	.run = run,
};
