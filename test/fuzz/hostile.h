/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hostile.h - for fuzz targets: one end of a stream whose peer is the fuzzer, which writes what it
 * likes over the shared memory, also with right hashes, since a peer knows the key. All bytes in
 * rightly hashed slots and on the TCP socket have their top bit set, and no others have: a byte
 * delivered without it came from neither.
 */
#ifndef RSK_HOSTILE_H
#define RSK_HOSTILE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "rx.h"
#include "tx.h"

#define HOSTILE_CELLS 64u
#define HOSTILE_RING (HOSTILE_CELLS * RSK_CELL_BYTES)
#define HOSTILE_KEY 77u

struct hostile_input {
	const uint8_t *p, *end;
};

static inline uint64_t hostile_take(struct hostile_input *in, size_t bytes)
{
	uint64_t v = 0;

	if ((size_t)(in->end - in->p) < bytes)
		bytes = (size_t)(in->end - in->p);
	memcpy(&v, in->p, bytes);
	in->p += bytes;
	return v;
}

/*
 * Each part of the shared memory is a separate allocation, so that a sanitizer sees the first byte
 * beyond.
 */
struct hostile {
	struct rsk_tcp c; /* must be first */
	struct rsk_rail rail;
	struct rsk_key key;
	/* this end's puts: ring, then a TX control word, then an RX control word */
	uint8_t *window;
	uint8_t *ring; /* the peer puts slots here */
	struct rsk_control_word *tx_word, *rx_word;
	struct rsk_rx rx;
	struct rsk_tx tx;
	uint64_t written, consumed, available;
};

static inline ssize_t hostile_send(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap,
				   int flags)
{
	struct hostile *h = (struct hostile *)(void *)c;

	h->written += cap;
	return (ssize_t)cap;
}

static inline ssize_t hostile_recv(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap,
				   int flags)
{
	struct hostile *h = (struct hostile *)(void *)c;
	size_t done = 0;

	if (!h->available)
		return -EAGAIN;
	if (cap > h->available)
		cap = h->available;
	for (int i = 0; i < n && done < cap; i++) {
		size_t part = iov[i].iov_len < cap - done ? iov[i].iov_len : cap - done;

		memset(iov[i].iov_base, 0x80, part);
		done += part;
	}
	if (!(flags & MSG_PEEK)) {
		h->available -= done;
		h->consumed += done;
	}
	return (ssize_t)done;
}

static inline int hostile_tx_pos(struct rsk_tcp *c, uint64_t *pos)
{
	*pos = ((struct hostile *)(void *)c)->written;
	return 0;
}

static inline int hostile_rx_pos(struct rsk_tcp *c, uint64_t *pos)
{
	*pos = ((struct hostile *)(void *)c)->consumed;
	return 0;
}

enum {
	HOSTILE_WEAK,
	HOSTILE_SHM,
	HOSTILE_FAR, /* as verbs: in order, and acknowledged later */
	HOSTILE_FABRICS
};

static inline bool hostile_arrived(struct rsk_rail *rail, uint64_t off)
{
	const struct hostile *h = rail->priv;

	return (h->written + h->consumed) % 3;
}

/* Only a range of the window that lies within the ring is ever put again. */
static inline int hostile_again(struct rsk_rail *rail, uint64_t off, size_t len, uint32_t lost)
{
	if (off % RSK_CELL_BYTES || !len || off > HOSTILE_RING || len > HOSTILE_RING - off)
		abort();
	return 0;
}

/* The number of rails, and so the use of tags, changes now and then. */
static inline bool hostile_several(const struct rsk_rail *rail)
{
	const struct hostile *h = rail->priv;

	return (h->written + h->tx.ring.slots) % 4;
}

