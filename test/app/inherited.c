/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inherited.c - tests connections that a program finds open when it starts: it has them alone, or
 * with the processes that left them open.
 */
#include "rounds.h"

static char buf[64];

static char *number(int n)
{
	static char text[4][16];
	static int at;

	at = (at + 1) % 4;
	snprintf(text[at], sizeof(text[at]), "%d", n);
	return text[at];
}

/* ---- the program: helper serve, IN, OUT, 1 if the stream must be on the ring ---- */

HELPER(serve)
{
	int in = atoi(argv[1]), out = atoi(argv[2]);

	(void)argc;
	echo(in, out, ROUNDS);
	if (atoi(argv[3]))
		app_expect_rings(1);
	echo(in, out, ROUNDS);
	SAY(out, "bye");
	if (in != out)
		app_close(out);
	app_drain(in, "rest");
	return 0;
}

static void served(int fd, bool direct)
{
	ask(fd, ROUNDS);
	if (direct)
		app_expect_rings(1);
	ask(fd, ROUNDS);
	app_hear(fd, 3);
	R(shutdown(fd, SHUT_WR));
	R(read(fd, buf, 1));
	app_close(fd);
}

static void become_serve(int in, int out, bool direct)
{
	execv(app_self(), app_self_argv("serve", number(in), number(out), number(direct), NULL));
	app_die("exec");
}

/* A child executes the program, and the parent closes its copy, as an inetd does. */
static void start_serve(int fd, bool direct)
{
	pid_t pid = fork();

	if (!pid)
		become_serve(fd, fd, direct);
	app_close(fd);
	app_reap(pid, "program");
}

CASE(sole, 0, "the process that accepted a connection executes a program")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV)
		become_serve(fd, fd, true);
	served(fd, true);
}

CASE(child, 0, "a child executes a program; the parent closes its copy")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV)
		start_serve(fd, true);
	else
		served(fd, true);
}

CASE(connecting, 0, "the process that made the connection executes a program")
{
	int fd = app_open(COLD | NODELAY);

	if (CLI)
		become_serve(fd, fd, true);
	served(fd, true);
}

HELPER(client)
{
	(void)argc;
	served(atoi(argv[1]), true);
	return 0;
}

CASE(both_ends, 0, "both ends execute a program")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV)
		become_serve(fd, fd, true);
	execv(app_self(), app_self_argv("client", number(fd), NULL));
}

CASE(two_numbers, 0, "a program finds a connection under two numbers, and another one")
{
	int fd[2];

	app_open_more(COLD | NODELAY, fd, 2);
	if (SRV)
		become_serve(fd[0], (int)MUST(dup(fd[0])), true);
	served(fd[0], true);
	app_close(fd[1]);
}

CASE(high_number, 0, "a program finds a connection at a high number behind a low one")
{
	int fd[2];

	app_open_more(COLD | NODELAY, fd, 2);
	if (SRV) {
		int high = (int)MUST(fcntl(fd[0], F_DUPFD, 100));

		app_close(fd[0]);
		become_serve(high, high, true);
	}
	served(fd[0], true);
	app_close(fd[1]);
}

CASE(in_the_middle, 0, "bytes were moved before the exec, and some are unread")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		SAY(fd, "banner\n");
		app_hear(fd, 5);
		app_await_inq(fd, 5 + 16);
		app_hear(fd, 5);
		app_sync();
		become_serve(fd, fd, true);
	}
	app_hear(fd, 7);
	SAY(fd, "0123456789");
	SAY(fd, "two words before");
	app_sync();
	app_hear(fd, 16);
	ask(fd, ROUNDS - 2);
	app_expect_rings(1);
	ask(fd, ROUNDS);
	app_hear(fd, 3);
	R(shutdown(fd, SHUT_WR));
	R(read(fd, buf, 1));
	app_close(fd);
}

CASE(nonblocking, 0, "the socket is O_NONBLOCK when the program starts")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		app_set_nonblock(fd, true);
		execv(app_self(), app_self_argv("poller", number(fd), NULL));
	}
	served(fd, true);
}

HELPER(poller)
{
	int fd = atoi(argv[1]);

	(void)argc;
	for (int half = 0; half < 2; half++) {
		for (int i = 0; i < ROUNDS; i++) {
			struct pollfd p = { .fd = fd, .events = POLLIN };
			char word[8];
			size_t got = 0;

			while (got < sizeof(word)) {
				ssize_t n = read(fd, word + got, sizeof(word) - got);

				if (n > 0)
					got += (size_t)n;
				else if (n == 0 || errno != EAGAIN)
					app_die("read");
				else
					MUST(poll(&p, 1, -1));
			}
			app_write_all(fd, word, sizeof(word));
		}
		if (!half)
			app_expect_rings(1);
	}
	R(read(fd, buf, 1));
	SAY(fd, "bye");
	app_set_nonblock(fd, false);
	app_drain(fd, "rest");
	return 0;
}

/* ---- others that have it, too ---- */

CASE(parent_reads, 0, "a parent that has the connection reads on when the program has ended")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		pid_t pid = fork();

		if (!pid) {
			execv(app_self(), app_self_argv("part", number(fd), NULL));
			app_die("exec");
		}
		app_reap(pid, "program");
		echo(fd, fd, 10);
		app_close(fd);
		return;
	}
	ask(fd, 2 * ROUNDS);
	ask(fd, 10);
	R(read(fd, buf, 1));
	app_close(fd);
}

HELPER(part)
{
	int fd = atoi(argv[1]);

	(void)argc;
	echo(fd, fd, 2 * ROUNDS);
	return 0;
}

