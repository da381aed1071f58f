/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doorbell.h - a doorbell that a peer rings, and that neither end can be blocked by.
 *
 * It is an eventfd in semaphore mode whose count starts at the maximum. To ring it is to read it, which takes one
 * from the count, wakes whoever waits for EPOLLOUT, and never blocks: RWF_NOWAIT belongs to the call, while O_NONBLOCK
 * belongs to the open file, which the peer holds as well. The owner does not read or write it at all: it waits for
 * the edges in an epoll set of its own (RSK_DOORBELL_EVENTS), so there is no count to be stolen, and nothing to
 * be drained. A peer can empty or fill the count: then its own rings are not heard, and nobody else's.
 *
 * What a process tells itself (rsk_link_strike()) never goes by a doorbell that a peer holds.
 * Why no other kernel object will do: docs/adr/doorbells.md.
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

/* Of its entry in an epoll set. Each ring is an edge, whatever the count is. */
#define RSK_DOORBELL_EVENTS ((uint32_t)EPOLLOUT | (uint32_t)EPOLLET)

/*
 * rsk_doorbell_new - a doorbell, close-on-exec, the caller's; -errno: -EOPNOTSUPP where the kernel (before 5.8) cannot
 * read an eventfd with RWF_NOWAIT. Does not block.
 */
int rsk_doorbell_new(void);

/* Can @fd, which a peer gave, be rung? Only the kind counts; its flags and its count are the peer's to change. */
bool rsk_doorbell_check(int fd);

/* Never blocks, whatever the other holders do with it. Signal-safe. */
static inline void rsk_doorbell_ring(int fd)
{
	uint64_t one;
	struct iovec iov = { &one, sizeof(one) };

	rsk_sys_preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
}

#endif
