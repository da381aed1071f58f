// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_remote_msg.c - tests the check of messages from another host over a link's control
 * connection: every type, and each of its fields out of range.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/reason.h>

#include "remote_msg.h"

/* A valid message of any type. */
static struct rsk_remote_msg good(uint32_t type)
{
	struct rsk_seg_geometry g = { .ring_bytes = 128u << 10, .streams = RSK_SEG_MIN_STREAMS };
	struct rsk_remote_msg m = {
		.magic = RSK_REMOTE_MAGIC,
		.type = type,
		.epoch = 1,
		.generation = 1,
		.nonce = 2,
		.secret = 3,
		.handle = 4,
		.tuple = { .family = AF_INET, .local_port = 5, .peer_port = 6 },
		.end = { .segment = 4096, .indirect = 8192, .indirect_rkey = 7 },
		.link = { .type = RSK_LINK_PAIR },
		.link_bytes = sizeof(m.link),
		.ring_bytes = RSK_SEG_FIRST_RING,
		.order = { .kind = RSK_ORDER_WRAPPING, .bits = 13, .every = 1 },
	};

	if (type == RSK_REMOTE_MISSING) {
		m.gaps = 2;
		m.gap[0] = (struct rsk_remote_missing){ 5, 6 };
		m.gap[1] = (struct rsk_remote_missing){ 9, UINT64_MAX };
	} else if (type == RSK_REMOTE_CANDIDATE) {
		m.candidate =
			(struct rsk_verbs_device_addr){ .addr.family = AF_INET, .prefix_bits = 24 };
		m.rail = 2;
	}

	g.bytes = rsk_seg_ring_off(&g, g.streams);
	m.geometry = g;
	return m;
}

static void refused(struct rsk_remote_msg m, const char *what)
{
	cr_expect_eq(rsk_remote_msg_check(&m), -EPROTO, "type %u: %s was accepted", m.type, what);
}

static void accepted(struct rsk_remote_msg m, const char *what)
{
	cr_expect_eq(rsk_remote_msg_check(&m), 0, "type %u: %s was refused", m.type, what);
}

#define WITH(m, field, value)                                                                      \
	({                                                                                         \
		struct rsk_remote_msg with = (m);                                                  \
		with.field = (value);                                                              \
		with;                                                                              \
	})

Test(remote_msg, every_type)
{
	for (uint32_t type = RSK_REMOTE_HELLO; type < RSK_REMOTE_TYPES; type++)
		accepted(good(type), "a right one");
	refused(good(0), "no type");
	refused(good(RSK_REMOTE_TYPES), "a type that there is not");
	refused(good(UINT32_MAX), "a type that there is not");
}

/* Fields that every message has are checked in every message, since their users rely on it. */
Test(remote_msg, what_all_have)
{
	for (uint32_t type = RSK_REMOTE_HELLO; type < RSK_REMOTE_TYPES; type++) {
		struct rsk_remote_msg m = good(type);

		for (int bit = 0; bit < 64; bit += 9)
			refused(WITH(m, magic, m.magic ^ 1ull << bit), "another magic");
		accepted(WITH(m, sid, RSK_SEG_STREAMS - 1), "the last stream");
		refused(WITH(m, sid, RSK_SEG_STREAMS), "a stream too many");
		refused(WITH(m, sid, UINT32_MAX), "a stream too many");
		accepted(WITH(m, reason, RSK_REASON_MOST), "a reason of a later release");
		refused(WITH(m, reason, RSK_REASON_MOST + 1), "no reason");
		accepted(WITH(m, way, RSK_VERBS_DIRECT), "the last way");
		refused(WITH(m, way, RSK_VERBS_DIRECT + 1), "a way too many");
	}
}

Test(remote_msg, hello)
{
	struct rsk_remote_msg m = good(RSK_REMOTE_HELLO);

	refused(WITH(m, nonce, 0), "no nonce");
	refused(WITH(m, secret, 0), "no secret");
	refused(WITH(m, handle, 0), "no mapping");
	accepted(WITH(m, tuple.family, AF_INET6), "IPv6");
	refused(WITH(m, tuple.family, AF_UNIX), "another family");
	refused(WITH(m, tuple.family, 0), "no family");
	refused(WITH(m, tuple.local_port, 0), "port 0");
	refused(WITH(m, tuple.peer_port, 0), "port 0");
}

