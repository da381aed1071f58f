// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pm_msg.c - tests the port mapper's codec: vectors written by hand from the message table,
 * round trips over random messages, and every invalid message.
 */
#include "pm_msg.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "dice.h"

/* clang-format off: the vectors keep the table's rows */
/* PMReq, IPv4: 10.1.2.3:40000 asks for 10.1.2.4:5201. */
static const uint8_t req4[48] = {
	0x04, 0x00, 0x00, 0x00, 0x14, 0x51, 0x9c, 0x40, /* version 0 OP 0 IPV 4; ports */
	0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, /* AssocHandle */
	10,   1,    2,	  3,	0,    0,    0,	  0,	0, 0, 0, 0, 0, 0, 0, 0,
	10,   1,    2,	  4,	0,    0,    0,	  0,	0, 0, 0, 0, 0, 0, 0, 0,
};

/* PMAccept to it: RDMA address 10.9.9.9:49152, valid for 30 s. */
static const uint8_t accept4[48] = {
	0x14, 0x1e, 0x00, 0x00, 0xc0, 0x00, 0x9c, 0x40, 0x01, 0x23, 0x45, 0x67,
	0x89, 0xab, 0xcd, 0xef, 10,   1,    2,	  3,	0,    0,    0,	  0,
	0,    0,    0,	  0,	0,    0,    0,	  0,	10,   9,    9,	  9,
	0,    0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0,	  0,
};

/* PMAck to that: as the PMAccept, PmTime 0. */
static const uint8_t ack4[48] = {
	0x24, 0x00, 0x00, 0x00, 0xc0, 0x00, 0x9c, 0x40, 0x01, 0x23, 0x45, 0x67,
	0x89, 0xab, 0xcd, 0xef, 10,   1,    2,	  3,	0,    0,    0,	  0,
	0,    0,    0,	  0,	0,    0,    0,	  0,	10,   9,    9,	  9,
	0,    0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0,	  0,
};

/* PMDeny to the request. */
static const uint8_t deny4[48] = {
	0x34, 0x00, 0x00, 0x00, 0x14, 0x51, 0x9c, 0x40, 0x01, 0x23, 0x45, 0x67,
	0x89, 0xab, 0xcd, 0xef, 10,   1,    2,	  3,	0,    0,    0,	  0,
	0,    0,    0,	  0,	0,    0,    0,	  0,	10,   1,    2,	  4,
	0,    0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0,	  0,
};

/* PMReq, IPv6, 64 bytes: the link will come from fd00::7, port 0x1234. */
static const uint8_t req6_mapped[64] = {
	0x06, 0x00, 0x12, 0x34, 0x00, 0x50, 0xff, 0xff, 0xff, 0xee, 0xdd, 0xcc, 0xbb,
	0xaa, 0x99, 0x88, 0x20, 0x01, 0x0d, 0xb8, 0,	0,    0,    0,	  0,	0,
	0,    0,    0,	  0,	0,    1,    0x20, 0x01, 0x0d, 0xb8, 0,	  0,	0,
	0,    0,    0,	  0,	0,    0,    0,	  0,	2,    0xfd, 0x00, 0,	0,
	0,    0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0,	  7,
};

/* clang-format on */

static struct rsk_pm_msg decoded(const uint8_t *wire, size_t len)
{
	struct rsk_pm_msg m;

	memset(&m, 0xa5, sizeof(m));
	cr_assert_eq(rsk_pm_msg_decode(wire, len, &m), 0);
	cr_assert_eq(rsk_pm_msg_validate(&m), 0);
	return m;
}

static void expect_wire(const struct rsk_pm_msg *m, const uint8_t *wire, size_t len)
{
	uint8_t buf[80];

	memset(buf, 0xa5, sizeof(buf));
	cr_assert_eq(rsk_pm_msg_encode(m, buf, sizeof(buf)), (ssize_t)len);
	cr_assert_arr_eq(buf, wire, len);
	for (size_t i = len; i < sizeof(buf); i++)
		cr_assert_eq(buf[i], 0xa5, "byte %zu behind the message was written", i);
}

Test(pm_msg, request_vector)
{
	struct rsk_pm_msg m = decoded(req4, sizeof(req4));

	cr_assert_eq(m.op, RSK_PM_REQ);
	cr_assert_eq(m.ipv, 4);
	cr_assert_eq(m.pm_time_s, 0);
	cr_assert_eq(m.ap_port, 5201);
	cr_assert_eq(m.cp_port, 40000);
	cr_assert_eq(m.assoc_handle, UINT64_C(0x0123456789abcdef));
	cr_assert(!m.mapped);
	cr_assert_eq(m.cp_ip[3], 3);
	cr_assert_eq(m.ap_ip[3], 4);
	expect_wire(&m, req4, sizeof(req4));
}

