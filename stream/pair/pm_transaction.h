/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_transaction.h - the PM transaction that pairs one stream, see pm_transaction.c. The pairing
 * lock is held around each call, except where a comment says otherwise; messages come by
 * rendezvous.h.
 */
#ifndef RSK_PM_TRANSACTION_H
#define RSK_PM_TRANSACTION_H

#include <stdbool.h>
#include <stdint.h>

#include <rsock/reason.h>
#include <rsock/tuple.h>

struct rsk_link;
struct rsk_stream;

/*
 * The connecting end sends a request over @l for @s, whose other end is the peer's descriptor
 * @peer_fd: PAIRING from here on; untracked if there is no room for the stream; still in LOOKUP if
 * the other end has too many requests to read.
 */
void rsk_pm_transaction_begin(struct rsk_stream *s, int fd, struct rsk_link *l, int peer_fd);

/* True if a request could be sent, provided that @l is up: few enough requests are unanswered. */
bool rsk_pm_transaction_may_ask(const struct rsk_link *l);

/*
 * The accepting end with these addresses that is in LOOKUP, pinned; NULL: there is none. @guess:
 * perhaps its fd.
 */
struct rsk_stream *rsk_pm_transaction_accepting(const struct rsk_tuple *ours, int guess, int *fd);

/*
 * The same where an address may be translated: the stream of the number that rsockd has told the
 * other end, if it has told this one, too.
 */
struct rsk_stream *rsk_pm_transaction_accepting_apart(const struct rsk_link *l, int fd);

/*
 * rsockd has said whether the request that waits at @s may be accepted by the mapping @handle (enum
 * rsk_reason; MAPPED: it may).
 */
void rsk_pm_transaction_answered(struct rsk_stream *s, int fd, uint64_t handle, uint32_t reason);

/* True if @s is paired by that mapping, or may be: a request that names it waits at @s. */
bool rsk_pm_transaction_uses(const struct rsk_stream *s, uint64_t handle);

/* The pairing has failed: @s is no stream of its link any more. */
void rsk_pm_transaction_undo(struct rsk_stream *s);

/* The same, @why; but @s, which was PAIRING, is in LOOKUP again. */
void rsk_pm_transaction_again(struct rsk_stream *s, enum rsk_reason why);

/*
 * The request of @s is answered, or no longer waited for: another stream may send one. Any thread.
 */
void rsk_pm_transaction_over(struct rsk_stream *s);

/*
 * Between hosts: tells the peer of @s, which is paired, that another process goes on with this end
 * (handshake.h, LEFT). The caller may hold the pairing lock. Without @wait (pairing.h) the peer may
 * not hear of it, and keeps the pairing.
 */
void rsk_pm_transaction_leave(const struct rsk_stream *s, bool wait);

/* Handles a validated message about a stream, of a link that is UP. */
struct rsk_link_msg;
struct rsk_pm_msg;
void rsk_pm_transaction_message(struct rsk_link *l, const struct rsk_link_msg *m,
				const struct rsk_pm_msg *pm);

#endif
