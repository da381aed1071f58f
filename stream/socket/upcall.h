/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * upcall.h - what a stream tells whoever is built on it: the sets of epoll, the way back to TCP, the
 * pairing. Set once, when the process starts (upcalls.c); until then nobody is told.
 */
#ifndef RSK_UPCALL_H
#define RSK_UPCALL_H

#include <stdint.h>

#include <rsock/reason.h>

struct rsk_stream;

struct rsk_upcalls {
	/* A number was closed where no hook saw it; @w was its word, and is out of the table. */
	void (*closed_unseen)(int fd, uintptr_t w);
	/* Nobody has it any more, and it is about to be freed. */
	void (*ending)(struct rsk_stream *s);
	/* The same, and it is no stream of its link any more. */
	void (*unpaired)(struct rsk_stream *s);
	void (*link_unused)(void);	      /* a link has lost its last stream, or may have */
	void (*paired)(struct rsk_stream *s); /* just now; the join lock is held */
	void (*changed)(
		struct rsk_stream
			*s); /* what it can do now without waiting; no lock of its own is held */
	void (*last_goodbye)(struct rsk_stream *s, int fd); /* is it due, and nobody else has it? */
	/* What is still to be repeated, others do, who close @fd. 0 or -errno; tx_lock held. */
	int (*give_owed)(struct rsk_stream *s, int fd);
	int (*leave)(int fd, enum rsk_reason why); /* rsk_fd_fall_back() */
	void (*watched)(int fd);		   /* rsk_fd_watched() */
};
extern const struct rsk_upcalls *rsk_upcalls;

#endif
