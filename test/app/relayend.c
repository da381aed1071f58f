/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * relayend.c - tests ends, resets and directions that are shut down, before and after a stream is
 * handed to a program that only the kernel serves.
 */
#include "end_say.h"

/* Ten bytes by the ring and ten by TCP, unread when the server leaves the ring. */
static void few_moved(int fd)
{
	if (CLI) {
		SAY(fd, "0123456789");
		fclose(fdopen((int)MUST(dup(fd)), "r"));
		SAY(fd, "abcdefghij");
	} else {
		app_await_inq(fd, 20);
	}
	app_sync();
}

static void reset_behind_end(bool at_once)
{
	int fd = app_open(WARM);

	few_moved(fd);
	if (SRV) {
		FILE *f = fdopen(fd, "r+");

		R(shutdown(fd, SHUT_WR));
		if (!at_once)
			app_sync();
		R(fclose(f));
		if (at_once)
			app_sync();
		app_sync();
		return;
	}
	if (!at_once)
		app_await_poll(fd, POLLRDHUP, 10000);
	app_sync();
	LOG("told %d", !!(app_await_poll(fd, POLLHUP, 10000) & POLLHUP));
	app_sync();
	app_close(fd);
}

CASE(reset_behind_end, DIRECT,
     "own SHUT_WR, then closed with bytes unread: the peer is told of the reset")
{
	reset_behind_end(false);
}

CASE(reset_behind_end_at_once, DIRECT, "the same, closed before the relay has heard of the end")
{
	reset_behind_end(true);
}

CASE(shut_both_before, DIRECT, "shut both ways before: what lay unread is read, then the end")
{
	int fd = app_open(WARM);
	char text[32];

	few_moved(fd);
	if (SRV) {
		R(shutdown(fd, SHUT_RDWR));
		FILE *f = fdopen(fd, "r+");

		RB(text, fread(text, 1, 20, f));
		R(fgetc(f));
		R(fclose(f));
	}
	app_sync();
	if (CLI)
		app_close(fd);
}

static void say_end(int fd, const char *when)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };

	app_await_poll(fd, POLLHUP, 10000);
	MUST(poll(&p, 1, 0));
	LOG("%s: revents %x", when, (unsigned)p.revents);
}

CASE(reset_behind_ended, DIRECT,
     "sent behind a relay to an end that is shut both ways: the reset is told, the bytes stay")
{
	int fd = app_open(WARM);
	char text[32];

	no_sigpipe();
	few_moved(fd);
	if (CLI)
		R(shutdown(fd, SHUT_RDWR));
	app_sync();
	if (SRV) {
		FILE *f = fdopen(fd, "r+");

		app_await_poll(fd, POLLRDHUP, 10000);
		R(write(fd, "refused", 7));
		say_end(fd, "reset");
		RB(text, fread(text, 1, 20, f));
		R(fclose(f));
	}
	app_sync();
	if (CLI)
		app_close(fd);
}

CASE(reset_told_before, DIRECT,
     "a reset that a send has told, then handed over with bytes unread: no more can be sent")
{
	int fd = app_open(WARM);
	char text[32];

	no_sigpipe();
	few_moved(fd);
	if (CLI)
		app_close(fd);
	app_sync();
	if (SRV) {
		app_await_poll(fd, POLLRDHUP, 10000);
		R(write(fd, "x", 1));
		app_await_poll(fd, POLLHUP, 10000);
		R(write(fd, "x", 1));
		FILE *f = fdopen(fd, "r+");

		say_end(fd, "told");
		R(write(fd, "x", 1));
		RB(text, fread(text, 1, 20, f));
		R(fgetc(f));
		R(fclose(f));
	}
	app_sync();
}

CASE(reset_pending, DIRECT,
     "a reset behind bytes that a read waited for: what sees the kernel alone is told of it next")
{
	int fd = app_open(WARM);
	char text[32];

	no_sigpipe();
	if (CLI) {
		SAY(fd, "never read");
		app_sync();
		app_flag_set(0, (uint64_t)gettid());
		RB(text, recv(fd, text, sizeof(text), MSG_WAITALL));
		FILE *f = fdopen(fd, "r+");

		say_revents(fd, "handed over");
		errno = 0;
		size_t n = fread(text, 1, 10, f);

		LOG("fread %zu, %s", n, app_errname(errno));
		say_revents(fd, "told");
		R(read(fd, text, 10));
		R(write(fd, "x", 1));
		R(fclose(f));
	} else {
		app_await_inq(fd, 10);
		app_sync();
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "part");
		R(close(fd));
	}
	app_sync();
}

CASE(reset_before, DIRECT, "the same handed over behind the reset: it is there with the first look")
{
	int fd = app_open(WARM);
	char text[32];

	no_sigpipe();
	few_moved(fd);
	if (CLI)
		R(shutdown(fd, SHUT_RDWR));
	app_sync();
	if (SRV) {
		app_await_poll(fd, POLLRDHUP, 10000);
		R(write(fd, "refused", 7));
		app_await_poll(fd, POLLHUP, 10000);
		FILE *f = fdopen(fd, "r+");

		say_revents(fd, "handed over");
		RB(text, fread(text, 1, 20, f));
		R(fclose(f));
	}
	app_sync();
	if (CLI)
		app_close(fd);
}

/* The server has shut down @how, and is handed over with bytes unread. */
static FILE *shut_and_leave(int fd, int how)
{
	FILE *f;
	char text[32];

	R(shutdown(fd, how));
	f = fdopen(fd, "r+");
	say_revents(fd, "handed over");
	RB(text, fread(text, 1, 20, f));
	clearerr(f);
	return f;
}

