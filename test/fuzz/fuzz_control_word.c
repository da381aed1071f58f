// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_control_word.c - fuzzes the sender and the receiver with a peer that writes any control word
 * at any time, with right hashes and with wrong ones.
 */
#include "hostile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint64_t edges[] = { 0,	      1,	 HOSTILE_CELLS,	 HOSTILE_CELLS + 1,
				  UINT32_MAX, INT64_MAX, UINT64_MAX - 1, UINT64_MAX };

/* A number near the machine's own value, an edge, or any number. */
static uint64_t number(struct hostile_input *in, uint64_t near)
{
	uint64_t how = hostile_take(in, 1);

	switch (how & 3) {
	case 0:
		return near;
	case 1:
		return near + (uint64_t)(int64_t)(int8_t)hostile_take(in, 1);
	case 2:
		return edges[(how >> 2) % (sizeof(edges) / sizeof(*edges))];
	default:
		return hostile_take(in, 8);
	}
}

static void say_to_tx(struct hostile *h, struct hostile_input *in)
{
	struct rsk_control_word m = { .what = (uint32_t)hostile_take(in, 1) % 6 };

	m.gen = (uint32_t)number(in, h->tx.gen);
	m.pos = number(in, h->tx.pos);
	m.cells = number(in, h->tx.ring.next);
	m.repair = (uint32_t)hostile_take(in, 1);
	hostile_control_word(h, h->rx_word, RSK_CONTROL_WORD_RX, m);
}

static void say_to_rx(struct hostile *h, struct hostile_input *in)
{
	struct rsk_control_word m = { .what = (uint32_t)hostile_take(in, 1) % 5 };

	m.gen = (uint32_t)number(in, h->rx.gen);
	m.pos = number(in, h->rx.pos);
	m.cells = number(in, h->rx.ring.next);
	hostile_control_word(h, h->tx_word, RSK_CONTROL_WORD_TX, m);
}

static void raw_word(struct rsk_control_word *at, struct hostile_input *in)
{
	uint8_t *p = (uint8_t *)at;

	for (size_t i = 0; i < sizeof(*at); i++)
		p[i] ^= (uint8_t)hostile_take(in, 1);
}

/* In shm the window is the peer's memory: the peer may change what this end puts there. */
static void spoil_window(struct hostile *h, struct hostile_input *in)
{
	size_t at = hostile_take(in, 2) % HOSTILE_RING;

	h->window[at] ^= (uint8_t)hostile_take(in, 1);
}

static void write_some(struct hostile *h, size_t len)
{
	uint8_t *buf = calloc(1, len + 1);
	struct iovec iov[2] = { { buf, len / 2 }, { buf + len / 2, len - len / 2 } };
	struct rsk_iovcur cur;
	ssize_t n;

	rsk_iovcur_init(&cur, iov, 2);
	n = rsk_tx_send(&h->tx, &h->c, &cur, 0);
	hostile_check(h, n);
	if (cur.left != len - (n > 0 ? (size_t)n : 0))
		abort();
	free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hostile_input in = { data, data + size };
	struct hostile *h = hostile_new((uint32_t)hostile_take(&in, 1) % HOSTILE_FABRICS);
	bool again;

	while (in.p < in.end) {
		switch (hostile_take(&in, 1) % 16) {
		case 0:
		case 1:
			say_to_tx(h, &in);
			break;
		case 2:
		case 3:
			say_to_rx(h, &in);
			break;
		case 4:
			raw_word(h->tx_word, &in);
			break;
		case 5:
			raw_word(h->rx_word, &in);
			break;
		case 6:
			hostile_check(h, rsk_tx_propose(&h->tx));
			break;
		case 7:
			hostile_check(h, rsk_tx_fall_back(&h->tx, &h->c));
			break;
		case 8:
			if (hostile_take(&in, 1) == 8)
				hostile_check(h, rsk_tx_fin(&h->tx, &h->c));
			break;
		case 9:
			hostile_check(h, rsk_tx_tick(&h->tx));
			hostile_check(h, rsk_rx_tick(&h->rx));
			break;
		case 10:
			h->available += hostile_take(&in, 1);
			hostile_read(h, hostile_take(&in, 1), false, true);
			break;
		case 11:
			hostile_read(h, hostile_take(&in, 1), true, true);
			break;
		case 12:
			if (hostile_take(&in, 1) == 12)
				hostile_check(h, rsk_rx_fall_back(&h->rx, hostile_take(&in, 1) & 1,
								  &again));
			break;
		case 13:
			spoil_window(h, &in);
			break;
		case 14:
			hostile_check(h, rsk_rx_serve(&h->rx, &h->c));
			hostile_check(h, rsk_tx_serve(&h->tx, &h->c));
			break;
		default:
			write_some(h, hostile_take(&in, 2) % 6000);
			break;
		}
	}
	hostile_free(h);
	return 0;
}
