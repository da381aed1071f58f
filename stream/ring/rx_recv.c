// SPDX-License-Identifier: BSD-2-Clause
/*
 * rx_recv.c - the receiving machine's bytes: in order from both paths, and the end or the error
 * after them. See rsk_rx_recv() in rx.h.
 */
#include <errno.h>
#include <sys/socket.h>

#include "arena.h"
#include "rx_parts.h"
#include "touch.h"

#define TCP_RUNS 64 /* entries of a vector that one read of the TCP socket fills */
/*
 * Changes of path in one call. A correct sender makes a few. One that answers each of our words at
 * once must not keep the caller here: the caller waits, or calls again, as if nothing had arrived.
 */
#define TURNS 64

static ssize_t take_hold(struct rsk_rx *rx, struct rsk_iovcur *dst, bool peek)
{
	size_t n = rx->overread.len - rx->overread.off;

	if (n > dst->left)
		n = dst->left;
	if (!rsk_touch_scatters(dst, n))
		return -EFAULT;
	rsk_iovcur_scatter(dst, rx->overread.bytes + rx->overread.off, n);
	if (!peek) {
		rx->overread.off += n;
		rx->pos += n;
		if (rx->overread.off == rx->overread.len)
			rsk_rx_free_overread(rx);
	}
	return (ssize_t)n;
}

/*
 * The switch position turned out to be below what this read returned: the bytes after it were
 * written after a FALLBACK_TX, and come after ring data that was not read yet. Keeps them in the
 * overread buffer until then. @at: the vector before the read of @n bytes.
 */
static ssize_t take_back(struct rsk_rx *rx, struct rsk_iovcur at, ssize_t n)
{
	size_t over = (size_t)(rx->pos - rx->switch_at.pos);

	if (over > (size_t)n)
		return rsk_rx_refuse(rx);
	rx->overread.bytes = rsk_arena_alloc_raw(over);
	if (!rx->overread.bytes) {
		rsk_rx_refuse(rx);
		return -ENOMEM;
	}
	rsk_iovcur_run(&at, &(uint8_t *){ NULL });
	rsk_iovcur_advance(&at, (size_t)n - over);
	rsk_iovcur_gather(&at, rx->overread.bytes, over);
	rx->overread.len = over;
	rx->overread.off = 0;
	rx->pos = rx->switch_at.pos;
	rsk_rx_arrive(rx);
	return n - (ssize_t)over;
}

/*
 * Resolves a fallback race: has the sender applied our FALLBACK_RX? The sender says so before it
 * retransmits, so its control word decides as soon as a byte can be read. Bytes that come twice are
 * dropped. Returns 1: continue reading; 0: end; -errno.
 */
static ssize_t settle_fallback_race(struct rsk_rx *rx, struct rsk_tcp *c)
{
	uint8_t scratch[1024];
	struct iovec iov = { scratch, 1 };
	ssize_t n;

	if (rsk_rx_in_race(rx)) {
		n = c->ops->recv(c, &iov, 1, 1, MSG_PEEK);
		if (n <= 0)
			return n;
		n = rsk_rx_take_word(rx);
		if (n < 0)
			return n;
		if (rx->fallback.step == RSK_FALLBACK_APPLIED) {
			rx->skip = rx->pos - rx->fallback.pos;
			rx->ring_bytes -= rx->skip;
		}
		rx->fallback.step = RSK_FALLBACK_NONE;
	}
	iov.iov_len = sizeof(scratch);
	while (rx->skip) {
		n = c->ops->recv(c, &iov, 1,
				 rx->skip < sizeof(scratch) ? rx->skip : sizeof(scratch), 0);
		if (n <= 0)
			return n;
		rx->skip -= (uint64_t)n;
	}
	return 1;
}

/*
 * The rest of a vector whose first entry was filled in part, as another vector. Returns the number
 * of entries.
 */
static int rest_of(const struct rsk_iovcur *dst, struct iovec iov[static TCP_RUNS])
{
	struct rsk_iovcur at = *dst;
	uint8_t *p = NULL;
	int runs = 0;

	while (runs < TCP_RUNS && (iov[runs].iov_len = rsk_iovcur_run(&at, &p)) > 0) {
		iov[runs].iov_base = p;
		rsk_iovcur_advance(&at, iov[runs++].iov_len);
	}
	return runs;
}

