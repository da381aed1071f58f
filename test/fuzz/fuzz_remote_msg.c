// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_remote_msg.c - fuzzes the control connection with a peer on another host that sends any
 * messages, as often and in any order. An accepted message keeps the promises that stream/remote*.c
 * relies on, and is applied as there, as far as that needs no device: RESUME and ENDING to both
 * halves of a stream in any state, RING to the automaton of the dynamic transfer, RAIL to a
 * renewal. A byte is delivered only if it came by the TCP socket or under a right hash.
 */
#include "hostile.h"

#include <rsock/reason.h>

#include "remote_msg.h"
#include "ring_registration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The fields of a message that the input has; the others are right. */
enum {
	IN_TYPE,
	IN_ACT,
	IN_SID,
	IN_POS = IN_SID + 2,
	IN_BYTES = IN_POS + 2
};

struct end {
	struct hostile *h;
	struct rsk_ring_regs ways;
	uint64_t counts[RSK_STATS_REG_COUNT];
	uint64_t now_ns;
	uint32_t epoch;
	bool broken;
	uint64_t last_to;
	uint8_t scratch[RSK_SLOT_MAX_PAYLOAD];
};

static void require(bool what)
{
	if (!what)
		abort();
}

static void promises(const struct rsk_remote_msg *m)
{
	require(m->magic == RSK_REMOTE_MAGIC);
	require(m->type >= RSK_REMOTE_HELLO && m->type < RSK_REMOTE_TYPES);
	require(m->sid < RSK_SEG_STREAMS && m->reason <= RSK_REASON_MOST);
	require(m->way <= RSK_VERBS_DIRECT);
	if (m->type == RSK_REMOTE_HELLO || m->type == RSK_REMOTE_WELCOME) {
		struct rsk_order_form form = rsk_remote_form(&m->order);

		require(rsk_order_form_validate(&form) && m->order.stop <= 1);
		require(m->geometry.streams >= RSK_SEG_MIN_STREAMS &&
			m->geometry.streams <= RSK_SEG_STREAMS);
		require(rsk_seg_ring_off(&m->geometry, m->geometry.streams - 1) +
				m->geometry.ring_bytes ==
			m->geometry.bytes);
	}
	require(m->type != RSK_REMOTE_HELLO || (m->nonce && m->secret && m->handle));
	if (m->type == RSK_REMOTE_RAIL || m->type == RSK_REMOTE_RAIL_DOWN ||
	    m->type == RSK_REMOTE_MISSING || m->type == RSK_REMOTE_MISSING_END)
		require(m->epoch && m->generation);
	if (m->type >= RSK_REMOTE_RAIL_DOWN || m->type == RSK_REMOTE_RAIL ||
	    m->type == RSK_REMOTE_RING || m->type == RSK_REMOTE_RING_REQ)
		require(m->rail < RSK_RAILS_MOST);
	if (m->type == RSK_REMOTE_MISSING) {
		require(m->gaps && m->gaps <= RSK_REMOTE_MISSING_MOST);
		require(m->missing <= RSK_ORDER_WINDOW_MAX);
		for (uint32_t i = 0; i < m->gaps; i++)
			require(m->gap[i].from < m->gap[i].to);
	}
	if (m->type == RSK_REMOTE_CANDIDATE) {
		require(m->rail >= 2 && m->rail <= RSK_RAILS_MOST &&
			m->generation <= RSK_REMOTE_CANDIDATES);
		require(m->gaps < m->generation ||
			(!m->generation && !m->gaps && !m->candidate.addr.family));
		require(m->candidate.prefix_bits <= 128 && m->use < RSK_REMOTE_USES);
	}
	require(m->type != RSK_REMOTE_LINK ||
		(m->link_bytes == sizeof(m->link) && m->link.type != RSK_LINK_HELLO));
}

/* As on_ring() and rsk_remote_rings_work() do. */
static void ring(struct end *e, const struct rsk_remote_msg *m)
{
	struct rsk_ring_reg *w = rsk_ring_regs_at(&e->ways, m->sid % 4096);
	uint64_t decided;

	require(w != NULL);
	if (w->state == RSK_RING_REG_NONE)
		rsk_ring_reg_begin(w, e->now_ns, e->counts);
	rsk_ring_reg_answer(w, m->way == RSK_VERBS_DIRECT, e->counts);
	e->now_ns += m->pos % (2 * RSK_RING_REG_TIMEOUT_NS);
	rsk_ring_reg_tick(w, e->now_ns, e->counts);
	require(w->state != RSK_RING_REG_NONE && w->state <= RSK_RING_REG_DIRECT);
	decided = e->counts[RSK_STATS_REG_VALID] + e->counts[RSK_STATS_REG_INVALID] +
		  e->counts[RSK_STATS_REG_SECOND_TIMEOUT];
	require(decided <= e->counts[RSK_STATS_REG_REQUESTED]);
	require(e->counts[RSK_STATS_REG_LATE_VALID] <= decided);
}

