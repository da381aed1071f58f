/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doorbell.h - an eventfd with which a peer wakes a sleeper, and by which neither end can block the
 * other. shm.c and the links (stream/link) use it.
 *
 * The eventfd is in semaphore mode, and its count starts at the maximum. To notify is to read it:
 * that takes one from the count, wakes whatever waits for EPOLLOUT, and never blocks, because
 * RWF_NOWAIT belongs to the call, while O_NONBLOCK belongs to the open file, which the peer holds
 * too. The owner does not read or write it at all: it waits for edges in an epoll set of its own
 * (RSK_DOORBELL_EVENTS), so there is no count to steal and nothing to drain. A peer can empty or
 * fill the count; then only its own notifications are lost.
 *
 * A process that wakes its own threads (rsk_link_strike()) never uses a doorbell that a peer holds.
 * Why no other kernel object is suitable: docs/adr/doorbells.md.
 */
#ifndef RSK_DOORBELL_H
#define RSK_DOORBELL_H

#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <rsock/sys.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

/* Events of a doorbell in an epoll set. Each notification is an edge, whatever the count is. */
#define RSK_DOORBELL_EVENTS ((uint32_t)EPOLLOUT | (uint32_t)EPOLLET)

/*
 * rsk_doorbell_new - creates a doorbell, close-on-exec, owned by the caller. Returns the descriptor
 * or -errno: -EOPNOTSUPP where the kernel (before 5.8) cannot read an eventfd with RWF_NOWAIT. Does
 * not block.
 */
int rsk_doorbell_new(void);

/*
 * Can @fd, which a peer passed, be notified? Only its kind is checked; its flags and count are the
 * peer's to change.
 */
bool rsk_doorbell_check(int fd);

/* Notifies. Never blocks, whatever the other holders do with the eventfd. Signal-safe. */
static inline void rsk_doorbell_ring(int fd)
{
	uint64_t one;
	struct iovec iov = { &one, sizeof(one) };

	rsk_sys_preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
}

#endif
