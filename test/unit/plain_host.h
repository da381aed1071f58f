/* SPDX-License-Identifier: BSD-2-Clause */
/* plain_host.h - what the hooks give the engine, for tests that have no hooks: libc's own calls. */
#ifndef RSK_TEST_PLAIN_HOST_H
#define RSK_TEST_PLAIN_HOST_H

#include <poll.h>
#include <sys/epoll.h>

#include "engine.h"

static int plain_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
		       const sigset_t *mask)
{
	return ppoll(fds, n, ts, mask);
}

static void plain_no_pending(void)
{
}

static const struct rsk_host plain_host = {
	.ppoll = plain_ppoll,
	.epoll_pwait = epoll_pwait,
	.guard_pending = plain_no_pending,
};

#endif
