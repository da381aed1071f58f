// SPDX-License-Identifier: BSD-2-Clause
/*
 * duplex_net.c - the FIFO in place of the TCP socket, and the rails between the two ends of
 * duplex.c.
 */
#include "duplex_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct way *way_of(struct rsk_tcp *c)
{
	return ((struct end *)(void *)c)->w;
}

static ssize_t fifo_send(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags)
{
	struct way *w = way_of(c);
	size_t room, done = 0;

	CHECK(w->d, w->in_tx, "send outside a call of the sender");
	duplex_meanwhile(w);
	CHECK(w->d, !w->fifo_end, "bytes after the kernel's FIN");
	room = w->d->config->fifo_bytes - (size_t)(w->fifo_in - w->fifo_out);
	if (room < cap)
		cap = room;
	if (!w->d->finishing && chance(w->d, 10))
		cap = 0;
	else if (cap > 1 && chance(w->d, 20))
		cap = 1 + below(w->d, cap);
	for (int i = 0; i < n && done < cap; i++)
		for (size_t k = 0; k < iov[i].iov_len && done < cap; k++, done++)
			w->fifo[w->fifo_in++ % w->d->config->fifo_bytes] =
				((const uint8_t *)iov[i].iov_base)[k];
	duplex_meanwhile(w);
	return done ? (ssize_t)done : -EAGAIN;
}

static ssize_t fifo_recv(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags)
{
	struct way *w = way_of(c);
	uint64_t at;
	size_t done = 0;
	bool end;

	CHECK(w->d, w->in_rx, "recv outside a call of the receiver");
	duplex_meanwhile(w);
	if (w->fifo_in - w->fifo_out < cap)
		cap = w->fifo_in - w->fifo_out;
	end = w->fifo_end && !cap;
	at = w->fifo_out;
	for (int i = 0; i < n && done < cap; i++)
		for (size_t k = 0; k < iov[i].iov_len && done < cap; k++, done++)
			((uint8_t *)iov[i].iov_base)[k] = w->fifo[at++ % w->d->config->fifo_bytes];
	if (!(flags & MSG_PEEK))
		w->fifo_out = at;
	duplex_meanwhile(w);
	return done ? (ssize_t)done : end ? 0 : -EAGAIN;
}

static int fifo_tx_pos(struct rsk_tcp *c, uint64_t *pos)
{
	struct way *w = way_of(c);

	duplex_meanwhile(w);
	if (!w->d->finishing && chance(w->d, 20))
		return -EAGAIN;
	*pos = w->fifo_in;
	return 0;
}

static int fifo_rx_pos(struct rsk_tcp *c, uint64_t *pos)
{
	struct way *w = way_of(c);

	duplex_meanwhile(w);
	if (!w->d->finishing && chance(w->d, 20))
		return -EAGAIN;
	*pos = w->fifo_out;
	return 0;
}

static void fifo_owes(struct rsk_tcp *c, bool some)
{
	way_of(c)->owes = some;
}

const struct rsk_tcp_ops duplex_fifo_ops = {
	.send = fifo_send,
	.recv = fifo_recv,
	.tx_pos = fifo_tx_pos,
	.rx_pos = fifo_rx_pos,
	.owes = fifo_owes,
};

static const struct rsk_fabric_ops shm_ops = {
	.name = "shm-like",
	.caps = RSK_FABRIC_RELIABLE | RSK_FABRIC_DURABLE | RSK_FABRIC_SYNC,
};

/* The peer process also runs between a put and the next action of its caller. */
static int busy_put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	struct duplex *d = rail->priv;

	for (int i = 0; i < 2; i++)
		if (d->way[i].in_tx != d->way[i].in_rx)
			duplex_meanwhile(&d->way[i]);
	return 0;
}

static const struct rsk_fabric_ops busy_ops = {
	.name = "shm-like, interleaved",
	.caps = RSK_FABRIC_RELIABLE | RSK_FABRIC_DURABLE | RSK_FABRIC_SYNC,
	.put = busy_put,
};

void duplex_rails_init(struct duplex *d)
{
	const struct duplex_config *config = d->config;

	d->segment_bytes = RING_OFF + (size_t)config->cells * RSK_CELL_BYTES;
	for (int i = 0; i < 2; i++) {
		d->segment[i] = aligned_alloc(64, d->segment_bytes);
		memset(d->segment[i], 0, d->segment_bytes);
	}
	if (config->rails) {
		duplex_several_init(d);
		return;
	}
	for (int i = 0; i < 2; i++) {
		if (config->fabric == DUPLEX_SHM) {
			d->shm[i] =
				(struct rsk_rail){ .ops = config->interleave ? &busy_ops : &shm_ops,
						   .priv = d,
						   .window = d->segment[!i],
						   .window_bytes = d->segment_bytes,
						   .segment = d->segment[i],
						   .segment_bytes = d->segment_bytes };
			d->rail[i] = &d->shm[i];
			continue;
		}
		cr_assert_eq(rsk_chaos_open(&d->chaos[i],
					    config->fabric == DUPLEX_WILD ? &rsk_chaos_wild :
									    &rsk_chaos_reliable,
					    dice_roll(&d->rng), d->segment[i], d->segment[!i],
					    d->segment_bytes),
			     0);
		d->rail[i] = &d->chaos[i].rail;
	}
}
