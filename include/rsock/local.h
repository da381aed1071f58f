/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * local.h - messages between a process and rsockd on its host, over a local socket
 * (SOCK_SEQPACKET), one fixed-size message each. The kernel tells rsockd which process it is
 * (SO_PEERCRED); the process trusts whichever process owns the path. Both ends use a message only
 * after rsk_local_msg_check().
 */
#ifndef RSOCK_LOCAL_H
#define RSOCK_LOCAL_H

#include <rsock/qos.h>
#include <rsock/tuple.h>
#include <rsock/version.h>
#include <stddef.h>
#include <stdint.h>

/* In a directory of its own, which containers may share (docs/containers.md). */
#define RSK_LOCAL_PATH "/run/rsock/local.sock"
#define RSK_LOCAL_LETTERS 0x6c6b636f7372
#define RSK_LOCAL_MAGIC RSK_MAGIC(RSK_LOCAL_LETTERS, RSK_LOCAL_VERSION)

enum rsk_local_type {
	/*
	 * From the process: its statistics segment (fd), at the start or when there is one; flags.
	 */
	RSK_LOCAL_HELLO = 1,
	/*
	 * From the process: peer lookup for a connection whose other end it did not find: tuple,
	 * cookie, fd, flags.
	 */
	RSK_LOCAL_LOOKUP,
	/* From the process: a listening socket: tuple (the local half), cookie. */
	RSK_LOCAL_LISTEN,
	/* From the process: it has no link of that number (any more). */
	RSK_LOCAL_LOST,
	/*
	 * From rsockd: the process at the other end: link, pid, uid; half of a socketpair (fd), if
	 * the link is new.
	 */
	RSK_LOCAL_RENDEZVOUS,
	/* From rsockd: why there is no peer, or what the other host answered, and the mapping. */
	RSK_LOCAL_ANSWER,
	/*
	 * From the process: where is the service at tuple.peer mapped to? The cookie identifies the
	 * question.
	 */
	RSK_LOCAL_RESOLVE,
	/*
	 * From the process: the port at which it accepts rails, for RDMA and TCP, on all addresses.
	 * 0: it does not accept any more.
	 */
	RSK_LOCAL_RDMA,
	/*
	 * From the process, about its end of a connection (tuple, cookie, fd) and a mapping (link,
	 * its AssocHandle). From the connecting end: its stream uses the mapping; answered only if
	 * it may not. From the accepting end: a peer has connected to its address (ip, port, ipv)
	 * and says that it uses the mapping; always answered: MAPPED (admit it), or the reason why
	 * not. With REFUSED, from the connecting end: the link was refused at the address of the
	 * mapping, which is hereby given back; never answered.
	 */
	RSK_LOCAL_LINK,
	/* From the process: none of its streams uses the mapping of that name (link) any more. */
	RSK_LOCAL_UNLINK,
	/*
	 * From rsockd, to processes that are able: the port table (<rsock/port_table.h>, fd) that
	 * it shares with processes of that user, and the number of this one in it (port). Valid as
	 * long as the connection lasts; then its reservations are released.
	 */
	RSK_LOCAL_PORT_TABLE,
	/*
	 * From rsockd, about a connection (cookie, fd) and its mapping (link): the service that
	 * policy gives it from now on (qos). Sent before the ANSWER with the mapping, behind the
	 * one that admits a peer, and again when it changes; not at all while it is all zero.
	 */
	RSK_LOCAL_QOS,
	RSK_LOCAL_TYPES
};

/* LOOKUP, LINK: the end that connected; RENDEZVOUS: start the link handshake. */
#define RSK_LOCAL_CONNECTING 1u
/* ASK: no answer is wanted, only resolve the address. */
#define RSK_LOCAL_QUIET 2u
/* LINK: already in use, granted by a previous rsockd. */
#define RSK_LOCAL_AGAIN 4u
/* HELLO: it will accept rails (RDMA) once a stream of it is wanted from another host. */
#define RSK_LOCAL_ABLE 8u
/* LOOKUP: look up the other end as one on another host, even if it is on this one. */
#define RSK_LOCAL_NO_SHM 16u

/*
 * LOOKUP: do not bring the two together, only report whether it would be done: DIRECT, REMOTE (use
 * ASK), or why not.
 */
