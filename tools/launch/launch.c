// SPDX-License-Identifier: BSD-2-Clause
/* launch.c - see launch.h. */
#include "launch.h"

#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int launch_environment(enum launch_way way, const char *library)
{
	/* Both, because /etc/ld.so.preload may name the library as well. */
	if (way == LAUNCH_PLAIN)
		return setenv("RSOCK_DISABLE", "1", 1) ? -ENOMEM : preload_unset();
	unsetenv("RSOCK_DISABLE");
	return preload_set(library);
}

int launch_own_path(char out[static PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

	if (n < 0)
		return -errno;
	out[n] = 0;
	/* The file was replaced since the start; /proc/self/exe still opens the old one. */
	if (access(out, X_OK))
		snprintf(out, PATH_MAX, "/proc/self/exe");
	return 0;
}

int launch_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

pid_t launch_fork(void)
{
	static struct sigaction before;
	static bool saved;
	const struct sigaction keep = { .sa_handler = SIG_DFL };
	pid_t pid;

	/* Before the fork: the kernel drops the status when the child ends. */
	if (!saved)
		saved = sigaction(SIGCHLD, &keep, &before) == 0;
	pid = fork();
	if (pid == 0 && saved)
		sigaction(SIGCHLD, &before, NULL);
	return pid;
}

int launch_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return launch_status(status);
}

static char *read_all(int fd)
{
	FILE *file = fdopen(fd, "r");
	char *text = NULL;
	size_t room = 0;

	if (!file) {
		close(fd);
		return NULL;
	}
	if (getdelim(&text, &room, 0, file) < 0 && text)
		*text = 0;
	fclose(file);
	return text;
}

int launch_self(enum launch_way way, const char *library, char *const argv[], char **out)
{
	char path[PATH_MAX];
	int pipe_fd[2], status = launch_own_path(path);
	pid_t pid;

	*out = NULL;
	if (status)
		return status;
	if (pipe2(pipe_fd, O_CLOEXEC))
		return -errno;
	pid = launch_fork();
	if (pid < 0) {
		int err = errno;

		close(pipe_fd[0]);
		close(pipe_fd[1]);
		return -err;
	}
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (launch_environment(way, library) || dup2(pipe_fd[1], STDOUT_FILENO) < 0)
			_exit(127);
		execv(path, argv);
		_exit(127);
	}
	close(pipe_fd[1]);
	*out = read_all(pipe_fd[0]);
	status = launch_wait(pid);
	if (!*out)
		return -ENOMEM;
	if (status < 0) {
		free(*out);
		*out = NULL;
	}
	return status;
}
