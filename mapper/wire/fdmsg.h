/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fdmsg.h - messages with descriptors over a local SOCK_SEQPACKET socket; nothing here blocks, whatever the other end
 * sends. Signal-safe.
 *
 * close() of a descriptor that somebody passed can take any time: the last reference to a TCP socket with SO_LINGER
 * waits for its unsent bytes, each close() of a file of FUSE for its server. The kernel drops such references in
 * whoever receives a message, or closes a socket that has messages unread. So a message is looked at before it is
 * received; one with what is not due is never received;
 * and a socket is closed by rsk_fdmsg_close() (docs/shared-objects.md).
 */
#ifndef RSK_FDMSG_H
#define RSK_FDMSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RSK_FDMSG_MOST 16

enum rsk_fdmsg_kind {
	RSK_FDMSG_MEMORY = 1, /* memfds and eventfds: their release waits for nobody */
	RSK_FDMSG_VETTED, /* the same, looked at in a helper first: this process gets no other */
	RSK_FDMSG_TRUSTED /* of rsockd: anything */
};

/* All of it or nothing. @nfds: up to RSK_FDMSG_MOST. 0 or -errno. */
int rsk_fdmsg_send(int fd, const void *buf, size_t bytes, const int *fds, int nfds);

/*
 * One message, if there is one: its true length, even if that is more than there was room for; 0: the other end is
 * gone; -EAGAIN, -errno. *@nfds: descriptors in @fds, close-on-exec, the caller's.
 * -EPROTO: it has more than @most, or is not of @bytes; -EBADMSG: it has such as are not of @kind; -EMFILE: there is no
 * room for them; -EBUSY: no helper. In all these it stays where it is, and the caller is to close the socket.
 */
ssize_t rsk_fdmsg_recv(int fd, void *buf, size_t bytes, enum rsk_fdmsg_kind kind, int *fds,
		       int most, int *nfds);

/*
 * The end of a socket that unknown_nodes' messages come to, by @close, NULL: close(2). Messages
 * with descriptors that nobody has received go with it in a helper process, or, where there can be none, the socket
 * stays open; the other end sees it shut down in any case. Not for a copy that another process uses.
 */
void rsk_fdmsg_close(int fd, void (*close)(int fd));

/* What this process has waited for helpers that look at descriptors. */
uint64_t rsk_fdmsg_vetting_ns(void);

/* So many sockets stay open that no stranger is to be let in any more. */
bool rsk_fdmsg_is_full(void);

#endif
