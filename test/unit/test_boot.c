/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_boot.c - tests programs that are preloaded: calls before the library is ready, and a library
 * that is switched off.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *env(const char *name)
{
	const char *value = getenv(name);

	cr_assert(value && *value, "%s is not set: run by ctest", name);
	return value;
}

/*
 * Runs @argv with @preload and, if not NULL, @setting. Returns its exit status; the output on fds 1
 * and 2 is in @text.
 */
static int run(const char *preload, const char *setting, const char *const *argv, char *text,
	       size_t room)
{
	int pipe_fds[2], status;
	size_t have = 0;
	ssize_t n;
	pid_t pid;

	cr_assert_eq(pipe(pipe_fds), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		dup2(pipe_fds[1], STDOUT_FILENO);
		dup2(pipe_fds[1], STDERR_FILENO);
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		setenv("LD_PRELOAD", preload, 1);
		if (setting)
			putenv(strdup(setting));
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(pipe_fds[1]);
	while (have < room - 1 && (n = read(pipe_fds[0], text + have, room - 1 - have)) > 0)
		have += (size_t)n;
	text[have] = 0;
	close(pipe_fds[0]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void early(const char *first, const char *second, const char *setting)
{
	char preload[4096], text[4096];
	const char *argv[] = { "sh", "-c", "ls -d /; exec ls -d /", NULL };

	snprintf(preload, sizeof(preload), "%s %s", first, second);
	cr_assert_eq(run(preload, setting, argv, text, sizeof(text)), 0, "%s", text);
	cr_expect_null(strstr(text, "FAILS"), "%s", text);
	cr_expect_not_null(strstr(text, "constructor works"), "%s", text);
	cr_expect_not_null(strstr(text, "allocation works"), "%s", text);
	cr_expect_not_null(strstr(text, "\n/\n"), "%s", text);
}

TestSuite(boot, .timeout = 30);

Test(boot, calls_before_our_constructor)
{
	early(env("LIBRSOCK"), env("RSK_EARLY_LIB"), NULL);
}

Test(boot, calls_after_our_constructor)
{
	early(env("RSK_EARLY_LIB"), env("LIBRSOCK"), NULL);
}

Test(boot, calls_when_switched_off)
{
	early(env("LIBRSOCK"), env("RSK_EARLY_LIB"), "RSOCK_DISABLE=1");
}

/*
 * The loader prints an error on fd 2 if it cannot load the library. A missing program stays
 * missing.
 */
Test(boot, nothing_is_said)
{
	char text[4096];
	const char *argv[] = { "true", NULL }, *missing[] = { "./no-such-program", NULL };

	cr_expect_eq(run(env("LIBRSOCK"), NULL, argv, text, sizeof(text)), 0);
	cr_expect_str_eq(text, "");
	cr_expect_eq(run(env("LIBRSOCK"), NULL, missing, text, sizeof(text)), 127);
}

/* What a loader and a shell do: fork, exec, pipes, redirections, a background job, traps. */
Test(boot, shell_as_always)
{
	const char *argv[] = {
		"bash", "-c",
		"trap 'echo trapped' USR1; kill -USR1 $$; (echo sub; exit 3); echo $?;"
		"echo a | tr a b; x=$(echo in); echo $x; sleep 0 & wait; exec 7>&1; echo seven >&7",
		NULL
	};
	char plain[4096], ours[4096];

	cr_expect_eq(run("", NULL, argv, plain, sizeof(plain)), 0);
	cr_expect_eq(run(env("LIBRSOCK"), NULL, argv, ours, sizeof(ours)), 0);
	cr_expect_str_eq(ours, plain);
	cr_expect_not_null(strstr(ours, "trapped"));
}
