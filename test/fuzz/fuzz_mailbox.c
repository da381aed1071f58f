// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_mailbox.c - fuzzes a reader of a mailbox whose owner writes what it likes, with right hashes
 * and with wrong ones, over a rail that is late; and a sender that accepts the published credit of
 * its ring.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mailbox_command.h"
#include "tx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CELLS 64u
#define PUT 20u /* cells that are put, out of CELLS */
#define START 1000u
#define SENT 4000u /* bytes from that position on */

struct input {
	const uint8_t *p, *end;
};

struct bed {
	struct rsk_rail rail;
	struct rsk_key key;
	uint8_t *at; /* the mailbox, an allocation of exactly its size */
	uint32_t bytes;
	struct rsk_mailbox_reader reader;
	struct rsk_mailbox_pending pending;
	struct rsk_rail ring_rail;
	uint8_t ring[CELLS * RSK_CELL_BYTES];
	struct rsk_tx tx;
	uint32_t done_number; /* newest command that was executed */
	/* the get under way */
	void *dst;
	uint64_t token;
	bool late;
	int answer;
};

static uint64_t take(struct input *in, size_t bytes)
{
	uint64_t v = 0;

	if ((size_t)(in->end - in->p) < bytes)
		bytes = (size_t)(in->end - in->p);
	memcpy(&v, in->p, bytes);
	in->p += bytes;
	return v;
}

static int get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token)
{
	struct bed *b = rail->priv;

	if (off || len != b->bytes)
		abort();
	if (b->answer < 0)
		return b->answer;
	b->dst = dst;
	b->token = token;
	if (!b->late)
		memcpy(dst, b->at, len);
	return !b->late;
}

static int poll_one(struct rsk_rail *rail, struct rsk_completion *done, int max)
{
	struct bed *b = rail->priv;

	if (b->answer < 0)
		return b->answer;
	if (!b->dst)
		return 0;
	memcpy(b->dst, b->at, b->bytes);
	*done = (struct rsk_completion){ .token = b->token };
	b->dst = NULL;
	return 1;
}

static void seal(struct bed *b)
{
	struct rsk_mailbox_head head;
	struct rsk_slot_head h;
	uint32_t room = b->bytes - (uint32_t)sizeof(head);

	memcpy(&head, b->at, sizeof(head));
	h = (struct rsk_slot_head){
		.index = head.sequence, .len = head.len, .kind = head.kind, .order = head.zero
	};
	head.hash = rsk_hash_slot(&b->key, &h,
				  rsk_hash_payload(&b->key, b->at + sizeof(head),
						   head.len < room ? head.len : room));
	memcpy(b->at, &head, sizeof(head));
}

/* A head near an acceptable one, then sealed. */
static void say(struct bed *b, struct input *in)
{
	struct rsk_mailbox_head head = { .sequence = b->reader.known +
						     (uint64_t)(int64_t)(int8_t)take(in, 1) };

	head.len = (uint32_t)take(in, 1);
	if (head.len == 255)
		head.len = (uint32_t)take(in, 4);
	head.kind = (uint16_t)(RSK_MAILBOX_DATA - 1 + take(in, 1) % 8);
	head.zero = take(in, 1) == 255;
	memcpy(b->at, &head, sizeof(head));
	for (uint32_t i = sizeof(head); i < b->bytes && i < sizeof(head) + head.len; i++)
		b->at[i] = (uint8_t)take(in, 1);
	seal(b);
}

/* A sender on the ring, which has put some cells. */
static void sender(struct bed *b)
{
	b->ring_rail = (struct rsk_rail){ .ops = b->rail.ops,
					  .window = b->ring,
					  .window_bytes = sizeof(b->ring) };
	rsk_tx_init(&b->tx, &b->ring_rail, 0, CELLS, 0, NULL, 77);
	b->tx.state = RSK_TX_ONRING;
	b->tx.gen = b->tx.counts.promotions = 1;
	b->tx.start.pos = b->tx.read_pos = START;
	b->tx.pos = START + SENT;
	b->tx.start.cell = b->tx.ring.next;
	b->tx.ring.next += PUT;
}