static inline struct hostile *hostile_new(uint32_t fabric)
{
	static const struct rsk_tcp_ops tcp = {
		.send = hostile_send,
		.recv = hostile_recv,
		.tx_pos = hostile_tx_pos,
		.rx_pos = hostile_rx_pos,
	};
	static const struct rsk_fabric_ops shm = {
		.name = "hostile",
		.caps = RSK_FABRIC_RELIABLE | RSK_FABRIC_DURABLE | RSK_FABRIC_SYNC,
	};
	static const struct rsk_fabric_ops weak = { .name = "hostile-weak" };
	static const struct rsk_fabric_ops far = { .name = "hostile-far",
						   .caps = RSK_FABRIC_RELIABLE,
						   .arrived = hostile_arrived,
						   .again = hostile_again,
						   .several = hostile_several };
	static const struct rsk_fabric_ops *const all[HOSTILE_FABRICS] = { &weak, &shm, &far };
	struct hostile *h = calloc(1, sizeof(*h));
	size_t window = HOSTILE_RING + 2 * sizeof(struct rsk_control_word);

	h->c.ops = &tcp;
	h->window = calloc(1, window);
	h->ring = calloc(1, HOSTILE_RING);
	h->tx_word = calloc(1, sizeof(*h->tx_word));
	h->rx_word = calloc(1, sizeof(*h->rx_word));
	h->rail = (struct rsk_rail){
		.ops = all[fabric], .priv = h, .window = h->window, .window_bytes = window
	};
	rsk_key_init(&h->key, HOSTILE_KEY);
	rsk_rx_init(&h->rx, &h->rail, h->ring, HOSTILE_CELLS,
		    HOSTILE_RING + sizeof(struct rsk_control_word), h->tx_word, HOSTILE_KEY);
	rsk_tx_init(&h->tx, &h->rail, 0, HOSTILE_CELLS, HOSTILE_RING, h->rx_word, HOSTILE_KEY);
	return h;
}

/* Gives the transactions of both directions tags, in one of the forms. */
static inline void hostile_tag(struct hostile *h, uint8_t which)
{
	static const char *const forms[] = { RSK_ORDER_DEFAULT, "wrapping:2+stop",
					     "relative:3+stop", "relative:1/2",
					     "absolute:4",	"relative:5/3+stop",
					     "wrapping:1",	"absolute:1+stop" };
	struct rsk_order_form form;
	const char *error;

	if (rsk_order_parse(&form, forms[which % (sizeof(forms) / sizeof(forms[0]))], &error) < 0)
		abort();
	rsk_rx_tag(&h->rx, &form, NULL);
	rsk_tx_tag(&h->tx, &form);
}

static inline void hostile_free(struct hostile *h)
{
	rsk_rx_fini(&h->rx);
	rsk_tx_fini(&h->tx);
	free(h->window);
	free(h->ring);
	free(h->tx_word);
	free(h->rx_word);
	free(h);
}

static inline void hostile_control_word(struct hostile *h, struct rsk_control_word *at,
					uint32_t role, struct rsk_control_word m)
{
	m.flags &= role == RSK_CONTROL_WORD_RX;
	m.hash = rsk_hash_control_word(&h->key, &m, role);
	*at = m;
}

/* Checks that the result is one that the library may return to such a peer. */
static inline void hostile_check(const struct hostile *h, ssize_t rc)
{
	if (rc < 0 && rc != -EAGAIN && rc != -EPROTO && rc != -EPERM && rc != -EBUSY &&
	    rc != -ENOBUFS)
		abort();
	if (!rsk_rx_validate(&h->rx))
		abort();
	if (!rsk_tx_validate(&h->tx))
		abort();
}

/* A read of @len bytes in two runs; every byte delivered has its top bit set. */
static inline ssize_t hostile_read(struct hostile *h, size_t len, bool peek, bool look)
{
	uint8_t *buf = calloc(1, len + 1);
	struct iovec iov[2] = { { buf, len / 3 }, { buf + len / 3, len - len / 3 } };
	struct rsk_iovcur cur;
	ssize_t n;

	rsk_iovcur_init(&cur, iov, 2);
	n = rsk_rx_recv(&h->rx, &h->c, &cur, peek, look);
	if (n > (ssize_t)len)
		abort();
	for (ssize_t i = 0; i < n; i++)
		if (!(buf[i] & 0x80))
			abort();
	free(buf);
	hostile_check(h, n);
	return n;
}

#endif
