/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * return_unread.h - return of unread bytes: borrows the peer's socket to put bytes back into the
 * kernel's receive queue. fallback.c and over_back.c call this.
 */
#ifndef RSK_RETURN_UNREAD_H
#define RSK_RETURN_UNREAD_H

#include <stdint.h>

struct rsk_stream;

/*
 * rsk_return_unread - moves what lies unread in the ring into the kernel's receive queue, as far as
 * there is room. We have ended the promotion (rsk_rx_end_it()), and FALLBACK_RX comes next. rx_lock
 * held. Returns the number of bytes; none under a seccomp filter.
 */
uint64_t rsk_return_unread(struct rsk_stream *s, int fd);
/* A copy of the peer's end of the connection, which the caller closes; -errno. */
int rsk_return_unread_borrow(struct rsk_stream *s);

#endif