static ssize_t recv_tcp(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst, bool peek)
{
	struct rsk_iovcur before = *dst;
	struct iovec iov[TCP_RUNS];
	size_t cap = dst->left;
	uint8_t byte;
	ssize_t n;

	if ((rsk_rx_in_race(rx) || rx->skip) && rx->state == RSK_RX_TCP) {
		n = settle_fallback_race(rx, c);
		if (n <= 0)
			return n;
	}
	if (rx->overread.len && rx->state != RSK_RX_ONRING)
		return take_hold(rx, dst, peek);
	/*
	 * An error of a send, or one that came after what is in the overread file (over.h): bytes
	 * come first, unless some before them are lost. A peek takes the error too.
	 */
	if (rx->tcp.err && (rx->rail_loss.lost ||
			    c->ops->recv(c, &(struct iovec){ &byte, 1 }, 1, 1, MSG_PEEK) <= 0))
		return rsk_rx_take_error(rx);
	if (rx->state == RSK_RX_DRAIN_TCP && cap > rx->switch_at.pos - rx->pos)
		cap = rx->switch_at.pos - rx->pos;
	if (dst->off)
		n = c->ops->recv(c, iov, rest_of(dst, iov), cap, peek ? MSG_PEEK : 0);
	else
		n = c->ops->recv(c, dst->v, dst->n, cap, peek ? MSG_PEEK : 0);
	if (n <= 0) {
		rsk_rx_told(rx, (int)n);
		return n;
	}
	if (peek) {
		if (rx->state == RSK_RX_WATCH) {
			int rc = rsk_rx_take_word(rx);

			if (rc < 0)
				return rc;
			if (rx->state == RSK_RX_DRAIN_TCP && rx->pos > rx->switch_at.pos)
				return rsk_rx_refuse(rx);
			if (rx->state == RSK_RX_DRAIN_TCP &&
			    (uint64_t)n > rx->switch_at.pos - rx->pos)
				n = (ssize_t)(rx->switch_at.pos - rx->pos);
		}
		rsk_iovcur_advance(dst, (size_t)n);
		rsk_rx_arrive(rx);
		return n;
	}
	rx->pos += (uint64_t)n;
	if (rx->state == RSK_RX_WATCH) {
		/* The ring may have been announced during the read. */
		int rc = rsk_rx_take_word(rx);

		if (rc < 0)
			return rc;
		if (rx->state == RSK_RX_DRAIN_TCP && rx->pos > rx->switch_at.pos)
			n = take_back(rx, before, n);
	}
	if (n > 0)
		rsk_iovcur_advance(dst, (size_t)n);
	rsk_rx_arrive(rx);
	return n;
}

/*
 * Peeks after bytes that this call already has. An error of the TCP socket stays pending, or is
 * kept.
 */
static ssize_t peek_more(struct rsk_rx *rx, struct rsk_tcp *c, const struct iovec *iov, int n,
			 size_t cap)
{
	ssize_t got;

	if (c->ops->errs && c->ops->errs(c))
		return 0;
	got = c->ops->recv(c, iov, n, cap, MSG_PEEK);
	if (got < 0 && got != -EAGAIN && got != -EINTR && got != -EFAULT && !rx->tcp.err)
		rx->tcp.err = (int)got;
	return got;
}

/* Peeks at the socket's bytes that follow all of the ring's, when the sender has fallen back. */
static ssize_t peek_behind(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst)
{
	size_t total = rx->overread.len - rx->overread.off;
	struct iovec iov[TCP_RUNS];
	ssize_t n;
	int runs;

	if (rsk_rx_in_race(rx) || rx->skip)
		return 0;
	if (total > dst->left)
		total = dst->left;
	if (!rsk_touch_scatters(dst, total))
		return 0;
	if (total)
		rsk_iovcur_scatter(dst, rx->overread.bytes + rx->overread.off, total);
	/* In one call: a second peek would begin at the same byte. */
	runs = rest_of(dst, iov);
	if (!runs)
		return (ssize_t)total;
	n = peek_more(rx, c, iov, runs, dst->left);
	if (n <= 0)
		return (ssize_t)total;
	rsk_iovcur_advance(dst, (size_t)n);
	return (ssize_t)total + n;
}

/*
 * As peek_behind(), when @n bytes of the TCP socket, copied to @at, are not consumed either. A peek
 * begins at the first of them, so they are copied once more.
 */
static ssize_t peek_behind_all(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst,
			       struct rsk_iovcur at, size_t n)
{
	struct iovec iov[TCP_RUNS], rest[TCP_RUNS];
	int runs, more, i;
	size_t left = n;
	ssize_t got;

	if (rsk_rx_in_race(rx) || rx->skip || rx->overread.len)
		return 0;
	runs = rest_of(&at, iov);
	for (i = 0; i < runs && left; i++) {
		if (iov[i].iov_len > left)
			iov[i].iov_len = left;
		left -= iov[i].iov_len;
	}
	more = rest_of(dst, rest);
	for (runs = 0; !left && runs < more && i < TCP_RUNS; runs++)
		iov[i++] = rest[runs];
	if (!runs)
		return 0;
	got = peek_more(rx, c, iov, i, n + dst->left);
	if (got <= (ssize_t)n)
		return 0;
	rsk_iovcur_advance(dst, (size_t)got - n);
	return got - (ssize_t)n;
}

/*
 * Peeks at the socket's bytes. If those are all the bytes before the ring, the ring's bytes follow,
 * and after them what the sender has sent by TCP since it left the ring.
 */
