// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_mailbox_harm.c - tests copies of a mailbox that are torn, old, changed, another's or forged:
 * none is accepted, and no read leaves the copy.
 */
#include "mailbox_kit.h"

#define ROOM 72u
#define BYTES (RSK_MAILBOX_FRAME_BYTES + ROOM)

/*
 * A mailbox in memory of exactly its size, and a copy of the same size: a sanitizer reports an
 * access to the first byte beyond.
 */
struct copy {
	struct rsk_key key;
	struct rsk_mailbox box;
	uint8_t *at, *own;
	struct rsk_mailbox_view view;
};

static void copy_open(struct copy *c)
{
	c->at = calloc(1, BYTES);
	c->own = calloc(1, BYTES);
	rsk_key_init(&c->key, KEY);
	rsk_mailbox_init(&c->box, c->at, BYTES, &c->key);
}

static void copy_close(struct copy *c)
{
	free(c->at);
	free(c->own);
}

static enum rsk_mailbox_check look(struct copy *c)
{
	return rsk_mailbox_check(c->own, BYTES, &c->key, &c->view);
}

Test(mailbox_harm, every_bit_counts)
{
	uint8_t message[ROOM];
	struct copy c;

	copy_open(&c);
	for (uint32_t i = 0; i < ROOM; i++)
		message[i] = dice_byte(3, i);
	for (uint32_t len = 0; len <= ROOM; len += len < 9 ? 1 : 21) {
		uint32_t bits = (RSK_MAILBOX_FRAME_BYTES + len) * 8;

		cr_assert_eq(rsk_mailbox_publish(&c.box, RSK_MAILBOX_DATA, message, len), 0);
		memcpy(c.own, c.at, BYTES);
		for (uint32_t bit = 0; bit < bits; bit++) {
			c.own[bit / 8] ^= (uint8_t)(1u << bit % 8);
			cr_assert_neq(look(&c), RSK_MAILBOX_WHOLE, "%u bytes, bit %u", len, bit);
			c.own[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		cr_assert_eq(look(&c), RSK_MAILBOX_WHOLE);
		cr_assert_eq(c.view.len, len);
	}
	copy_close(&c);
}

Test(mailbox_harm, key_and_slot_count)
{
	struct rsk_slot_head head = { .index = 1, .len = 8, .kind = RSK_SLOT_DATA };
	uint8_t message[8] = { 1 };
	struct rsk_key other;
	struct copy c;
	uint64_t hash;

	copy_open(&c);
	cr_assert_eq(rsk_mailbox_publish(&c.box, RSK_MAILBOX_DATA, message, sizeof(message)), 0);
	memcpy(c.own, c.at, BYTES);
	rsk_key_init(&other, KEY + 1);
	cr_assert_eq(rsk_mailbox_check(c.own, BYTES, &other, &c.view), RSK_MAILBOX_TORN);
	cr_assert_eq(look(&c), RSK_MAILBOX_WHOLE);
	/* A slot hashed with the same key, in the layout of a mailbox. */
	hash = rsk_hash_slot(&c.key, &head, rsk_hash_payload(&c.key, message, sizeof(message)));
	memcpy(c.own, &head, sizeof(head));
	memcpy(c.own + sizeof(head), &hash, sizeof(hash));
	cr_assert_eq(look(&c), RSK_MAILBOX_TORN);
	copy_close(&c);
}

/*
 * Lengths and kinds from an owner that has the key: impossible ones are not accepted either, and
 * cause no access out of bounds.
 */
Test(mailbox_harm, lengths_of_an_owner_that_lies)
{
	struct copy c;

	copy_open(&c);
	for (uint64_t len = 0; len <= UINT32_MAX; len = len < 300 ? len + 1 : len * 3 + 1) {
		struct rsk_mailbox_head head = { .sequence = 1,
						 .len = (uint32_t)len,
						 .kind = RSK_MAILBOX_DATA };
		struct rsk_slot_head h = { .index = 1,
					   .len = (uint32_t)len,
					   .kind = RSK_MAILBOX_DATA };

		memset(c.own, 0, BYTES);
		head.hash = rsk_hash_slot(&c.key, &h,
					  rsk_hash_payload(&c.key, c.own,
							   len <= ROOM ? (uint32_t)len : ROOM));
		memcpy(c.own, &head, sizeof(head));
		cr_assert(look(&c) == RSK_MAILBOX_TORN || len <= ROOM, "length %llu",
			  (unsigned long long)len);
		if (look(&c) == RSK_MAILBOX_WHOLE)
			cr_assert_eq(c.view.len, len);
	}
	copy_close(&c);
}

/*
 * Blocks 0,0,0; then 1,0,0; then 1,2,0; read as 0,2,0: that and all mixtures of three states, with
 * blocks of any size.
 */
Test(mailbox_harm, no_mixture_passes)
{
	uint8_t state[3][BYTES], message[ROOM];
	uint64_t mixed = 0;
	struct copy c;

	copy_open(&c);
	for (uint32_t s = 0; s < 3; s++) {
		memset(message, (int)s, ROOM);
		cr_assert_eq(rsk_mailbox_publish(&c.box, RSK_MAILBOX_DATA, message, ROOM), 0);
		memcpy(state[s], c.at, BYTES);
	}
	for (uint32_t a = 1; a < BYTES; a++) {
		for (uint32_t b = a; b < BYTES; b++) {
			for (uint32_t mix = 0; mix < 27; mix++) {
				uint32_t part[3] = { mix % 3, mix / 3 % 3, mix / 9 };
				bool is_state = false;

				memcpy(c.own, state[part[0]], a);
				memcpy(c.own + a, state[part[1]] + a, b - a);
				memcpy(c.own + b, state[part[2]] + b, BYTES - b);
				for (uint32_t s = 0; s < 3; s++)
					is_state |= memcmp(c.own, state[s], BYTES) == 0;
				mixed += !is_state;
				if ((look(&c) == RSK_MAILBOX_WHOLE) != is_state)
					cr_assert_fail("%u..%u of %u %u %u", a, b, part[0], part[1],
						       part[2]);
			}
		}
	}
	cr_assert_gt(mixed, 50000);
	copy_close(&c);
}

Test(mailbox_harm, random_memory_is_not_believed)
{
	uint64_t dice = dice_seed("random_memory"), torn = 0;
	struct copy c;

	copy_open(&c);
	for (uint32_t i = 0; i < 200000; i++) {
		for (uint32_t k = 0; k < BYTES; k += 8) {
			uint64_t word = dice_roll(&dice);

			memcpy(c.own + k, &word, 8);
		}
		if (i % 2) { /* a plausible head */
			struct rsk_mailbox_head head = {
				.sequence = 1 + i,
				.len = (uint32_t)dice_roll(&dice) % (2 * ROOM),
				.kind = (uint16_t)(RSK_MAILBOX_DATA + dice_roll(&dice) % 6),
				.hash = dice_roll(&dice)
			};

			memcpy(c.own, &head, sizeof(head));
		}
		if (look(&c) == RSK_MAILBOX_WHOLE)
			cr_assert_fail("believed, at %u", i);
		torn++;
	}
	cr_assert_eq(torn, 200000);
	copy_close(&c);
}

/* ---- a rail that returns what the test sets ---- */
struct liar {
	struct rsk_rail rail;
	const uint8_t *gives;
	uint32_t asked;
	bool late; /* the get completes later */
	int refuses;
};

static int liar_get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token)
{
	struct liar *l = rail->priv;

	(void)off;
	(void)token;
	if (l->refuses)
		return l->refuses;
	l->asked++;
	memcpy(dst, l->gives, len);
	return !l->late;
}

static const struct rsk_fabric_ops liar_ops = { .name = "liar", .get = liar_get };

static void liar_open(struct liar *l, struct rsk_mailbox_reader *r, const struct copy *c)
{
	*l = (struct liar){ .rail = { .ops = &liar_ops }, .gives = c->own };
	l->rail.priv = l;
	rsk_mailbox_reader_init(r, &l->rail, 0, BYTES, &c->key, 1);
}

Test(mailbox_harm, a_late_copy_is_refused)
{
	struct rsk_mailbox_reader r;
	struct rsk_mailbox_view view;
	struct liar l;
	struct copy c;

	copy_open(&c);
	liar_open(&l, &r, &c);
	say_next(&c.box, 1);
	memcpy(c.own, c.at, BYTES); /* of sequence 1 */
	say_next(&c.box, 1);
	l.gives = c.at;
	cr_assert_eq(rsk_mailbox_start(&r), 0);
	cr_assert_eq(rsk_mailbox_take(&r, &view), 1);
	cr_assert_eq(view.sequence, 2);
	l.gives = c.own;
	cr_assert_eq(rsk_mailbox_start(&r), 0);
	cr_assert_eq(rsk_mailbox_take(&r, &view), -EAGAIN);
	cr_assert_eq(r.old, 1);
	cr_assert_eq(r.known, 2);
	cr_assert(rsk_mailbox_reader_validate(&r));
	copy_close(&c);
}

/* A torn copy is obtained again, up to the bound; the next call starts anew. */
Test(mailbox_harm, tries_are_bounded)
{
	struct rsk_mailbox_reader r;
	struct rsk_mailbox_view view;
	struct liar l;
	struct copy c;

	copy_open(&c);
	liar_open(&l, &r, &c);
	say_next(&c.box, 1);
	memcpy(c.own, c.at, BYTES);
	c.own[16] ^= 1;
	for (uint32_t i = 1; i <= 3; i++) {
		cr_assert_eq(rsk_mailbox_start(&r), 0);
		cr_assert_eq(rsk_mailbox_take(&r, &view), -EBADMSG);
		cr_assert_eq(l.asked, i * RSK_MAILBOX_TRIES);
		cr_assert_eq(r.torn, i * RSK_MAILBOX_TRIES);
		cr_assert(rsk_mailbox_reader_validate(&r));
	}
	/* With late completions the caller waits for each of them. */
	l.late = true;
	cr_assert_eq(rsk_mailbox_start(&r), 0);
	for (uint32_t i = 1; i <= RSK_MAILBOX_TRIES; i++) {
		const struct rsk_completion done = { .token = r.token },
					    other = { .token = r.token - 1 };

		cr_assert_eq(rsk_mailbox_take(&r, &view), 0);
		cr_assert_not(rsk_mailbox_heard(&r, &other));
		cr_assert(rsk_mailbox_heard(&r, &done));
		cr_assert_not(rsk_mailbox_heard(&r, &done), "twice");
		cr_assert_eq(rsk_mailbox_take(&r, &view), i < RSK_MAILBOX_TRIES ? 0 : -EBADMSG);
	}
	l.late = false;
	c.own[16] ^= 1;
	cr_assert_eq(rsk_mailbox_start(&r), 0);
	cr_assert_eq(rsk_mailbox_take(&r, &view), 1);
	cr_assert(rsk_mailbox_reader_validate(&r));
	copy_close(&c);
}

Test(mailbox_harm, a_rail_that_refuses)
{
	const struct rsk_fabric_ops none = { .name = "no get" };
	struct rsk_mailbox_reader r;
	struct rsk_mailbox_view view;
	struct liar l;
	struct copy c;

	copy_open(&c);
	liar_open(&l, &r, &c);
	say_next(&c.box, 1);
	memcpy(c.own, c.at, BYTES);
	l.refuses = -EAGAIN;
	cr_assert_eq(rsk_mailbox_start(&r), -EAGAIN);
	cr_assert_eq(rsk_mailbox_take(&r, &view), -EINVAL);
	/* Refused in the middle of retries. */
	l.refuses = 0;
	l.late = true;
	c.own[30] ^= 1;
	cr_assert_eq(rsk_mailbox_start(&r), 0);
	cr_assert(rsk_mailbox_heard(&r, &(struct rsk_completion){ .token = r.token }));
	l.refuses = -EPIPE;
	cr_assert_eq(rsk_mailbox_take(&r, &view), -EPIPE);
	cr_assert(rsk_mailbox_reader_validate(&r));
	/* A get that failed. */
	l.refuses = 0;
	cr_assert_eq(rsk_mailbox_start(&r), 0);
	cr_assert(rsk_mailbox_heard(&r, &(struct rsk_completion){ .token = r.token,
								  .status = -EACCES }));
	cr_assert_eq(rsk_mailbox_take(&r, &view), -EACCES);
	l.rail.ops = &none;
	cr_assert_eq(rsk_mailbox_start(&r), -EOPNOTSUPP);
	cr_assert(rsk_mailbox_reader_validate(&r));
	copy_close(&c);
}

/* Contents from an owner that has the key: impossible values are rejected. */
Test(mailbox_harm, contents_that_cannot_be)
{
	static const struct rsk_mailbox_link wrong[] = {
		{ .closed = { 1 } },
		{ .epoch = 1, .zero = 1 },
	};
	struct rsk_mailbox_credit credit;
	struct rsk_mailbox_link l;
	uint8_t message[40] = { 0 };
	struct rsk_mailbox_view v = { .sequence = 1, .message = message };

	v.kind = RSK_MAILBOX_LINK;
	v.len = sizeof(l);
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		v.message = (const uint8_t *)&wrong[i];
		cr_assert_eq(rsk_mailbox_link(&v, &l), -EBADMSG, "%u", i);
	}
	memset(message, 1, sizeof(message));
	memset(message + offsetof(struct rsk_mailbox_credit, zero), 0, sizeof(credit.zero));
	v.message = message;
	v.kind = RSK_MAILBOX_CREDIT;
	for (v.len = 0; v.len <= sizeof(message); v.len++)
		cr_assert_eq(rsk_mailbox_credit(&v, &credit) == 0, v.len == sizeof(credit));
	v.len = sizeof(credit);
	message[offsetof(struct rsk_mailbox_credit, zero)] = 1;
	cr_assert_eq(rsk_mailbox_credit(&v, &credit), -EBADMSG, "of a kind to come");
	message[offsetof(struct rsk_mailbox_credit, zero)] = 0;
	memset(message + offsetof(struct rsk_mailbox_credit, gen), 0, sizeof(credit.gen));
	cr_assert_eq(rsk_mailbox_credit(&v, &credit), -EBADMSG, "of no promotion");
}
