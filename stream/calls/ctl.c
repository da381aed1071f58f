// SPDX-License-Identifier: BSD-2-Clause
/*
 * ctl.c - the small calls on a paired stream: shutdown, queue lengths, the pending error, TCP_INFO.
 * The hooks call it by way of engine.h.
 */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "engine.h"
#include "recovery.h"
#include "over.h"
#include "rdma.h"
#include "relay.h"
#include "stream.h"

/*
 * An end that is shut both ways answers data with a reset, which only the kernel can send: so the
 * peer's sender is asked to use TCP. This is done before the kernel's shutdown, so that a thread
 * that has seen the shutdown does not find the ring any more. tx_lock is held.
 */
static bool shuts_both(struct rsk_stream *s, int how)
{
	if (how != SHUT_RDWR && !(how == SHUT_RD && atomic_load(&s->wr_shut)) &&
	    !(how == SHUT_WR && atomic_load(&s->rd_shut)))
		return false;
	rsk_lock(&s->rx_lock);
	rsk_rx_stay_off(&s->rx, true);
	rsk_unlock(&s->rx_lock);
	return true;
}

/* Records what the kernel did: @rc of shutdown(2). tx_lock is held. */
static void note_shut(struct rsk_stream *s, struct rsk_tcp *c, int how, int rc)
{
	if (rc == 0 && how != SHUT_RD) {
		atomic_store(&s->wr_shut, 1);
		rsk_tx_fin(&s->tx, c);
	}
	if (rc == 0 && how != SHUT_WR) {
		atomic_store(&s->rd_shut, 1);
		rsk_lock(&s->rx_lock);
		rsk_rx_owe_is_moot(&s->rx);
		rsk_unlock(&s->rx_lock);
	}
}

#define WORD_WAIT_NS 200000000ull

/*
 * The receiver has just ended the promotion, and has not announced yet how far it has read: the end
 * can only follow that in order. The receiver is inside a call; if it dies before the announcement,
 * no byte that it could read is lost.
 */
