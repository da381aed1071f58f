// SPDX-License-Identifier: BSD-2-Clause
/*
 * netlink_rdma.c - lib/libnetlink_rdma.so, preloaded into iwpmd (net_iwpmd.py). Its netlink socket
 * of the family RDMA, which this kernel may not have, becomes a connection to the socket whose path
 * is in NETLINK_RDMA; the test is the kernel. Nothing else of iwpmd is changed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static int ours = -1;

static int connect_to_test(int (*make)(int, int, int))
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const char *path = getenv("NETLINK_RDMA");

	if (!path || strlen(path) >= sizeof(at.sun_path)) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	memcpy(at.sun_path, path, strlen(path));
	ours = make(AF_UNIX, SOCK_SEQPACKET, 0);
	return ours < 0 || connect(ours, (struct sockaddr *)&at, sizeof(at)) < 0 ? -1 : ours;
}

__attribute__((visibility("default"))) int socket(int family, int type, int protocol)
{
	int (*real)(int, int, int) = dlsym(RTLD_NEXT, "socket");

	if (family == AF_NETLINK && protocol == NETLINK_RDMA)
		return connect_to_test(real);
	return real(family, type, protocol);
}

__attribute__((visibility("default"))) int bind(int fd, const struct sockaddr *at, socklen_t len)
{
	int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");

	return fd == ours ? 0 : real(fd, at, len);
}

/* A connected socket takes no address. */
__attribute__((visibility("default"))) ssize_t
sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to, socklen_t len)
{
	ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t) =
		dlsym(RTLD_NEXT, "sendto");

	return fd == ours ? real(fd, data, bytes, flags, NULL, 0) :
			    real(fd, data, bytes, flags, to, len);
}