static void renew(struct end *e)
{
	e->epoch++;
	e->broken = false;
	rsk_rx_renew(&e->h->rx, HOSTILE_KEY + e->epoch);
	rsk_tx_renew(&e->h->tx, HOSTILE_KEY + e->epoch);
	/* The peer knows that key as well. */
	rsk_key_init(&e->h->key, HOSTILE_KEY + e->epoch);
	for (uint32_t i = 0; i < e->ways.n; i++)
		e->ways.at[i].state = RSK_RING_REG_NONE;
}

/* The missing ranges come in order, up to the end of all indexes. */
static void ranges(void *arg, uint64_t from, uint64_t to)
{
	struct end *e = arg;

	require(from < to && (!e->last_to || e->last_to == UINT64_MAX || from > e->last_to));
	e->last_to = to;
}

static void heard(struct end *e, const struct rsk_remote_msg *m)
{
	struct hostile *h = e->h;
	struct rsk_txn_tags_missing missing;
	uint64_t pos, cell;
	int rc = 0;

	switch (m->type) {
	case RSK_REMOTE_BREAK:
		if (e->broken)
			break;
		e->broken = true;
		rsk_tx_break(&h->tx);
		rsk_rx_break(&h->rx, &pos, &cell);
		break;
	case RSK_REMOTE_RESUME:
		if (!e->broken)
			break;
		rc = rsk_tx_resume(&h->tx, &h->c, m->pos, m->cell);
		if (h->tx.state == RSK_TX_BROKEN && rc == -EPROTO)
			h->tx.state = RSK_TX_TCP; /* the stream has failed */
		break;
	case RSK_REMOTE_RAIL:
		if (e->broken)
			renew(e);
		break;
	case RSK_REMOTE_RING:
		ring(e, m);
		break;
	case RSK_REMOTE_RAIL_DOWN:
		rsk_rx_missing(&h->rx, e->scratch, &missing, ranges, e);
		require(missing.first <= missing.transactions);
		require(e->last_to == UINT64_MAX);
		break;
	case RSK_REMOTE_MISSING:
		for (uint32_t i = 0; i < m->gaps; i++)
			rc = rsk_ring_tx_retransmit(&h->tx.ring, m->gap[i].from, m->gap[i].to,
						    m->rail);
		break;
	case RSK_REMOTE_ENDING:
		h->rx.rail_loss.last_cell = m->cell;
		break;
	case RSK_REMOTE_REFUSED:
		rsk_rx_lose(&h->rx);
		break;
	default:
		break;
	}
	hostile_check(h, rc);
}

/* The stream's own calls meanwhile, and the peer's puts. */
static void act(struct end *e, uint8_t what, uint64_t pos)
{
	struct hostile *h = e->h;
	static uint8_t out[700];
	struct iovec iov = { out, 1 + what % sizeof(out) };
	struct rsk_iovcur cur;

	switch (what % 9) {
	case 0:
		hostile_check(h, rsk_tx_propose(&h->tx));
		break;
	case 1:
		hostile_control_word(h, h->rx_word, RSK_CONTROL_WORD_RX,
				     (struct rsk_control_word){ .what = RSK_RX_WATCHING,
								.gen = h->tx.gen,
								.cells = h->tx.ring.credit });
		hostile_check(h, rsk_tx_serve(&h->tx, &h->c));
		break;
	case 2:
		rsk_iovcur_init(&cur, &iov, 1);
		hostile_check(h, rsk_tx_send(&h->tx, &h->c, &cur, 0));
		break;
	case 3:
		hostile_control_word(h, h->tx_word, RSK_CONTROL_WORD_TX,
				     (struct rsk_control_word){ .what = RSK_TX_PROPOSE,
								.gen = h->rx.gen + 1 });
		hostile_read(h, 100, false, true);
		break;
	case 4:
		hostile_control_word(h, h->tx_word, RSK_CONTROL_WORD_TX,
				     (struct rsk_control_word){ .what = RSK_TX_RING,
								.gen = h->rx.gen,
								.pos = h->rx.pos + pos % 3,
								.cells = h->rx.ring.next });
		hostile_read(h, 100, pos & 1, true);
		break;
	case 8:
		if (pos & 1)
			hostile_check(h, rsk_rx_quiesce(&h->rx));
		else
			hostile_control_word(h, h->rx_word, RSK_CONTROL_WORD_RX,
					     (struct rsk_control_word){
						     .what = RSK_RX_QUIESCED,
						     .gen = h->tx.gen,
						     .pos = h->tx.start.pos + pos % 999,
						     .cells = h->tx.ring.credit });
		hostile_check(h, rsk_tx_serve(&h->tx, &h->c));
		break;
	case 5:
		h->available += pos % 256;
		hostile_read(h, 300, false, true);
		break;
	case 6:
		hostile_control_word(h, h->rx_word, RSK_CONTROL_WORD_RX,
				     (struct rsk_control_word){ .what = RSK_RX_SWITCHED,
								.gen = h->tx.gen,
								.cells = h->tx.ring.credit +
									 pos % 64 });
		hostile_check(h, rsk_tx_serve(&h->tx, &h->c));
		break;
	default:
		hostile_check(h, rsk_tx_fall_back(&h->tx, &h->c));
		break;
	}
}

