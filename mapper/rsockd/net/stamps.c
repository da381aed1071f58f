// SPDX-License-Identifier: BSD-2-Clause
/* stamps.c - see stamps.h. */
#include "stamps.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NOISE_MS 10

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

/* The connection's offset, which it has as soon as connect() has begun. Nothing here waits. */
static int offset_of(const struct sockaddr_in *to, uint32_t *offset)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc = 0;
	socklen_t len = sizeof(*offset);

	if (fd < 0)
		return -errno;
	if ((connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 && errno != EINPROGRESS) ||
	    getsockopt(fd, IPPROTO_TCP, TCP_TIMESTAMP, offset, &len) < 0)
		rc = -errno;
	else
		*offset -= (uint32_t)now_ms();
	close(fd);
	return rc;
}

static int two_offsets(int listener, uint32_t offset[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int rc = 0;

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 2) < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &len) < 0)
		return -errno;
	for (int i = 0; i < 2 && rc == 0; i++)
		rc = offset_of(&at, &offset[i]);
	return rc;
}

int rsk_stamps_are_secret(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;
	uint32_t offset[2] = { 0 };

	if (fd < 0)
		return -errno;
	rc = two_offsets(fd, offset);
	close(fd);
	if (rc < 0)
		return rc;
	return offset[1] - offset[0] + NOISE_MS > 2 * NOISE_MS;
}
