/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stamps.h - receive timestamps of a stream (docs/adr/receive-timestamps.md): what its options ask
 * for, and those of bytes that come by TCP. Those of the ring are in rx->stamp.
 */
#ifndef RSK_STAMPS_H
#define RSK_STAMPS_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct rsk_stream;

enum rsk_stamps {
	RSK_STAMPS_NONE,
	RSK_STAMPS_US,	      /* SO_TIMESTAMP, _OLD or _NEW */
	RSK_STAMPS_NS,	      /* SO_TIMESTAMPNS */
	RSK_STAMPS_REPORTING, /* SO_TIMESTAMPING of software, of what is received */
	RSK_STAMPS_KERNEL     /* what only the kernel can: of devices, of sends; several at once */
};

/* What the socket's options ask for. Makes a few system calls. */
enum rsk_stamps rsk_stamps_asked(int fd);
/* The type of its control message: the option, in the form in which it was set. 0: none. */
uint8_t rsk_stamps_type(int fd, enum rsk_stamps what);

/*
 * recvmsg() on the TCP socket of a stream that wants stamps: notes the kernel's. @m has no control
 * messages, and gets none. rx_lock is held. Returns bytes or -errno.
 */
ssize_t rsk_stamps_recv(struct rsk_stream *s, int fd, struct msghdr *m, int flags);

#endif
