/* SPDX-License-Identifier: BSD-2-Clause */
/* splice.h - pipes for the tests of splice(). */
#ifndef APP_SPLICE_H
#define APP_SPLICE_H

#include "app.h"

static char buf[1 << 20];

/* A pipe of one page; @full: without room. */
static inline void make_pipe(int p[2], bool full)
{
	MUST(pipe(p));
	MUST(fcntl(p[1], F_SETPIPE_SZ, 4096));
	if (full) {
		memset(buf, 'f', 4096);
		app_write_all(p[1], buf, 4096);
	}
}

static inline void close_pipe(int p[2])
{
	app_close(p[0]);
	app_close(p[1]);
}

#endif
