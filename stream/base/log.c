// SPDX-License-Identifier: BSD-2-Clause
/* log.c - writes log lines: see log.h. */
#include "log.h"

#include "fdtab.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/sys.h>

#define LINE_BYTES 512

int rsk_log_level;

/* A copy: the program may overwrite its environment. Written once, at the start. */
static char file[PATH_MAX];

void rsk_log_init(void)
{
	static const char *const names[] = { "off", "error", "info", "debug" };
	const char *want = getenv("RSOCK_LOG"), *where = getenv("RSOCK_LOG_FILE");

	for (int i = 0; want && i < (int)(sizeof(names) / sizeof(names[0])); i++)
		if (!strcmp(want, names[i]))
			rsk_log_level = i;
	if (where && strlen(where) < sizeof(file))
		memcpy(file, where, strlen(where) + 1);
}

/*
 * The file is opened for each line: lines are rare, and the application could close a descriptor
 * that is kept open.
 */
void rsk_log_write(const char *fmt, ...)
{
	char line[LINE_BYTES];
	int fd = 2, n = snprintf(line, sizeof(line), "rsock[%d]: ", (int)rsk_sys_getpid());
	va_list ap;

	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	if (n > LINE_BYTES - 2)
		n = LINE_BYTES - 2;
	line[n++] = '\n';
	if (*file)
		fd = rsk_sys_openat(AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
				    0600);
	/* The program's own stream, which may be on the ring, is no place for our lines. */
	if (fd < 0 || (fd == 2 && rsk_fd_tracked(2)))
		return;
	rsk_sys_write(fd, line, (size_t)n);
	if (fd != 2)
		rsk_sys_close(fd);
}
