// SPDX-License-Identifier: BSD-2-Clause
/*
 * abort.c - connections that neither program ended: a reset by a firewall or an operator, a
 * keepalive timeout. The kernel knows at once; the ring does not. A call that is told takes the
 * sender off the ring, so that the next send() is told as well, or gets EPIPE; a thread that only
 * sends asks from time to time. The send, receive and poll code call it.
 */
#include <errno.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "log.h"
#include "rdma.h"
#include "stream.h"
#include "upcall.h"

void rsk_stream_hung_up(struct rsk_stream *s)
{
	rsk_lock(&s->tx_lock);
	/* Both ends shut, in order: what is in flight by the ring still arrives. */
	if (!atomic_load_explicit(&s->wr_shut, memory_order_relaxed) && s->tx.state != RSK_TX_TCP) {
		rsk_tx_to_tcp(&s->tx);
		rsk_stream_note(s, true, RSK_REASON_PEER_DEAD);
		rsk_tx_reader_gone(&s->tx, RSK_READER_CLOSED); /* nothing is repeated any more */
	}
	rsk_unlock(&s->tx_lock);
}

short rsk_stream_ends_shown(int fd)
{
	struct pollfd p = { .fd = fd };

	return rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0 ? p.revents : 0;
}

/*
 * The lock is needed because rsk_op_shutdown() records under it which shutdown the kernel was
 * given.
 */
bool rsk_stream_is_aborted(struct rsk_stream *s, int kernel)
{
	bool shut;

	if (!(kernel & POLLHUP))
		return false;
	rsk_lock(&s->tx_lock);
	shut = atomic_load_explicit(&s->wr_shut, memory_order_relaxed);
	rsk_unlock(&s->tx_lock);
	return !shut;
}

void rsk_stream_ask_end(struct rsk_stream *s, int fd)
{
	if (rsk_stream_is_aborted(s, rsk_stream_ends_shown(fd)))
		rsk_stream_hung_up(s);
}

/* ---- streams that the library ends ---- */

void rsk_stream_fail(struct rsk_stream *s, int fd)
{
	if (atomic_exchange_explicit(&s->failed, true, memory_order_relaxed))
		return;
	rsk_log(RSK_LOG_ERROR, "fd %d: the peer broke the rules, the stream ends", fd);
	rsk_stats_event(s->rec, rsk_now_ns(), RSK_EVENT_DEMOTED_RX, RSK_REASON_LINK_BROKEN);
	rsk_sys_shutdown(fd, SHUT_RDWR);
	/* Who waits for the sender's answer, or its report, does not watch the socket. */
	if (s->link && s->link->remote)
		rsk_rdma_news(NULL, s->link, s->sid, RSK_WAKE_RX | RSK_WAKE_TX);
}

void rsk_stream_abort(struct rsk_stream *s, int fd)
{
	static const struct sockaddr none = { .sa_family = AF_UNSPEC };

	rsk_log(RSK_LOG_ERROR, "fd %d: bytes cannot be delivered in order, the connection is reset",
		fd);
	rsk_sys_connect(fd, &none, sizeof(none));
	rsk_stream_fail(s, fd);
}

bool rsk_stream_reset(struct rsk_stream *s, int fd, int err, bool told)
{
	bool first;

	rsk_lock(&s->rx_lock);
	first = !s->rx.tcp.err_told && !s->rx.tcp.err;
	if (first && told)
		rsk_rx_told(&s->rx, err);
	else if (first)
		s->rx.tcp.err = err;
	rsk_unlock(&s->rx_lock);
	if (!first)
		return false; /* another thread has reported or seen it */
	rsk_lock(&s->tx_lock);
	rsk_tx_reader_gone(&s->tx, RSK_READER_CLOSED);
	rsk_tx_to_tcp(&s->tx);
	rsk_stream_note(s, true, RSK_REASON_PEER_DEAD);
	rsk_unlock(&s->tx_lock);
	atomic_store(&s->wr_shut, 1);
	rsk_sys_shutdown(fd, SHUT_RDWR);
	rsk_upcalls->changed(s); /* no waiter needs to wait for room any longer */
	return true;
}

void rsk_stream_lose(struct rsk_stream *s, int fd)
{
	bool ended;

	rsk_lock(&s->rx_lock);
	ended = rsk_rx_told_end(&s->rx);
	rsk_unlock(&s->rx_lock);
	/* tcp_reset(): after an end, the kernel refuses the sends. */
	if (!rsk_stream_reset(s, fd, ended ? -EPIPE : -ECONNRESET, false))
		return;
	rsk_log(RSK_LOG_INFO, "fd %d: bytes under way were lost with the peer, the stream ends",
		fd);
	rsk_stats_event(s->rec, rsk_now_ns(), RSK_EVENT_DEMOTED_RX, RSK_REASON_LINK_BROKEN);
}
