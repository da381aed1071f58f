/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * upcall.h - callbacks by which a stream notifies the layers above it: epoll sets, fallback,
 * pairing. Set once, when the process starts (upcalls.c); until then they do nothing.
 */
#ifndef RSK_UPCALL_H
#define RSK_UPCALL_H

#include <stdbool.h>
#include <stdint.h>

#include <rsock/reason.h>

struct rsk_stream;

struct rsk_upcalls {
	/*
	 * A number was closed where no hook saw it; @w was its word, and is removed from the table.
	 */
	void (*closed_unseen)(int fd, uintptr_t w);
	/* No reference is left, and the stream is about to be freed. */
	void (*ending)(struct rsk_stream *s);
	/* As ending(), after the stream was removed from its link. */
	void (*unpaired)(struct rsk_stream *s);
	/* A link has lost its last stream, or may have. */
	void (*link_unused)(void);
	/* The stream was paired just now; the pairing lock is held. */
	void (*paired)(struct rsk_stream *s);
	/* What the stream can do without waiting has changed; none of its locks is held. */
	void (*changed)(struct rsk_stream *s);
	/* Sends the deferred goodbye if it is due and no other reference is left. */
	void (*last_goodbye)(struct rsk_stream *s, int fd);
	/*
	 * Hands bytes that are still to be repeated to another process, which closes @fd. 0 or
	 * -errno; tx_lock is held.
	 */
	int (*give_owed)(struct rsk_stream *s, int fd);
	int (*leave)(int fd, enum rsk_reason why); /* rsk_fd_fall_back() */
	void (*watched)(int fd);		   /* rsk_fd_watched() */
};
extern const struct rsk_upcalls *rsk_upcalls;

#endif
