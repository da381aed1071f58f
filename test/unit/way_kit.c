// SPDX-License-Identifier: BSD-2-Clause
/* way_kit.c - see way_kit.h. */
#include "way_kit.h"

#include <sys/socket.h>

struct world w;

static ssize_t wire_send(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags)
{
	uint64_t unread = w.wire.in - w.wire.out;

	if (w.wire.shuts)
		return -EPIPE;
	if (w.wire.narrow && w.wire.room - unread < cap)
		cap = w.wire.room - unread;
	if (!cap)
		return -EAGAIN;
	w.wire.in += cap;
	return (ssize_t)cap;
}

static int wire_fin(struct rsk_tcp *c)
{
	if (w.wire.not_mine)
		return -EBADF;
	w.wire.shuts++;
	w.wire.end = true;
	return 0;
}

static ssize_t wire_recv(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags)
{
	uint64_t there = w.wire.in - w.wire.out;
	size_t left;

	if (!there && w.wire.err && w.wire.err_late && --w.wire.err_late == 0) {
		int err = w.wire.err;

		w.wire.err = 0;
		w.wire.end = true;
		return err;
	}
	if (!there && w.wire.err && !w.wire.err_late)
		return w.wire.err;
	if (!there)
		return w.wire.end ? 0 : -EAGAIN;
	cap = cap < there ? cap : there;
	for (left = cap; n > 0 && left; n--, iov++) {
		size_t run = left < iov->iov_len ? left : iov->iov_len;

		memset(iov->iov_base, 'c', run);
		left -= run;
	}
	cap -= left;
	if (!(flags & MSG_PEEK))
		w.wire.out += cap;
	return (ssize_t)cap;
}

static int wire_end_pos(struct rsk_tcp *c, uint64_t *pos)
{
	*pos = w.wire.in;
	return w.wire.end && !w.wire.own_end ? 0 : -EAGAIN;
}

static int wire_tx_pos(struct rsk_tcp *c, uint64_t *pos)
{
	*pos = w.wire.in;
	return 0;
}

static int wire_rx_pos(struct rsk_tcp *c, uint64_t *pos)
{
	*pos = w.wire.out;
	return 0;
}

static int put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	int peer = rail == &w.rail[0];

	if (w.mute)
		return RSK_RAIL_MUTE;
	if (!w.dark)
		memcpy(w.segment[peer] + off, rail->window + off, len);
	return 0;
}

static const struct rsk_tcp_ops wire_ops = {
	.end_pos = wire_end_pos,
	.fin = wire_fin,
	.send = wire_send,
	.recv = wire_recv,
	.tx_pos = wire_tx_pos,
	.rx_pos = wire_rx_pos,
};

const struct rsk_fabric_ops at_once = {
	.name = "at once",
	.caps = RSK_FABRIC_RELIABLE,
	.put = put,
};

static bool arrived(struct rsk_rail *rail, uint64_t off)
{
	return !w.dark && !w.unheard;
}

const struct rsk_fabric_ops far = {
	.name = "far",
	.caps = RSK_FABRIC_RELIABLE,
	.put = put,
	.arrived = arrived,
};

void world_init(const struct rsk_fabric_ops *ops, uint64_t key)
{
	memset(&w, 0, sizeof(w));
	w.wire.c.ops = &wire_ops;
	for (int i = 0; i < 2; i++)
		w.rail[i] = (struct rsk_rail){ .ops = ops,
					       .window = w.window[i],
					       .window_bytes = BYTES,
					       .segment = w.segment[i],
					       .segment_bytes = BYTES };
	rsk_tx_init(&w.tx, &w.rail[0], RING, CELLS, WORD_TX,
		    (const struct rsk_control_word *)(const void *)(w.segment[0] + WORD_RX), key);
	rsk_rx_init(&w.rx, &w.rail[1], w.segment[1] + RING, CELLS, WORD_RX,
		    (const struct rsk_control_word *)(const void *)(w.segment[1] + WORD_TX), key);
}

ssize_t send_some(size_t len)
{
	static uint8_t out[4096];
	struct iovec iov = { out, len };
	struct rsk_iovcur cur;

	memset(out, 'r', len);
	rsk_iovcur_init(&cur, &iov, 1);
	return rsk_tx_send(&w.tx, &w.wire.c, &cur, 0);
}

ssize_t recv_some(size_t len)
{
	static uint8_t in[4096];
	struct iovec iov = { in, len };
	struct rsk_iovcur cur;
	ssize_t n;

	rsk_iovcur_init(&cur, &iov, 1);
	n = rsk_rx_recv(&w.rx, &w.wire.c, &cur, false, true);
	cr_assert(rsk_rx_validate(&w.rx));
	return n;
}

void on_ring(const struct rsk_fabric_ops *ops, uint64_t before)
{
	world_init(ops, 5);
	if (before) {
		cr_assert_eq(send_some(before), (ssize_t)before);
		cr_assert_eq(recv_some(4096), (ssize_t)before);
	}
	cr_assert_eq(rsk_tx_propose(&w.tx), 0);
	cr_assert_eq(recv_some(1), -EAGAIN);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
	cr_assert_eq(recv_some(1), -EAGAIN);
	cr_assert_eq(w.rx.state, RSK_RX_ONRING);
}
