/* SPDX-License-Identifier: BSD-2-Clause */
/* unix_listen.h - a local listening socket to which every user of the host may connect. */
#ifndef RSK_UNIX_LISTEN_H
#define RSK_UNIX_LISTEN_H

/*
 * Listens at @path; @type is SOCK_STREAM or SOCK_SEQPACKET. A socket that a killed daemon left
 * behind is replaced. Returns a non-blocking descriptor, which the caller owns; -EADDRINUSE if a
 * process listens there or the path is not a socket; or -errno.
 */
int rsk_unix_listen(const char *path, int type, int backlog);

#endif
