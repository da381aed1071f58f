// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_holders.c - tests who has a socket (holders.h): with children of this process, and in a pid
 * namespace whose processes are of two users.
 */
#include "holders.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define USER 4242
#define OTHER 4243

static int look_at(int fd, struct rsk_holder *who)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -EBADF;
	return rsk_holders_look((uint32_t)st.st_ino, st.st_uid, UINT64_MAX, who);
}

/*
 * A child that keeps its copy of @fd until it is killed; as @uid, readable or not. Returns once it
 * is so.
 */
static pid_t holder(int fd, uid_t uid, bool readable)
{
	int ready[2];
	char c;
	pid_t pid;

	if (pipe(ready) < 0)
		return -1;
	pid = fork();
	if (!pid) {
		if (setresuid(uid, uid, uid) < 0 || prctl(PR_SET_DUMPABLE, readable) < 0)
			_exit(1);
		if (fd < 0)
			close(-fd);
		close(ready[0]);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) < 0)
		pid = -1;
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(holders, children)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct rsk_holder who = { 0 };
	pid_t pid;

	cr_assert_gt(fd, 2);
	cr_assert_eq(look_at(fd, &who), 0);
	pid = holder(fd, getuid(), true);
	cr_assert_gt(pid, 0);
	cr_assert_eq(look_at(fd, &who), 1);
	cr_assert_eq(who.pid, pid);
	cr_assert_eq(who.fd, fd);
	end(pid);
	cr_assert_eq(look_at(fd, &who), 0);
	pid = holder(-fd, getuid(), true);
	cr_assert_gt(pid, 0);
	cr_assert_eq(look_at(fd, &who), 0);
	end(pid);
}

Test(holders, another_number)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), copy = dup2(fd, 77);
	struct rsk_holder who = { 0 };
	pid_t pid;

	cr_assert_eq(copy, 77);
	pid = holder(-fd, getuid(), true);
	cr_assert_gt(pid, 0);
	cr_assert_eq(look_at(fd, &who), 1);
	cr_assert_eq(who.fd, 77);
	end(pid);
}

Test(holders, in_time)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct rsk_holder who = { 0 };
	struct stat st;

	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(rsk_holders_look((uint32_t)st.st_ino, st.st_uid, 1, &who), -ETIME);
}

/* ---- users; each function runs as process @USER whose parent is process 1, root's ---- */

static int alone(void)
{
	struct rsk_holder who;

	return look_at(socket(AF_INET, SOCK_STREAM, 0), &who) == 0;
}

static int unreadable_of_the_user(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct rsk_holder who;
	pid_t pid = holder(fd, USER, false);
	int rc = look_at(fd, &who);

	end(pid);
	return rc == -EACCES && look_at(fd, &who) == 0;
}

static int readable_of_the_user(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct rsk_holder who;
	pid_t pid = holder(fd, USER, true);
	int rc = look_at(fd, &who);

	end(pid);
	return rc == 1 && who.pid == pid && look_at(fd, &who) == 0;
}

/* The parent is of this user, and cannot be read: it is an ancestor that may have it. */
static int unreadable_parent(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), status = 0;
	struct rsk_holder who;
	pid_t pid;

	prctl(PR_SET_DUMPABLE, 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_DUMPABLE, 1);
		_exit(look_at(fd, &who) == -EACCES ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	return pid > 0 && status == 0;
}

/* Runs as root: becomes the parent, of another user, that cannot be read. */
static int under_another_user(void)
{
	int go[2], status = -1;
	struct rsk_holder who;
	pid_t pid;
	char c;

	if (pipe(go) < 0)
		return 0;
	pid = fork();
	if (!pid) {
		if (read(go[0], &c, 1) != 1 || setresuid(USER, USER, USER) < 0 ||
		    prctl(PR_SET_DUMPABLE, 1) < 0)
			_exit(1);
		_exit(look_at(socket(AF_INET, SOCK_STREAM, 0), &who) == -EACCES ? 0 : 1);
	}
	if (setresuid(OTHER, OTHER, OTHER) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
	    write(go[1], "", 1) != 1)
		return 0;
	waitpid(pid, &status, 0);
	return status == 0;
}

static int (*const as_user[])(void) = { alone, unreadable_of_the_user, readable_of_the_user,
					unreadable_parent };

/*
 * Root made it, and a process of our user, which it has started as it has started ours, has it,
 * too. Neither that one nor root's can be read.
 */
static int of_another_user(int made_by_root)
{
	pid_t other = holder(made_by_root, USER, false), pid = fork();
	struct rsk_holder who;
	int status = -1;

	if (!pid) {
		if (setresuid(USER, USER, USER) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
			_exit(1);
		pid = fork();
		if (!pid)
			_exit(look_at(made_by_root, &who) == -EACCES ? 0 : 1);
		_exit(waitpid(pid, &status, 0) < 0 || status ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	end(other);
	return status == 0;
}

/* Process 1: each test in a process of @USER. Returns 0, or which one fails. */
static int process_1(int made_by_root)
{
	int status;

	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0)
		return 100;
	/* Of another user: it may not be read, and matters to nobody. */
	if (holder(0, OTHER, false) < 0)
		return 101;
	for (size_t i = 0; i < sizeof(as_user) / sizeof(*as_user); i++) {
		pid_t pid = fork();

		if (!pid) {
			if (setresuid(USER, USER, USER) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
				_exit(1);
			_exit(as_user[i]() ? 0 : 1);
		}
		if (waitpid(pid, &status, 0) < 0 || status)
			return (int)i + 1;
	}
	pid_t pid = fork();

	if (!pid)
		_exit(under_another_user() ? 0 : 1);
	if (waitpid(pid, &status, 0) < 0 || status)
		return 103;
	return of_another_user(made_by_root) ? 0 : 102;
}

Test(holders, users)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), status = -1;
	pid_t pid;

	cr_assert_eq(unshare(CLONE_NEWPID | CLONE_NEWNS), 0);
	pid = fork();
	if (!pid)
		_exit(process_1(fd));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "%d", WEXITSTATUS(status));
}
