/* SPDX-License-Identifier: BSD-2-Clause */
/* local_msg.h - messages of <rsock/local.h>, for both ends. */
#ifndef RSK_LOCAL_MSG_H
#define RSK_LOCAL_MSG_H

#include <rsock/local.h>
#include <stdbool.h>
#include <sys/types.h>

/* Is it one that rsockd (@from_rsockd), or a process, may send? 0 or -EPROTO. Pure. */
int rsk_local_msg_check(const struct rsk_local_msg *m, size_t bytes, bool from_rsockd);

/* Fills in the magic; @fd -1: none goes with it. Never blocks. 0 or -errno. */
int rsk_local_msg_send(int to, struct rsk_local_msg *m, int fd);

/*
 * One message, checked. 1; 0: the other end is gone; -EAGAIN: there is none now; -EPROTO; -errno. *@fd: came with it,
 * the caller's to close; -1: none.
 */
int rsk_local_msg_recv(int from, bool from_rsockd, struct rsk_local_msg *m, int *fd);

#endif
