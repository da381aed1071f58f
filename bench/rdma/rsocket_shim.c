/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsocket_shim.c - preloaded by bench/rdma.py before librspreload.so, which supports no flags in a
 * socket's type and no accept4(): without these two, current programs would get kernel TCP from it,
 * or ENOTSOCK. The behaviour of rsockets is not changed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define RSK_EXPORT __attribute__((visibility("default")))
#define RSK_TYPE_FLAGS (SOCK_CLOEXEC | SOCK_NONBLOCK)

/* librspreload's functions, which are next in the loading order. */
static int (*next_socket)(int, int, int);
static int (*next_accept)(int, struct sockaddr *, socklen_t *);
static int (*next_fcntl)(int, int, ...);

__attribute__((constructor)) static void find_next(void)
{
	next_socket = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
	next_accept = (int (*)(int, struct sockaddr *, socklen_t *))dlsym(RTLD_NEXT, "accept");
	next_fcntl = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl");
	if (!next_socket || !next_accept || !next_fcntl)
		abort();
}

/* FD_CLOEXEC is ignored: the descriptor that the program has is not a socket. */
static int flagged(int fd, int flags)
{
	if (fd >= 0 && (flags & SOCK_NONBLOCK) && next_fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
		int why = errno;

		close(fd);
		errno = why;
		return -1;
	}
	return fd;
}

RSK_EXPORT int socket(int domain, int type, int protocol)
{
	if (domain != AF_INET && domain != AF_INET6)
		return next_socket(domain, type, protocol);
	return flagged(next_socket(domain, type & ~RSK_TYPE_FLAGS, protocol), type);
}

RSK_EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return flagged(next_accept(fd, addr, len), flags);
}
