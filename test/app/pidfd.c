/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pidfd.c - tests pidfd_spawn() and pidfd_spawnp(): streams that go on in the program, and the
 * descriptor that they make. Built where libc has them (glibc 2.39).
 */
#include "hand_over.h"
#include "reuse.h"

#include <spawn.h>

static int ended(int pidfd)
{
	siginfo_t info;

	return waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 ? -1 : info.si_status;
}

static int give_by_number(int fd)
{
	int pidfd;

	if (pidfd_spawn(&pidfd, app_self(), NULL, NULL, app_self_argv("serve", number(fd), NULL),
			environ))
		return -1;
	close(fd);
	return ended(pidfd);
}

CASE(number, DIRECT, "the program knows the stream by its number, bytes queued")
{
	hand_over(give_by_number);
}

static int give_plain(int fd)
{
	unsetenv("LD_PRELOAD");
	return give_by_number(fd);
}

CASE(not_preloaded, DIRECT, "the same, the program runs without preload")
{
	hand_over(give_plain);
}

static int give_by_actions(int fd)
{
	posix_spawn_file_actions_t fa;
	int pidfd;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, fd, 77);
	posix_spawn_file_actions_addclose(&fa, fd);
	if (pidfd_spawn(&pidfd, app_self(), &fa, NULL, app_self_argv("serve", number(77), NULL),
			environ))
		return -1;
	close(fd);
	return ended(pidfd);
}

CASE(actions, DIRECT, "dup2 and close as file actions")
{
	hand_over(give_by_actions);
}

/* The parent goes on with the stream behind the program. */
static void by_shell(bool searched)
{
	int fd = app_open(WARM);

	if (SRV) {
		char cmd[96], sh[] = "sh", c[] = "-c", *const args[] = { sh, c, cmd, NULL };
		int pidfd = -1;

		app_await_inq(fd, 6);
		snprintf(cmd, sizeof(cmd), "read line <&%d; printf \"$line!\" >&%d", fd, fd);
		if (searched)
			R(pidfd_spawnp(&pidfd, "sh", NULL, NULL, args, environ));
		else
			R(pidfd_spawn(&pidfd, "/bin/sh", NULL, NULL, args, environ));
		LOG("ended: %d", ended(pidfd));
		R(close(pidfd));
		SAY(fd, "BBBBB");
	} else {
		SAY(fd, "bytes\n");
		app_hear(fd, 11);
	}
	app_sync();
	app_close(fd);
}

CASE(shell, DIRECT, "pidfd_spawn of a shell that reads a line and answers")
{
	by_shell(false);
}

CASE(shell_searched, DIRECT, "the same by pidfd_spawnp")
{
	by_shell(true);
}

CASE(wrong, DIRECT, "a program that does not exist leaves everything in order")
{
	int fd = app_open(WARM), pidfd = -2;
	char *argv[] = { (char[]){ "none" }, NULL };

	R(pidfd_spawn(&pidfd, "/nonexistent/program", NULL, NULL, argv, environ));
	R(pidfd_spawnp(&pidfd, "nonexistent-program", NULL, NULL, argv, environ));
	LOG("pidfd %d", pidfd);
	if (CLI) {
		SAY(fd, "after");
		app_hear(fd, 5);
	} else {
		app_hear(fd, 5);
		SAY(fd, "after");
	}
	app_sync();
	app_close(fd);
}

/* ---- the descriptor's number ---- */

typedef int spawner(int *pidfd, const char *path, const posix_spawn_file_actions_t *actions,
		    const posix_spawnattr_t *attr, char *const *argv, char *const *envp);

static int made_by(spawner *spawn)
{
	char *argv[] = { (char[]){ "true" }, NULL };
	int pidfd = -1;

	errno = spawn(&pidfd, "/bin/true", NULL, NULL, argv, environ);
	if (errno == 0)
		LOG("ended: %d", ended(pidfd));
	return pidfd;
}

/* clang-format off */
#define SPAWNERS(X) \
	X(pidfd_spawn, nothing, made_by(pidfd_spawn)) \
	X(pidfd_spawnp, nothing, made_by(pidfd_spawnp))
/* clang-format on */

SPAWNERS(DEFINE)

CASE(reused, DIRECT | LONG_RUN, "the number is one that was closed without the library")
{
	RUN(SPAWNERS);
}
