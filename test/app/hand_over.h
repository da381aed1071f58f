/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hand_over.h - the two ends of a stream that is handed over with bytes queued; for the families
 * that pass streams on.
 */
#ifndef APP_HAND_OVER_H
#define APP_HAND_OVER_H

#include "app.h"

/* Serves one request of 12 bytes, then keeps up 200 round trips. */
HELPER(serve)
{
	int fd = atoi(argv[1]);
	char text[4];
	int rounds = 0;

	(void)argc;
	app_hear(fd, 12);
	SAY(fd, "served");
	while (app_read_full(fd, text, 4) == 4) {
		app_write_all(fd, text, 4);
		rounds++;
	}
	LOG("helper: rounds %d", rounds);
	return 0;
}

static inline char *number(int n)
{
	static char text[16];

	snprintf(text, sizeof(text), "%d", n);
	return text;
}

static inline void client_of_serve(int fd)
{
	char text[4];
	int good = 0;

	SAY(fd, "served");
	app_hear(fd, 6);
	for (int i = 0; i < 200; i++) {
		app_write_all(fd, "ping", 4);
		good += app_read_full(fd, text, 4) == 4 && !memcmp(text, "ping", 4);
	}
	LOG("good %d", good);
	R(shutdown(fd, SHUT_WR));
	R(read(fd, text, 1));
}

/* The stream has 6 unread bytes when it is handed over; the rest comes after. */
static inline void hand_over(int (*give)(int fd))
{
	int fd = app_open(WARM | NODELAY);

	if (CLI) {
		SAY(fd, "queued");
		app_sync();
		client_of_serve(fd);
	} else {
		app_await_inq(fd, 6);
		app_sync();
		LOG("given: %d", give(fd));
		close(fd);
	}
	if (CLI)
		app_close(fd);
}

static inline int reap_status(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

#endif
