/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handshake.h - messages on a link's control socket (SOCK_SEQPACKET, one message each, fixed size).
 * rendezvous.c, pm_transaction.c and pm_steps.c use them. A message is used only after
 * rsk_link_msg_validate() and the checks at its use.
 *
 * Two versions of the library share the first 8 bytes of every message, and the message struct
 * rsk_link_version: by them each end learns that the other one is of another version
 * (other_version.c).
 */
#ifndef RSK_HANDSHAKE_H
#define RSK_HANDSHAKE_H

#include <stdint.h>

#include <rsock/tuple.h>
#include <rsock/version.h>

#include "pm_msg.h"
#include "shm.h"

/* Versions: 2 has doorbells that are read, and PAUSE; 3 has apart; 4 has LEFT. */
#define RSK_LINK_LETTERS 0x6b6e6c72736b
#define RSK_LINK_MAGIC RSK_MAGIC_LOW(RSK_LINK_LETTERS, RSK_LINK_VERSION)

enum rsk_link_msg_type {
	/* geometry; fds: the memfd, then RSK_SEG_DOORBELLS doorbells (doorbell.h) */
	RSK_LINK_HELLO = 1,
	/* PMReq, sid, keys; proof that the sender holds the connecting end */
	RSK_LINK_PAIR = 2,
	RSK_LINK_ACCEPT = 3, /* PMAccept; the same proof for the accepting end */
	RSK_LINK_ACK = 4,    /* PMAck */
	RSK_LINK_DENY = 5,   /* PMDeny, reason */
	/*
	 * Between hosts: another process goes on with the sender's end of stream @sid, which is on
	 * TCP for good. On one host a word of shared memory tells (segment.h).
	 */
	RSK_LINK_LEFT = 6,
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

/*
 * What an end says to one of another version, and nothing else: first that it is of another
 * version (fd -1), then, from the connecting end, of each stream that stays on TCP for that, with
 * what PAIR has as proof. It never changes, nor does its type, which no other message may have.
 * HELLO of any version has at most RSK_FDMSG_MOST descriptors, of memory and eventfds.
 */
#define RSK_LINK_IS_OF_VERSION 0x56455253u
struct rsk_link_version_msg {
	uint64_t magic; /* with the version of the sender */
	uint32_t type;	/* RSK_LINK_IS_OF_VERSION */
	int32_t fd;
	uint64_t cookie;
	uint64_t netns;
	int32_t peer_fd; /* a hint */
	uint32_t apart;
	struct rsk_tuple tuple; /* of the sender's end, as it sees it */
};
_Static_assert(sizeof(struct rsk_link_version_msg) == 96, "as all versions have it");

/* The version of which a message is, if it is not ours; 0: it is ours, or no message of a link. */
uint32_t rsk_link_msg_other_version(const void *msg, size_t bytes);

/* Sends it with the sender's magic and type; never blocks. Returns 0 or -errno. */
int rsk_link_version_send(int control, struct rsk_link_version_msg *m);

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
