/* SPDX-License-Identifier: BSD-2-Clause */
/* unix_listen.h - a local socket that everybody on the host may connect to. */
#ifndef RSK_UNIX_LISTEN_H
#define RSK_UNIX_LISTEN_H

/*
 * Listens there; @type: SOCK_STREAM or SOCK_SEQPACKET. What a daemon that was killed has left behind is replaced. A
 * descriptor that does not block, the caller's; -EADDRINUSE: somebody listens, or it is no socket; -errno.
 */
int rsk_unix_listen(const char *path, int type, int backlog);

#endif
