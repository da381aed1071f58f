/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * std.c - tests services that find their connection as descriptors 0 and 1, or 0 to 2, as an inetd
 * starts them: with read() and write(), with stdio, and with both.
 */
#include "std.h"

/* The services' own programs count so far. */
#define ROUNDS 300
#include "rounds.h"

static char buf[256];

/* As in std.h. With RING, asks the runner about the stream while the service waits for words. */
static void inetd(int fd, char *const *argv, unsigned int how)
{
	pid_t pid = fork();

	if (!pid) {
		dup2(fd, 0);
		dup2(fd, 1);
		if (how & ALSO_2)
			dup2(fd, 2);
		close(fd);
		execvp(argv[0], argv);
		_exit(127);
	}
	app_close(fd);
	if (how & RING)
		app_expect_rings_of(pid, 1);
	app_reap(pid, "service");
}

static void echo_service(int fd, const char *also, unsigned int how)
{
	char *argv[] = { (char *)app_beside("app_std_echo"), (char *)also, NULL };

	inetd(fd, argv, how);
}

static void ask_echo(int fd, unsigned int how)
{
	if (ask(fd, ROUNDS) != ROUNDS)
		app_die("the service does not answer");
	if (how & RING)
		app_expect_rings(1);
	ask(fd, ROUNDS);
}

static void ends(int fd)
{
	R(shutdown(fd, SHUT_WR));
	app_drain(fd, "rest");
	app_close(fd);
}

/* One connection to the echo service, @rounds words more after the first 600. */
static void echo_case(const char *also, unsigned int how, int rounds)
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		echo_service(fd, also, how);
		return;
	}
	ask_echo(fd, how);
	if (rounds)
		ask(fd, rounds);
	ends(fd);
}

/* ---- services without stdio ---- */

CASE(read_write, 0, "a service reads from 0 and writes to 1")
{
	echo_case("", RING, ROUNDS);
}

CASE(with_2, 0, "the connection is 0, 1 and 2, as a classic inetd has it")
{
	echo_case("", RING | ALSO_2, ROUNDS);
}

CASE(sole, 0, "the process that accepted the connection becomes the service")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		const char *service = app_beside("app_std_echo");

		dup2(fd, 0);
		dup2(fd, 1);
		close(fd);
		execl(service, service, (char *)NULL);
		app_die("exec");
	}
	ask_echo(fd, 0);
	ends(fd);
}

CASE(error_on_2, 0, "the service writes an error to 2")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		echo_service(fd, "error", RING | ALSO_2);
		return;
	}
	ask_echo(fd, RING);
	app_hear(fd, 8);
	ask(fd, ROUNDS);
	ends(fd);
}

CASE(moved, 0, "the service duplicates 0, and closes 0 and 1")
{
	echo_case("moved", RING, ROUNDS);
}

CASE(child, 0, "a child of the service takes its turn")
{
	echo_case("child", RING, 2 * ROUNDS);
}

CASE(program, 0, "the service starts another program that uses stdio there")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		echo_service(fd, "program", RING);
		return;
	}
	ask_echo(fd, RING);
	SAY(fd, "a line\n");
	app_hear(fd, 7);
	ask(fd, ROUNDS);
	ends(fd);
}

CASE(becomes, 0, "the service executes cat")
{
	echo_case("becomes", RING, ROUNDS);
}

CASE(aborts, 0, "the service aborts")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		echo_service(fd, "abort", RING | ALSO_2);
		return;
	}
	ask_echo(fd, RING);
	app_drain(fd, "rest");
	app_close(fd);
}

CASE(smashed, 0, "libc reports a smashed stack of the service on 2, and aborts")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		echo_service(fd, "smashed", RING | ALSO_2);
		return;
	}
	ask_echo(fd, RING);
	app_drain(fd, "rest");
	app_close(fd);
}

/* ---- services with it ---- */

static void self_case(const char *helper, unsigned int how)
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		inetd(fd, app_self_argv(helper, NULL), how);
		return;
	}
	ask_echo(fd, 0);
	ends(fd);
}

/* Words of 8 bytes are no lines: fread() takes them. */
HELPER(by_stdio)
{
	char word[8];

	(void)argc, (void)argv;
	while (fread(word, sizeof(word), 1, stdin) == 1) {
		printf("%.8s", word);
		fflush(stdout);
	}
	return 0;
}

CASE(stdio, 0, "a service with fread() and printf()")
{
	self_case("by_stdio", 0);
}

CASE(stdio_with_2, 0, "the same, the connection is 2 as well")
{
	self_case("by_stdio", ALSO_2);
}

