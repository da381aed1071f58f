// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_tool_failures.c - tests what the tool makes of calls that fail while it reads /proc or runs
 * itself. The calls are wrapped.
 */
#include "explain.h"
#include "host.h"
#include "launch.h"
#include "rsock.h"
#include "scan.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	bool fdopendir, holders, waitpid; /* fail */
	int scans;
} fails;

DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_holders_scan(struct holders *out);
int __wrap_holders_scan(struct holders *out);
int __wrap_execv(const char *path, char *const argv[]);
pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);

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

int __wrap_holders_scan(struct holders *out)
{
	fails.scans++;
	return fails.holders ? -ENOMEM : __real_holders_scan(out);
}

/* The tool runs itself, which is this test here: under ThreadSanitizer it would begin again. */
int __wrap_execv(const char *path, char *const argv[])
{
	(void)path;
	(void)argv;
	_exit(0);
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	pid_t rc = __real_waitpid(pid, status, options);

	if (!fails.waitpid)
		return rc;
	errno = ECHILD;
	return -1;
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

/* Standard error is read by the test that calls this one. */
static void explain(struct host *host, uint16_t port)
{
	struct rsk_tuple near = { .family = AF_INET, .local_port = port, .peer_port = 9 };
	struct connection c;

	near.local[0] = near.peer[0] = 127;
	near.local[3] = near.peer[3] = 1;
	connection_explain(host, &near, 0, &c);
}

/*
 * The explanation is then of the first reading, which may lack an end; that is said once, however
 * many streams there are.
 */
Test(tool_failures, a_second_look_without_memory)
{
	int file = memfd_create("stderr", MFD_CLOEXEC), before = dup(STDERR_FILENO);
	char says[512] = "";
	struct sock_row *rows;
	struct host host;
	size_t count;

	cr_assert(file >= 0 && before >= 0);
	cr_assert_eq(host_take(0, &host), 0);
	rows = host.sockets.row;
	count = host.sockets.count;
	fails.holders = true;
	fails.scans = 0;
	dup2(file, STDERR_FILENO);
	explain(&host, 1);
	explain(&host, 2);
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	cr_assert_eq(fails.scans, 1);
	cr_assert(host.sockets.row == rows && host.sockets.count == count);
	cr_assert_gt(pread(file, says, sizeof(says) - 1, 0), 0);
	cr_assert_str_eq(says, "rsock: /proc cannot be read a second time, an end of a new "
			       "connection may be missing: Cannot allocate memory\n");
	close(before);
	close(file);
	host_free(&host);
}

/* The text is the caller's only if the status is one of the process. */
Test(tool_failures, a_process_that_cannot_be_waited_for)
{
	char name[] = "rsock", option[] = "--version", *argv[] = { name, option, NULL },
	     *out = name;

	fails.waitpid = true;
	cr_assert_eq(launch_self(LAUNCH_PLAIN, "", argv, &out), -ECHILD);
	cr_assert_null(out);
}
