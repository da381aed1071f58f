/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp_socket.h - the TCP path: the application's own TCP socket, behind a table of calls, so that
 * tests can drive the direction machines (tx.h, rx.h) with a FIFO instead. The direction machines
 * call it; the engine implements it for the real socket. No call blocks.
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
	/*
	 * Sends at most @cap bytes of the vector; MSG_DONTWAIT is implied. Returns bytes or -errno.
	 */
	ssize_t (*send)(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags);
	ssize_t (*recv)(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags);
	/*
	 * Store the count of bytes ever written to (tx_pos) or consumed from (rx_pos) the socket,
	 * by any process. Return 0; -EAGAIN: the count cannot be determined now (a thread is inside
	 * a call on the socket, or data is in motion); other -errno: it can never be determined
	 * (the socket is not established, ...).
	 */
	int (*tx_pos)(struct rsk_tcp *c, uint64_t *pos);
	int (*rx_pos)(struct rsk_tcp *c, uint64_t *pos);
	/*
	 * Returns whether the next byte is at the urgent mark, where a read stops. NULL: there is
	 * no urgent data.
	 */
	bool (*at_mark)(struct rsk_tcp *c);
	/*
	 * Returns whether recv still holds bytes from before the fallback, which must be read
	 * before the end of the stream. NULL: never.
	 */
	bool (*ahead)(struct rsk_tcp *c);
	/*
	 * Returns whether recv would report an error now; the error stays pending. NULL: cannot be
	 * determined.
	 */
	bool (*errs)(struct rsk_tcp *c);
	/*
	 * Returns whether the peer has shut the socket down or the connection is over, whatever is
	 * unread. NULL: never.
	 */
	bool (*at_end)(struct rsk_tcp *c);
	/*
	 * The peer has shut the socket down: after how many bytes, whoever has read them. Returns
	 * 0; -EAGAIN: it has not, or this end reads no more; or -errno. NULL: only this end reads.
	 */
	int (*end_pos)(struct rsk_tcp *c, uint64_t *pos);
	/*
	 * Sends the kernel's FIN: nothing more is sent on the socket. Returns 0, or -EBADF if this
	 * socket cannot do it. NULL: as -EBADF.
	 */
	int (*fin)(struct rsk_tcp *c);
	/*
	 * @some: bytes are outstanding that have to be retransmitted on the socket, so it must not
	 * be closed yet; !@some: no longer. NULL: the socket may be closed at any time.
	 */
	void (*owes)(struct rsk_tcp *c, bool some);
};

struct rsk_tcp {
	const struct rsk_tcp_ops *ops;
	int fd; /* The descriptor of a real socket; tests give it their own meaning. */
};

#endif
