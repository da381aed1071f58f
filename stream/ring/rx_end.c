// SPDX-License-Identifier: BSD-2-Clause
/*
 * rx_end.c - the receiving machine when nothing more is there: is it the end of the stream, an
 * error, or are bytes missing before what the TCP socket has? rx_recv.c asks.
 */
#include <errno.h>
#include <sys/socket.h>

#include "rx_parts.h"

bool rsk_rx_ask_tcp(struct rsk_rx *rx, struct rsk_tcp *c)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };
	ssize_t n;

	if (rx->tcp.eof || rx->tcp.err)
		return true;
	n = c->ops->recv(c, &iov, 1, 1, MSG_PEEK);
	rx->tcp.ahead = n > 0;
	if (n == 0)
		rx->tcp.eof = true;
	else if (n < 0 && n != -EAGAIN && n != -EINTR)
		rx->tcp.err = (int)n;
	return rx->tcp.eof || rx->tcp.err || n > 0;
}

int rsk_rx_left_without_a_word(struct rsk_rx *rx, struct rsk_tcp *c)
{
	if (!rx->rail_loss.lost && rsk_rx_ahead(rx) && (rx->rail->ops->caps & RSK_FABRIC_SYNC) &&
	    c->ops->at_end && c->ops->at_end(c)) {
		rx->rail_loss.lost = true;
		return 1;
	}
	if (!rx->rail_loss.lost || rx->tcp.eof || rx->tcp.err)
		return 0;
	if ((rx->rail_loss.last_cell && rx->rail_loss.last_cell != rx->ring.next) ||
	    rsk_rx_is_damaged(rx) || rsk_rx_has_command(rx)) {
		/* What the TCP socket has is not read, also if no call has learnt of this yet. */
		rx->rail_loss.no_command = true;
		rx->rail_loss.owed = RSK_RX_OWED_UNKNOWN;
		return rsk_rx_refuse(rx);
	}
	rsk_rx_to_tcp(rx);
	rx->fell_back = true;
	return 1;
}

ssize_t rsk_rx_ring_at_end(struct rsk_rx *rx)
{
	if (rx->tcp.err)
		return rsk_rx_take_error(rx);
	if (!rsk_rx_ended(rx))
		return -EAGAIN;
	if (!rx->rail_loss.lost ||
	    (rx->rail_loss.last_cell && rx->rail_loss.last_cell == rx->ring.next))
		return 0;
	/*
	 * Neither FIN nor FALLBACK_TX: the sender died in the middle, and not all that it had put
	 * may have arrived.
	 */
	rx->rail_loss.lost = false;
	rsk_rx_to_tcp(rx);
	rx->fell_back = true;
	rsk_rx_told(rx, -ECONNRESET);
	return -ECONNRESET;
}

/*
 * The TCP socket has ended before all that the sender retransmits. Other processes may have read of
 * it, so only the kernel knows. An end that is this end's own shutdown says nothing of the sender.
 */
static bool is_early(const struct rsk_rx *rx, struct rsk_tcp *c)
{
	uint64_t own = rx->pos - rx->ring_bytes, all = own;

	if (c->ops->end_pos && c->ops->end_pos(c, &all) < 0)
		return false;
	return (own > all ? own : all) < rsk_rx_tcp_owed(rx);
}

ssize_t rsk_rx_tcp_at_end(struct rsk_rx *rx, struct rsk_tcp *c)
{
	rx->tcp.eof = true;
	/*
	 * Or the sender has gone to the ring before its end; then its control word, which is under
	 * way, says so.
	 */
	if (!rsk_rx_ended(rx))
		return -EAGAIN;
	if (rx->rail_loss.owed == RSK_RX_OWED_NOTHING || rx->tcp.err_told ||
	    (rx->rail_loss.owed == RSK_RX_OWED_TO && !is_early(rx, c)))
		return 0;
	rsk_rx_told(rx, -ECONNRESET);
	return -ECONNRESET;
}

ssize_t rsk_rx_before_report(struct rsk_rx *rx, struct rsk_tcp *c)
{
	bool some = rsk_rx_ask_tcp(rx, c); /* an end counts when the sender has reported */

	if (rx->tcp.err)
		return rsk_rx_take_error(rx);
	if (rx->tcp.eof && rx->tcp.err_told)
		return 0;
	if (!rx->rail_loss.lost || !(some || rx->overread.len))
		return -EAGAIN;
	return rx->tcp.eof && !rx->overread.len ? rsk_rx_tcp_at_end(rx, c) : rsk_rx_refuse(rx);
}

void rsk_rx_check_tcp(struct rsk_rx *rx, struct rsk_tcp *c)
{
	int rc = rsk_rx_ask_tcp(rx, c);

	while (rc > 0 && rx->state == RSK_RX_ONRING && !rsk_rx_ready(rx))
		rc = rsk_rx_left_without_a_word(rx, c);
	if (rc < 0)
		rx->tcp.err = -ECONNRESET;
}
