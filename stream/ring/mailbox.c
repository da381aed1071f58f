// SPDX-License-Identifier: BSD-2-Clause
/* mailbox.c - publishes, reads and decodes mailboxes: see mailbox.h. */
#include "mailbox.h"

#include <errno.h>
#include <string.h>

_Static_assert(sizeof(struct rsk_slot_head) == offsetof(struct rsk_mailbox_head, hash), "hashed");
_Static_assert((int)RSK_MAILBOX_DATA > (int)RSK_SLOT_CONTROL, "no kind of a slot's");
_Static_assert(RSK_MAILBOX_BYTES % 8 == 0, "whole words");

static uint64_t hash_of(const struct rsk_key *key, const struct rsk_mailbox_head *head,
			const void *message)
{
	struct rsk_slot_head h = {
		.index = head->sequence, .len = head->len, .kind = head->kind, .order = head->zero
	};

	return rsk_hash_slot(key, &h, rsk_hash_payload(key, message, head->len));
}

static bool bytes_ok(uint32_t bytes)
{
	return bytes > RSK_MAILBOX_FRAME_BYTES && bytes <= RSK_MAILBOX_BYTES && bytes % 8 == 0;
}

/* ---- the owner ---- */
static void store(uint64_t *at, const void *from, size_t len)
{
	uint64_t word;

	for (size_t n; len; at++, from = (const uint8_t *)from + n, len -= n) {
		n = len < sizeof(word) ? len : sizeof(word);
		word = 0;
		memcpy(&word, from, n);
		__atomic_store_n(at, word, __ATOMIC_RELAXED);
	}
}

void rsk_mailbox_init(struct rsk_mailbox *box, void *at, uint32_t bytes, const struct rsk_key *key)
{
	static const struct rsk_mailbox_head empty;

	*box = (struct rsk_mailbox){ .at = at, .bytes = bytes, .key = key };
	store(box->at, &empty, sizeof(empty));
}

bool rsk_mailbox_validate(const struct rsk_mailbox *box)
{
	return box->at && (uintptr_t)box->at % 8 == 0 && box->key && bytes_ok(box->bytes);
}

int rsk_mailbox_publish(struct rsk_mailbox *box, enum rsk_mailbox_kind kind, const void *message,
			uint32_t len)
{
	struct rsk_mailbox_head head = { .len = len, .kind = (uint16_t)kind };

	if (kind < RSK_MAILBOX_DATA || kind >= RSK_MAILBOX_KINDS)
		return -EINVAL;
	if (len > box->bytes - RSK_MAILBOX_FRAME_BYTES)
		return -EMSGSIZE;
	head.sequence = ++box->sequence;
	head.hash = hash_of(box->key, &head, message);
	store(box->at, &head, offsetof(struct rsk_mailbox_head, hash));
	store(box->at + RSK_MAILBOX_FRAME_BYTES / 8, message, len);
	__atomic_store_n(box->at + offsetof(struct rsk_mailbox_head, hash) / 8, head.hash,
			 __ATOMIC_RELEASE);
	return 0;
}

/* ---- the reader ---- */
enum rsk_mailbox_check rsk_mailbox_check(const void *copy, uint32_t bytes,
					 const struct rsk_key *key, struct rsk_mailbox_view *view)
{
	const uint8_t *message = (const uint8_t *)copy + RSK_MAILBOX_FRAME_BYTES;
	struct rsk_mailbox_head head;

	memcpy(&head, copy, sizeof(head));
	if (!head.sequence)
		return RSK_MAILBOX_EMPTY;
	if (head.len > bytes - RSK_MAILBOX_FRAME_BYTES || head.kind < RSK_MAILBOX_DATA ||
	    head.kind >= RSK_MAILBOX_KINDS || head.zero ||
	    head.hash != hash_of(key, &head, message))
		return RSK_MAILBOX_TORN;
	*view = (struct rsk_mailbox_view){
		.sequence = head.sequence, .len = head.len, .kind = head.kind, .message = message
	};
	return RSK_MAILBOX_WHOLE;
}

void rsk_mailbox_reader_init(struct rsk_mailbox_reader *r, struct rsk_rail *rail, uint64_t off,
			     uint32_t bytes, const struct rsk_key *key, uint32_t tag)
{
	*r = (struct rsk_mailbox_reader){
		.rail = rail, .off = off, .bytes = bytes, .key = key, .tag = tag
	};
}

