// SPDX-License-Identifier: BSD-2-Clause
/*
 * chunked_send.c - chunked send: one large blocking send on a stream that is not paired yet. In the
 * kernel it would be one call, all on TCP; rsk_op_send() sends it in chunks, and between two of
 * them the stream may be paired. The guarantee of a blocking send is kept: all bytes are sent, or
 * those before a signal, the timeout, or an error. op.c and send.c call it.
 */
#include <errno.h>
#include <poll.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "calls.h"
#include "engine.h"
#include "stream.h"
#include "operator_request.h"

#define PIECE_BYTES 262144u

bool rsk_op_chunked(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags)
{
	struct rsk_iovcur cur;

	if (!op->s || !op->counted)
		return false;
	if (iovcnt == 1 && iov->iov_len <= PIECE_BYTES)
		return false;
	rsk_iovcur_init(&cur, iov, iovcnt);
	return cur.left > PIECE_BYTES && rsk_op_in_chunks(op, cur.left, flags);
}

bool rsk_op_in_chunks(struct rsk_op *op, size_t bytes, int flags)
{
	struct rsk_stream *s = op->s;

	if ((flags & ~(MSG_NOSIGNAL | MSG_MORE)) || atomic_load(&s->nonblock) || !bytes)
		return false;
	/*
	 * Another thread may close the number between two chunks. The kernel holds the file for the
	 * time of its one call; where no descriptor is left to do the same, it makes the call.
	 */
	if (!__libc_single_threaded) {
		int copy = rsk_own_fd_copy(op->fd);

		if (copy < 0)
			return false;
		if (!rsk_fd_names(op->fd, s)) {
			rsk_own_close(copy);
			return false;
		}
		op->copy = copy;
	}
	rsk_op_uncount(op);
	return true;
}

/* The beginning of @iov. */
static ssize_t send_chunk(struct rsk_kernel_tcp *k, const struct iovec *iov, int flags)
{
	struct rsk_stream *s = k->s;

	if (__builtin_expect(atomic_load_explicit(&s->syn.asked, memory_order_relaxed), 0) &&
	    !(flags & MSG_MORE)) {
		ssize_t n = rsk_shown_chunk(s, k->c.fd, iov, MSG_DONTWAIT | MSG_NOSIGNAL, true);

		if (n > 0) {
			atomic_fetch_add_explicit(&s->tcp_bytes.tx, (uint64_t)n,
						  memory_order_relaxed);
			rsk_stats_add_shared(&s->rec->tx_tcp_bytes, (uint64_t)n);
			rsk_stats_add_shared(&s->rec->tx_tcp_calls, 1);
		}
		if (n != -RSK_EKERNEL)
			return n;
	}
	return k->c.ops->send(&k->c, iov, 1,
			      iov->iov_len < PIECE_BYTES ? iov->iov_len : PIECE_BYTES, flags);
}

ssize_t rsk_chunked_send(struct rsk_stream *s, int fd, struct rsk_iovcur *src, int flags, int pid)
{
	struct pollfd look = { .fd = fd, .events = POLLOUT };
	struct rsk_kernel_tcp k;
	uint8_t *p = NULL;
	struct iovec iov;
	ssize_t n;

	/*
	 * An error that came after the first chunk is reported by the next call: this one must not
	 * take it.
	 */
	if (pid && rsk_sys_ppoll(&look, 1, &(struct timespec){ 0 }, NULL) > 0 &&
	    (look.revents & (POLLERR | POLLHUP)))
		return -EPIPE;
	/* Counted as in rsk_op_begin(), for this chunk alone. */
	atomic_fetch_add(&s->plain.tx, 1);
	atomic_thread_fence(memory_order_seq_cst);
	if (rsk_stream_phase(s) == RSK_PHASE_PAIRED) {
		atomic_fetch_sub(&s->plain.tx, 1);
		return -ESTALE;
	}
	iov.iov_len = rsk_iovcur_run(src, &p);
	iov.iov_base = p;
	rsk_kernel_tcp_init(&k, s, fd);
	/* A handler that forks runs before the check, or after the chunk. */
	rsk_sigdefer_enter();
	if (pid && rsk_pid != pid)
		n = -ECHILD;
	else
		n = send_chunk(&k, &iov, flags);
	rsk_sigdefer_exit();
	atomic_fetch_sub(&s->plain.tx, 1);
	if (n > 0) {
		rsk_iovcur_advance(src, (size_t)n);
		rsk_op_moved(s, fd, (uint64_t)n);
		rsk_stream_check_request(s, fd);
	}
	return n;
}
