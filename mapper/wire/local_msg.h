/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * local_msg.h - sends, receives and checks the messages of <rsock/local.h>. Used by both ends:
 * rsockd and the library.
 */
#ifndef RSK_LOCAL_MSG_H
#define RSK_LOCAL_MSG_H

#include <rsock/local.h>
#include <stdbool.h>
#include <sys/types.h>

/* Returns 0 if rsockd (@from_rsockd), or a process, may send the message, else -EPROTO. Pure. */
int rsk_local_msg_check(const struct rsk_local_msg *m, size_t bytes, bool from_rsockd);

/*
 * Fills in the magic and sends; @fd -1: no descriptor goes with it. Never blocks. Returns 0 or
 * -errno.
 */
int rsk_local_msg_send(int to, struct rsk_local_msg *m, int fd);

/*
 * Receives and checks one message. Returns 1; 0: the other end has closed; -EAGAIN: there is none
 * now; -EPROTO; -EPROTONOSUPPORT: it is of another version, which m->magic has; or another -errno.
 * *@fd is the descriptor that came with it, which belongs to the
 * caller; -1: none.
 */
int rsk_local_msg_recv(int from, bool from_rsockd, struct rsk_local_msg *m, int *fd);

/* Tells the process at the other end that this rsockd is of another version. Never blocks. */
void rsk_local_msg_refuse_version(int to);

#endif
