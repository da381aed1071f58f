// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_slot.c - fuzzes the receiver with a ring full of anything: raw bytes, wild headers, rightly
 * hashed slots with wild contents.
 */
#include "hostile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void raw_bytes(struct hostile *h, struct hostile_input *in)
{
	size_t at = hostile_take(in, 2) % HOSTILE_RING, len = hostile_take(in, 1);

	for (; len && at < HOSTILE_RING; len--)
		h->ring[at++] = (uint8_t)hostile_take(in, 1) & 0x7f;
}

/* A header with a plausible index and any other values. */
static void wild_head(struct hostile *h, struct hostile_input *in)
{
	struct rsk_slot_head head = { .index = h->rx.ring.next + hostile_take(in, 1),
				      .len = (uint32_t)hostile_take(in, 4),
				      .kind = (uint16_t)hostile_take(in, 2),
				      .order = (uint16_t)hostile_take(in, 1) };

	memcpy(h->ring + (head.index & (HOSTILE_CELLS - 1)) * RSK_CELL_BYTES, &head, sizeof(head));
}

/* A slot as an honest sender would seal it, unless the input says otherwise. */
static void right_slot(struct hostile *h, struct hostile_input *in)
{
	struct rsk_slot_head head = { .index = h->rx.ring.next + hostile_take(in, 1) % 8 };
	uint32_t cell = (uint32_t)(head.index & (HOSTILE_CELLS - 1));
	uint32_t most = rsk_slot_payload_in(HOSTILE_CELLS - cell);
	uint8_t kind = (uint8_t)hostile_take(in, 1);
	uint8_t *at = h->ring + cell * RSK_CELL_BYTES, *payload;
	struct rsk_slot_command cmd;
	uint64_t hash;

	head.kind = kind & 3;
	/* It may claim to be the last one of its lap. */
	if ((kind & 0xc) == 0xc)
		head.kind |= RSK_SLOT_LAST;
	/* Any tag, or one that could be right. */
	if (kind & 0x10)
		head.order = (uint16_t)hostile_take(in, 2);
	else if (kind & 0x20 && rsk_rx_txn_tags(&h->rx))
		head.order = (uint16_t)(RSK_ORDER_INDEXED | (kind & 0xc0) << 8 |
					(h->rx.tags.machine->order.next &
					 (rsk_order_span(&h->rx.tags.form) - 1)));
	head.len = (uint32_t)hostile_take(in, 2) % (most + 1);
	if (head.kind == RSK_SLOT_CONTROL)
		head.len = sizeof(cmd);
	payload = at + rsk_slot_payload_off(head.len);
	for (uint32_t i = 0; i < head.len; i++)
		payload[i] = 0x80 | (uint8_t)i;
	if (head.kind == RSK_SLOT_CONTROL) {
		cmd.pos = kind & 4 ? h->rx.pos : hostile_take(in, 8);
		cmd.gen = kind & 8 ? h->rx.gen : (uint32_t)hostile_take(in, 1);
		cmd.what = (uint32_t)hostile_take(in, 1) & 3;
		memcpy(payload, &cmd, sizeof(cmd));
	}
	memcpy(at, &head, sizeof(head));
	hash = rsk_hash_slot(&h->key, &head, rsk_hash_payload(&h->key, payload, head.len));
	memcpy(at + RSK_SLOT_HEAD_BYTES, &hash, sizeof(hash));
}

static void no_gap(void *arg, uint64_t from, uint64_t to)
{
	if (from >= to)
		abort();
}

static void missing(struct hostile *h)
{
	static uint8_t scratch[RSK_SLOT_MAX_PAYLOAD];
	struct rsk_txn_tags_missing m;

	rsk_rx_missing(&h->rx, scratch, &m, no_gap, NULL);
	if (m.first > m.transactions || m.transactions > RSK_TXN_TAGS_WINDOW)
		abort();
	hostile_check(h, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hostile_input in = { data, data + size };
	uint32_t first = (uint32_t)hostile_take(&in, 1);
	struct hostile *h = hostile_new(first % HOSTILE_FABRICS);
	uint64_t pos = 0, cell = 0;
	bool again;

	if (first / HOSTILE_FABRICS)
		hostile_tag(h, (uint8_t)(first / HOSTILE_FABRICS));
	hostile_control_word(h, h->tx_word, RSK_CONTROL_WORD_TX,
			     (struct rsk_control_word){ .what = RSK_TX_PROPOSE, .gen = 1 });
	hostile_check(h, rsk_rx_serve(&h->rx, &h->c));
	hostile_control_word(h, h->tx_word, RSK_CONTROL_WORD_TX,
			     (struct rsk_control_word){
				     .what = RSK_TX_RING, .gen = 1, .cells = HOSTILE_CELLS });
	while (in.p < in.end) {
		switch (hostile_take(&in, 1) % 11) {
		case 0:
			raw_bytes(h, &in);
			break;
		case 1:
			wild_head(h, &in);
			break;
		case 2:
		case 3:
			right_slot(h, &in);
			break;
		case 4:
			rsk_rx_pending(&h->rx, NULL);
			rsk_rx_ready(&h->rx);
			break;
		case 5:
			hostile_read(h, hostile_take(&in, 1), true, true);
			break;
		case 6:
			h->available += hostile_take(&in, 1);
			break;
		case 7:
			if (hostile_take(&in, 1) == 7)
				hostile_check(h, rsk_rx_fall_back(&h->rx, hostile_take(&in, 1) & 1,
								  &again));
			else if (hostile_take(&in, 1) == 9)
				rsk_rx_break(&h->rx, &pos, &cell);
			else if (hostile_take(&in, 1) == 11)
				hostile_check(h, rsk_rx_quiesce(&h->rx));
			break;
		case 8:
			missing(h);
			break;
		default:
			hostile_read(h, hostile_take(&in, 2) % 20000, false, true);
			break;
		}
	}
	hostile_free(h);
	return 0;
}
