// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_pm_msg.c - fuzzes the codec of port mapper datagrams with any bytes: a message that decodes
 * is valid, encodes, and decodes to the same again; answers built from it are valid too.
 */
#include "pm_msg.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static bool same(const struct rsk_pm_msg *a, const struct rsk_pm_msg *b)
{
	return a->op == b->op && a->ipv == b->ipv && a->pm_time_s == b->pm_time_s &&
	       a->mapped == b->mapped && a->ap_port == b->ap_port && a->cp_port == b->cp_port &&
	       a->mapped_cp_port == b->mapped_cp_port && a->assoc_handle == b->assoc_handle &&
	       memcmp(a->cp_ip, b->cp_ip, 16) == 0 && memcmp(a->ap_ip, b->ap_ip, 16) == 0 &&
	       memcmp(a->mapped_cp_ip, b->mapped_cp_ip, 16) == 0;
}

/* Encodes, decodes and compares. Returns the length. */
static size_t round_trip(const struct rsk_pm_msg *m, uint8_t wire[static 64])
{
	struct rsk_pm_msg again;
	uint8_t twice[64];
	ssize_t n = rsk_pm_msg_encode(m, wire, 64);

	require(n == 48 || n == 64);
	require(rsk_pm_msg_decode(wire, (size_t)n, &again) == 0);
	require(same(m, &again));
	require(rsk_pm_msg_encode(&again, twice, sizeof(twice)) == n);
	require(memcmp(wire, twice, (size_t)n) == 0);
	return (size_t)n;
}

static void answers(const struct rsk_pm_msg *m)
{
	struct rsk_pm_msg accept, ack, deny;
	uint8_t wire[64];

	require((rsk_pm_msg_deny(m, &deny) == 0) == (m->op == RSK_PM_REQ));
	if (m->op == RSK_PM_ACCEPT) {
		require(rsk_pm_msg_ack(m, &ack) == 0);
		require(round_trip(&ack, wire) == 48);
	}
	if (m->op != RSK_PM_REQ)
		return;
	require(rsk_pm_msg_answers(&deny, m));
	require(round_trip(&deny, wire) == 48);
	if (rsk_pm_msg_accept(m, m->ap_ip, m->ap_port, 9, &accept) == 0) {
		require(rsk_pm_msg_answers(&accept, m));
		require(round_trip(&accept, wire) == 48);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rsk_pm_msg m;
	uint8_t wire[64];

	if (rsk_pm_msg_decode(data, size, &m))
		return 0;
	require(rsk_pm_msg_validate(&m) == 0);
	round_trip(&m, wire);
	/* Outside the spare fields the bytes are those of the input. */
	require(memcmp(wire + 4, data + 4, 12) == 0 && wire[0] == data[0]);
	answers(&m);
	return 0;
}
