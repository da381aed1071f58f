// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_tool_failures.c - tests what the tool makes of calls that fail while it reads /proc. The
 * calls are wrapped.
 */
#include "rsock.h"
#include "scan.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <unistd.h>

static struct {
	bool fdopendir; /* fails */
} fails;

DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
int __real_close(int fd);
int __wrap_close(int fd);

DIR *__wrap_fdopendir(int fd)
{
	if (!fails.fdopendir)
		return __real_fdopendir(fd);
	errno = ENOMEM;
	return NULL;
}

/* close() may set errno whatever its result (errno(3)). */
int __wrap_close(int fd)
{
	int rc = __real_close(fd);

	if (fails.fdopendir)
		errno = EIO;
	return rc;
}

/* A list of segments that lacks some would be taken for all of them. */
Test(tool_failures, a_scan_without_memory)
{
	struct segment *list = NULL;

	fails.fdopendir = true;
	cr_assert_eq(segments_scan(SCAN_ALL, &list), -ENOMEM);
	cr_assert_null(list);
	fails.fdopendir = false;
	cr_assert_eq(segments_scan(SCAN_ALL, &list), 0);
	segments_free(list);
}
