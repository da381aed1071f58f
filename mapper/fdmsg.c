// SPDX-License-Identifier: BSD-2-Clause
/* fdmsg.c - see fdmsg.h. */
#include "fdmsg.h"

#include <string.h>
#include <sys/socket.h>

#include <rsock/sys.h>

union room {
	struct cmsghdr head;
	char space[CMSG_SPACE(sizeof(int) * RSK_FDMSG_MOST)];
};

int rsk_fdmsg_send(int fd, const void *buf, size_t bytes, const int *fds, int nfds)
{
	struct iovec iov = { (void *)buf, bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union room c;
	ssize_t n;

	if (nfds) {
		memset(&c, 0, sizeof(c));
		msg.msg_control = &c;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nfds);
		c.head.cmsg_level = SOL_SOCKET;
		c.head.cmsg_type = SCM_RIGHTS;
		c.head.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
		memcpy(CMSG_DATA(&c.head), fds, sizeof(int) * (size_t)nfds);
	}
	n = rsk_sys_sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? (int)n : 0;
}

ssize_t rsk_fdmsg_recv(int fd, void *buf, size_t bytes, int *fds, int most, int *nfds)
{
	struct iovec iov = { buf, bytes };
	union room c;
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
	};
	/* MSG_TRUNC: the true length, so that a longer message is not taken for one of ours. */
	ssize_t n = rsk_sys_recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);

	*nfds = 0;
	if (n < 0)
		return n;
	/* An empty message looks like the end, but may bring descriptors. */
	if (n == 0)
		most = 0;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h; h = CMSG_NXTHDR(&msg, h)) {
		size_t count;

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int one;

			memcpy(&one, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
			if (*nfds < most)
				fds[(*nfds)++] = one;
			else
				rsk_sys_close(one);
		}
	}
	return n;
}