bool rsk_mailbox_reader_validate(const struct rsk_mailbox_reader *r)
{
	uint64_t ended = r->empty + r->torn + r->old + r->whole + r->failed;

	return r->rail && r->key && bytes_ok(r->bytes) && r->tries <= RSK_MAILBOX_TRIES &&
	       r->state <= RSK_MAILBOX_LANDED &&
	       r->gets == ended + (r->state != RSK_MAILBOX_IDLE) && r->whole <= r->known;
}

static int begin(struct rsk_mailbox_reader *r)
{
	int rc;

	if (!r->rail->ops->get)
		return -EOPNOTSUPP;
	/*
	 * Consecutive tokens differ, so that the completion of an abandoned get does not match the
	 * current one.
	 */
	r->token = (uint64_t)r->tag << 32 | (uint32_t)(r->gets + 1);
	rc = r->rail->ops->get(r->rail, r->off, r->copy, r->bytes, r->token);
	if (rc < 0)
		return rc;
	r->gets++;
	r->status = 0;
	r->state = rc ? RSK_MAILBOX_LANDED : RSK_MAILBOX_FLYING;
	return 0;
}

int rsk_mailbox_start(struct rsk_mailbox_reader *r)
{
	if (r->state != RSK_MAILBOX_IDLE)
		return -EBUSY;
	r->tries = 1;
	return begin(r);
}

static void ended(struct rsk_mailbox_reader *r, int status)
{
	r->status = status;
	r->state = RSK_MAILBOX_LANDED;
}

bool rsk_mailbox_heard(struct rsk_mailbox_reader *r, const struct rsk_completion *done)
{
	if (r->state != RSK_MAILBOX_FLYING || done->token != r->token)
		return false;
	ended(r, done->status);
	return true;
}

int rsk_mailbox_poll(struct rsk_rail *rail, struct rsk_mailbox_reader *const *readers, uint32_t n)
{
	struct rsk_completion done[8];
	int got, all = 0;

	do {
		got = rail->ops->poll(rail, done, 8);
		for (int i = 0; i < got; i++)
			for (uint32_t k = 0; k < n; k++)
				if (rsk_mailbox_heard(readers[k], &done[i])) {
					all++;
					break;
				}
	} while (got == 8);
	for (uint32_t k = 0; got < 0 && k < n; k++)
		if (readers[k]->state == RSK_MAILBOX_FLYING)
			ended(readers[k], got);
	return got < 0 ? got : all;
}

static int none(struct rsk_mailbox_reader *r, uint64_t *counter, int rc)
{
	++*counter;
	r->state = RSK_MAILBOX_IDLE;
	return rc;
}

int rsk_mailbox_take(struct rsk_mailbox_reader *r, struct rsk_mailbox_view *view)
{
	struct rsk_mailbox_view v;
	int rc;

	if (r->state == RSK_MAILBOX_IDLE)
		return -EINVAL;
	while (r->state == RSK_MAILBOX_LANDED) {
		if (r->status < 0)
			return none(r, &r->failed, r->status);
		switch (rsk_mailbox_check(r->copy, r->bytes, r->key, &v)) {
		case RSK_MAILBOX_EMPTY:
			return none(r, &r->empty, -EAGAIN);
		case RSK_MAILBOX_WHOLE:
			if (v.sequence <= r->known)
				return none(r, &r->old, -EAGAIN);
			r->known = v.sequence;
			*view = v;
			return none(r, &r->whole, 1);
		case RSK_MAILBOX_TORN:
			none(r, &r->torn, 0);
			if (r->tries == RSK_MAILBOX_TRIES)
				return -EBADMSG;
			r->tries++;
			rc = begin(r);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

/* ---- contents ---- */
static int content(const struct rsk_mailbox_view *view, uint16_t kind, void *is, uint32_t bytes)
{
	if (view->kind != kind || view->len != bytes)
		return -EBADMSG;
	memcpy(is, view->message, bytes);
	return 0;
}

int rsk_mailbox_link(const struct rsk_mailbox_view *view, struct rsk_mailbox_link *is)
{
	struct rsk_mailbox_link l;

	if (content(view, RSK_MAILBOX_LINK, &l, sizeof(l)) < 0 || !l.epoch || l.zero)
		return -EBADMSG;
	*is = l;
	return 0;
}

int rsk_mailbox_credit(const struct rsk_mailbox_view *view, struct rsk_mailbox_credit *is)
{
	struct rsk_mailbox_credit c;

	if (content(view, RSK_MAILBOX_CREDIT, &c, sizeof(c)) < 0 || !c.gen || c.zero)
		return -EBADMSG;
	*is = c;
	return 0;
}
