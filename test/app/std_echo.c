/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * std_echo.c - a service that has its connection as descriptors 0 and 1, or 0 to 2, and uses no
 * stdio: it sends words of 8 bytes back. std.c starts it, and what else it does is its argument. It
 * must refer to nothing of libc that reads or writes stdin, stdout or stderr; with APP_STD_PUTS it
 * refers to a function that does, and to none of the variables, with APP_STD_VARIABLE vice versa.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 300

void __stack_chk_fail(void);

static void all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n <= 0)
			_exit(1);
		text += n;
		len -= (size_t)n;
	}
}

/* Everything, in large pieces: for real_socat.py. */
static void bulk(void)
{
	static char piece[65536];
	ssize_t n;

	while ((n = read(0, piece, sizeof(piece))) > 0)
		all(1, piece, (size_t)n);
}

/* False: the stream has ended. */
static int words(int in, int out, int n)
{
	for (int i = 0; i < n; i++) {
		char word[8];

		for (size_t got = 0; got < sizeof(word);) {
			ssize_t part = read(in, word + got, sizeof(word) - got);

			if (part <= 0)
				return 0;
			got += (size_t)part;
		}
		all(out, word, sizeof(word));
	}
	return 1;
}

static void in_a_child(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(words(0, 1, WORDS) ? 0 : 1);
	if (waitpid(pid, NULL, 0) != pid)
		_exit(1);
}

/* A child executes a program that uses stdio there, for one line. */
static void in_another_program(void)
{
	static char *const argv[] = { (char *)"head", (char *)"-n1", NULL };
	pid_t pid = fork();

	if (!pid) {
		execvp(argv[0], argv);
		_exit(127);
	}
	if (waitpid(pid, NULL, 0) != pid)
		_exit(1);
}

int main(int argc, char **argv)
{
	const char *also = argc > 1 ? argv[1] : "";
	int in = 0, out = 1;

	if (!strcmp(also, "bulk")) {
		bulk();
		return 0;
	}
	if (!strcmp(also, "moved")) {
		in = dup(0);
		out = in;
		close(0);
		close(1);
	}
	if (!words(in, out, 2 * WORDS))
		return 1;
	if (!strcmp(also, "child"))
		in_a_child();
	else if (!strcmp(also, "program"))
		in_another_program();
	else if (!strcmp(also, "becomes"))
		execlp("cat", "cat", (char *)NULL);
	else if (!strcmp(also, "error"))
		all(2, "an error", 8);
	else if (!strcmp(also, "smashed"))
		__stack_chk_fail();
	else if (!strcmp(also, "abort"))
		abort();
#ifdef APP_STD_PUTS
	puts("late");
	fflush(NULL);
#endif
#ifdef APP_STD_VARIABLE
	fputs("late\n", stdout);
	fflush(NULL);
#endif
	words(in, out, 1 << 30);
	return 0;
}
