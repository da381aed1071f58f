// SPDX-License-Identifier: BSD-2-Clause
/* unix_listen.c - see unix_listen.h. */
#include "unix_listen.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool somebody_listens(const struct sockaddr_un *sa, int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	bool yes = fd >= 0 && connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) == 0;

	if (fd >= 0)
		close(fd);
	return yes;
}

int rsk_unix_listen(const char *path, int type, int backlog)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct stat st;
	int fd, rc;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	memcpy(sa.sun_path, path, strlen(path));
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode) || somebody_listens(&sa, type))
			return -EADDRINUSE;
		unlink(path);
	}
	fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 && chmod(path, 0666) == 0 &&
	    listen(fd, backlog) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}
