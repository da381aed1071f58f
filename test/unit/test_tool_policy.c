// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_tool_policy.c - tests rsock policy explain without a daemon: what it says, and what it
 * leaves allocated, when the memory for its question fails.
 */
#include "rsock.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
	int left;  /* allocations of jansson that succeed; -1: all */
	long held; /* blocks that are allocated */
} memory;

static void *take(size_t bytes)
{
	if (!memory.left)
		return NULL;
	memory.left -= memory.left > 0;
	memory.held++;
	return malloc(bytes);
}

static void give(void *block)
{
	memory.held -= block != NULL;
	free(block);
}

/* Runs the command. Returns its exit status; @says gets what it writes to standard error. */
static int explain(const char *side, char *says, size_t n)
{
	char words[][24] = { "policy",	 "explain",	    "127.0.0.1", "80",
			     "--socket", "/nowhere/socket", "--side",	 "" };
	char *argv[9] = { NULL };
	int file = memfd_create("stderr", MFD_CLOEXEC), before = dup(STDERR_FILENO), status;
	ssize_t got;

	cr_assert(file >= 0 && before >= 0);
	snprintf(words[7], sizeof(words[7]), "%s", side);
	for (int i = 0; i < 8; i++)
		argv[i] = words[i];
	dup2(file, STDERR_FILENO);
	status = cmd_policy.run(&cmd_policy, 8, argv);
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	got = pread(file, says, n - 1, 0);
	says[got > 0 ? got : 0] = 0;
	close(before);
	close(file);
	return status;
}

Test(tool_policy, explain_without_memory)
{
	char says[512];
	int status = EXIT_FAILED, n;

	json_set_alloc_funcs(take, give);
	for (n = 0; status == EXIT_FAILED; n++) {
		memory.left = n;
		memory.held = 0;
		status = explain("cp", says, sizeof(says));
		cr_assert(status == EXIT_FAILED || n, "it needs some");
		if (status == EXIT_FAILED) {
			cr_assert_str_eq(says, "rsock: no memory\n", "%d: '%s'", n, says);
			cr_assert_eq(memory.held, 0, "%d: %ld blocks are left", n, memory.held);
		}
	}
	cr_assert_gt(n, 5);
	cr_assert_eq(status, EXIT_UNKNOWN);
	cr_assert_not_null(strstr(says, "cannot be reached"), "%s", says);
}

/* "\xff" is no text in JSON. */
Test(tool_policy, a_side_that_is_none)
{
	static const char *const sides[] = { "", "c", "cpx", "both", "\xff" };
	char says[512];

	for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++) {
		cr_expect_eq(explain(sides[i], says, sizeof(says)), EXIT_USAGE);
		cr_expect_not_null(strstr(says, "--side"), "'%s'", says);
	}
	cr_expect_eq(explain("ap", says, sizeof(says)), EXIT_UNKNOWN);
}
