/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link_requests.h - what the pairing wants of links to other hosts: which place it wants to get to, whether that is so by now,
 * and what whoever makes those links is asked. Under the join lock.
 */
#ifndef RSK_LINK_REQUESTS_H
#define RSK_LINK_REQUESTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rsock/tuple.h>

#include "verbs.h"

struct rsk_link;

/* What rsockd has said of a stream's mapping. */
struct rsk_remote_target {
	struct rsk_verbs_addr
		to; /* where the peer's process accepts rails, and control connections */
	struct rsk_verbs_addr from; /* our RNIC; family 0: any */
	struct rsk_tuple tuple;	    /* the stream, as we see it */
	uint64_t handle;	    /* AssocHandle */
};

/*
 * The name of the link to that place (rsk_rendezvous_known()), perhaps one that is made from now on. 0: none can be had
 * now.
 */
uint64_t rsk_remote_at(const struct rsk_remote_target *t);

/* 0: it is up; -EINPROGRESS; -errno: it could not be had, and is forgotten. */
int rsk_remote_progress(uint64_t nonce);

/* It would accept rails, if it was asked to: there is a device, and nothing has failed so far. */
bool rsk_remote_able(void);

/* An end that accepted has its peer on another host: be there when that one comes. 0, -EAGAIN: not yet, -errno. */
int rsk_remote_accept(void);

/* Where this process accepts rails; 0: it does not. */
uint16_t rsk_remote_port(void);
extern _Atomic(uint16_t) rsk_remote_port_now; /* the keeper sets it; 0: nothing is accepted */

/* For the keeper: what is wanted next, taken; false: nothing. What became of it: join lock held. */
bool rsk_link_request_next(uint64_t now_ns, uint64_t *nonce, struct rsk_remote_target *target);
void rsk_link_request_up(uint64_t nonce);
void rsk_link_request_gone(uint64_t nonce, int err);
void rsk_link_requests_forget(void); /* in a child */

/* What the pairing asks of who makes them; at the process's start. Join lock held. */
struct rsk_remote_ops {
	/* rsockd says whether somebody who came by the mapping @handle may be let in. False: nobody here has asked. */
	bool (*answered)(uint64_t handle, uint32_t reason);
	/* The address of ours that @l came to; NULL: it is none that came. */
	const struct rsk_verbs_addr *(*here)(const struct rsk_link *l);
	/* It was for that mapping, and that stream of ours, that @l was let in. */
	bool (*vouched)(const struct rsk_link *l, uint64_t handle, const struct rsk_tuple *ours);
};
extern const struct rsk_remote_ops *rsk_remote_ops;

#endif
