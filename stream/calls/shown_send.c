// SPDX-License-Identifier: BSD-2-Clause
/*
 * shown_send.c - shown send: a small send on a stream that is not paired yet, by which the
 * connecting end finds out what its first segment was (syn.h), since rsockd knows of an end in
 * another network namespace to which the stream may lead. It is the program's own call, with its
 * flags. op.c decides it, send.c calls it.
 */
#include <sys/socket.h>

#include "calls.h"
#include "engine.h"
#include "pairing.h"
#include "stream.h"
#include "syn.h"

#define SHOWS_MOST 8 /* sends that are tried */

static bool can_be_seen(const struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags)
{
	struct rsk_iovcur cur;

	if (flags & ~(MSG_NOSIGNAL | MSG_DONTWAIT))
		return false;
	rsk_iovcur_init(&cur, iov, iovcnt);
	return cur.left && cur.left <= RSK_SYN_SEND_BYTES && rsk_stream_sole_process(op->s);
}

/* rsockd is asked again, now with what it wants to know. */
static void learned(struct rsk_stream *s, const struct rsk_syn *syn)
{
	rsk_pairing_take();
	s->syn.is = *syn;
	s->pairing.answer.asked_daemon = 0;
	rsk_pairing_give();
}

ssize_t rsk_shown_send(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags)
{
	struct rsk_stream *s = op->s;
	uint8_t asked = RSK_SYN_ASKED, then = RSK_SYN_NOT_ASKED;
	struct rsk_syn syn;
	bool late;
	ssize_t n;

	if (!can_be_seen(op, iov, iovcnt, flags))
		return -RSK_EKERNEL;
	/* One thread tries. */
	if (!atomic_compare_exchange_strong(&s->syn.asked, &asked, RSK_SYN_NOT_ASKED)) {
		if (asked == RSK_SYN_LATE && rsk_syn_take_late(op->fd))
			atomic_store(&s->syn.asked, RSK_SYN_NOT_ASKED);
		return -RSK_EKERNEL;
	}
	n = rsk_syn_send(s, op->fd, iov, iovcnt, flags, &syn, &late);
	if (late)
		then = RSK_SYN_LATE;
	else if (syn.n)
		learned(s, &syn);
	else if (n == -RSK_EKERNEL || (n > 0 && ++s->syn.shows < SHOWS_MOST))
		then = RSK_SYN_ASKED;
	if (then)
		atomic_store(&s->syn.asked, then);
	return n;
}
