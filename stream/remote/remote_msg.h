/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote_msg.h - messages between the progress threads of two processes on two hosts, over the
 * control connection (TCP) of their link: fixed size, little-endian. A message is used only after
 * rsk_remote_msg_check() and the checks at its use.
 *
 *	initiator  HELLO -------------------------->  its stream, mapping, segment; a secret
 *	                                              for the rail
 *	           <----------- WELCOME or REFUSED
 *	           == rdma_cm: nonce, secret, epoch ==>
 *	           RAIL <---------------------> RAIL  a rail is up; what the peer needs to put
 *	           LINK <---------------------> LINK  a message of the link (handshake.h):
 *	                                              PAIR, ACCEPT, ...
 *	           RING_REQ, RING                     the ring of a stream is (not) registered
 *	           NARROW                             the sender does not use all of it any more
 *	           BREAK, RESUME ..., RESUMED,        the last rail broke: what each end has
 *	           another epoch's RAIL               consumed and put
 *	           APPLY                              a stream has a new control word: act on it
 *	           CANDIDATE ...                      the devices of the end that accepts
 *	           RAIL_DOWN, MISSING ...,            one of several rails is gone: what has not
 *	           MISSING_END                        come by any rail. Also sent over the rails
 *	                                              that are up
 *	           ENDING                             this process ends in order: all that it
 *	                                              put has arrived
 */
#ifndef RSK_REMOTE_MSG_H
#define RSK_REMOTE_MSG_H

#include <stddef.h>
#include <stdint.h>

#include <rsock/tuple.h>
#include <rsock/version.h>

#include "handshake.h"
#include "order.h"
#include "rails.h"
#include "verbs.h"

#define RSK_REMOTE_LETTERS 0x656b6f737372
#define RSK_REMOTE_MAGIC RSK_MAGIC(RSK_REMOTE_LETTERS, RSK_REMOTE_VERSION)

enum rsk_remote_type {
	RSK_REMOTE_HELLO = 1,
	RSK_REMOTE_WELCOME,
	RSK_REMOTE_REFUSED,
	RSK_REMOTE_RAIL,
	RSK_REMOTE_LINK,
	RSK_REMOTE_RING_REQ,
	RSK_REMOTE_RING,
	RSK_REMOTE_BREAK,
	RSK_REMOTE_RESUME,
	RSK_REMOTE_ENDING,
	RSK_REMOTE_APPLY,
	RSK_REMOTE_CANDIDATE,
	RSK_REMOTE_RAIL_DOWN,
	RSK_REMOTE_MISSING,
	RSK_REMOTE_MISSING_END,
	RSK_REMOTE_RESUMED,
	RSK_REMOTE_NARROW,
	RSK_REMOTE_TYPES
};

/* Cell indexes of a ring: [from, to). */
struct rsk_remote_missing {
	uint64_t from, to;
};
#define RSK_REMOTE_MISSING_MOST (sizeof(struct rsk_link_msg) / sizeof(struct rsk_remote_missing))
#define RSK_REMOTE_CANDIDATES 16u

/* CANDIDATE: what the device's port is to further rails of this link. */
enum rsk_remote_use {
	RSK_REMOTE_USE_UNKNOWN, /* the sender does not say */
	RSK_REMOTE_USE_ACTIVE,	/* takes further rails, and is not spare */
	RSK_REMOTE_USE_SPARE,
	RSK_REMOTE_USE_NONE, /* takes none now; the first rail is connected to it */
	RSK_REMOTE_USES
};

/* A struct rsk_order_form on the wire. */
struct rsk_remote_order {
	uint8_t kind, bits, stop, zero;
	uint32_t every;
};

/*
 * Every version's messages begin with the magic and are at least RSK_REMOTE_FIXED_BYTES long, and
 * up to there HELLO is the same in all of them: so an end that is asked for a link by another
 * version knows which stream is to stay on TCP (link_handshake.c).
 */