static struct rsk_remote_msg message(const uint8_t *p, const struct hostile *h)
{
	struct rsk_seg_geometry g = { .ring_bytes = RSK_SEG_MIN_RING, .streams = RSK_SEG_STREAMS };
	struct rsk_remote_msg m = {
		.magic = RSK_REMOTE_MAGIC,
		.type = p[IN_TYPE] % (RSK_REMOTE_TYPES + 1),
		.epoch = p[IN_ACT] % 4,
		.rail = p[IN_ACT] % 3,
		.generation = 1 + p[IN_ACT] % 2,
		.nonce = 1,
		.secret = 1,
		.handle = p[IN_ACT] % 2,
		.tuple = { .family = AF_INET, .local_port = 1, .peer_port = 1 },
		.end = { .segment = 1, .indirect = 1 },
		.way = p[IN_ACT] % 5,
		.link_bytes = sizeof(m.link),
		.order = { .kind = p[IN_POS] % 4, .bits = p[IN_POS + 1] % 15, .every = 1 },
	};

	g.bytes = rsk_seg_ring_off(&g, g.streams);
	m.geometry = g;
	memcpy(&m.sid, p + IN_SID, 2);
	memcpy(&m.pos, p + IN_POS, 2);
	if (m.type == RSK_REMOTE_MISSING) {
		m.gaps = 1 + p[IN_ACT] % 2;
		m.gap[0].from = h->tx.ring.credit + m.pos % 64;
		m.gap[0].to = m.gap[0].from + 1 + m.pos / 64;
		m.gap[1].from = m.gap[0].to + p[IN_ACT] % 5;
		m.gap[1].to = UINT64_MAX;
	} else if (m.type == RSK_REMOTE_CANDIDATE) {
		m.generation = p[IN_ACT] % 3;
		m.candidate.addr.family = m.generation ? AF_INET : 0;
		m.use = m.generation ? p[IN_SID] % (RSK_REMOTE_USES + 1) : 0;
		m.rail = 2 + m.rail % (RSK_RAILS_MOST - 1);
	}
	/* Near the current values, or far from them. */
	m.cell = p[IN_ACT] & 0x80 ? UINT64_MAX - m.pos : h->tx.ring.credit + m.pos % 96;
	m.pos = p[IN_ACT] & 0x40 ? RSK_POS_START :
		p[IN_ACT] & 0x20 ? UINT64_MAX - m.pos :
				   h->tx.start.pos + m.pos % 4096;
	return m;
}

/* Any bytes are either not accepted, or a message that keeps the promises. */
static void raw(const uint8_t *data, size_t size)
{
	struct rsk_remote_msg m, before;

	memset(&m, 0, sizeof(m));
	memcpy(&m, data, size < sizeof(m) ? size : sizeof(m));
	before = m;
	if (rsk_remote_msg_check(&m) == 0)
		promises(&m);
	require(memcmp(&m, &before, sizeof(m)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct end e = { .h = hostile_new(HOSTILE_FAR) };

	raw(data, size);
	hostile_tag(e.h, size ? data[0] : 0);
	for (; size >= IN_BYTES; data += IN_BYTES, size -= IN_BYTES) {
		struct rsk_remote_msg m = message(data, e.h);

		act(&e, data[IN_ACT], m.pos);
		if (rsk_remote_msg_check(&m) < 0)
			continue; /* the connection would end */
		promises(&m);
		heard(&e, &m);
	}
	rsk_ring_regs_free(&e.ways);
	hostile_free(e.h);
	return 0;
}