HELPER(mixed)
{
	char word[8];

	(void)argc, (void)argv;
	setvbuf(stdin, NULL, _IONBF, 0);
	for (int i = 0; i < 2 * ROUNDS; i++) {
		if (i % 3 ? app_read_full(0, word, 8) != 8 : fread(word, 8, 1, stdin) != 1)
			return 1;
		printf("%.3s", word);
		fflush(stdout);
		app_write_all(1, word + 3, 3);
		dprintf(1, "%.2s", word + 6);
	}
	fputs("buffered", stdout);
	app_write_all(1, "first", 5);
	fflush(stdout);
	fprintf(stderr, "on 2");
	return 0;
}

CASE(stdio_mixed, 0, "read() and fread(), write(), printf() and dprintf() in turn")
{
	self_case("mixed", ALSO_2);
}

/* The first rounds show nothing of stdio. */
HELPER(late)
{
	char word[8];

	(void)argc;
	echo(0, 1, 2 * ROUNDS);
	if (!strcmp(argv[1], "out")) {
		puts("late");
		fflush(stdout);
	} else if (!strcmp(argv[1], "err")) {
		fputs("late\n", stderr);
	} else {
		for (int i = 0; i < 10 && fread(word, sizeof(word), 1, stdin) == 1; i++)
			app_write_all(1, word, sizeof(word));
		app_write_all(1, "late\n", 5);
		return 0;
	}
	echo(0, 1, ROUNDS);
	return 0;
}

static void late_case(const char *what, unsigned int how)
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		inetd(fd, app_self_argv("late", what, NULL), how);
		return;
	}
	ask_echo(fd, 0);
	if (!strcmp(what, "in"))
		ask(fd, 10);
	app_hear(fd, 5);
	if (strcmp(what, "in") != 0)
		ask(fd, ROUNDS);
	ends(fd);
}

CASE(late_out, 0, "a service that uses stdout after many calls of read() and write()")
{
	late_case("out", 0);
}

CASE(late_in, 0, "the same, stdin")
{
	late_case("in", 0);
}

CASE(late_err, 0, "the same, stderr")
{
	late_case("err", ALSO_2);
}

static void late_service(const char *program)
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		char *argv[] = { (char *)app_beside(program), NULL };

		inetd(fd, argv, 0);
		return;
	}
	ask_echo(fd, 0);
	app_hear(fd, 5);
	ask(fd, ROUNDS);
	ends(fd);
}

CASE(by_function, 0, "a service that refers to puts(), and not to stdout")
{
	late_service("app_std_puts");
}

CASE(by_variable, 0, "a service that refers to stdout, and to no function that means it")
{
	late_service("app_std_variable");
}

void program_case(char *const *argv, unsigned int how)
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		inetd(fd, argv, how);
		return;
	}
	ask_echo(fd, 0);
	ends(fd);
}

CASE(cat, 0, "cat with the connection as 0, 1 and 2")
{
	char *argv[] = { (char *)"cat", NULL };

	program_case(argv, ALSO_2);
}

CASE(python, 0, "a Python service that uses sys.stdin.buffer and sys.stdout")
{
	char *argv[] = { (char *)"/usr/bin/python3", (char *)"-Sc",
			 (char *)"import sys\n"
				 "while True:\n"
				 "    word = sys.stdin.buffer.read(8)\n"
				 "    if not word: break\n"
				 "    sys.stdout.write(word.decode())\n"
				 "    sys.stdout.flush()\n",
			 NULL };

	program_case(argv, 0);
}

static void shell_case(const char *script, int lines)
{
	int fd = app_open(COLD | NODELAY);
	int good = 0;

	if (SRV) {
		char *argv[] = { (char *)"/bin/sh", (char *)"-c", (char *)script, NULL };

		inetd(fd, argv, 0);
		return;
	}
	for (int i = 0; i < lines; i++) {
		int len = snprintf(buf, sizeof(buf), "line %d\n", i);
		char got[32];

		app_write_all(fd, buf, (size_t)len);
		good += app_read_full(fd, got, (size_t)len) == (size_t)len &&
			!memcmp(got, buf, (size_t)len);
	}
	LOG("good %d", good);
	ends(fd);
}

CASE(shell, 0, "a shell that reads lines and sends them back")
{
	shell_case("while read -r x; do echo \"$x\"; done", 400);
}

CASE(shell_programs, 0, "a shell that executes a program for every other line")
{
	shell_case("while read -r x; do echo \"$x\"; head -n1; done", 60);
}

CASE(shell_pipe, 0, "a shell whose programs have the connection at one end of a pipe")
{
	shell_case("while read -r x; do echo \"$x\" | cat; done", 60);
}
