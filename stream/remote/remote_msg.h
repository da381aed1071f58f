/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote_msg.h - messages between the keepers of two processes on two hosts, over the control connection (TCP) of
 * their link: fixed size, little-endian. Nothing in them is believed before rsk_remote_msg_check() and the checks
 * at their use.
 *
 *	initiator  HELLO ------------------------------------->  its stream, mapping, segment; a secret for the rail
 *	           <-------------------------- WELCOME or REFUSED
 *	           == rdma_cm: nonce, secret, epoch ==>
 *	           RAIL <------------------------------------> RAIL   what the other needs to put, when it is up
 *	           LINK <------------------------------------> LINK   a link's message (handshake.h): JOIN, ACCEPT, ...
 *	           RING_REQ, RING                                     the ring of a stream is (not) registered
 *	           BREAK, RESUME ..., RESUMED, another epoch's RAIL   the rail broke: who had consumed, and put, what
 *	           HEED                                               a stream's mail has a word: act on it
 *	           PLACE ...                                          where else the one who is come to has devices
 *	           LOST, GAP ..., NAMED                               one of several rails is gone: what has not come by
 *	                                                              it. Said by the rails that live as well
 *	           ENDING                                             this process ends in order: all it put has arrived
 */
#ifndef RSK_REMOTE_MSG_H
#define RSK_REMOTE_MSG_H

#include <stddef.h>
#include <stdint.h>

#include <rsock/tuple.h>

#include "handshake.h"
#include "order.h"
#include "rails.h"
#include "verbs.h"

#define RSK_REMOTE_MAGIC 0x3330656b6f737372ull

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
	RSK_REMOTE_TYPES
};

/* Indexes of a ring's cells: [from, to). */
struct rsk_remote_missing {
	uint64_t from, to;
};
#define RSK_REMOTE_MISSING_MOST (sizeof(struct rsk_link_msg) / sizeof(struct rsk_remote_missing))
#define RSK_REMOTE_CANDIDATES 16u

/* A struct rsk_order_form on the wire. */
struct rsk_remote_order {
	uint8_t kind, bits, stop, zero;
	uint32_t every;
};

struct rsk_remote_msg {
	uint64_t magic;
	uint32_t type;
	uint32_t epoch; /* RAIL, BREAK, RESUME, RESUMED, LOST, GAP, NAMED: which incarnation of the link, from 1 */
	uint32_t rail; /* RAIL, RING_REQ, RING, LOST, GAP, NAMED: which one; PLACE: how many it lets in */
	uint32_t generation; /* RAIL, LOST, GAP, NAMED: its how manieth life, from 1; PLACE: how many there are, 0: none */
	uint64_t nonce;		/* HELLO: names the link */
	uint64_t secret;	/* HELLO: shown again by the rail */
	uint64_t handle;	/* HELLO: AssocHandle of the mapping */
	struct rsk_tuple tuple; /* HELLO: the stream for which it is made, as the sender sees it */
	struct rsk_seg_geometry geometry; /* HELLO, WELCOME: of the sender's segment */
	struct rsk_verbs_end end;	  /* RAIL */
	/*
	 * RESUME: consumed up to here; ENDING: cell, put up to here, 0: not on the ring. LOST, GAP, NAMED: pos,
	 * which one it is of what its sender says of that life, from 0.
	 */
	uint64_t pos, cell;
	uint64_t owed;		      /* RESUME: rsk_tx_owed_to() */
	uint32_t sid;		      /* RING_REQ, RING, RESUME, ENDING, HEED */
	uint32_t reason;	      /* REFUSED */
	uint32_t ctl_rkey, ring_rkey; /* RING */
	uint32_t way;	     /* RING: enum rsk_verbs_way; CLOSED: not even the control blocks */
	uint32_t link_bytes; /* LINK: of the message behind it */
	uint32_t gaps;	     /* GAP: how many; PLACE: number of this one */
	uint32_t missing; /* GAP: transactions that the stream's gaps make; in its last one, before 0 */
	struct rsk_remote_order
		order; /* HELLO, WELCOME: of the marks that the sender of this writes */
	union {
		struct rsk_link_msg link;				/* LINK */
		struct rsk_remote_missing gap[RSK_REMOTE_MISSING_MOST]; /* GAP */
		struct {
			struct rsk_verbs_device_addr candidate; /* PLACE; all zero: there is none */
			uint8_t pad[sizeof(struct rsk_link_msg) -
				    sizeof(struct rsk_verbs_device_addr)];
		};
	};
};

_Static_assert(sizeof(struct rsk_remote_msg) <= RSK_VERBS_MSG_BYTES, "a rail can say it");

/* The private data of an rdma_cm request. */
struct rsk_remote_private {
	uint64_t magic;
	uint64_t nonce;
	uint64_t secret;
	uint32_t rail;
	uint32_t generation; /* of this rail */
	uint32_t epoch;	     /* of the link that it is for */
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

/* 0 or -EPROTO. Pure. */
int rsk_remote_msg_check(const struct rsk_remote_msg *m);

#endif