Test(pm_msg, answers_are_the_vectors)
{
	static const uint8_t rdma_ip[16] = { 10, 9, 9, 9 };
	struct rsk_pm_msg req = decoded(req4, sizeof(req4));
	struct rsk_pm_msg accept, ack, deny;

	cr_assert_eq(rsk_pm_msg_accept(&req, rdma_ip, 0xc000, 30, &accept), 0);
	expect_wire(&accept, accept4, sizeof(accept4));
	cr_assert_eq(decoded(accept4, sizeof(accept4)).pm_time_s, 30);
	cr_assert_eq(rsk_pm_msg_ack(&accept, &ack), 0);
	expect_wire(&ack, ack4, sizeof(ack4));
	cr_assert_eq(rsk_pm_msg_deny(&req, &deny), 0);
	expect_wire(&deny, deny4, sizeof(deny4));

	cr_assert(rsk_pm_msg_answers(&accept, &req));
	cr_assert(rsk_pm_msg_answers(&deny, &req));
	cr_assert(!rsk_pm_msg_answers(&ack, &req), "an ack answers no request");
	cr_assert(!rsk_pm_msg_answers(&req, &req));
	accept.cp_port++;
	cr_assert(!rsk_pm_msg_answers(&accept, &req));
	accept.cp_port--;
	accept.assoc_handle ^= 1;
	cr_assert(!rsk_pm_msg_answers(&accept, &req));
}

Test(pm_msg, mapped_request)
{
	struct rsk_pm_msg m = decoded(req6_mapped, sizeof(req6_mapped));
	struct rsk_pm_msg deny;
	uint8_t buf[64];

	cr_assert(m.mapped);
	cr_assert_eq(m.mapped_cp_port, 0x1234);
	cr_assert_eq(m.mapped_cp_ip[15], 7);
	cr_assert_eq(m.ap_port, 80);
	expect_wire(&m, req6_mapped, sizeof(req6_mapped));
	cr_assert_eq(rsk_pm_msg_encode(&m, buf, 63), -ENOBUFS);
	/* All answers have 48 bytes and no mapped fields. */
	cr_assert_eq(rsk_pm_msg_deny(&m, &deny), 0);
	cr_assert_eq(rsk_pm_msg_encode(&deny, buf, sizeof(buf)), 48);
	cr_assert_eq(buf[2], 0);
	cr_assert_eq(buf[3], 0);
}

Test(pm_msg, sizes)
{
	uint8_t buf[256] = { 0 };
	struct rsk_pm_msg m;

	memcpy(buf, req4, sizeof(req4));
	for (size_t len = 0; len <= sizeof(buf); len++) {
		int want = len == 48 || len >= 64 ? 0 : -EMSGSIZE;

		cr_assert_eq(rsk_pm_msg_decode(buf, len, &m), want, "length %zu", len);
	}
}

Test(pm_msg, spare_bytes_are_ignored_and_sent_as_zero)
{
	uint8_t buf[64];
	struct rsk_pm_msg m;

	/* Outside a 64-byte PMReq the reserved field has no meaning; PmTime belongs to PMAccept. */
	memcpy(buf, req4, 48);
	buf[1] = 77;
	buf[2] = 0xde;
	buf[3] = 0xad;
	memset(buf + 20, 0xee, 12); /* behind the IPv4 address */
	m = decoded(buf, 48);
	expect_wire(&m, req4, 48);

	memset(buf + 48, 0xee, 16);
	memcpy(buf, accept4, 48);
	m = decoded(buf, 64);
	cr_assert(!m.mapped);
	expect_wire(&m, accept4, 48);

	/* A 64-byte request that names no source is the 48-byte one. */
	memcpy(buf, req4, 48);
	memset(buf + 48, 0, 16);
	buf[2] = 1;
	m = decoded(buf, 64);
	cr_assert(!m.mapped);
	expect_wire(&m, req4, 48);
}

