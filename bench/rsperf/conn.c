/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.c - see conn.h. */
#include "conn.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC_BYTES 8
static const char rsk_hello_magic[] = "rsperf 1";
static const char rsk_tally_magic[] = "rsperf=1";

struct rsk_hello_wire {
	char magic[MAGIC_BYTES];
	uint32_t test_be;
	uint32_t flow_be;
	uint64_t size_be;
	uint32_t verify_be;
	uint8_t zero[36];
};
_Static_assert(sizeof(struct rsk_hello_wire) == RSK_MSG_BYTES, "hello");

struct rsk_tally_wire {
	char magic[MAGIC_BYTES];
	uint64_t rx_be;
	uint64_t tx_be;
	uint8_t zero[40];
};
_Static_assert(sizeof(struct rsk_tally_wire) == RSK_MSG_BYTES, "tally");

void rsk_hello_encode(uint8_t out[static RSK_MSG_BYTES], const struct rsk_hello *h)
{
	struct rsk_hello_wire w = {
		.test_be = htobe32((uint32_t)h->test),
		.flow_be = htobe32((uint32_t)h->flow),
		.size_be = htobe64(h->size_bytes),
		.verify_be = htobe32(h->verify),
	};

	memcpy(w.magic, rsk_hello_magic, MAGIC_BYTES);
	memcpy(out, &w, sizeof(w));
}

int rsk_hello_decode(struct rsk_hello *h, const uint8_t in[static RSK_MSG_BYTES])
{
	struct rsk_hello_wire w;
	uint32_t test, flow;
	uint64_t size;

	memcpy(&w, in, sizeof(w));
	test = be32toh(w.test_be);
	flow = be32toh(w.flow_be);
	size = be64toh(w.size_be);
	if (memcmp(w.magic, rsk_hello_magic, MAGIC_BYTES) != 0 || test == RSK_TEST_NONE ||
	    test >= RSK_TEST_COUNT || flow >= RSK_FLOW_COUNT || !size || size > RSK_SIZE_MAX_BYTES)
		return -EPROTO;
	h->test = (enum rsk_test)test;
	h->flow = (enum rsk_flow)flow;
	h->size_bytes = size;
	h->verify = w.verify_be != 0;
	return 0;
}

void rsk_tally_encode(uint8_t out[static RSK_MSG_BYTES], const struct rsk_tally *t)
{
	struct rsk_tally_wire w = {
		.rx_be = htobe64(t->rx_bytes),
		.tx_be = htobe64(t->tx_bytes),
	};

	memcpy(w.magic, rsk_tally_magic, MAGIC_BYTES);
	memcpy(out, &w, sizeof(w));
}

int rsk_tally_decode(struct rsk_tally *t, const uint8_t in[static RSK_MSG_BYTES])
{
	struct rsk_tally_wire w;

	memcpy(&w, in, sizeof(w));
	if (memcmp(w.magic, rsk_tally_magic, MAGIC_BYTES) != 0)
		return -EPROTO;
	t->rx_bytes = be64toh(w.rx_be);
	t->tx_bytes = be64toh(w.tx_be);
	return 0;
}

static inline uint8_t rsk_pattern(uint64_t position)
{
	uint64_t i = position % RSK_PATTERN_BYTES;

	return (uint8_t)(i * 167 + (i >> 6) * 13 + 1);
}

void rsk_conn_init(struct rsk_conn *c, const struct rsk_role *role, void *owner, int fd)
{
	memset(c, 0, offsetof(struct rsk_conn, tx_bytes));
	atomic_store_explicit(&c->tx_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&c->rx_bytes, 0, memory_order_relaxed);
	c->role = role;
	c->owner = owner;
	c->fd = fd;
	c->in_hello = true;
}