static void await_word(struct rsk_stream *s, struct rsk_tcp *c)
{
	uint64_t until = 0;

	for (;;) {
		bool coming;

		rsk_lock(&s->tx_lock);
		rsk_tx_serve(&s->tx, c);
		coming = s->tx.state == RSK_TX_ONRING && rsk_tx_owes(&s->tx);
		rsk_unlock(&s->tx_lock);
		if (!coming || s->link->remote || (until && rsk_now_ns() >= until))
			return;
		if (!until)
			until = rsk_now_ns() + WORD_WAIT_NS;
		rsk_sys_ppoll(NULL, 0, &(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

/*
 * True: the kernel's FIN has to wait. Between hosts the ring's FIN is put first, and the bytes
 * before it have to arrive. If the ring does not even take it now, it is another process's. tx_lock
 * is held.
 */
static bool waits(struct rsk_stream *s, struct rsk_tcp *c)
{
	if (!s->link->remote || rsk_tx_owes(&s->tx))
		return rsk_tx_owes(&s->tx);
	rsk_tx_fin(&s->tx, c);
	return s->tx.state != RSK_TX_ONRING && rsk_tx_fin_waits(&s->tx);
}

/* False: the socket was reset, or shut both ways, and accepts nothing any more. */
static bool takes_more(int fd)
{
	struct pollfd p = { .fd = fd };

	return rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) == 0;
}

/*
 * Bytes are still to be repeated by TCP, which has no room for them, or may have to be, since they
 * are in flight by a rail. The program sees this direction shut at once; the kernel shuts it when
 * they are sent, or have arrived. Until then another process holds the socket, or, between hosts,
 * the progress thread does. tx_lock is held.
 */
static int shut_later(struct rsk_stream *s, struct rsk_tcp *c, int how)
{
	int rc = how == SHUT_RDWR ? rsk_sys_shutdown(c->fd, SHUT_RD) : 0;

	if (rc < 0)
		return rc;
	rsk_tx_fin_later(&s->tx);
	if (!s->link->remote)
		rsk_stream_give_owed(s, c->fd, RSK_OWED_SHUT, -1);
	return 0;
}

/*
 * If the program makes no further call, no thread would check whether the bytes have arrived: the
 * kernel's FIN is sent now.
 */
static void shut_now(struct rsk_stream *s, int fd)
{
	rsk_lock(&s->tx_lock);
	if (s->tx.fin == RSK_FIN_DUE && !rsk_tx_owes(&s->tx)) {
		rsk_tx_fin_done(&s->tx);
		rsk_sys_shutdown(fd, SHUT_WR);
	}
	rsk_unlock(&s->tx_lock);
}

int rsk_op_shutdown(struct rsk_op *op, int how)
{
	struct rsk_stream *s = op->s;
	struct rsk_kernel_tcp k;
	bool both, later;
	int rc;

	if (!s)
		return -EBADF;
	rsk_kernel_tcp_init(&k, s, op->fd);
	if (how != SHUT_RD)
		await_word(s, &k.c);
	rsk_sigdefer_enter();
	rsk_lock(&s->tx_lock);
	both = shuts_both(s, how);
	later = how != SHUT_RD && takes_more(op->fd) && waits(s, &k.c);
	/*
	 * The kernel's FIN is sent first: a thread that learns of the end by the ring finds the
	 * socket in that state.
	 */
	rc = later ? shut_later(s, &k.c, how) : rsk_sys_shutdown(op->fd, how);
	note_shut(s, &k.c, how, rc);
	if (rc < 0 && both) {
		rsk_lock(&s->rx_lock);
		rsk_stream_stay_off(s);
		rsk_unlock(&s->rx_lock);
	}
	rsk_unlock(&s->tx_lock);
	rsk_stream_notify(s, RSK_WAKE_RX | (both ? RSK_WAKE_TX : 0));
	if (later && s->link->remote && !rsk_recovery_linger_add(s, op->fd))
		shut_now(s, op->fd);
	if (later)
		rsk_recovery_stir(s); /* wakes threads of ours that the kernel would wake */
	/*
	 * A thread that the kernel's shutdown woke before it was recorded here sleeps again. On one
	 * host the TCP socket's end was the end for it; between hosts it may be ahead of the
	 * ring's.
	 */
	if (rc == 0 && s->link->remote)
		rsk_rdma_news(NULL, s->link, s->sid, RSK_WAKE_RX | RSK_WAKE_TX);
	rsk_sigdefer_exit();
	return rc;
}

static int inq(uint64_t n)
{
	return (int)(n < INT32_MAX ? n : INT32_MAX);
}

bool rsk_op_inq_alone(struct rsk_op *op, int *value)
{
	struct rsk_stream *s = op->s;
	bool alone = false;
	uint64_t n = 0;

	if (!s || rsk_stream_failed(s) || atomic_load_explicit(&s->tcp_news, memory_order_relaxed))
		return false;
	rsk_lock(&s->rx_lock);
	if (rsk_rx_on_fast_path(&s->rx))
		n = rsk_rx_pending(&s->rx, &alone);
	rsk_unlock(&s->rx_lock);
	if (alone)
		*value = inq(n);
	return alone;
}

void rsk_op_inq(struct rsk_op *op, int *value)
{
	struct rsk_stream *s = op->s;
	uint64_t n;

	if (!s)
		return;
	rsk_stream_serve(s, op->fd); /* a ring that was announced counts from now on */
	rsk_lock(&s->rx_lock);
	n = rsk_rx_pending(&s->rx, NULL) + rsk_over_unread(s);
	rsk_unlock(&s->rx_lock);
	*value = inq(n + (uint64_t)*value);
}

/*
 * SIOCOUTQ counts bytes that the peer's kernel has not received yet, read or not: zero on a fabric
 * where a put has landed when it returns; between hosts the bytes that the other device has not
 * acknowledged.
 */
void rsk_op_outq(struct rsk_op *op, int *value)
{
	struct rsk_stream *s = op->s;
	uint64_t n = 0;

	if (!s || (s->link->seg.rail.ops->caps & RSK_FABRIC_SYNC))
		return;
	rsk_lock(&s->tx_lock);
	n = rsk_tx_under_way(&s->tx);
	rsk_unlock(&s->tx_lock);
	*value += (int)n;
}

/*
 * The socket's error is reported once, by the call that comes first. @err: the kernel's error, 0:
 * none.
 */
static int tell_error(struct rsk_stream *s, int err)
{
	rsk_lock(&s->rx_lock);
	if (!err)
		err = -rsk_rx_take_error(&s->rx);
	else
		rsk_rx_told(&s->rx, -err);
	rsk_unlock(&s->rx_lock);
	return err;
}

void rsk_op_so_error(struct rsk_op *op, int *value)
{
	if (!op->s)
		return;
	*value = tell_error(op->s, *value);
	if (*value)
		rsk_stream_ask_end(op->s, op->fd);
}

int rsk_fd_pending_error(int fd)
{
	struct rsk_stream *s = rsk_stream_of(fd);
	socklen_t len = sizeof(int);
	int err = 0;

	if (rsk_sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = 0;
	if (s && s->link)
		err = tell_error(s, err);
	if (s && s->link && err)
		rsk_stream_ask_end(s, fd);
	if (s)
		rsk_stream_unpin(s);
	return -err;
}

static void tcp_info_add(struct tcp_info *ti, unsigned int len, struct rsk_stream *s)
{
	if (!s ||
	    len < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(ti->tcpi_bytes_received))
		return;
	ti->tcpi_bytes_acked += s->tx.ring_bytes;
	ti->tcpi_bytes_received += s->rx.ring_bytes;
}

void rsk_op_tcp_info(struct rsk_op *op, struct tcp_info *ti, unsigned int len)
{
	tcp_info_add(ti, len, op->s);
}

void rsk_fd_keep_error(int fd, int err)
{
	struct rsk_stream *s = rsk_stream_of(fd);

	if (!s)
		return;
	rsk_stream_keep_error(s, -err);
	rsk_stream_unpin(s);
}
