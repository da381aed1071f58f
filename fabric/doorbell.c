// SPDX-License-Identifier: BSD-2-Clause
/* doorbell.c - creates and checks doorbells: see doorbell.h. */
#include "doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>

/* The maximum count of an eventfd, at which it is not writable. */
#define MOST (UINT64_MAX - 1)

/*
 * The eventfd is not shared yet, so these calls cannot block. One notification as a test shows
 * whether the kernel supports it.
 */
int rsk_doorbell_new(void)
{
	int fd = rsk_sys_eventfd2(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	uint64_t count = MOST;
	struct iovec iov = { &count, sizeof(count) };
	ssize_t rc;

	if (fd < 0)
		return fd;
	rc = rsk_sys_write(fd, &count, sizeof(count));
	if (rc >= 0)
		rc = rsk_sys_preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
	/* In semaphore mode a read returns 1. Add that again. */
	if (rc >= 0)
		rc = rsk_sys_write(fd, &count, sizeof(count));
	if (rc == sizeof(count))
		return fd;
	rsk_sys_close(fd);
	return rc < 0 ? (int)rc : -EIO;
}

static char *put_number(char *at, unsigned int n)
{
	char digits[10];
	int i = 0;

	do {
		digits[i++] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	while (i)
		*at++ = digits[--i];
	*at = 0;
	return at;
}

/* No other file has such a link: paths begin with a slash, and the brackets are the kernel's. */
bool rsk_doorbell_check(int fd)
{
	static const char want[] = "anon_inode:[eventfd]";
	char path[32] = "/proc/self/fd/", is[sizeof(want)];

	if (fd < 0)
		return false;
	put_number(path + strlen(path), (unsigned int)fd);
	return rsk_sys_readlinkat(AT_FDCWD, path, is, sizeof(is)) == sizeof(want) - 1 &&
	       !memcmp(is, want, sizeof(want) - 1);
}