Test(pm_msg, refusals_leave_the_output_alone)
{
	static const struct {
		size_t at;
		size_t n;
		uint8_t value;
		int want;
		const char *what;
	} rows[] = {
		{ 0, 1, 0x44, -EPROTONOSUPPORT, "version 1" },
		{ 0, 1, 0xc4, -EPROTONOSUPPORT, "version 3" },
		{ 0, 1, 0x05, -EAFNOSUPPORT, "IPV 5" },
		{ 0, 1, 0x00, -EAFNOSUPPORT, "IPV 0" },
		{ 8, 8, 0x00, -EINVAL, "AssocHandle 0" },
		{ 4, 2, 0x00, -EINVAL, "ApPort 0" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rsk_pm_msg m, before;
		uint8_t buf[48];

		memset(&m, 0x5a, sizeof(m));
		before = m;
		memcpy(buf, req4, sizeof(buf));
		memset(buf + rows[i].at, rows[i].value, rows[i].n);
		cr_assert_eq(rsk_pm_msg_decode(buf, sizeof(buf), &m), rows[i].want, "%s",
			     rows[i].what);
		cr_assert_arr_eq(&m, &before, sizeof(m), "%s", rows[i].what);
	}
}

Test(pm_msg, an_accept_names_a_place)
{
	static const uint8_t any[16], wide[16] = { 10, 0, 0, 1, 9 };
	struct rsk_pm_msg req = decoded(req4, sizeof(req4)), accept = decoded(accept4, 48), out;
	uint8_t buf[48];

	cr_assert_eq(rsk_pm_msg_accept(&req, any, 1, 0, &out), -EINVAL);
	cr_assert_eq(rsk_pm_msg_accept(&req, wide, 1, 0, &out), -EINVAL);
	cr_assert_eq(rsk_pm_msg_accept(&req, req.ap_ip, 0, 0, &out), -EINVAL);
	cr_assert_eq(rsk_pm_msg_accept(&accept, req.ap_ip, 1, 0, &out), -EINVAL);
	cr_assert_eq(rsk_pm_msg_deny(&accept, &out), -EINVAL);
	cr_assert_eq(rsk_pm_msg_ack(&req, &out), -EINVAL);
	memcpy(buf, accept4, 48);
	memset(buf + 32, 0, 16);
	cr_assert_eq(rsk_pm_msg_decode(buf, 48, &out), -EINVAL);
	/* A service mapping: CpPort 0 is allowed. */
	memcpy(buf, req4, 48);
	buf[6] = buf[7] = 0;
	cr_assert_eq(rsk_pm_msg_decode(buf, 48, &out), 0);
	cr_assert_eq(out.cp_port, 0);
}

Test(pm_msg, encode_refuses_what_decode_would)
{
	struct rsk_pm_msg good = decoded(req4, sizeof(req4)), m;
	uint8_t buf[64];

	m = good;
	m.op = (enum rsk_pm_op)4;
	cr_assert_eq(rsk_pm_msg_encode(&m, buf, sizeof(buf)), -EINVAL);
	m = good;
	m.pm_time_s = 1;
	cr_assert_eq(rsk_pm_msg_encode(&m, buf, sizeof(buf)), -EINVAL);
	m = good;
	m.mapped = true;
	cr_assert_eq(rsk_pm_msg_encode(&m, buf, sizeof(buf)), -EINVAL, "mapped to nowhere");
	m = good;
	m.mapped_cp_port = 9;
	cr_assert_eq(rsk_pm_msg_encode(&m, buf, sizeof(buf)), -EINVAL);
	m = decoded(accept4, sizeof(accept4));
	m.mapped = true;
	m.mapped_cp_ip[0] = 1;
	cr_assert_eq(rsk_pm_msg_encode(&m, buf, sizeof(buf)), -EINVAL);
	cr_assert_eq(rsk_pm_msg_encode(&good, buf, 47), -ENOBUFS);
}

/* A valid message of any kind. */
static struct rsk_pm_msg random_msg(uint64_t *seed)
{
	struct rsk_pm_msg m = { .op = (enum rsk_pm_op)(dice_roll(seed) & 3) };
	size_t len;

	m.ipv = dice_roll(seed) & 1 ? RSK_PM_IPV4 : RSK_PM_IPV6;
	len = m.ipv == RSK_PM_IPV4 ? 4 : 16;
	m.ap_port = (uint16_t)(dice_roll(seed) | 1);
	m.cp_port = (uint16_t)dice_roll(seed);
	m.assoc_handle = dice_roll(seed);
	for (size_t i = 0; i < len; i++) {
		m.cp_ip[i] = (uint8_t)dice_roll(seed);
		m.ap_ip[i] = (uint8_t)(dice_roll(seed) | 1);
	}
	if (m.op == RSK_PM_ACCEPT)
		m.pm_time_s = (uint8_t)dice_roll(seed);
	if (m.op == RSK_PM_REQ && dice_roll(seed) & 1) {
		m.mapped = true;
		m.mapped_cp_port = (uint16_t)dice_roll(seed);
		for (size_t i = 0; i < len; i++)
			m.mapped_cp_ip[i] = (uint8_t)(dice_roll(seed) | 1);
	}
	return m;
}

Test(pm_msg, round_trips)
{
	uint64_t seed = 1;

	for (int i = 0; i < 100000; i++) {
		struct rsk_pm_msg m = random_msg(&seed), back;
		uint8_t buf[64], again[64];
		ssize_t n = rsk_pm_msg_encode(&m, buf, sizeof(buf));

		cr_assert(n == (m.mapped ? 64 : 48), "message %d: %zd", i, n);
		cr_assert_eq(rsk_pm_msg_decode(buf, (size_t)n, &back), 0, "message %d", i);
		cr_assert_eq(back.op, m.op);
		cr_assert_eq(back.pm_time_s, m.pm_time_s);
		cr_assert_eq(back.assoc_handle, m.assoc_handle);
		cr_assert_eq(back.mapped, m.mapped);
		cr_assert_eq(rsk_pm_msg_encode(&back, again, sizeof(again)), n);
		cr_assert_arr_eq(buf, again, (size_t)n, "message %d", i);
	}
}
