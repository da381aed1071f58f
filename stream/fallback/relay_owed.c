// SPDX-License-Identifier: BSD-2-Clause
/*
 * relay_owed.c - what a sender still has to repeat by TCP when it ends: it goes to a relay, or to a
 * process that does nothing else. A FIN, or the end of the process, would come before those bytes.
 * See relay.h.
 */
#include <errno.h>
#include <string.h>

#include <rsock/sys.h>

#include "arena.h"
#include "helper.h"
#include "log.h"
#include "relay.h"
#include "resets.h"
#include "tx_parts.h"

/*
 * Each may last as long as a peer does not read. Beyond this number streams are reset, as the
 * kernel does with too many orphans.
 */
#define OWED_MOST (RSK_HELPERS / 2)

/* A TCP socket object that writes the repeated bytes into the relay's memory. */
struct to_relay {
	struct rsk_tcp c;
	struct rsk_relay *r;
	size_t room;
};

static ssize_t take(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags)
{
	struct to_relay *to = (struct to_relay *)(void *)c;
	size_t done = 0;

	(void)flags;
	for (int i = 0; i < n && done < cap; i++) {
		size_t k = iov[i].iov_len < cap - done ? iov[i].iov_len : cap - done;

		if (k > to->room - to->r->up_bytes)
			return done ? (ssize_t)done : -EAGAIN;
		memcpy(to->r->data + to->r->down_bytes + to->r->up_bytes, iov[i].iov_base, k);
		to->r->up_bytes += k;
		done += k;
	}
	return (ssize_t)done;
}

int rsk_tx_relay_plan(const struct rsk_tx *machine, struct rsk_relay *r, size_t room)
{
	static const struct rsk_tcp_ops ops = { .send = take };
	struct to_relay to = { .c = { .ops = &ops, .fd = -1 }, .r = r, .room = room };
	struct rsk_tx tx = *machine;

	if (tx.state == RSK_TX_TCP) /* as rsk_tx_send(): not before what is in flight */
		return rsk_tx_arrived(machine) ? 0 : -EAGAIN;
	if (tx.state != RSK_TX_RESEND)
		return -EAGAIN;
	if (tx.resend.scratch) {
		tx.resend.scratch = rsk_arena_alloc_raw(RSK_SLOT_MAX_PAYLOAD);
		if (!tx.resend.scratch)
			return -ENOMEM;
		memcpy(tx.resend.scratch, machine->resend.scratch, RSK_SLOT_MAX_PAYLOAD);
	}
	if (rsk_tx_repeat(&tx, &to.c) == 0 && tx.state == RSK_TX_TCP)
		return 0;
	rsk_arena_free(tx.resend.scratch);
	return -EAGAIN;
}

void rsk_tx_relay_done(struct rsk_tx *tx)
{
	rsk_arena_free(tx->resend.scratch);
	tx->resend.scratch = NULL;
	tx->resend.len = tx->resend.off = 0;
	tx->resend.pos = tx->pos;
	tx->state = RSK_TX_TCP;
	tx->peer_fell_back = true;
	rsk_tx_fin_done(tx);
}

int rsk_stream_give_owed(struct rsk_stream *s, int fd, enum rsk_deferred_posts how, int until)
{
	struct rsk_tx *tx = &s->tx;
	struct rsk_relay *r;
	int rc;

	if (!rsk_tx_retransmits(tx) || tx->passed_on || rsk_stream_failed(s))
		return 0;
	if (!rsk_helper_few(OWED_MOST))
		return -EAGAIN;
	r = rsk_relay_new((size_t)(tx->pos - tx->resend.pos));
	if (!r)
		return -ENOMEM;
	rc = rsk_tx_relay_plan(tx, r, (size_t)(tx->pos - tx->resend.pos));
	r->fin = how == RSK_OWED_SHUT || tx->fin == RSK_FIN_DUE;
	if (rc == 0)
		rc = rsk_relay_start_owed(r, fd, until);
	if (rc == 0) {
		rsk_log(RSK_LOG_INFO, "fd %d: %zu bytes are repeated by another process", fd,
			r->up_bytes);
		/* the other process has it now, and this one may close it */
		rsk_resets(s, fd, RSK_RESETS_OWED, false);
		/* Threads go on until the process has ended. */
		if (how != RSK_OWED_ENDING)
			rsk_tx_relay_done(tx);
		tx->passed_on = how != RSK_OWED_CLOSED;
	}
	rsk_relay_free(r);
	return rc;
}
