/* SPDX-License-Identifier: BSD-2-Clause */
/* return_unread.h - the peer's socket is borrowed, to put bytes back into the kernel's receive queue. */
#ifndef RSK_RETURN_UNREAD_H
#define RSK_RETURN_UNREAD_H

#include <stdint.h>

struct rsk_stream;

/*
 * rsk_return_unread - what lies unread in the ring goes into the kernel's receive queue, as far as there is
 * room. We have ended the promotion (rsk_rx_end_it()), and LEAVE comes next. rx_lock held. Returns
 * how many bytes; under a filter of seccomp none.
 */
uint64_t rsk_return_unread(struct rsk_stream *s, int fd);
/* The peer's end, a copy of ours to close; -errno. */
int rsk_return_unread_borrow(struct rsk_stream *s);

#endif
