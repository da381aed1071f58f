/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hooked.h - send and receive as the hooks do it, for tests that call the engine itself. Returns
 * bytes or -errno.
 */
#ifndef RSK_TEST_HOOKED_H
#define RSK_TEST_HOOKED_H

#include <errno.h>
#include <sys/socket.h>

#include "engine.h"

static inline ssize_t hooked_fall_back(int fd, bool out, void *buf, size_t len)
{
	struct iovec iov = { buf, len };
	struct rsk_op op;
	ssize_t n = RSK_SLOW_PATH;

	if (rsk_fd_tracked(fd))
		n = out ? rsk_fast_path_send(fd, &iov, 1, MSG_DONTWAIT) :
			  rsk_fast_path_recv(fd, &iov, 1, MSG_DONTWAIT);
	if (n != RSK_SLOW_PATH)
		return n;
	if (rsk_op_begin(&op, fd, out ? RSK_OP_SEND : RSK_OP_RECV) == RSK_KERNEL) {
		n = out ? send(fd, buf, len, MSG_DONTWAIT) : recv(fd, buf, len, MSG_DONTWAIT);
		if (n < 0)
			n = -errno;
	} else {
		n = out ? rsk_op_send(&op, &iov, 1, MSG_DONTWAIT) :
			  rsk_op_recv(&op, &iov, 1, MSG_DONTWAIT);
	}
	rsk_op_end(&op, n);
	return n;
}

#endif
