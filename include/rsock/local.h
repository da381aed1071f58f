/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * local.h - messages between a process and rsockd on its host: a local socket (SOCK_SEQPACKET), one message each,
 * fixed size. The kernel says who the process is (SO_PEERCRED); the process trusts whoever holds the path. Neither
 * believes a message before rsk_local_msg_check().
 */
#ifndef RSOCK_LOCAL_H
#define RSOCK_LOCAL_H

#include <rsock/tuple.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_LOCAL_PATH "/run/rsockd/local.sock"
#define RSK_LOCAL_MAGIC UINT64_C(0x33306c6b636f7372)

enum rsk_local_type {
	/* From the process: its statistics segment (fd), at first, or when there is one; flags. */
	RSK_LOCAL_HELLO = 1,
	/* A connection whose other end it did not find: tuple, cookie, fd, flags. */
	RSK_LOCAL_LOOKUP,
	/* A listening socket: tuple (its own half), cookie. */
	RSK_LOCAL_LISTEN,
	/* It has no link of that number (any more). */
	RSK_LOCAL_LOST,
	/* From rsockd: the process at the other end: link, pid, uid; half of a socketpair (fd), if it is new. */
	RSK_LOCAL_RENDEZVOUS,
	/* From rsockd: why there is none, or what the other host said, and where it is mapped to. */
	RSK_LOCAL_ANSWER,
	/* From the process: where is the service at tuple.peer mapped to? The cookie names the question. */
	RSK_LOCAL_RESOLVE,
	/* From the process: the port at which it accepts rails, RDMA and TCP, on all addresses. 0: it does no more. */
	RSK_LOCAL_RDMA,
	/*
	 * From the process, about its end of a connection (tuple, cookie, fd) and a mapping (link, its AssocHandle).
	 * The connecting end: its stream uses the mapping; answered only if it may not. The accepting end: somebody has
	 * come to its address (ip, port, ipv) who says so; answered in any case: MAPPED, let him in, or why not.
	 */
	RSK_LOCAL_LINK,
	/* No stream of this process uses the mapping of that name (link) any more. */
	RSK_LOCAL_UNLINK,
	/*
	 * From rsockd, to who is able: the board (<rsock/port_table.h>, fd) that it shares with processes of that user, and
	 * this one's number there (port). As long as the connection lasts; then what it has there is given back.
	 */
	RSK_LOCAL_PORT_TABLE,
	RSK_LOCAL_TYPES
};

#define RSK_LOCAL_CONNECTING 1u /* SEEK, LINK: the end that connected; MEET: greet first */
#define RSK_LOCAL_QUIET 2u	/* ASK: no answer is wanted, it is only to be known by and by */
#define RSK_LOCAL_AGAIN 4u /* LINK: in use already, by the word of an rsockd that was here before */
#define RSK_LOCAL_ABLE                                                                             \
	8u /* HELLO: it will accept rails (RDMA) once a stream of it is wanted from elsewhere */
#define RSK_LOCAL_NO_SHM                                                                           \
	16u /* SEEK: the other end, also if it is here, is sought as on another host */

#define RSK_LOCAL_DRY                                                                              \
	32u /* SEEK: the two are not to meet, only whether they would: DIRECT, REMOTE (ask ASK), or why not */

struct rsk_local_msg {
	uint64_t magic;
	uint32_t type;
	uint32_t flags;
	struct rsk_tuple tuple; /* as the process sees it */
	uint64_t cookie;	/* SO_COOKIE of its socket; an answer names it, too */
	/*
	 * Random, not 0. MEET, LOST: names the link at both ends. LINK, UNLINK: names the mapping. ANSWER: the mapping
	 * that a connection was given (to SEEK, MAPPED), or that was told of (to LINK); else 0.
	 */
	uint64_t link;
	int32_t fd;	 /* the socket's number: a hint */
	int32_t pid;	 /* MEET */
	uint32_t uid;	 /* MEET */
	uint32_t reason; /* ANSWER: enum rsk_reason */
	uint8_t ip[16]; /* ANSWER to SEEK, ASK: the peer's RDMA address; LINK: ours, that is come to */
	uint16_t port;	 /* of it; ANSWER, 0: it is not mapped; RDMA: ours; BOARD: a number */
	uint16_t ipv;	 /* 4, 6 */
	int32_t peer_fd; /* MEET: the other end's number, a hint */
	/*
	 * ANSWER, MAPPED: address of our own RNIC that the link is to come from. LINK of the connecting end: that it
	 * does come from; of the accepting end: that it comes from, as the RNIC says. Zeros: any, not known.
	 */
	uint8_t from_ip[16];
};

_Static_assert(sizeof(struct rsk_local_msg) == 144, "no hidden padding");

#define RSK_LOCAL_FIRST_CONTACT_SUFFIX ".first"
#define RSK_LOCAL_FIRST_CONTACT_MOST 128u

/*
 * The file beside the socket, of its name with that suffix: addresses for which policy asks before connect() does.
 * Written by rsockd, in place; whoever reads half of it sees by the checksum that it is none. An entry whose family
 * is 0 is none.
 */
struct rsk_local_first_contact {
	uint64_t magic;	  /* RSK_LOCAL_MAGIC */
	uint32_t n;	  /* of at[] */
	uint32_t wait_ms; /* how long connect() may wait for the answer */
	struct rsk_local_prefix {
		uint8_t ip[16]; /* as in a tuple */
		uint16_t family;
		uint16_t bits;
		uint32_t pad;
	} at[RSK_LOCAL_FIRST_CONTACT_MOST];
	uint64_t checksum; /* XXH3-64 of the bytes before it */
};

_Static_assert(sizeof(struct rsk_local_first_contact) == 16 + 24 * RSK_LOCAL_FIRST_CONTACT_MOST + 8,
	       "no padding");

#endif
