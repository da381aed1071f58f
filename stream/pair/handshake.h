/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handshake.h - messages on a link's control socket (SOCK_SEQPACKET, one message each, fixed size).
 * Nothing in them is believed before rsk_link_msg_validate() and the checks at their use.
 */
#ifndef RSK_HANDSHAKE_H
#define RSK_HANDSHAKE_H

#include <stdint.h>

#include "pm_msg.h"
#include "shm.h"

/* Its last digit is the version: 2, doorbells are read, and PAUSE. */
#define RSK_LINK_MAGIC 0x6b6e6c72736b3032ull

enum rsk_link_msg_type {
	RSK_LINK_HELLO =
		1, /* geometry; fds: the memfd, then RSK_SEG_DOORBELLS doorbells (doorbell.h) */
	RSK_LINK_PAIR =
		2, /* PMReq, sid, keys; what proves that the sender holds the connecting end */
	RSK_LINK_ACCEPT = 3, /* PMAccept; the same of the accepting end */
	RSK_LINK_ACK = 4,    /* PMAck */
	RSK_LINK_DENY = 5,   /* PMDeny, reason */
};

struct rsk_link_msg {
	uint64_t magic;
	uint32_t type;
	uint32_t sid;
	struct rsk_seg_geometry geometry; /* GREET */
	uint64_t cookie;		  /* SO_COOKIE of the sender's end */
	uint64_t netns;			  /* SO_NETNS_COOKIE */
	uint64_t key_up, key_down;	  /* JOIN */
	int32_t fd;			  /* the sender's */
	int32_t peer_fd;		  /* JOIN: the receiver's, as it was posted: a hint */
	uint32_t reason;		  /* DENY */
	uint32_t pm_bytes;
	uint8_t pm[RSK_PM_WIRE_MAPPED_BYTES];
};
_Static_assert(sizeof(struct rsk_link_msg) == 144, "no padding");

/* 0, or -EPROTO. Pure; the mapper's message is decoded into *pm where the type has one. */
int rsk_link_msg_validate(const struct rsk_link_msg *m, size_t bytes, struct rsk_pm_msg *pm);

/* Send with @nfds descriptors; never blocks. 0 or -errno. */
int rsk_link_msg_send(int control, struct rsk_link_msg *m, const int *fds, int nfds);

/* One message, if there is one: bytes, 0: the peer is gone, -EAGAIN, -errno. *nfds: descriptors in fds[]. */
#define RSK_LINK_MSG_FDS (1 + RSK_SEG_DOORBELLS)
ssize_t rsk_link_msg_recv(int control, struct rsk_link_msg *m, int fds[static RSK_LINK_MSG_FDS],
			  int *nfds);

#endif