static void credited(struct bed *b, const struct rsk_mailbox_credit *is)
{
	const struct rsk_tx was = b->tx;
	bool can_be = is->pos >= START && is->pos <= START + SENT && is->cells >= was.start.cell &&
		      is->cells <= was.ring.next;
	int rc = rsk_tx_credit(&b->tx, is);

	if (is->gen != 1 ? rc != 0 : rc != (can_be ? is->pos > was.read_pos : -EPROTO))
		abort();
	if (rc < 0 || is->gen != 1) {
		if (b->tx.ring.credit != was.ring.credit || b->tx.read_pos != was.read_pos)
			abort();
	} else if (b->tx.ring.credit < is->cells || b->tx.read_pos < is->pos) {
		abort();
	}
	if (!rsk_tx_validate(&b->tx))
		abort();
}

static void believed(struct bed *b, const struct rsk_mailbox_view *view, uint64_t known)
{
	struct rsk_mailbox_credit credit;
	struct rsk_mailbox_link link;
	struct rsk_mailbox_head head;
	struct rsk_slot_head h;
	int kinds;

	memcpy(&head, b->reader.copy, sizeof(head));
	h = (struct rsk_slot_head){ .index = head.sequence, .len = head.len, .kind = head.kind };
	if (view->sequence <= known || view->len > b->bytes - sizeof(head) ||
	    view->message != b->reader.copy + sizeof(head) || view->sequence != head.sequence ||
	    view->kind < RSK_MAILBOX_DATA || view->kind >= RSK_MAILBOX_KINDS ||
	    head.hash !=
		    rsk_hash_slot(&b->key, &h, rsk_hash_payload(&b->key, view->message, view->len)))
		abort();
	kinds = (rsk_mailbox_link(view, &link) == 0) + (rsk_mailbox_credit(view, &credit) == 0) +
		(rsk_mailbox_command_accept(&b->pending, view) == 0);
	if (kinds > 1)
		abort();
	if (rsk_mailbox_credit(view, &credit) == 0)
		credited(b, &credit);
}

static void look(struct bed *b)
{
	uint64_t known = b->reader.known;
	struct rsk_mailbox_view view;
	int rc = rsk_mailbox_take(&b->reader, &view);

	if (rc == 1)
		believed(b, &view, known);
	else if (rc > 1 || b->reader.known != known)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rsk_fabric_ops ops = { .name = "fuzz", .get = get, .poll = poll_one };
	struct input in = { data, data + size };
	struct bed *b = calloc(1, sizeof(*b));
	struct rsk_mailbox_reader *all[] = { &b->reader };
	uint32_t what;

	b->bytes = (4 + (uint32_t)take(&in, 1) % 29) * 8;
	b->at = calloc(1, b->bytes);
	b->rail = (struct rsk_rail){ .ops = &ops, .priv = b };
	rsk_key_init(&b->key, 77);
	sender(b);
	rsk_mailbox_reader_init(&b->reader, &b->rail, 0, b->bytes, &b->key, (uint32_t)take(&in, 1));
	while (in.p < in.end) {
		switch (take(&in, 1) % 8) {
		case 0:
		case 1:
			say(b, &in);
			break;
		case 2:
			b->at[take(&in, 1) % b->bytes] ^= (uint8_t)take(&in, 1);
			break;
		case 3:
			b->late = !b->late;
			break;
		case 4:
			b->answer = take(&in, 1) == 4 ? -EPIPE : 0;
			break;
		case 5:
			what = rsk_mailbox_command_due(&b->pending, take(&in, 2));
			if (what && b->pending.command.number <= b->done_number)
				abort(); /* executed twice */
			if (what)
				b->done_number = b->pending.command.number;
			break;
		case 6:
			rsk_mailbox_poll(&b->rail, all, 1);
			look(b);
			break;
		default:
			rsk_mailbox_start(&b->reader);
			look(b);
			break;
		}
		if (!rsk_mailbox_reader_validate(&b->reader))
			abort();
	}
	free(b->at);
	free(b);
	return 0;
}
