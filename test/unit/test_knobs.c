// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_knobs.c - tests that settings stay what they were at the start when the program overwrites
 * its environment, as nginx and PostgreSQL do to show in ps what they are, or clears it.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "knobs.h"
#include "log.h"

/* Of the program's memory: putenv() copies nothing. */
static char daemon_at[] = "RSOCK_DAEMON=/tmp/some.sock", stat_at[] = "RSOCK_STAT_FILE=/tmp/some",
	    level[] = "RSOCK_LOG=error", log_at[200];

Test(knobs, a_program_overwrites_its_environment)
{
	char path[100] = "/tmp/rsock-test-knobs-XXXXXX", line[200] = "";
	int fd = mkstemp(path);
	FILE *f;

	cr_assert_geq(fd, 0);
	snprintf(log_at, sizeof(log_at), "RSOCK_LOG_FILE=%s", path);
	cr_assert(!putenv(daemon_at) && !putenv(stat_at) && !putenv(level) && !putenv(log_at));
	rsk_log_init();
	rsk_knobs_read();
	memset(strchr(daemon_at, '=') + 1, 'x', 9);
	memset(strchr(stat_at, '=') + 1, 'x', 4);
	memset(strchr(log_at, '=') + 1, 0, 1);
	clearenv();
	cr_assert_str_eq(rsk_knobs.daemon, "/tmp/some.sock");
	cr_assert_str_eq(rsk_knobs.stat_file, "/tmp/some");
	rsk_log(RSK_LOG_ERROR, "still here");
	f = fdopen(fd, "r");
	cr_assert(f && fgets(line, sizeof(line), f));
	cr_assert(strstr(line, "still here"), "%s", line);
	fclose(f);
	unlink(path);
}

Test(knobs, a_path_that_is_too_long)
{
	char *longest = malloc(PATH_MAX + 1);

	memset(longest, 'a', PATH_MAX);
	longest[PATH_MAX] = 0;
	cr_assert_eq(setenv("RSOCK_DAEMON", longest, 1), 0);
	cr_assert_eq(setenv("RSOCK_LOG_FILE", longest, 1), 0);
	rsk_log_init();
	rsk_knobs_read();
	cr_assert_str_empty(rsk_knobs.daemon, "rsockd is not used");
	longest[PATH_MAX - 1] = 0;
	cr_assert_eq(setenv("RSOCK_DAEMON", longest, 1), 0);
	rsk_knobs_read();
	cr_assert_str_eq(rsk_knobs.daemon, longest);
	free(longest);
}
