/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_transaction.h - see pm_transaction.c. The join lock is held around each call, unless it says otherwise; messages come by
 * rendezvous.h.
 */
#ifndef RSK_PM_TRANSACTION_H
#define RSK_PM_TRANSACTION_H

#include <stdbool.h>
#include <stdint.h>

#include <rsock/tuple.h>

struct rsk_link;
struct rsk_stream;

/*
 * The connecting end asks over @l for @s, whose other end is the peer's number @peer_fd: JOINING from here on, or COLD
 * where there is no place for it; still SEEKING where the other end has too many requests to read.
 */
void rsk_pm_transaction_begin(struct rsk_stream *s, int fd, struct rsk_link *l, int peer_fd);

/* It would be asked for, if @l is up: few enough requests are unanswered. */
bool rsk_pm_transaction_may_ask(const struct rsk_link *l);

/* The accepting end that has these names, SEEKING, pinned; NULL: there is none. @guess: its fd, perhaps. */
struct rsk_stream *rsk_pm_transaction_accepting(const struct rsk_tuple *ours, int guess, int *fd);

/* rsockd has said whether the request that waits at @s may be accepted (enum rsk_reason; MAPPED: it may). */
void rsk_pm_transaction_answered(struct rsk_stream *s, int fd, uint32_t reason);

/* It comes to nothing: @s is no stream of its link any more. */
void rsk_pm_transaction_undo(struct rsk_stream *s);

/* Its request is answered, or nobody waits for that any more: another may take its turn. Any thread. */
void rsk_pm_transaction_over(struct rsk_stream *s);

/* A validated message about a stream, of a link that is UP. */
struct rsk_link_msg;
struct rsk_pm_msg;
void rsk_pm_transaction_message(struct rsk_link *l, const struct rsk_link_msg *m,
				const struct rsk_pm_msg *pm);

#endif