#define RSK_LOCAL_DRY 32u
/* LINK, with CONNECTING, without AGAIN: the link was refused. */
#define RSK_LOCAL_REFUSED 64u
/*
 * LINK, from the accepting end: a request over a link that exists; without it, a link that has not
 * been admitted yet. ANSWER: to such a LINK.
 */
#define RSK_LOCAL_PAIR 128u

/*
 * LOOKUP: @link is what the connection's first segment was (rsock/syn.h). ANSWER, to the connecting
 * end: it may be the other end of one that waits: find that out, and ask again. RENDEZVOUS: the
 * ends were brought together by that; sent to both.
 */
#define RSK_LOCAL_BY_SYN 256u

struct rsk_local_msg {
	uint64_t magic;
	uint32_t type;
	uint32_t flags;
	struct rsk_tuple tuple; /* as the process sees it */
	uint64_t cookie;	/* SO_COOKIE of its socket; an answer repeats it */
	/*
	 * Random, not 0. RENDEZVOUS, LOST: identifies the link at both ends. LINK, UNLINK: the
	 * mapping. ANSWER: the mapping that a connection was given (to LOOKUP, MAPPED), or that
	 * LINK was about; else 0. LOOKUP: BY_SYN.
	 */
	uint64_t link;
	int32_t fd;	 /* number of the socket: a hint */
	int32_t pid;	 /* RENDEZVOUS */
	uint32_t uid;	 /* RENDEZVOUS */
	uint32_t reason; /* ANSWER: enum rsk_reason */
	/*
	 * ANSWER to LOOKUP, RESOLVE: the peer's RDMA address; LINK: our address, to which the peer
	 * connected.
	 */
	uint8_t ip[16];
	/* Port of @ip; ANSWER, 0: not mapped; RDMA: our port; PORT_TABLE: a number. */
	uint16_t port;
	uint16_t ipv; /* 4 or 6 */
	/* RENDEZVOUS: the other end's descriptor number, a hint. */
	int32_t peer_fd;
	/*
	 * ANSWER, MAPPED: to LOOKUP, the address of our own RNIC from which the link should come;
	 * to LINK, the address from which the peer's link must come, as its PMReq has said. LINK,
	 * from the accepting end: where the link that exists has come from, as the RNIC reports it.
	 * Zeros: any, or not known.
	 */
	uint8_t from_ip[16];
	struct rsk_qos qos; /* QOS */
};

_Static_assert(sizeof(struct rsk_local_msg) == 160, "no hidden padding");

/*
 * What rsockd says to a process whose messages are of another version, before it closes the
 * connection. It never changes, nor do the letters with which each message begins.
 */
struct rsk_local_version {
	uint64_t magic; /* with rsockd's version */
	uint64_t pad;	/* 0 */
};

#define RSK_LOCAL_FIRST_CONTACT_SUFFIX ".first"
#define RSK_LOCAL_FIRST_CONTACT_MOST 128u
/* LOOKUP may be BY_SYN: ends in other network namespaces are looked for. */
#define RSK_LOCAL_BETWEEN 1u

/*
 * The file of connect-time resolution, beside the socket, with its name and that suffix: prefixes
 * for which the policy resolves an address before connect(). rsockd writes it in place; a reader of
 * a half-written file sees by the checksum that it is invalid. An entry whose family is 0 is
 * unused.
 */
struct rsk_local_first_contact {
	uint64_t magic;	  /* RSK_LOCAL_MAGIC */
	uint32_t n;	  /* entries of @at */
	uint32_t wait_ms; /* how long connect() may wait for an answer */
	uint32_t flags;	  /* RSK_LOCAL_BETWEEN */
	uint32_t pad;	  /* 0 */
	struct rsk_local_prefix {
		uint8_t ip[16]; /* as in a tuple */
		uint16_t family;
		uint16_t bits;
		uint32_t pad;
	} at[RSK_LOCAL_FIRST_CONTACT_MOST];
	uint64_t checksum; /* XXH3-64 of the bytes before it */
};

_Static_assert(sizeof(struct rsk_local_first_contact) == 24 + 24 * RSK_LOCAL_FIRST_CONTACT_MOST + 8,
	       "no padding");

#endif
