/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link_requests.h - link requests: the pairing asks for links to other hosts and for their state;
 * the progress thread takes the requests and reports what became of them. Under the pairing lock.
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
	/* where the peer's process accepts rails, and control connections */
	struct rsk_verbs_addr to;
	struct rsk_verbs_addr from; /* our RNIC; family 0: any */
	struct rsk_tuple tuple;	    /* the stream, as we see it */
	uint64_t handle;	    /* AssocHandle */
	uint8_t dscp;		    /* of its rails: a link is of one class */
};

/*
 * Returns the name of the link to that address, and of that DSCP (rsk_rendezvous_known()), from our
 * RNIC or for a stream of the same address of ours: the other end admits no stream by a link from
 * elsewhere. If there is no link, one is requested. 0: none can be had now.
 */
uint64_t rsk_remote_at(const struct rsk_remote_target *t);

/*
 * Returns 0: the link is up; -EINPROGRESS; -errno: it could not be made, and the request is
 * dropped.
 */
int rsk_remote_progress(uint64_t nonce);

/* True if this process could accept rails: there is a device, and nothing has failed so far. */
bool rsk_remote_able(void);

/*
 * An accepting end has its peer on another host: starts the progress thread, which accepts that
 * peer's link. Returns 0, -EAGAIN: not possible yet, -errno.
 */
int rsk_remote_accept(void);

/* The port where this process accepts rails; 0: it does not. */
uint16_t rsk_remote_port(void);
/* set by the progress thread; 0: nothing is accepted */
extern _Atomic(uint16_t) rsk_remote_port_now;

/*
 * For the progress thread. rsk_link_request_next() takes the next request; false: there is none; it
 * takes the pairing lock itself. rsk_link_request_up() and rsk_link_request_gone() report the
 * outcome, with the pairing lock held.
 */
bool rsk_link_request_next(uint64_t now_ns, uint64_t *nonce, struct rsk_remote_target *target);
void rsk_link_request_up(uint64_t nonce);
void rsk_link_request_gone(uint64_t nonce, int err);
void rsk_link_requests_forget(void); /* in a child */

/*
 * What the pairing asks of the links to other hosts; set at the process's start. Pairing lock held.
 */
struct rsk_remote_ops {
	/*
	 * rsockd has said whether a peer that came by the mapping @handle may be admitted, and from
	 * which address its link must come (zeros: any). False: no link here has asked.
	 */
	bool (*answered)(uint64_t handle, uint32_t reason, const uint8_t from_ip[static 16]);
	/* True if a link that was accepted here by that mapping exists, or awaits its verdict. */
	bool (*uses)(uint64_t handle);
	/* Our address to which the initiator of @l connected; NULL: @l was not accepted here. */
	const struct rsk_verbs_addr *(*here)(const struct rsk_link *l);
	/*
	 * The address from which @l came, for rsockd to compare it with what is announced for a
	 * further stream @ours. NULL: this stream has the same peer address as the one for which @l
	 * was admitted, and comes from the same host; or @l was not accepted here.
	 */
	const struct rsk_verbs_addr *(*from)(const struct rsk_link *l,
					     const struct rsk_tuple *ours);
	/* True if @l was admitted for that mapping and that stream of ours. */
	bool (*vouched)(const struct rsk_link *l, uint64_t handle, const struct rsk_tuple *ours);
};
extern const struct rsk_remote_ops *rsk_remote_ops;

#endif
