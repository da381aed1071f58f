/* SPDX-License-Identifier: BSD-2-Clause */
/* load.c - see load.h. */
#include "load.h"

#include <errno.h>
#include <hdr_histogram.h>
#include <string.h>
#include <sys/socket.h>

#include "wait.h"

static struct rsk_load_conn *rsk_load_of(struct rsk_conn *c)
{
	return c->owner;
}

void rsk_load_times(struct rsk_load *load)
{
	load->from_ns = rsk_monotonic_ns() + (uint64_t)(load->opts->warmup_s * 1e9);
	load->until_ns = load->opts->count ? UINT64_MAX :
					     load->from_ns + (uint64_t)(load->opts->time_s * 1e9);
}

bool rsk_load_over(const struct rsk_load *load, uint64_t messages, uint64_t now_ns)
{
	return load->opts->count ? messages >= load->opts->count : now_ns >= load->until_ns;
}

bool rsk_load_sample(struct rsk_load *load, uint64_t begun_ns, uint64_t now_ns)
{
	if (begun_ns < load->from_ns)
		return false;
	hdr_record_value(load->times, (int64_t)(now_ns - begun_ns));
	load->last_ns = now_ns;
	return true;
}

/* Notes the stream's position at the end of the warm-up; true once measuring has begun. */
static bool rsk_span_begin(struct rsk_span *span, const struct rsk_load *load, uint64_t bytes,
			   uint64_t now_ns)
{
	if (span->from_ns)
		return true;
	if (now_ns < load->from_ns)
		return false;
	span->from_ns = now_ns;
	span->from_bytes = bytes;
	return true;
}

/* The first and last bytes identify the message; a short message has the low byte of its number. */
static void rsk_ping_stamp(struct rsk_load_conn *lc)
{
	struct rsk_conn *c = &lc->conn;
	uint64_t number = atomic_load_explicit(&c->tx_bytes, memory_order_relaxed) + 1;
	size_t size = (size_t)c->ask.size_bytes;
	size_t n = size < sizeof(number) ? size : sizeof(number);

	memcpy(c->tx_buf, &number, n);
	memcpy(c->tx_buf + size - n, &number, n);
	rsk_conn_begin_tx(c, c->tx_buf, size);
}

static int rsk_load_run(struct rsk_conn *c)
{
	struct rsk_load_conn *lc = rsk_load_of(c);
	int rc;

	c->in_hello = false;
	if (c->ask.test == RSK_TEST_CONN) {
		rsk_conn_begin_rx(c, c->hello, sizeof(c->hello));
		return 0; /* the server closes first, so that TIME_WAIT takes no client port */
	}
	rc = rsk_conn_prepare(c);
	if (rc)
		return rc;
	if (c->ask.test == RSK_TEST_LAT) {
		rsk_ping_stamp(lc);
		lc->begun_ns = rsk_monotonic_ns();
		atomic_store_explicit(&c->wants, RSK_OUT, memory_order_release);
		return 0;
	}
	rsk_conn_begin_sink(c, true);
	rsk_conn_begin_pattern(c);
	atomic_store_explicit(&c->wants,
			      c->ask.flow == RSK_FLOW_OUT ? RSK_OUT :
			      c->ask.flow == RSK_FLOW_IN  ? RSK_IN :
							    RSK_IN | RSK_OUT,
			      memory_order_release);
	return 0;
}

static int rsk_load_sent(struct rsk_conn *c)
{
	struct rsk_load_conn *lc = rsk_load_of(c);
	uint64_t now, bytes;

	if (c->in_hello) {
		rsk_conn_begin_rx(c, c->hello, sizeof(c->hello));
		atomic_store_explicit(&c->wants, RSK_IN, memory_order_release);
		return 0;
	}
	if (c->ask.test == RSK_TEST_LAT) {
		rsk_conn_begin_rx(c, c->rx_buf, (size_t)c->ask.size_bytes);
		atomic_store_explicit(&c->wants, RSK_IN, memory_order_release);
		return 0;
	}
	now = rsk_monotonic_ns();
	bytes = atomic_load_explicit(&c->tx_bytes, memory_order_relaxed);
	if (rsk_span_begin(&lc->out, lc->load, bytes, now) && bytes > lc->out.from_bytes)
		lc->messages++;
	if (!rsk_load_over(lc->load, lc->messages, now)) {
		rsk_conn_begin_pattern(c);
		return 0;
	}
	if (shutdown(c->fd, SHUT_WR) < 0)
		return -errno;
	if (c->ask.flow == RSK_FLOW_OUT)
		atomic_store_explicit(&c->wants, RSK_IN, memory_order_release);
	else
		atomic_fetch_and_explicit(&c->wants, ~RSK_OUT, memory_order_acq_rel);
	return 0;
}

