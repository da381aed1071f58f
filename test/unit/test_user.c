// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_user.c - tests that the overflow uid names no user, unless every user has a number in this
 * user namespace.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user.h"

static unsigned int overflow(void)
{
	FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
	unsigned int uid = 0;

	cr_assert(file && fscanf(file, "%u", &uid) == 1);
	fclose(file);
	return uid;
}

/* In the child of a new user namespace: is 0, and is the overflow uid, one user? */
static int answers(void)
{
	return rsk_user_same(0, 0) | rsk_user_same(overflow(), overflow()) << 1 |
	       rsk_user_same(0, 1) << 2 | rsk_user_is_one((uid_t)-1) << 3;
}

static int answers_in_namespace(const char *map)
{
	int ready[2], go[2], status;
	char path[48], byte;
	pid_t child;

	cr_assert(!pipe(ready) && !pipe(go));
	/*
	 * fork() under ThreadSanitizer starts a thread, and a process with threads cannot make a
	 * user namespace
	 */
	child = _Fork();
	if (!child) {
		/* Ask before, too: a remembered answer must not be that of the old namespace. */
		answers();
		if (unshare(CLONE_NEWUSER) || write(ready[1], "", 1) != 1 ||
		    read(go[0], &byte, 1) != 1)
			_exit(99);
		_exit(answers());
	}
	close(ready[1]); /* the end of file shows that the child is gone */
	close(go[0]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", child);
	if (map) {
		int fd = open(path, O_WRONLY | O_CLOEXEC);

		cr_assert_eq(write(fd, map, strlen(map)), (ssize_t)strlen(map));
		close(fd);
	}
	cr_assert_eq(write(go[1], "", 1), 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	close(ready[0]);
	close(go[1]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(user, initial_namespace)
{
	cr_assert_eq(answers(), 3, "run in a namespace in which all users have numbers");
}

Test(user, some_users_have_no_number)
{
	cr_assert_eq(answers_in_namespace("0 100000 65536\n"), 1, "it has the number 65534");
	cr_assert_eq(answers_in_namespace("0 0 1\n"), 1, "root alone");
	cr_assert_eq(answers_in_namespace("0 0 65536\n"), 1, "equal numbers, but not all");
	cr_assert_eq(answers_in_namespace(NULL), 1, "nobody");
}

Test(user, all_users_have_numbers)
{
	cr_assert_eq(answers_in_namespace("0 0 4294967295\n"), 3);
}