void rsk_conn_fini(struct rsk_conn *c)
{
	free(c->tx_buf);
	free(c->rx_buf);
	c->tx_buf = c->rx_buf = NULL;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

int rsk_conn_prepare(struct rsk_conn *c)
{
	size_t size = (size_t)c->ask.size_bytes;
	/* For small messages the receive buffer is larger than a message, as in real programs. */
	size_t rx = RSK_MSG_BYTES + (size > RSK_SINK_BYTES ? size : RSK_SINK_BYTES);
	size_t tx = size + RSK_PATTERN_BYTES;

	if (c->ask.test == RSK_TEST_LAT) {
		rx = size;
		tx = size;
	}
	c->rx_buf = aligned_alloc(64, (rx + 63) & ~(size_t)63);
	c->tx_buf = aligned_alloc(64, (tx + 63) & ~(size_t)63);
	if (!c->rx_buf || !c->tx_buf)
		return -ENOMEM;
	for (size_t i = 0; i < tx; i++)
		c->tx_buf[i] = rsk_pattern(i);
	memset(c->rx_buf, 0, rx); /* causes the page faults before the measurement */
	return 0;
}

void rsk_conn_begin_tx(struct rsk_conn *c, uint8_t *at, size_t len)
{
	c->tx = (struct rsk_cursor){ .at = at, .len = len };
}

void rsk_conn_begin_rx(struct rsk_conn *c, uint8_t *at, size_t len)
{
	c->rx = (struct rsk_cursor){ .at = at, .len = len };
	c->rx_stream = false;
}

void rsk_conn_begin_pattern(struct rsk_conn *c)
{
	uint64_t pos = atomic_load_explicit(&c->tx_bytes, memory_order_relaxed);

	rsk_conn_begin_tx(c, c->tx_buf + pos % RSK_PATTERN_BYTES, (size_t)c->ask.size_bytes);
}

void rsk_conn_begin_sink(struct rsk_conn *c, bool hold)
{
	size_t size = (size_t)c->ask.size_bytes;

	c->rx_stream = true;
	c->rx_overread = hold ? RSK_MSG_BYTES : 0;
	c->rx = (struct rsk_cursor){
		.at = c->rx_buf,
		.len = size > RSK_SINK_BYTES ? size : RSK_SINK_BYTES,
	};
}

/* Only the half that counts writes the counter, so no atomic read-modify-write is needed. */
static void rsk_count(_Atomic uint64_t *bytes, size_t n)
{
	uint64_t v = atomic_load_explicit(bytes, memory_order_relaxed);

	atomic_store_explicit(bytes, v + n, memory_order_relaxed);
}

int rsk_conn_tx(struct rsk_conn *c, int flags)
{
	ssize_t n =
		send(c->fd, c->tx.at + c->tx.done, c->tx.len - c->tx.done, flags | MSG_NOSIGNAL);
	int rc = 0;

	if (n < 0)
		return -errno;
	c->tx.done += (size_t)n;
	if (!c->in_hello && !c->in_tally)
		rsk_count(&c->tx_bytes, (size_t)n);
	if (c->tx.done == c->tx.len)
		rc = c->role->sent(c);
	return rc < 0 ? rc : 1;
}

/* tx_buf has the pattern so that, from any position, a whole message of it is contiguous. */
static bool rsk_pattern_at(const struct rsk_conn *c, uint64_t pos, const uint8_t *at, size_t n)
{
	while (n) {
		size_t k = n < c->ask.size_bytes ? n : (size_t)c->ask.size_bytes;

		if (memcmp(at, c->tx_buf + pos % RSK_PATTERN_BYTES, k) != 0)
			return false;
		pos += k;
		at += k;
		n -= k;
	}
	return true;
}

/*
 * Without --verify only both ends of each piece are checked: bytes that are lost, duplicated or
 * moved shift everything after them, so a later check finds them.
 */
static int rsk_stream_check(struct rsk_conn *c, const uint8_t *at, size_t n)
{
	uint64_t pos = atomic_load_explicit(&c->rx_bytes, memory_order_relaxed);
	size_t head = c->ask.verify || n < 16 ? n : 16;

	if (!rsk_pattern_at(c, pos, at, head) ||
	    !rsk_pattern_at(c, pos + n - head, at + n - head, head))
		return -EBADMSG;
	rsk_count(&c->rx_bytes, n);
	return 0;
}

static int rsk_conn_rx_stream(struct rsk_conn *c, size_t n)
{
	size_t have = c->rx_held + n;
	size_t pass = have > c->rx_overread ? have - c->rx_overread : 0;
	int rc = 0;

	if (pass)
		rc = rsk_stream_check(c, c->rx_buf, pass);
	if (rc < 0)
		return rc;
	c->rx_held = have - pass;
	if (c->rx_held && pass)
		memmove(c->rx_buf, c->rx_buf + pass, c->rx_held);
	c->rx.at = c->rx_buf + c->rx_held;
	c->rx.done = 0;
	return c->role->streamed(c);
}

int rsk_conn_rx(struct rsk_conn *c)
{
	ssize_t n = recv(c->fd, c->rx.at + c->rx.done, c->rx.len - c->rx.done, 0);
	int rc = 0;

	if (n < 0)
		return -errno;
	if (!n) {
		rc = c->role->eof(c);
	} else if (c->rx_stream) {
		rc = rsk_conn_rx_stream(c, (size_t)n);
	} else {
		c->rx.done += (size_t)n;
		if (!c->in_hello)
			rsk_count(&c->rx_bytes, (size_t)n);
		if (c->rx.done == c->rx.len)
			rc = c->role->received(c);
	}
	return rc < 0 ? rc : 1;
}
