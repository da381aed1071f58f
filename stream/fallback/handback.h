/* SPDX-License-Identifier: BSD-2-Clause */
/* handback.h - the peer's socket is borrowed, to put bytes back into the kernel's receive queue. */
#ifndef RSK_HANDBACK_H
#define RSK_HANDBACK_H

#include <stdint.h>

struct rsk_stream;

/*
 * rsk_handback - what lies unread in the ring goes into the kernel's receive queue, as far as there is
 * room. We have ended the promotion (rsk_rx_end_it()), and LEAVE comes next. rx_lock held. Returns
 * how many bytes; under a filter of seccomp none.
 */
uint64_t rsk_handback(struct rsk_stream *s, int fd);
/* The peer's end, a copy of ours to close; -errno. */
int rsk_handback_borrow(struct rsk_stream *s);

#endif