/*
 * The same while the program runs: its parent, which the library does not see, takes every other
 * block of rounds.
 */
CASE(parent_in_turn, 0, "a parent without the library reads and writes in turn with the program")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		const char *library = getenv("LD_PRELOAD");

		if (library)
			setenv("APP_PROGRAM_PRELOAD", library, 1);
		unsetenv("LD_PRELOAD");
		execv(app_self(), app_self_argv("turns", number(fd), NULL));
	}
	for (int i = 0; i < 4; i++) {
		ask(fd, ROUNDS);
		app_sync();
	}
	R(read(fd, buf, 1));
	app_close(fd);
}

static pid_t start_program(const char *helper, int fd)
{
	const char *library = getenv("APP_PROGRAM_PRELOAD");
	pid_t pid = fork();

	if (pid)
		return pid;
	if (library)
		setenv("LD_PRELOAD", library, 1);
	execv(app_self(), app_self_argv(helper, number(fd), NULL));
	app_die("exec");
}

HELPER(turns)
{
	int fd = atoi(argv[1]);
	pid_t pid = start_program("turn", fd);

	(void)argc;
	for (int i = 0; i < 4; i++) {
		if (i % 2) {
			echo(fd, fd, ROUNDS);
		} else {
			app_flag_set(1 + i, 1);
			app_flag_wait(2 + i);
		}
		app_sync();
	}
	app_reap(pid, "program");
	app_close(fd);
	return 0;
}

HELPER(turn)
{
	int fd = atoi(argv[1]);

	(void)argc;
	for (int i = 0; i < 4; i += 2) {
		app_flag_wait(1 + i);
		echo(fd, fd, ROUNDS);
		app_flag_set(2 + i, 1);
	}
	return 0;
}

CASE(sibling, 0, "two programs of one parent have the connection, which has closed it")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		pid_t first = start_program("first", fd), second = start_program("second", fd);

		app_close(fd);
		app_reap(first, "first");
		app_flag_set(1, 1);
		app_reap(second, "second");
		return;
	}
	ask(fd, 2 * ROUNDS);
	ask(fd, 10);
	R(read(fd, buf, 1));
	app_close(fd);
}

HELPER(first)
{
	int fd = atoi(argv[1]);

	(void)argc;
	echo(fd, fd, 2 * ROUNDS);
	return 0;
}

HELPER(second)
{
	int fd = atoi(argv[1]);

	(void)argc;
	app_flag_wait(1);
	echo(fd, fd, 10);
	return 0;
}

CASE(parent_lets_go, 0, "a parent closes its copy when the program has made many calls")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		pid_t pid = start_program("let_go", fd);

		app_flag_wait(1);
		app_close(fd);
		app_flag_set(2, 1);
		app_reap(pid, "program");
		return;
	}
	ask(fd, 2 * ROUNDS);
	ask(fd, 2 * ROUNDS);
	app_expect_rings(1);
	ask(fd, ROUNDS);
	app_close(fd);
}

HELPER(let_go)
{
	int fd = atoi(argv[1]);

	(void)argc;
	echo(fd, fd, 2 * ROUNDS);
	app_flag_set(1, 1);
	app_flag_wait(2);
	echo(fd, fd, 2 * ROUNDS);
	app_expect_rings(1);
	echo(fd, fd, ROUNDS);
	app_drain(fd, "rest");
	return 0;
}

/* ---- what the former program has left besides ---- */

CASE(epoll_set, 0, "the program waits in an epoll set that its former self has made")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };
		int set = (int)MUST(epoll_create1(0));

		MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev));
		execv(app_self(), app_self_argv("waiter", number(fd), number(set), NULL));
	}
	ask(fd, 2 * ROUNDS);
	app_close(fd);
}

HELPER(waiter)
{
	int fd = atoi(argv[1]), set = atoi(argv[2]), good = 0;

	(void)argc;
	for (;;) {
		struct epoll_event ev;
		char word[8];

		MUST(epoll_wait(set, &ev, 1, 20000));
		if (ev.data.fd != fd || app_read_full(fd, word, 8) != 8)
			break;
		app_write_all(fd, word, 8);
		good++;
	}
	LOG("echoed %d", good);
	return 0;
}

CASE(children, 0, "the program forks and executes others that use the connection")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV)
		execv(app_self(), app_self_argv("parent", number(fd), NULL));
	ask(fd, ROUNDS);
	ask(fd, 2 * ROUNDS);
	ask(fd, ROUNDS);
	app_close(fd);
}

HELPER(parent)
{
	int fd = atoi(argv[1]);

	(void)argc;
	echo(fd, fd, ROUNDS);
	app_reap(start_program("part", fd), "program");
	echo(fd, fd, ROUNDS);
	app_drain(fd, "rest");
	return 0;
}

CASE(half_closed, 0, "the peer has shut its direction before the program starts")
{
	int fd = app_open(COLD | NODELAY);

	if (SRV) {
		struct pollfd p = { .fd = fd, .events = POLLRDHUP };

		while (poll(&p, 1, -1) < 1)
			;
		execv(app_self(), app_self_argv("writer", number(fd), NULL));
	}
	R(shutdown(fd, SHUT_WR));
	app_drain(fd, "all");
	app_close(fd);
}

HELPER(writer)
{
	int fd = atoi(argv[1]);

	(void)argc;
	R(read(fd, buf, 1));
	for (int i = 0; i < ROUNDS; i++)
		app_write_all(fd, "one of many", 11);
	app_close(fd);
	return 0;
}
