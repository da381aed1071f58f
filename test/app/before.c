/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * before.c - tests what happens to a socket before it is connected, and to the descriptor number
 * that it had: modes, copies, other kinds, exec.
 */
#include "app.h"

#include <sys/un.h>

static char buf[65536];

/* In lock-step: warms the stream up, expects @rings streams in rings, and checks the bytes. */
static void use(int fd, int rings)
{
	app_warm(fd);
	app_expect_rings(rings);
	LOG("good %d", app_pingpong(fd, 50, CLI));
	app_sync();
}

static void connect_to_server(int fd)
{
	struct app_addr addr;

	app_addr_make(&addr, COLD, false, app_port());
	if (connect(fd, &addr.sa, addr.len) < 0) {
		LOG("connect %s", app_errname(errno));
		app_await_poll(fd, POLLOUT, 5000);
	}
}

/*
 * Records whether a receive waits, once the stream is on the ring; a timeout replaces an endless
 * wait.
 */
static void ask_mode(int fd)
{
	struct timeval soon = { .tv_usec = 20000 };

	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)));
	int64_t begin = app_now_ms();

	R(recv(fd, buf, 1, 0));
	LOG("waits %d, O_NONBLOCK %d", app_now_ms() - begin >= 15,
	    !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	app_sync();
}

enum how {
	/* first: between hosts a fork takes streams off the rails until they are used again */
	BY_CHILD,
	BY_SOCKET,
	BY_FCNTL,
	BY_IOCTL,
	BY_COPY,
	AND_BACK,
	HOW_MANY
};

static int make_nonblock(enum how how)
{
	int fd =
		(int)MUST(socket(AF_INET, SOCK_STREAM | (how == BY_SOCKET ? SOCK_NONBLOCK : 0), 0));
	int one = 1, copy;
	pid_t child;

	switch (how) {
	case BY_FCNTL:
	case AND_BACK:
		app_set_nonblock(fd, true);
		if (how == AND_BACK)
			app_set_nonblock(fd, false);
		break;
	case BY_IOCTL:
		MUST(ioctl(fd, FIONBIO, &one));
		break;
	case BY_COPY:
		copy = (int)MUST(dup(fd));
		app_set_nonblock(copy, true);
		app_close(copy);
		break;
	case BY_CHILD:
		child = (pid_t)MUST(fork());
		if (!child) {
			app_set_nonblock(fd, true);
			_exit(0);
		}
		app_reap(child, "child");
		break;
	default:
		break;
	}
	return fd;
}

CASE(mode_before, DIRECT,
     "O_NONBLOCK set before connect: by socket, fcntl, ioctl, over a dup, by a child")
{
	int listener = SRV ? app_listen(COLD) : -1, fd[HOW_MANY];

	app_sync();
	for (enum how how = 0; how < HOW_MANY; how++) {
		LOG("how %d", (int)how);
		if (SRV) {
			fd[how] = app_accept(listener);
		} else {
			fd[how] = make_nonblock(how);
			connect_to_server(fd[how]);
		}
		bool on = CLI && how != AND_BACK;

		if (on)
			app_set_nonblock(fd[how], false); /* the steps of app_warm() block */
		use(fd[how], (int)how + 1);
		if (on)
			app_set_nonblock(fd[how], true);
		ask_mode(fd[how]);
	}
}

CASE(mode_unasked, DIRECT,
     "O_NONBLOCK set before connect and never touched again is what a stream in rings has")
{
	int listener = SRV ? app_listen(COLD) : -1, good = 0;

	app_sync();
	for (enum how how = 0; how < HOW_MANY; how++) {
		int fd = SRV ? app_accept(listener) : make_nonblock(how);

		if (CLI)
			connect_to_server(fd);
		/* A ping-pong that also works without blocking. */
		for (uint32_t i = 0; i < 3000; i++) {
			uint32_t got = 0;

			if (CLI)
				MUST(send(fd, &i, sizeof(i), 0));
			app_await_poll(fd, POLLIN, 5000);
			MUST(recv(fd, &got, sizeof(got), 0));
			if (SRV)
				MUST(send(fd, &got, sizeof(got), 0));
			good += got == i;
		}
		app_expect_rings(1);
		app_sync();
		ask_mode(fd);
		app_close(fd);
		app_sync();
	}
	LOG("good %d", good);
}

