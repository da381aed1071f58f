/* SPDX-License-Identifier: BSD-2-Clause */
/* sockets.h - for unit tests: a TCP connection to oneself, and how many descriptors are open. */
#ifndef RSK_TEST_SOCKETS_H
#define RSK_TEST_SOCKETS_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* fds[0] has connected, fds[1] is what was accepted; both are the caller's. */
static inline void tcp_pair(int fds[static 2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(listener, (struct sockaddr *)&at, len), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(connect(fds[0], (struct sockaddr *)&at, len), 0);
	fds[1] = accept(listener, NULL, NULL);
	cr_assert_geq(fds[1], 0);
	close(listener);
}

static inline uint32_t open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t n = 0;

	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

#endif