CASE(shut_both_open, DIRECT,
     "shut both ways before: the connection is there until the peer has ended, too")
{
	int fd = app_open(WARM);
	FILE *f = NULL;

	few_moved(fd);
	if (SRV) {
		f = shut_and_leave(fd, SHUT_RDWR);
		R(shutdown(fd, SHUT_WR));
		say_revents(fd, "read");
	}
	app_sync();
	if (CLI)
		app_close(fd);
	app_sync();
	if (SRV) {
		while (shutdown(fd, SHUT_WR) == 0)
			app_pause_ms(1);
		LOG("ended: %s", app_errname(errno));
		R(fclose(f));
	}
}

CASE(shut_both_sent, DIRECT, "the same, and the peer sends: a reset at both ends")
{
	int fd = app_open(WARM);
	FILE *f = NULL;

	no_sigpipe();
	few_moved(fd);
	if (SRV)
		f = shut_and_leave(fd, SHUT_RDWR);
	app_sync();
	if (CLI) {
		R(write(fd, "refused", 7));
		app_await_poll(fd, POLLHUP, 10000);
		say_revents(fd, "sent");
	} else {
		app_await_poll(fd, POLLERR, 10000);
		say_revents(fd, "sent to");
		R(read(fd, &(char){ 0 }, 1));
		R(fclose(f));
	}
	app_sync();
	if (CLI)
		app_close(fd);
}

CASE(lingers, DIRECT,
     "SO_LINGER of no time: both ends end in order, and nothing is reset before a close")
{
	int fd = app_open(WARM);
	struct linger now = { .l_onoff = 1 };
	FILE *f = NULL;
	char text[32];

	few_moved(fd);
	if (CLI)
		R(shutdown(fd, SHUT_WR));
	else
		app_await_poll(fd, POLLRDHUP, 10000);
	app_sync();
	if (SRV) {
		MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
		f = fdopen(fd, "r+");
		R(shutdown(fd, SHUT_WR));
	} else {
		app_await_poll(fd, POLLHUP, 10000);
		say_revents(fd, "ended");
		R(read(fd, text, sizeof(text)));
	}
	app_sync();
	if (SRV) {
		RB(text, fread(text, 1, 20, f));
		R(fclose(f));
	}
	app_sync();
	if (CLI)
		app_close(fd);
}

CASE(lingers_till_closed, DIRECT, "the same, closed: a reset")
{
	int fd = app_open(WARM);
	struct linger now = { .l_onoff = 1 };
	char text[32];

	few_moved(fd);
	if (SRV) {
		MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
		FILE *f = fdopen(fd, "r+");

		RB(text, fread(text, 1, 20, f));
		R(fclose(f));
	} else {
		app_await_poll(fd, POLLHUP, 10000);
		R(read(fd, text, sizeof(text)));
	}
	app_sync();
	if (CLI)
		app_close(fd);
}

CASE(shut_read_only, DIRECT, "SHUT_RD before: what the peer sends later is read all the same")
{
	int fd = app_open(WARM);
	FILE *f = NULL;
	char text[32];

	few_moved(fd);
	if (SRV) {
		f = shut_and_leave(fd, SHUT_RD);
		R(read(fd, text, sizeof(text)));
	}
	app_sync();
	for (int i = 0; i < 3; i++) {
		if (CLI) {
			SAY(fd, "later");
			app_hear(fd, 2);
		} else {
			app_await_inq(fd, 5);
			RB(text, read(fd, text, sizeof(text)));
			R(read(fd, text, sizeof(text)));
			SAY(fd, "ok");
		}
	}
	app_sync();
	if (CLI)
		app_close(fd);
	else
		app_await_poll(fd, POLLRDHUP, 10000);
	if (SRV)
		R(fclose(f));
}

/*
 * Writes until nothing more is accepted, neither here nor through a relay; tells the reader how
 * much.
 */
static void fill(int fd)
{
	static char piece[1 << 16];
	uint64_t total = 0;
	ssize_t n;

	app_set_nonblock(fd, true);
	do {
		struct pollfd p = { .fd = fd, .events = POLLOUT };

		do {
			app_pattern(piece, sizeof(piece), total, 6);
			n = write(fd, piece, sizeof(piece));
			total += n > 0 ? (uint64_t)n : 0;
		} while (n > 0);
		if (poll(&p, 1, 300) == 0)
			break;
	} while (total < 64 << 20);
	LOG("%s", app_errname(errno));
	app_flag_set(1, total);
}

CASE(answer_behind_end, DIRECT,
     "the peer has ended its direction, the program answers at length and closes: "
     "all of it arrives, then the end")
{
	int fd = app_open(WARM);
	char text[32];

	few_moved(fd);
	if (CLI) {
		R(shutdown(fd, SHUT_WR));
		R(app_recv_pattern(fd, app_flag_wait(1), 4099, 6));
		R(read(fd, text, 1));
	} else {
		FILE *f = fdopen(fd, "r+");

		RB(text, fread(text, 1, 20, f));
		R(fgetc(f));
		fill(fd);
		R(fclose(f));
	}
	app_sync();
	if (CLI)
		app_close(fd);
}

CASE(read_behind_end, DIRECT,
     "the program has ended its direction and reads slowly, the peer sends at length and closes: "
     "all, then the end")
{
	int fd = app_open(WARM);
	char text[32];

	few_moved(fd);
	if (SRV) {
		FILE *f = fdopen(fd, "r+");

		RB(text, fread(text, 1, 20, f));
		R(shutdown(fd, SHUT_WR));
		app_sync();
		app_sync();
		R(app_recv_pattern(fd, app_flag_wait(1), 4099, 6));
		R(read(fd, text, 1));
		R(fclose(f));
	} else {
		app_sync();
		app_await_poll(fd, POLLRDHUP, 10000);
		fill(fd);
		app_close(fd);
		app_sync();
	}
	app_sync();
}
