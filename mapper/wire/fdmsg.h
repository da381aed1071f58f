/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fdmsg.h - messages with descriptors over a local SOCK_SEQPACKET socket. Nothing here blocks,
 * whatever the other end sends. Used by the library and rsockd. Signal-safe.
 *
 * close() of a received descriptor can take any time: the last reference to a TCP socket with
 * SO_LINGER waits for its unsent bytes, and each close() of a file on FUSE waits for its server.
 * The kernel drops such references in the process that receives a message, or that closes a socket
 * with unread messages. Therefore a message is peeked at before it is received, a message with
 * unwanted descriptors is never received, and a socket is closed by rsk_fdmsg_close()
 * (docs/shared-objects.md).
 */
#ifndef RSK_FDMSG_H
#define RSK_FDMSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RSK_FDMSG_MOST 16

enum rsk_fdmsg_kind {
	RSK_FDMSG_MEMORY = 1, /* memfds and eventfds: releasing them waits for nothing */
	/* The same, but a helper process checks them first; this process receives no others */
	RSK_FDMSG_VETTED,
	RSK_FDMSG_TRUSTED /* from rsockd: anything */
};

/* Sends all of it or nothing. @nfds: up to RSK_FDMSG_MOST. Returns 0 or -errno. */
int rsk_fdmsg_send(int fd, const void *buf, size_t bytes, const int *fds, int nfds);

/*
 * Receives one message, if there is one. Returns its true length, even if that is more than @bytes;
 * 0: the other end has closed; -EAGAIN or another -errno. *@nfds descriptors are stored in @fds;
 * they are close-on-exec and belong to the caller.
 *
 * -EPROTO: it has more than @most descriptors, or not @bytes bytes; -EBADMSG: it has descriptors
 * that are not of @kind; -EMFILE: this process cannot open so many; -EBUSY: no helper process is
 * available. In these cases the message stays in the queue, and the caller must close the socket.
 */
ssize_t rsk_fdmsg_recv(int fd, void *buf, size_t bytes, enum rsk_fdmsg_kind kind, int *fds,
		       int most, int *nfds);

/* The beginning of the next message, which stays in the queue. Its true length, 0 or -errno. */
ssize_t rsk_fdmsg_peek(int fd, void *buf, size_t bytes);

/*
 * Drops the next message, whose length or number of descriptors is not what rsk_fdmsg_recv() was
 * asked for. Returns 0, or -errno as rsk_fdmsg_recv() for its descriptors: then it stays.
 */
int rsk_fdmsg_drop(int fd, enum rsk_fdmsg_kind kind);

/*
 * Closes a socket that receives messages of untrusted processes, with @close (NULL: close(2)). If
 * it has unread messages with descriptors, a helper process releases them; if there can be no
 * helper, the socket stays open. In any case the socket is shut down. Not for a socket of which
 * another process uses a copy.
 */
void rsk_fdmsg_close(int fd, void (*close)(int fd));

/* Total time in ns that this process has waited for helpers that check descriptors. */
uint64_t rsk_fdmsg_vetting_ns(void);

/* True if so many sockets were left open that no more untrusted processes may be admitted. */
bool rsk_fdmsg_is_full(void);

#endif
