/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp_socket.h - the other carrier: the application's own TCP socket, seen through four calls so that the
 * direction machines (tx.h, rx.h) can be driven in tests by a FIFO. None of them blocks.
 */
#ifndef RSK_TCP_SOCKET_H
#define RSK_TCP_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct rsk_tcp;

struct rsk_tcp_ops {
	/* At most @cap bytes of the vector; MSG_DONTWAIT is implied. Bytes or -errno. */
	ssize_t (*send)(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags);
	ssize_t (*recv)(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags);
	/*
	 * Bytes ever written to / consumed from the socket, by anybody. 0; -EAGAIN: not to be told now
	 * (someone is inside a call on it, data in motion); other -errno: never (not established ...).
	 */
	int (*tx_pos)(struct rsk_tcp *c, uint64_t *pos);
	int (*rx_pos)(struct rsk_tcp *c, uint64_t *pos);
	/* Does the next byte stand at the urgent mark, where a read stops? NULL: there is none. */
	bool (*at_mark)(struct rsk_tcp *c);
	/* Has its recv bytes of before the ring was left, to be read before its end? NULL: never. */
	bool (*ahead)(struct rsk_tcp *c);
	/* Would its recv take an error now? It stays where it is. NULL: that is not to be had. */
	bool (*errs)(struct rsk_tcp *c);
	/* Has the other end shut it, or is it over, whatever is unread? NULL: never. */
	bool (*at_end)(struct rsk_tcp *c);
	/* Nothing is sent by it any more: the kernel's FIN. 0; -EBADF: not by this one. NULL: the same. */
	int (*fin)(struct rsk_tcp *c);
	/* From now on there are bytes to be repeated by it, or not any more: it does not end before. NULL: it may. */
	void (*owes)(struct rsk_tcp *c, bool some);
};

struct rsk_tcp {
	const struct rsk_tcp_ops *ops;
	int fd; /* the real one's; a test's own meaning otherwise */
};

#endif
