// SPDX-License-Identifier: BSD-2-Clause
/*
 * shown_send.c - shown send: a send on a stream that is not paired yet, by which the connecting end
 * finds out what its first segment was (syn.h), since rsockd knows of an end in another network
 * namespace to which the stream may lead. It is the program's own call, with its flags; of a large
 * one, its first bytes. op.c decides it, send.c calls it.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "calls.h"
#include "engine.h"
#include "pairing.h"
#include "stream.h"
#include "syn.h"

#define SHOWS_MOST 64 /* sends that are tried */
#define REST_TRIES 40 /* of a call that may wait */
#define REST_TRIES_FEW 2
#define REST_NS 100000
#define NEAR_US 1000 /* a round trip within a host */

/*
 * A program that sends without a pause never comes to the moment in which all is acknowledged, as
 * syn.h needs it: it waits for that, if that is a matter of microseconds: 4 ms at most, or a few
 * tries in a call that is not to wait.
 */
static void wait_for_rest(int fd, bool may_wait)
{
	int tries = may_wait ? REST_TRIES : REST_TRIES_FEW;

	if (!rsk_syn_is_near(fd, NEAR_US))
		return;
	for (; tries && rsk_kernel_unacked(fd); tries--) {
		struct timespec pause = { .tv_nsec = REST_NS }; /* the kernel changes it */

		rsk_sys_ppoll(NULL, 0, &pause, NULL);
	}
}

/*
 * @sent bytes were sent to show them: the kernel does the rest, so that the call sends as much as
 * it would have, and the kernel knows if it had no room. An error there is for the next call to
 * report, as it would be in one call.
 */
static ssize_t send_rest(struct rsk_op *op, struct rsk_iovcur *cur, ssize_t sent, int flags)
{
	rsk_iovcur_advance(cur, (size_t)sent);
	while (cur->left) {
		struct iovec iov = { 0 };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
		uint8_t *p = NULL;
		ssize_t n;

		iov.iov_len = rsk_iovcur_run(cur, &p);
		iov.iov_base = p;
		n = rsk_sys_sendmsg(op->fd, &m, flags | MSG_NOSIGNAL);
		if (n == -EAGAIN)
			break;
		if (n <= 0) {
			rsk_fd_keep_error(op->fd, (int)-n);
			break;
		}
		rsk_iovcur_advance(cur, (size_t)n);
		sent += n;
	}
	return sent;
}

/* rsockd is asked again, now with what it wants to know. */
static void learned(struct rsk_stream *s, const struct rsk_syn *syn)
{
	rsk_pairing_take();
	s->syn.is = *syn;
	s->pairing.answer.asked_daemon = 0;
	s->pairing.answer.told = 0; /* not given up before it answers to this */
	rsk_pairing_give();
}

/* One try. The reading lock. */
static ssize_t try(struct rsk_stream *s, int fd, const struct iovec *iov, int iovcnt, int flags,
		   struct rsk_syn *syn)
{
	uint8_t asked = atomic_load(&s->syn.asked), then = RSK_SYN_NOT_ASKED;
	ssize_t n = -RSK_EKERNEL;
	bool late = false;

	if (asked == RSK_SYN_ASKED)
		n = rsk_syn_send(s, fd, iov, iovcnt, flags, syn, &late);
	else if (asked == RSK_SYN_LATE)
		rsk_syn_take_late(s, fd);
	if (!syn->n && ++s->syn.shows < SHOWS_MOST)
		then = late ? RSK_SYN_LATE : atomic_load(&s->syn.asked);
	atomic_store(&s->syn.asked, then);
	return n;
}

static ssize_t show(struct rsk_stream *s, int fd, const struct iovec *iov, int iovcnt, int flags)
{
	struct rsk_syn syn = { 0 };
	ssize_t n;

	if (!rsk_stream_sole_process(s) || !rsk_syn_reading_try())
		return -RSK_EKERNEL;
	n = try(s, fd, iov, iovcnt, flags, &syn);
	rsk_syn_reading_end();
	if (syn.n)
		learned(s, &syn);
	return n;
}

ssize_t rsk_shown_chunk(struct rsk_stream *s, int fd, const struct iovec *iov, int flags,
			bool may_wait)
{
	const struct iovec piece = { iov->iov_base, iov->iov_len < RSK_SYN_SEND_BYTES ?
							    iov->iov_len :
							    RSK_SYN_SEND_BYTES };

	if (atomic_load(&s->syn.asked) == RSK_SYN_ASKED)
		wait_for_rest(fd, may_wait);
	return show(s, fd, &piece, 1, flags);
}

ssize_t rsk_shown_send(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags)
{
	struct rsk_iovcur cur;
	struct iovec first = { 0 };
	uint8_t *p = NULL;
	ssize_t n;

	rsk_iovcur_init(&cur, iov, iovcnt);
	if (cur.left > RSK_SYN_SEND_BYTES && rsk_op_in_chunks(op, cur.left, flags))
		return 0;
	if (!cur.left || (flags & ~(MSG_NOSIGNAL | MSG_DONTWAIT)))
		return -RSK_EKERNEL;
	if (cur.left <= RSK_SYN_SEND_BYTES) {
		n = show(op->s, op->fd, iov, iovcnt, flags);
	} else {
		if (!(flags & MSG_DONTWAIT) && !atomic_load(&op->s->nonblock))
			return -RSK_EKERNEL;
		first.iov_len = rsk_iovcur_run(&cur, &p);
		first.iov_base = p;
		n = rsk_shown_chunk(op->s, op->fd, &first, flags, false);
	}
	return n > 0 && (size_t)n < cur.left ? send_rest(op, &cur, n, flags) : n;
}
