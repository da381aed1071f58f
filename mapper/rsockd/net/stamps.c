// SPDX-License-Identifier: BSD-2-Clause
/* stamps.c - see stamps.h. */
#include "stamps.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Two connections are made within this time, which is part of the difference of their clocks. */
#define CLOSE_MS 1000

static int clock_of(const struct sockaddr_in *to, uint32_t *clock)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = 0;
	socklen_t len = sizeof(*clock);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 ||
	    getsockopt(fd, IPPROTO_TCP, TCP_TIMESTAMP, clock, &len) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

static int two_clocks(int listener, uint32_t clock[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int rc = 0;

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 2) < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &len) < 0)
		return -errno;
	for (int i = 0; i < 2 && rc == 0; i++)
		rc = clock_of(&at, &clock[i]);
	return rc;
}

int rsk_stamps_are_secret(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;
	uint32_t clock[2];

	if (fd < 0)
		return -errno;
	rc = two_clocks(fd, clock);
	close(fd);
	if (rc < 0)
		return rc;
	return clock[1] - clock[0] > CLOSE_MS;
}
