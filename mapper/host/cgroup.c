// SPDX-License-Identifier: BSD-2-Clause
/* cgroup.c - see cgroup.h. */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define TEXT_BYTES 8192u

/* Of the line "NUMBER:CONTROLLERS:PATH" at @line, which ends at @end. NULL: it is none. */
static const char *path_of(const char *line, const char *end, bool *unified, bool *systemd)
{
	const char *names = memchr(line, ':', (size_t)(end - line));
	const char *path = names ? memchr(names + 1, ':', (size_t)(end - names - 1)) : NULL;

	if (!path || end - path < 2 || path[1] != '/')
		return NULL;
	*unified = names == line + 1 && *line == '0' && path == names + 1;
	*systemd = !*unified && (size_t)(path - names) == sizeof(":name=systemd") - 1 &&
		   memcmp(names, ":name=systemd", (size_t)(path - names)) == 0;
	return path + 1;
}

int rsk_cgroup_parse(const char *text, char out[static RSK_CGROUP_BYTES])
{
	int rc = -ENOENT;

	for (const char *line = text; *line;) {
		const char *end = strchrnul(line, '\n'), *path;
		bool unified, systemd;

		path = path_of(line, end, &unified, &systemd);
		/* Where both exist, that of version 2 may have only its root. */
		if (path && (unified || systemd) && (rc != 0 || strcmp(out, "/") == 0)) {
			if ((size_t)(end - path) >= RSK_CGROUP_BYTES)
				return -ENAMETOOLONG;
			memcpy(out, path, (size_t)(end - path));
			out[end - path] = 0;
			rc = 0;
		}
		line = *end ? end + 1 : end;
	}
	return rc;
}

/* -ENAMETOOLONG: there is more, so that the last path may be cut to another group's. */
static int read_all(const char *name, char text[static TEXT_BYTES])
{
	size_t have = 0;
	ssize_t n;
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	do {
		n = read(fd, text + have, TEXT_BYTES - 1 - have);
		have += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	n = n < 0 ? -errno : have == TEXT_BYTES - 1 ? -ENAMETOOLONG : 0;
	close(fd);
	text[have] = 0;
	return (int)n;
}

/* The process that has connected @fd has this number now. */
static int is_still(int pidfd, pid_t pid, char text[static TEXT_BYTES])
{
	char name[48];
	const char *at;
	int rc;

	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", pidfd);
	rc = read_all(name, text);
	if (rc < 0)
		return rc;
	at = strstr(text, "\nPid:");
	return at && strtol(at + 5, NULL, 10) == pid ? 0 : -ESRCH;
}

int rsk_cgroup_of_peer(int fd, pid_t pid, char out[static RSK_CGROUP_BYTES])
{
	char name[32], text[TEXT_BYTES] = "";
	socklen_t len = sizeof(int);
	int pidfd, rc;

	if (pid <= 0)
		return -ESRCH; /* its namespace is none of ours */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0)
		return -errno;
	snprintf(name, sizeof(name), "/proc/%d/cgroup", pid);
	rc = read_all(name, text);
	if (rc == 0)
		rc = rsk_cgroup_parse(text, out);
	/* It had its number all the time if it has it now. */
	if (rc == 0)
		rc = is_still(pidfd, pid, text);
	close(pidfd);
	return rc == -ENOENT ? -ESRCH : rc;
}

bool rsk_cgroup_is_in(const char *path, const char *pattern)
{
	return fnmatch(pattern, path, FNM_PATHNAME | FNM_LEADING_DIR | FNM_NOESCAPE) == 0;
}
