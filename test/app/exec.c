/* SPDX-License-Identifier: BSD-2-Clause */
/* exec.c - tests exec and spawn: streams that go on in another program. */
#include "hand_over.h"

#include <pty.h>
#include <spawn.h>
#include <wordexp.h>

static char buf[16];

static int give_fork_exec(int fd)
{
	pid_t pid = fork();

	if (!pid) {
		execv(app_self(), app_self_argv("serve", number(fd), NULL));
		_exit(127);
	}
	close(fd);
	return reap_status(pid);
}

CASE(fork_exec_self, DIRECT,
     "fork, exec of this program with an inherited descriptor, bytes queued")
{
	hand_over(give_fork_exec);
}

static int give_fork_exec_plain(int fd)
{
	pid_t pid = fork();

	if (!pid) {
		unsetenv("LD_PRELOAD");
		execv(app_self(), app_self_argv("serve", number(fd), NULL));
		_exit(127);
	}
	close(fd);
	return reap_status(pid);
}

CASE(fork_exec_not_preloaded, DIRECT, "the same, the new program runs without preload")
{
	hand_over(give_fork_exec_plain);
}

static int give_exec_sole(int fd)
{
	execv(app_self(), app_self_argv("serve", number(fd), NULL));
	return -1;
}

CASE(exec_sole, DIRECT, "the only holder execs, bytes queued in the stream")
{
	hand_over(give_exec_sole);
}

static int give_exec_sole_plain(int fd)
{
	unsetenv("LD_PRELOAD");
	execv(app_self(), app_self_argv("serve", number(fd), NULL));
	return -1;
}

CASE(exec_sole_not_preloaded, DIRECT, "the only holder execs a program that is not preloaded")
{
	hand_over(give_exec_sole_plain);
}

static int give_execve(int fd)
{
	execve(app_self(), app_self_argv("serve", number(fd), NULL), environ);
	return -1;
}

CASE(exec_execve, DIRECT, "execve")
{
	hand_over(give_execve);
}

static int give_fexecve(int fd)
{
	fexecve((int)MUST(open(app_self(), O_RDONLY | O_CLOEXEC)),
		app_self_argv("serve", number(fd), NULL), environ);
	return -1;
}

CASE(exec_fexecve, DIRECT, "fexecve")
{
	hand_over(give_fexecve);
}

static int give_execveat(int fd)
{
	execveat(AT_FDCWD, app_self(), app_self_argv("serve", number(fd), NULL), environ, 0);
	return -1;
}

CASE(exec_execveat, DIRECT, "execveat")
{
	hand_over(give_execveat);
}

static int give_execl(int fd)
{
	execl(app_self(), app_self(), "--helper", "serve", number(fd), (char *)NULL);
	return -1;
}

CASE(exec_execl, DIRECT, "execl")
{
	hand_over(give_execl);
}

static int give_spawn(int fd)
{
	pid_t pid;
	posix_spawn_file_actions_t fa;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, fd, 77);
	posix_spawn_file_actions_addclose(&fa, fd);
	if (posix_spawn(&pid, app_self(), &fa, NULL, app_self_argv("serve", number(77), NULL),
			environ))
		return -1;
	close(fd);
	return reap_status(pid);
}

CASE(spawn_actions, DIRECT, "posix_spawn with dup2 and close as file actions")
{
	hand_over(give_spawn);
}

static int give_fork_parent_stays(int fd)
{
	pid_t pid = fork();

	/* The parent keeps its copy open and idle until the child has ended. */
	if (!pid) {
		execv(app_self(), app_self_argv("serve", number(fd), NULL));
		_exit(127);
	}
	int status = reap_status(pid);

	shutdown(fd, SHUT_RDWR);
	return status;
}

CASE(fork_exec_parent_stays, DIRECT, "fork and exec; the parent keeps a copy meanwhile")
{
	hand_over(give_fork_parent_stays);
}

static void echo_client(int fd)
{
	SAY(fd, "through another program");
	app_hear(fd, 23);
	R(shutdown(fd, SHUT_WR));
	R(read(fd, buf, 1));
}

static void inetd(const char *program, bool sole)
{
	int fd = app_open(WARM);

	if (CLI) {
		echo_client(fd);
		app_close(fd);
		return;
	}
	pid_t pid = sole ? 0 : fork();

	if (!pid) {
		dup2(fd, 0);
		dup2(fd, 1);
		close(fd);
		execlp(program, program, (char *)NULL);
		_exit(127);
	}
	app_close(fd);
	app_reap(pid, "program");
}

CASE(inetd_static, DIRECT, "inetd style: fork, the stream as 0 and 1 of a static program")
{
	inetd(app_static_cat(), false);
}

