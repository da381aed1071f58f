// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_pmsp.c - fuzzes a PMSP with room for few transactions, by datagrams of any kind, answers of
 * a policy agent, links and time. It stays valid after each step, and gives back each grant once.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pmsp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define GRANTS 4096

static struct {
	const uint8_t *p, *end;
	uint8_t held[GRANTS];
	uint64_t n;
	struct rsk_pm_msg waiting;
	bool waits;
} f;

static void require(bool what)
{
	if (!what)
		abort();
}

static uint64_t take(size_t bytes)
{
	uint64_t v = 0;

	if ((size_t)(f.end - f.p) < bytes)
		bytes = (size_t)(f.end - f.p);
	memcpy(&v, f.p, bytes);
	f.p += bytes;
	return v;
}

static enum rsk_pmsp_verdict choose(struct rsk_pmsp_grant *g)
{
	enum rsk_pmsp_verdict v = (enum rsk_pmsp_verdict)(take(1) % 4);

	if (v != RSK_PMSP_ACCEPT)
		return v;
	if (!g->id) {
		if (f.n + 1 == GRANTS)
			return RSK_PMSP_DENY;
		g->id = ++f.n;
		f.held[g->id] = 1;
	}
	require(f.held[g->id]);
	g->ip[0] = 10;
	g->port = (uint16_t)(take(1) % 4 + 1);
	g->pm_time_s = (uint8_t)take(1);
	return v;
}

static enum rsk_pmsp_verdict decide(void *ctx, const struct rsk_pm_msg *req,
				    const struct rsk_pm_addr *from, struct rsk_pmsp_grant *grant)
{
	enum rsk_pmsp_verdict v;

	require(rsk_pm_msg_validate(req) == 0 && req->op == RSK_PM_REQ);
	v = choose(grant);
	if (v == RSK_PMSP_WAIT) {
		f.waiting = *req;
		f.waits = true;
	}
	return v;
}

static void used(void *ctx, const struct rsk_pmsp_grant *grant)
{
	require(f.held[grant->id]);
	f.held[grant->id] = 0;
}

static void release(void *ctx, const struct rsk_pmsp_grant *grant)
{
	require(f.held[grant->id]);
	f.held[grant->id] = 0;
}

static void check_sent(void *ctx, const struct rsk_pm_addr *to, const void *datagram, size_t bytes)
{
	struct rsk_pm_msg m;

	require(bytes == RSK_PM_WIRE_BYTES && rsk_pm_msg_decode(datagram, bytes, &m) == 0);
	require(m.op == RSK_PM_ACCEPT || m.op == RSK_PM_DENY);
}

static const struct rsk_pmsp_ops ops = { .decide = decide,
					 .used = used,
					 .release = release,
					 .send = check_sent };

/* Few different addresses, so that they coincide. */
static struct rsk_pm_addr some_address(void)
{
	return (struct rsk_pm_addr){ .ip = { 10, 0, 0, (uint8_t)(take(1) % 3) },
				     .port = (uint16_t)(take(1) % 3 + 1),
				     .ipv = take(1) % 8 ? RSK_PM_IPV4 : RSK_PM_IPV6 };
}

static size_t some_datagram(uint8_t wire[static RSK_PM_WIRE_MAPPED_BYTES])
{
	struct rsk_pm_addr cp = some_address();
	struct rsk_pm_msg m = { .op = take(1) % 3 ? RSK_PM_REQ : RSK_PM_ACK,
				.ipv = cp.ipv,
				.ap_port = (uint16_t)(take(1) % 4 + 1),
				.cp_port = (uint16_t)(take(1) % 3),
				.assoc_handle = take(1) % 4 + 1,
				.ap_ip = { 10 } };
	ssize_t n;

	memcpy(m.cp_ip, cp.ip, 16);
	n = rsk_pm_msg_encode(&m, wire, RSK_PM_WIRE_MAPPED_BYTES);
	return n < 0 ? 0 : (size_t)n;
}

static void step(struct rsk_pmsp *p, uint64_t *now)
{
	static const uint8_t none[16];
	uint8_t announced[16];
	uint8_t wire[RSK_PM_WIRE_MAPPED_BYTES];
	struct rsk_pm_msg name;
	struct rsk_pm_addr from, rdma = { .ip = { 10 }, .ipv = RSK_PM_IPV4 };
	struct rsk_pmsp_grant g = { 0 };
	enum rsk_pmsp_verdict v;
	size_t n;

	switch (take(1) % 6) {
	case 0: /* raw bytes */
		n = take(1) % 80;
		if (n > (size_t)(f.end - f.p))
			n = (size_t)(f.end - f.p);
		from = some_address();
		if (n > (size_t)(f.end - f.p))
			n = (size_t)(f.end - f.p);
		rsk_pmsp_receive(p, &from, f.p, n, *now);
		f.p += n;
		break;
	case 1:
		*now += take(5) % 20000000000;
		rsk_pmsp_tick(p, *now);
		break;
	case 3:
		if (!f.waits)
			break;
		f.waits = false;
		v = choose(&g);
		if (!rsk_pmsp_decided(p, &f.waiting, v, &g, *now) && g.id)
			f.held[g.id] = 0;
		break;
	case 2:
		from = some_address();
		rdma.port = (uint16_t)(take(1) % 4 + 1);
		name = (struct rsk_pm_msg){ .ipv = RSK_PM_IPV4,
					    .ap_port = (uint16_t)(take(1) % 4 + 1),
					    .cp_port = (uint16_t)(take(1) % 3),
					    .assoc_handle = take(1) % 4 + 1,
					    .ap_ip = { 10 } };
		memcpy(name.cp_ip, from.ip, 16);
		rsk_pmsp_link_named(p, &name, &rdma, take(1) & 1 ? from.ip : none, announced);
		break;
	default:
		from = some_address();
		n = some_datagram(wire);
		rsk_pmsp_receive(p, &from, wire, n, *now);
	}
	require(rsk_pmsp_validate(p));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rsk_pmsp_config config = RSK_PMSP_DEFAULT;
	struct rsk_pmsp p;
	uint64_t now = 1;

	memset(&f, 0, sizeof(f));
	f.p = data;
	f.end = data + size;
	config.max_open = 8;
	config.rate_per_s = take(1) & 1 ? 100 : 0;
	config.burst = 10;
	if (rsk_pmsp_init(&p, &config, &ops, NULL) < 0)
		return 0;
	while (f.p < f.end)
		step(&p, &now);
	rsk_pmsp_tick(&p, now + 400000000000);
	require(p.table.n == 0 && rsk_pmsp_next(&p) == UINT64_MAX);
	rsk_pmsp_fini(&p);
	for (size_t i = 0; i < GRANTS; i++)
		require(!f.held[i]);
	return 0;
}
