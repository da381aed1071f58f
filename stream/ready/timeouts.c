// SPDX-License-Identifier: BSD-2-Clause
/* timeouts.c - see timeouts.h. */
#include "timeouts.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <rsock/sys.h>

#include "stream.h"

/* Microseconds, plus 1; 0: for ever. */
static uint64_t kernel_timeout(int fd, int name)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);

	if (rsk_sys_getsockopt(fd, SOL_SOCKET, name, &tv, &len) < 0)
		return 0;
	/* No wait lasts as long as this: larger values mean for ever. */
	if ((uint64_t)tv.tv_sec >= UINT64_MAX / 4000000000u)
		return 1;
	return (uint64_t)tv.tv_sec * 1000000u + (uint64_t)tv.tv_usec + 1;
}

void rsk_stream_timeout_set(struct rsk_stream *s, int fd, bool recv)
{
	atomic_store_explicit(recv ? &s->timeouts.rx : &s->timeouts.tx,
			      kernel_timeout(fd, recv ? SO_RCVTIMEO : SO_SNDTIMEO),
			      memory_order_relaxed);
}

uint64_t rsk_stream_timeout(struct rsk_stream *s, int fd, bool recv)
{
	_Atomic(uint64_t) *known = recv ? &s->timeouts.rx : &s->timeouts.tx;
	uint64_t us = atomic_load_explicit(known, memory_order_relaxed), unknown = 0;

	if (rsk_kin_shares(&s->fork.kin)) {
		us = kernel_timeout(fd, recv ? SO_RCVTIMEO : SO_SNDTIMEO);
	} else if (!us) {
		us = kernel_timeout(fd, recv ? SO_RCVTIMEO : SO_SNDTIMEO);
		if (!atomic_compare_exchange_strong_explicit(known, &unknown, us,
							     memory_order_relaxed,
							     memory_order_relaxed))
			us = unknown;
	}
	return us ? us - 1 : 0;
}
