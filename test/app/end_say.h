/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * end_say.h - records in the transcript what poll reports of a stream at its end; for the families
 * that end streams.
 */
#ifndef APP_END_SAY_H
#define APP_END_SAY_H

#include "app.h"

static inline void say_revents(int fd, const char *when)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP | POLLPRI };
	int n = poll(&pfd, 1, 0);

	LOG("%s: poll %d%s%s%s%s%s", when, n, pfd.revents & POLLIN ? " IN" : "",
	    pfd.revents & POLLOUT ? " OUT" : "", pfd.revents & POLLRDHUP ? " RDHUP" : "",
	    pfd.revents & POLLHUP ? " HUP" : "", pfd.revents & POLLERR ? " ERR" : "");
}

static inline void no_sigpipe(void)
{
	signal(SIGPIPE, SIG_IGN);
}

#endif
