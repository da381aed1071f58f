/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_steps.h - declarations that pm_transaction.c and pm_steps.c share. No other file includes it.
 * All with the pairing lock held.
 */
#ifndef RSK_PM_STEPS_H
#define RSK_PM_STEPS_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_link;
struct rsk_link_msg;
struct rsk_pm_msg;
struct rsk_stream;

/*
 * Sends @m with the encoded @pm. Returns 0, also if the link has ended by it; -EAGAIN: the other
 * end has so many requests to read that there is no room for another.
 */
int rsk_pm_transaction_send(struct rsk_link *l, struct rsk_link_msg *m,
			    const struct rsk_pm_msg *pm);

/* Refuses the request @req, @pm; @why: a reason. */
void rsk_pm_transaction_deny(struct rsk_link *l, const struct rsk_link_msg *req,
			     const struct rsk_pm_msg *pm, int why);

/*
 * The stream becomes number @sid of the link, with the keys of its pairing. Returns 0 or -errno;
 * rsk_pm_transaction_undo() undoes it.
 */
int rsk_pm_transaction_attach(struct rsk_stream *s, struct rsk_link *l, uint32_t sid);

/* False: the stream had no unanswered request. */
bool rsk_pm_transaction_asks_no_more(struct rsk_stream *s);

/* Sets the mapping that rsockd granted; rsockd is told that the former one is no longer used. */
void rsk_pm_transaction_set_mapping(struct rsk_stream *s, uint64_t handle);

/*
 * Checks that the process at the other end of the link holds the mirrored end now. Returns 0 or a
 * reason.
 */
int rsk_pm_transaction_proof(struct rsk_stream *s, const struct rsk_link *l,
			     const struct rsk_link_msg *m);

/*
 * Whether rsockd has brought the stream's two ends together over that link by the connection's
 * first segment.
 */
bool rsk_pm_transaction_met(const struct rsk_stream *s, const struct rsk_link *l);

#endif