struct rsk_remote_msg {
	uint64_t magic;
	uint32_t type;
	/*
	 * RAIL, BREAK, RESUME, RESUMED, RAIL_DOWN, MISSING, MISSING_END: incarnation of the link,
	 * from 1
	 */
	uint32_t epoch;
	/*
	 * RAIL, RING_REQ, RING, NARROW, RAIL_DOWN, MISSING, MISSING_END: number of the rail;
	 * CANDIDATE: how many rails the sender admits
	 */
	uint32_t rail;
	/*
	 * RAIL, RAIL_DOWN, MISSING, MISSING_END: generation of the rail, from 1; CANDIDATE: how
	 * many candidates there are, 0: none
	 */
	uint32_t generation;
	uint64_t nonce;	 /* HELLO: names the link */
	uint64_t secret; /* HELLO: presented again by the rail */
	uint64_t handle; /* HELLO: AssocHandle of the mapping */
	/* HELLO: the stream for which the link is made, as the sender sees it */
	struct rsk_tuple tuple;
	/* HELLO, WELCOME: of the sender's segment */
	struct rsk_seg_geometry geometry;
	struct rsk_verbs_end end; /* RAIL */
	/*
	 * RESUME: consumed up to here; ENDING: cell, put up to here, 0: not on the ring. RAIL_DOWN,
	 * MISSING, MISSING_END: pos, the sequence number, from 0, among the sender's messages about
	 * that generation of the rail. MISSING: cell, the lowest number of the transactions that
	 * @missing counts.
	 */
	uint64_t pos, cell;
	uint64_t owed, ring_end;      /* RESUME: rsk_tx_owed_to(), rsk_tx_ring_end() */
	uint32_t sid;		      /* RING_REQ, RING, NARROW, RESUME, ENDING, APPLY, MISSING */
	uint32_t reason;	      /* REFUSED */
	uint32_t ctl_rkey, ring_rkey; /* RING */
	/*
	 * RING_REQ: how much of the ring is to be registered; RING: how much of it is; NARROW: how
	 * much the sender uses; bytes
	 */
	uint32_t ring_bytes;
	/* RING: how many NARROWs about that ring and rail were received before */
	uint32_t narrowed;
	/* RING: enum rsk_verbs_way; CLOSED: not even the control blocks are registered */
	uint32_t way;
	uint32_t link_bytes; /* LINK: bytes of the message in @link */
	uint32_t gaps;	     /* MISSING: number of ranges; CANDIDATE: number of this candidate */
	/*
	 * MISSING: transactions that all ranges of the stream make; set in the stream's last
	 * message, 0 in those before
	 */
	uint32_t missing;
	/* HELLO, WELCOME: form of the transaction tags that the sender of this message writes */
	struct rsk_remote_order order;
	union {
		struct rsk_link_msg link;				/* LINK */
		struct rsk_remote_missing gap[RSK_REMOTE_MISSING_MOST]; /* MISSING */
		struct {
			struct rsk_verbs_device_addr
				candidate; /* CANDIDATE; all zero: there is none */
			uint32_t use;	   /* CANDIDATE: enum rsk_remote_use */
			uint8_t pad[sizeof(struct rsk_link_msg) -
				    sizeof(struct rsk_verbs_device_addr) - sizeof(uint32_t)];
		};
	};
};

_Static_assert(sizeof(struct rsk_remote_msg) <= RSK_VERBS_MSG_BYTES, "a rail can say it");

#define RSK_REMOTE_FIXED_BYTES offsetof(struct rsk_remote_msg, geometry)
_Static_assert(RSK_REMOTE_FIXED_BYTES == 104, "as all versions have it");

/* The private data of an rdma_cm request. */
struct rsk_remote_private {
	uint64_t magic;
	uint64_t nonce;
	uint64_t secret;
	uint32_t rail;
	uint32_t generation; /* generation of this rail */
	uint32_t epoch;	     /* of the link that the rail is for */
	uint32_t zero;
};
_Static_assert(sizeof(struct rsk_remote_private) <= RSK_VERBS_PRIVATE_BYTES, "fits a request");

static inline struct rsk_remote_order rsk_remote_order_of(const struct rsk_order_form *f)
{
	return (struct rsk_remote_order){ f->kind, f->bits, f->stop, 0, f->every };
}

static inline struct rsk_order_form rsk_remote_form(const struct rsk_remote_order *o)
{
	return (struct rsk_order_form){ o->kind, o->bits, o->stop, o->every };
}

/*
 * The version of the message, if it is not ours; 0: it is ours, or none. @m: at least its first
 * RSK_REMOTE_FIXED_BYTES. Pure.
 */
uint32_t rsk_remote_msg_other_version(const struct rsk_remote_msg *m);

/* The fixed part of a HELLO of any version: 0 or -EPROTO. Pure. */
int rsk_remote_msg_check_fixed(const struct rsk_remote_msg *m);

/* Returns 0 or -EPROTO. Pure. */
int rsk_remote_msg_check(const struct rsk_remote_msg *m);

#endif
