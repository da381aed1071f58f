/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handshake.h - messages on a link's control socket (SOCK_SEQPACKET, one message each, fixed size).
 * rendezvous.c, pm_transaction.c and pm_steps.c use them. A message is used only after
 * rsk_link_msg_validate() and the checks at its use.
 */
#ifndef RSK_HANDSHAKE_H
#define RSK_HANDSHAKE_H

#include <stdint.h>

#include "pm_msg.h"
#include "shm.h"

/* The last digit is the version: 2 has doorbells that are read, and PAUSE; 3 has apart. */
#define RSK_LINK_MAGIC 0x6b6e6c72736b3033ull

enum rsk_link_msg_type {
	/* geometry; fds: the memfd, then RSK_SEG_DOORBELLS doorbells (doorbell.h) */
	RSK_LINK_HELLO = 1,
	/* PMReq, sid, keys; proof that the sender holds the connecting end */
	RSK_LINK_PAIR = 2,
	RSK_LINK_ACCEPT = 3, /* PMAccept; the same proof for the accepting end */
	RSK_LINK_ACK = 4,    /* PMAck */
	RSK_LINK_DENY = 5,   /* PMDeny, reason */
};

struct rsk_link_msg {
	uint64_t magic;
	uint32_t type;
	uint32_t sid;
	struct rsk_seg_geometry geometry; /* HELLO */
	uint64_t cookie;		  /* SO_COOKIE of the sender's end */
	uint64_t netns;			  /* SO_NETNS_COOKIE */
	uint64_t key_up, key_down;	  /* PAIR */
	int32_t fd;			  /* the sender's descriptor */
	/* PAIR: the receiver's descriptor, as it was posted: a hint */
	int32_t peer_fd;
	uint32_t reason; /* DENY */
	/*
	 * PAIR, ACCEPT: 1: the ends are in two network namespaces, and rsockd has brought them
	 * together over this link; 0.
	 */
	uint32_t apart;
	uint32_t pad[3]; /* 0 */
	uint32_t pm_bytes;
	uint8_t pm[RSK_PM_WIRE_MAPPED_BYTES];
};
_Static_assert(sizeof(struct rsk_link_msg) == 160, "no padding");

/* Returns 0 or -EPROTO. Pure; the mapper's message is decoded into *pm where the type has one. */
int rsk_link_msg_validate(const struct rsk_link_msg *m, size_t bytes, struct rsk_pm_msg *pm);

/* Sends the message with @nfds descriptors; never blocks. Returns 0 or -errno. */
int rsk_link_msg_send(int control, struct rsk_link_msg *m, const int *fds, int nfds);

/*
 * Receives one message if there is one. Returns its bytes; 0: the peer is gone; -EAGAIN: none is
 * there; -errno. *nfds: number of descriptors in fds[], which the caller owns.
 */
#define RSK_LINK_MSG_FDS (1 + RSK_SEG_DOORBELLS)
ssize_t rsk_link_msg_recv(int control, struct rsk_link_msg *m, int fds[static RSK_LINK_MSG_FDS],
			  int *nfds);

#endif