static ssize_t peek_tcp(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst)
{
	struct rsk_iovcur at = *dst;
	ssize_t n = recv_tcp(rx, c, dst, true), more;
	bool command;

	if (n <= 0 || rx->state != RSK_RX_DRAIN_TCP || !dst->left ||
	    (uint64_t)n != rx->switch_at.pos - rx->pos)
		return n;
	more = rsk_rx_peek_ring(rx, dst, &command);
	if (more >= 0 && command && dst->left)
		more += peek_behind_all(rx, c, dst, at, (size_t)n);
	return more > 0 ? n + more : n;
}

/* FIN was read from the ring, but bytes before it are still in the overread file (over.h). */
static bool ahead(struct rsk_tcp *c)
{
	return c->ops->ahead && c->ops->ahead(c);
}

/* @total: bytes that this call already has. */
static ssize_t recv_on(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst, bool peek,
		       bool look, size_t total)
{
	bool looked = false, command;

	for (int turn = 0; turn < TURNS; turn++) {
		ssize_t n;
		int rc = rsk_rx_on_fast_path(rx) ? 0 : rsk_rx_serve(rx, c);

		if (rc < 0)
			return total ? (ssize_t)total : rc;
		if (!dst->left)
			return (ssize_t)total;
		if (__builtin_expect(rsk_rx_is_quiesced(rx), 0))
			return total ? (ssize_t)total : -EAGAIN;
		if (rx->partial.len || rx->state == RSK_RX_ONRING) {
			if (peek) {
				n = rsk_rx_peek_ring(rx, dst, &command);
				if (n > 0 && command && dst->left)
					n += peek_behind(rx, c, dst);
				if (n > 0 || total)
					return (ssize_t)total + (n > 0 ? n : 0);
				if (n == 0)
					n = rsk_rx_run_commands(rx);
			} else {
				n = rsk_rx_recv_ring(rx, dst);
			}
			if (n < 0)
				return total ? (ssize_t)total : n;
			total += (size_t)n;
			if (rx->state != RSK_RX_ONRING)
				continue; /* fallen back: the TCP socket has the rest */
			if (total)
				return (ssize_t)total;
			if (rx->fin)
				return ahead(c) ? recv_tcp(rx, c, dst, peek) : 0;
			rsk_rx_look_ahead(rx);
			/*
			 * A slot whose hash is not right yet. An end or an error is reported below.
			 */
			if (peek && !rx->rail_loss.lost && !rx->tcp.err && !rsk_rx_ended(rx) &&
			    rsk_rx_ready(rx))
				return -EAGAIN;
			rc = looked ? rsk_rx_left_without_a_word(rx, c) : 0;
			if (rc < 0)
				return rc;
			if (rc)
				continue;
			if (looked)
				return rsk_rx_ring_at_end(rx);
			if (!look && !rx->rail_loss.lost && !rx->tcp.eof && !rx->tcp.err)
				return -EAGAIN;
			looked = true;
			if (!rsk_rx_ask_tcp(rx, c))
				return -EAGAIN;
			continue;
		}
		if (total && !rx->overread.len) {
			/*
			 * Do not lose an error or end of the TCP socket after bytes already taken.
			 * An end that was seen before may be due to our own SHUT_RD, and bytes have
			 * arrived after it.
			 */
			rx->tcp.eof = rx->tcp.eof && rx->tcp.err_told;
			/*
			 * The error is not taken: whichever process has the socket by then gets it,
			 * for one call.
			 */
			if (!rx->tcp.err && c->ops->errs && c->ops->errs(c))
				return (ssize_t)total;
			rsk_rx_ask_tcp(rx, c);
			if (rx->tcp.eof || rx->tcp.err || (c->ops->at_mark && c->ops->at_mark(c)))
				return (ssize_t)total;
		}
		if (rsk_rx_unreported(rx))
			return total ? (ssize_t)total : rsk_rx_before_report(rx, c);
		n = peek ? peek_tcp(rx, c, dst) : recv_tcp(rx, c, dst, false);
		if (n > 0) {
			total += (size_t)n;
			if (peek || rx->state != RSK_RX_ONRING)
				return (ssize_t)total;
			continue;
		}
		if (n == 0 && rx->state == RSK_RX_ONRING)
			continue; /* all of it went into the overread buffer */
		if (total) {
			rsk_rx_keep_error(rx, n);
			return (ssize_t)total;
		}
		/* Nothing, or the end, unless the ring was announced just before. */
		if ((n == 0 || n == -EAGAIN) && rx->state == RSK_RX_WATCH) {
			rc = rsk_rx_take_word(rx);
			if (rc < 0)
				return rc;
			if (rx->state != RSK_RX_WATCH)
				continue;
		}
		return n == 0 ? rsk_rx_tcp_at_end(rx, c) : n;
	}
	return total ? (ssize_t)total : -EAGAIN;
}

ssize_t rsk_rx_recv(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst, bool peek,
		    bool look)
{
	return recv_on(rx, c, dst, peek, look, 0);
}

ssize_t rsk_rx_recv_rest(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst, size_t got)
{
	return recv_on(rx, c, dst, false, false, got);
}