static int rsk_load_pong(struct rsk_load_conn *lc)
{
	struct rsk_conn *c = &lc->conn;
	uint64_t now = rsk_monotonic_ns();
	size_t size = (size_t)c->ask.size_bytes;
	size_t n = c->ask.verify || size < 16 ? size : 16;

	if (memcmp(c->rx_buf, c->tx_buf, n) != 0 ||
	    memcmp(c->rx_buf + size - n, c->tx_buf + size - n, n) != 0)
		return -EBADMSG;
	if (lc->idle) {
		lc->messages--;
		if (!lc->messages) {
			lc->load->idle_now++;
			rsk_conn_begin_rx(c, c->rx_buf, size);
			atomic_store_explicit(&c->wants, RSK_IN, memory_order_release);
			return 0;
		}
	} else if (rsk_load_sample(lc->load, lc->begun_ns, now)) {
		lc->messages++;
	}
	if (!lc->idle && rsk_load_over(lc->load, lc->messages, now)) {
		atomic_store_explicit(&c->wants, 0, memory_order_release);
		return 0;
	}
	rsk_ping_stamp(lc);
	lc->begun_ns = now;
	atomic_store_explicit(&c->wants, RSK_OUT, memory_order_release);
	return 0;
}

static int rsk_load_received(struct rsk_conn *c)
{
	uint8_t sent[RSK_MSG_BYTES];

	if (!c->in_hello)
		return c->ask.test == RSK_TEST_LAT ? rsk_load_pong(rsk_load_of(c)) : -EPROTO;
	rsk_hello_encode(sent, &c->ask);
	if (memcmp(c->hello, sent, sizeof(sent)) != 0)
		return -EPROTO;
	return rsk_load_run(c);
}

static int rsk_load_streamed(struct rsk_conn *c)
{
	struct rsk_load_conn *lc = rsk_load_of(c);
	uint64_t now, bytes;

	if (c->ask.flow == RSK_FLOW_OUT)
		return 0; /* only the tally follows */
	now = rsk_monotonic_ns();
	bytes = atomic_load_explicit(&c->rx_bytes, memory_order_relaxed);
	if (!rsk_span_begin(&lc->in, lc->load, bytes, now))
		return 0;
	lc->in.to_bytes = bytes;
	lc->in.to_ns = now;
	/* A client that only receives has to tell the server when it has enough. */
	if (c->ask.flow != RSK_FLOW_IN || lc->messages == UINT64_MAX)
		return 0;
	lc->messages = (bytes - lc->in.from_bytes) / c->ask.size_bytes;
	if (!rsk_load_over(lc->load, lc->messages, now))
		return 0;
	lc->messages = UINT64_MAX;
	return shutdown(c->fd, SHUT_WR) < 0 ? -errno : 0;
}

/* At the end of a stream both sides' figures must be equal. */
static int rsk_load_eof(struct rsk_conn *c)
{
	struct rsk_load_conn *lc = rsk_load_of(c);
	struct rsk_tally tally;

	if (!c->in_hello && c->ask.test == RSK_TEST_CONN) {
		if (rsk_load_sample(lc->load, lc->begun_ns, rsk_monotonic_ns()))
			lc->messages++;
		atomic_store_explicit(&c->wants, 0, memory_order_release);
		return 0;
	}
	if (c->in_hello || !c->rx_stream || c->rx_held != RSK_MSG_BYTES ||
	    rsk_tally_decode(&tally, c->rx_buf) < 0)
		return -ECONNRESET;
	if (tally.rx_bytes != atomic_load_explicit(&c->tx_bytes, memory_order_acquire) ||
	    tally.tx_bytes != atomic_load_explicit(&c->rx_bytes, memory_order_relaxed))
		return -EBADMSG;
	if (lc->out.from_ns) {
		lc->out.to_bytes = tally.rx_bytes;
		lc->out.to_ns = rsk_monotonic_ns();
	}
	atomic_fetch_and_explicit(&c->wants, ~RSK_IN, memory_order_acq_rel);
	return 0;
}

static const struct rsk_role rsk_load_role = {
	.sent = rsk_load_sent,
	.received = rsk_load_received,
	.streamed = rsk_load_streamed,
	.eof = rsk_load_eof,
};

void rsk_load_rouse(struct rsk_load_conn *lc, uint64_t calls)
{
	lc->messages = calls;
	lc->load->idle_now--;
	lc->begun_ns = rsk_monotonic_ns();
	rsk_ping_stamp(lc);
	atomic_store_explicit(&lc->conn.wants, RSK_OUT, memory_order_release);
}

void rsk_load_begin(struct rsk_load_conn *lc, struct rsk_load *load, int fd, uint64_t begun_ns)
{
	struct rsk_conn *c = &lc->conn;

	rsk_conn_init(c, &rsk_load_role, lc, fd);
	lc->load = load;
	lc->begun_ns = begun_ns;
	lc->out = lc->in = (struct rsk_span){ 0 };
	c->ask = (struct rsk_hello){
		.test = load->opts->test,
		.flow = load->opts->flow,
		.size_bytes = load->opts->size_bytes,
		.verify = load->opts->verify,
	};
	rsk_hello_encode(c->hello, &c->ask);
	rsk_conn_begin_tx(c, c->hello, sizeof(c->hello));
	atomic_store_explicit(&c->wants, RSK_OUT, memory_order_release);
}
