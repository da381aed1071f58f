/* SPDX-License-Identifier: BSD-2-Clause */
/* fdmsg.h - one message with descriptors over a local SOCK_SEQPACKET socket; nothing here blocks. Signal-safe. */
#ifndef RSK_FDMSG_H
#define RSK_FDMSG_H

#include <stddef.h>
#include <sys/types.h>

#define RSK_FDMSG_MOST 16

/* All of it or nothing. @nfds: up to RSK_FDMSG_MOST. 0 or -errno. */
int rsk_fdmsg_send(int fd, const void *buf, size_t bytes, const int *fds, int nfds);

/*
 * One message, if there is one: its true length, even if that is more than there was room for; 0: the other end is
 * gone; -EAGAIN, -errno. *@nfds: descriptors in @fds, close-on-exec, the caller's; what is more than @most is closed.
 */
ssize_t rsk_fdmsg_recv(int fd, void *buf, size_t bytes, int *fds, int most, int *nfds);

#endif