/* A geometry is mapped, so nothing in it may wrap or exceed the largest segment. */
Test(remote_msg, geometry)
{
	static const uint32_t types[] = { RSK_REMOTE_HELLO, RSK_REMOTE_WELCOME };

	for (int i = 0; i < 2; i++) {
		struct rsk_remote_msg m = good(types[i]);

		refused(WITH(m, geometry.bytes, m.geometry.bytes + 1), "another size");
		refused(WITH(m, geometry.bytes, 0), "no size");
		refused(WITH(m, geometry.streams, RSK_SEG_MIN_STREAMS / 2), "few streams");
		refused(WITH(m, geometry.streams, RSK_SEG_STREAMS * 2), "many streams");
		refused(WITH(m, geometry.streams, RSK_SEG_MIN_STREAMS + 1), "an odd number");
		refused(WITH(m, geometry.ring_bytes, RSK_SEG_MIN_RING / 2), "a small ring");
		refused(WITH(m, geometry.ring_bytes, RSK_SEG_MAX_RING * 2), "a large ring");
		refused(WITH(m, geometry.ring_bytes, 3u << 16), "no power of two");
	}
	/* In types that do not use the geometry it is not checked. */
	accepted(WITH(good(RSK_REMOTE_RAIL), geometry.bytes, 1), "a geometry that is not used");
}

/* The form by which a receiver reads the tags of its slots. */
Test(remote_msg, order)
{
	static const uint32_t types[] = { RSK_REMOTE_HELLO, RSK_REMOTE_WELCOME };

	for (int i = 0; i < 2; i++) {
		struct rsk_remote_msg m = good(types[i]);

		accepted(WITH(m, order.stop, 1), "+stop");
		refused(WITH(m, order.stop, 2), "a bool of 2");
		refused(WITH(m, order.kind, RSK_ORDER_WRAPPING + 1), "another form");
		refused(WITH(m, order.bits, 0), "an index of no bits");
		refused(WITH(m, order.bits, 14), "an index of 14 bits");
		refused(WITH(m, order.every, 0), "every 0 times");
		refused(WITH(m, order.every, 2), "a wrapping one that restarts");
		m.order.kind = RSK_ORDER_RELATIVE;
		refused(WITH(m, order.bits, 13), "no room for the epoch");
		m.order.bits = 12;
		accepted(WITH(m, order.every, RSK_ORDER_EVERY_MAX), "a restart now and then");
		refused(WITH(m, order.every, RSK_ORDER_EVERY_MAX + 1), "more than there is");
		cr_expect_eq(rsk_remote_form(&m.order).kind, RSK_ORDER_RELATIVE);
		cr_expect_eq(rsk_remote_form(&m.order).bits, 12);
	}
	accepted(WITH(good(RSK_REMOTE_RAIL), order.bits, 99), "a form that is not used");
}

Test(remote_msg, rail)
{
	struct rsk_remote_msg m = good(RSK_REMOTE_RAIL);

	refused(WITH(m, epoch, 0), "epoch 0");
	accepted(WITH(m, epoch, UINT32_MAX), "a high epoch");
	refused(WITH(m, end.segment, 0), "no segment");
	refused(WITH(m, end.indirect, 0), "no indirect buffer");
	accepted(WITH(m, end.indirect_rkey, 0), "an rkey of 0");
}

Test(remote_msg, break_and_resume)
{
	refused(WITH(good(RSK_REMOTE_BREAK), epoch, 0), "epoch 0");
	refused(WITH(good(RSK_REMOTE_RESUME), epoch, 0), "epoch 0");
	/* Positions are checked where they are used (rsk_tx_resume()). */
	accepted(WITH(good(RSK_REMOTE_RESUME), pos, UINT64_MAX), "any position");
	accepted(WITH(good(RSK_REMOTE_RESUME), cell, UINT64_MAX), "any cell");
}

/* A message about one of several rails names the rail and its generation. */
Test(remote_msg, one_of_several)
{
	static const uint32_t types[] = { RSK_REMOTE_RAIL, RSK_REMOTE_RAIL_DOWN, RSK_REMOTE_MISSING,
					  RSK_REMOTE_MISSING_END };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct rsk_remote_msg m = good(types[i]);

		accepted(WITH(m, rail, RSK_RAILS_MOST - 1), "the last rail");
		refused(WITH(m, rail, RSK_RAILS_MOST), "a rail too many");
		refused(WITH(m, rail, UINT32_MAX), "a rail too many");
		refused(WITH(m, generation, 0), "no life");
		refused(WITH(m, epoch, 0), "epoch 0");
	}
	refused(WITH(good(RSK_REMOTE_RING), rail, RSK_RAILS_MOST), "a rail too many");
	refused(WITH(good(RSK_REMOTE_RING_REQ), rail, RSK_RAILS_MOST), "a rail too many");
}