CASE(inetd_cat, DIRECT, "inetd style: fork, the stream as 0 and 1 of cat")
{
	inetd("cat", false);
}

CASE(inetd_sole_static, DIRECT, "the only holder becomes a static program on the stream")
{
	inetd(app_static_cat(), true);
}

CASE(inetd_sole_cat, DIRECT, "the only holder becomes cat on the stream")
{
	inetd("cat", true);
}

CASE(inetd_shell, DIRECT, "a shell reads a line from the stream and answers on it")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "line for the shell\n");
		app_hear(fd, 25);
		R(read(fd, buf, 1));
		app_close(fd);
	} else {
		pid_t pid = fork();

		if (!pid) {
			dup2(fd, 0);
			dup2(fd, 1);
			close(fd);
			execl("/bin/sh", "sh", "-c", "read x; echo \"got: $x!\"", (char *)NULL);
			_exit(127);
		}
		app_close(fd);
		app_reap(pid, "shell");
	}
}

CASE(exec_cloexec, DIRECT, "FD_CLOEXEC: exec is EOF at the peer")
{
	int fd = app_open(WARM);

	if (SRV) {
		R(fcntl(fd, F_SETFD, FD_CLOEXEC));
		SAY(fd, "last");
		execl("/bin/true", "true", (char *)NULL);
	} else {
		app_drain(fd, "drained");
		app_close(fd);
	}
}

CASE(exec_fails, DIRECT, "an exec that fails leaves everything in order")
{
	int fd = app_open(WARM);

	for (int i = 0; i < 3; i++) {
		R(execl("/nonexistent/program", "program", (char *)NULL));
		R(execl("/", "directory", (char *)NULL));
		if (CLI) {
			SAY(fd, "after");
			app_hear(fd, 5);
		} else {
			app_hear(fd, 5);
			SAY(fd, "after");
		}
	}
	app_sync();
	app_close(fd);
}

CASE(spawn_cat, DIRECT, "posix_spawnp of cat with the stream as 0 and 1")
{
	int fd = app_open(WARM);

	if (CLI) {
		echo_client(fd);
	} else {
		posix_spawn_file_actions_t fa;
		char *argv[] = { (char[]){ "cat" }, NULL };
		pid_t pid;

		posix_spawn_file_actions_init(&fa);
		posix_spawn_file_actions_adddup2(&fa, fd, 0);
		posix_spawn_file_actions_adddup2(&fa, fd, 1);
		posix_spawn_file_actions_addclose(&fa, fd);
		R(posix_spawnp(&pid, "cat", &fa, NULL, argv, environ));
		app_close(fd);
		app_reap(pid, "cat");
	}
}

CASE(system_popen, DIRECT, "system, popen and wordexp while the stream flows")
{
	int fd = app_open(WARM);
	char line[64];
	wordexp_t words;

	for (int i = 0; i < 3; i++) {
		R(system("exit 3"));
		FILE *out = popen("echo from popen", "r");

		if (out && fgets(line, sizeof(line), out))
			app_bytes("popen", line, strlen(line));
		R(pclose(out));
		R(wordexp("$(echo one) two", &words, 0));
		LOG("words %zu %s", words.we_wordc, words.we_wordv[0]);
		wordfree(&words);
		if (CLI)
			R(app_send_pattern(fd, 100000, 5000, (unsigned int)i));
		else
			R(app_recv_pattern(fd, 100000, 5000, (unsigned int)i));
	}
	app_sync();
	app_close(fd);
}

CASE(system_on_stream, DIRECT, "system() whose program writes to the stream as its stdout")
{
	int fd = app_open(WARM);

	if (SRV) {
		int saved = (int)MUST(fcntl(1, F_DUPFD_CLOEXEC, 100));

		SAY(fd, "before ");
		R(dup2(fd, 1));
		R(system("printf 'inside '"));
		R(dup2(saved, 1));
		SAY(fd, "after");
		app_close(fd);
	} else {
		app_drain(fd, "drained");
		app_close(fd);
	}
}

CASE(forkpty_child, DIRECT, "forkpty with a stream open")
{
	int fd = app_open(WARM);
	int master;

	if (SRV) {
		pid_t pid = forkpty(&master, NULL, NULL, NULL);

		if (!pid) {
			SAY(fd, "from the pty's child");
			_exit(0);
		}
		app_reap(pid, "child");
		app_close(master);
		SAY(fd, " and parent");
	} else {
		app_hear(fd, 31);
	}
	app_sync();
	app_close(fd);
}

/* --- descriptor passing ----------------------------------------------------------------------- */
