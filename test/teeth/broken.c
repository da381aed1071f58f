/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * broken.c - a library in place of librsock: preloaded into the app cases it does nothing, ends the
 * program (RSOCK_TEETH=abort), or changes what is received (RSOCK_TEETH=flip). teeth_programs.py
 * checks that the runner notices each.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int flips;

/* libc's recv and read, which change the first byte that they return. */
__attribute__((visibility("default"))) ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	ssize_t (*real)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");
	ssize_t n = real(fd, buf, len, flags);

	if (flips && n > 0)
		*(unsigned char *)buf ^= 1;
	return n;
}

__attribute__((visibility("default"))) ssize_t read(int fd, void *buf, size_t len)
{
	ssize_t (*real)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
	ssize_t n = real(fd, buf, len);

	if (flips && n > 0)
		*(unsigned char *)buf ^= 1;
	return n;
}

__attribute__((constructor)) static void begin(void)
{
	const char *how = getenv("RSOCK_TEETH");

	if (how && !strcmp(how, "abort"))
		abort();
	flips = how && !strcmp(how, "flip");
}