Test(remote_msg, widths)
{
	static const uint32_t types[] = { RSK_REMOTE_RING, RSK_REMOTE_RING_REQ };

	for (size_t i = 0; i < 2; i++) {
		struct rsk_remote_msg m = good(types[i]);

		accepted(WITH(m, ring_bytes, RSK_SEG_MAX_RING), "all of the largest ring");
		refused(WITH(m, ring_bytes, 0), "nothing of a ring");
		refused(WITH(m, ring_bytes, RSK_SEG_FIRST_RING / 2),
			"less than a ring begins with");
		refused(WITH(m, ring_bytes, 3 * RSK_SEG_FIRST_RING), "no power of two");
		refused(WITH(m, ring_bytes, 2 * RSK_SEG_MAX_RING), "more than a ring has");
	}
}

Test(remote_msg, gaps)
{
	struct rsk_remote_msg m = good(RSK_REMOTE_MISSING);

	refused(WITH(m, gaps, 0), "no gap");
	accepted(WITH(m, missing, RSK_ORDER_WINDOW_MAX), "all that can be under way");
	refused(WITH(m, missing, RSK_ORDER_WINDOW_MAX + 1), "more than can be under way");
	refused(WITH(m, cell, 1), "the name of none");
	m.missing = 1;
	accepted(WITH(m, cell, UINT64_MAX), "any name");
	m.missing = 0;
	refused(WITH(m, gaps, RSK_REMOTE_MISSING_MOST + 1), "more than there is room for");
	refused(WITH(m, gaps, UINT32_MAX), "more than there is room for");
	refused(WITH(m, gap[1].from, UINT64_MAX), "an empty one");
	refused(WITH(m, gap[0].to, 4), "one that ends before it begins");
}

Test(remote_msg, candidates)
{
	struct rsk_remote_msg m = good(RSK_REMOTE_CANDIDATE);

	refused(WITH(m, generation, 0), "a place of none");
	refused(WITH(m, generation, RSK_REMOTE_CANDIDATES + 1), "one of too many");
	refused(WITH(m, gaps, m.generation), "one behind the last");
	refused(WITH(m, rail, 0), "no rail at all");
	refused(WITH(m, rail, 1), "no further rail");
	accepted(WITH(m, rail, RSK_RAILS_MOST), "all that there can be");
	refused(WITH(m, rail, RSK_RAILS_MOST + 1), "more than there can be");
	refused(WITH(m, candidate.addr.family, AF_UNIX), "another family");
	accepted(WITH(m, use, RSK_REMOTE_USE_SPARE), "a spare one");
	refused(WITH(m, use, RSK_REMOTE_USES), "of no known use");
	refused(WITH(m, candidate.prefix_bits, 33), "a long prefix");
	m.candidate.addr.family = AF_INET6;
	accepted(WITH(m, candidate.prefix_bits, 128), "IPv6's longest");
	refused(WITH(m, candidate.prefix_bits, 129), "a longer one");
}

/* In an empty list of candidates the candidate is all zero. */
Test(remote_msg, no_places)
{
	struct rsk_remote_msg m = good(RSK_REMOTE_CANDIDATE);
	uint8_t *at = (uint8_t *)&m.candidate;

	m.generation = 0;
	memset(at, 0, sizeof(m.candidate));
	accepted(m, "an empty list");
	refused(WITH(m, gaps, 1), "the second of none");
	refused(WITH(m, use, RSK_REMOTE_USE_ACTIVE), "the use of none");
	refused(WITH(m, rail, 1), "no further rail");
	refused(WITH(m, rail, RSK_RAILS_MOST + 1), "more than there can be");
	for (size_t i = 0; i < sizeof(m.candidate); i++) {
		at[i] = 1;
		refused(m, "a part of a place of none");
		at[i] = 0;
	}
}

Test(remote_msg, link)
{
	struct rsk_remote_msg m = good(RSK_REMOTE_LINK);

	refused(WITH(m, link_bytes, 0), "an empty message");
	refused(WITH(m, link_bytes, sizeof(m.link) - 1), "a short message");
	refused(WITH(m, link_bytes, sizeof(m.link) + 1), "a long message");
	refused(WITH(m, link_bytes, UINT32_MAX), "a long message");
	/* Descriptors and memory cannot come from another host. */
	refused(WITH(m, link.type, RSK_LINK_HELLO), "a handshake of this host's kind");
}

/* The check changes nothing in the message, and unused fields do not count. */
Test(remote_msg, pure)
{
	for (uint32_t type = 0; type <= RSK_REMOTE_TYPES; type++) {
		struct rsk_remote_msg m = good(type), before = m;

		rsk_remote_msg_check(&m);
		cr_assert_arr_eq(&m, &before, sizeof(m));
	}
}