CASE(lowat_before, DIRECT,
     "SO_RCVLOWAT set before connect, and on a listener, is what a stream in rings has")
{
	int listener = -1, low = 3, fd;

	if (SRV) {
		listener = app_listen(COLD);
		MUST(setsockopt(listener, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	}
	app_sync();
	if (SRV) {
		fd = app_accept(listener);
	} else {
		fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
		MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
		connect_to_server(fd);
	}
	use(fd, 1);
	for (int i = 0; i < 2; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		SAY(fd, "01");
		app_await_inq(fd, 2);
		LOG("poll %d", poll(&p, 1, 0));
		app_sync();
		SAY(fd, "23");
		app_await_inq(fd, 4);
		LOG("poll %d", poll(&p, 1, 0));
		RB(buf, read(fd, buf, sizeof(buf)));
		app_sync();
	}
	app_close(fd);
}

CASE(dup_before, DIRECT, "a socket with copies is connected over one of them: all are the stream")
{
	int fd[3] = { -1, -1, -1 }, n = 3;

	if (SRV) {
		int listener = app_listen(COLD);

		app_sync();
		fd[0] = app_accept(listener);
		n = 1;
	} else {
		app_sync();
		fd[0] = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
		fd[1] = (int)MUST(dup(fd[0]));
		fd[2] = (int)MUST(fcntl(fd[1], F_DUPFD, 70));
		/* A copy of another socket, and one that is closed again. */
		MUST(dup(MUST(socket(AF_INET, SOCK_STREAM, 0))));
		app_close((int)MUST(dup(fd[2])));
		connect_to_server(fd[1]);
	}
	use(fd[n - 1], 1);
	for (int i = 0; i < 3; i++) {
		LOG("good %d", app_pingpong(fd[i % n], 50, CLI));
		app_sync();
	}
	if (CLI) {
		app_close(fd[1]);
		app_close(fd[0]);
		SAY(fd[2], "last");
		app_close(fd[2]);
	} else {
		app_hear(fd[0], 4);
		R(read(fd[0], buf, 1));
	}
	app_sync();
}

/* A socket of another kind gets the number of a closed TCP socket. */
static void other_kind(int fd)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct app_addr addr = { .len = sizeof(addr.ss) };
	int pair[2];

	app_close(fd);
	int udp = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));

	LOG("same number %d", udp == fd);
	app_addr_make(&addr, COLD, true, 0);
	MUST(bind(udp, &addr.sa, addr.len));
	MUST(getsockname(udp, &addr.sa, &addr.len));
	R(connect(udp, &addr.sa, addr.len));
	R(send(udp, "datagram", 8, 0));
	RB(buf, recv(udp, buf, sizeof(buf), 0));
	app_close(udp);
	int unix_listener = (int)MUST(socket(AF_UNIX, SOCK_STREAM, 0));

	/* Abstract, with a name that the kernel chooses. */
	MUST(bind(unix_listener, (struct sockaddr *)&un, sizeof(un.sun_family)));
	socklen_t len = sizeof(un);

	MUST(getsockname(unix_listener, (struct sockaddr *)&un, &len));
	MUST(listen(unix_listener, 1));
	pair[0] = (int)MUST(socket(AF_UNIX, SOCK_STREAM, 0));
	R(connect(pair[0], (struct sockaddr *)&un, len));
	pair[1] = (int)MUST(accept(unix_listener, NULL, NULL));
	for (int i = 0; i < 100; i++) {
		MUST(write(pair[0], "stream", 6));
		MUST(read(pair[1], buf, 6));
	}
	LOG("listener has the number %d: %.6s", unix_listener == fd, buf);
	app_close(pair[0]);
	app_close(pair[1]);
	app_close(unix_listener);
}

CASE(other_at_number, DIRECT,
     "UDP and Unix sockets at the number of a TCP socket that was closed, then TCP again")
{
	int listener = SRV ? app_listen(COLD) : -1;
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	other_kind(fd);
	app_sync();
	if (SRV) {
		fd = app_accept(listener);
	} else {
		fd = (int)MUST(socket(AF_INET, SOCK_STREAM, IPPROTO_TCP));
		connect_to_server(fd);
	}
	use(fd, 1);
	app_close(fd);
	if (SRV)
		other_kind((int)MUST(socket(AF_INET, SOCK_STREAM, 0)));
	app_sync();
}

CASE(accept_by_copy, DIRECT,
     "accept from a dup of a listener whose first number is closed or something else")
{
	int listener = SRV ? app_listen(COLD) : -1, fd;

	for (int i = 0; i < 3; i++) {
		if (SRV && i == 1) {
			int copy = (int)MUST(dup(listener));

			app_close(listener);
			/* Takes the number. */
			LOG("Unix at the number %d",
			    (int)MUST(socket(AF_UNIX, SOCK_STREAM, 0)) == listener);
			listener = copy;
		}
		app_sync();
		fd = SRV ? app_accept(listener) : app_connect(COLD);
		use(fd, i + 1);
	}
}

HELPER(serve_inherited)
{
	int listener = argc > 1 ? atoi(argv[1]) : -1;

	for (int i = 0; i < 2; i++) {
		int fd = app_accept(listener);

		app_warm(fd);
		app_expect_rings(1);
		LOG("good %d", app_pingpong(fd, 50, CLI));
		app_sync();
		app_close(fd);
	}
	return 0;
}

CASE(exec_listener, DIRECT,
     "a listener inherited over exec: what it accepts travels like any other")
{
	char number[16];

	if (SRV) {
		int listener = app_listen(COLD);

		app_sync();
		snprintf(number, sizeof(number), "%d", listener);
		execv(app_self(), app_self_argv("serve_inherited", number, NULL));
		app_die("exec: %s", app_errname(errno));
	}
	app_sync();
	for (int i = 0; i < 2; i++) {
		int fd = app_connect(COLD);

		app_warm(fd);
		app_expect_rings(1);
		LOG("good %d", app_pingpong(fd, 50, CLI));
		app_sync();
		R(read(fd, buf, 1));
		app_close(fd);
	}
}

CASE(async_before, 0,
     "O_ASYNC before connect, by fcntl and by ioctl, and a stdio stream over a socket")
{
	int listener = SRV ? app_listen(COLD) : -1;

	signal(SIGIO, SIG_IGN);
	app_sync();
	for (int i = 0; i < 3; i++) {
		int one = 1, fd;

		if (SRV) {
			fd = app_accept(listener);
		} else {
			fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
			if (i == 0)
				MUST(fcntl(fd, F_SETFL, O_ASYNC));
			if (i == 1)
				MUST(ioctl(fd, FIOASYNC, &one));
			if (i == 2 && !fdopen(fd, "r+"))
				app_die("fdopen: %s", app_errname(errno));
			connect_to_server(fd);
		}
		LOG("good %d", app_pingpong(fd, 3000, CLI));
		app_sync();
	}
}
