// SPDX-License-Identifier: BSD-2-Clause
/* port_rate.c - see port_rate.h. */
#include "port_rate.h"

#define RDMA_UNIT_BITS 32.0
#define LINK_UNIT_BITS 8.0
/* More than any port carries: such a difference is no traffic. */
#define MOST_BPS 1e13
/*
 * Devices update counters in steps of up to a second, so that a period can seem to carry twice what
 * the line can.
 */
#define LINE_FACTOR 2.0

#define IS_UNKNOWN (-1.0)

/*
 * Bits per second of one counter. A counter of 32 bits that has wrapped and one that was reset both
 * go back: it has wrapped if the line can carry the difference, modulo 2^32, in that time. Without
 * a known line rate it counts as reset.
 */
static double rate_of(uint64_t before, uint64_t now, double unit_bits, uint64_t line_bps,
		      double seconds)
{
	double most = line_bps ? (double)line_bps * LINE_FACTOR : MOST_BPS;
	double bps = (double)(now - before) * unit_bits / seconds;

	if (now < before) {
		if (!line_bps || before > UINT32_MAX)
			return IS_UNKNOWN;
		bps = (double)(uint32_t)(now - before) * unit_bits / seconds;
		most = (double)line_bps;
	}
	if (bps > most)
		return IS_UNKNOWN;
	return line_bps && bps > (double)line_bps ? (double)line_bps : bps;
}

/* Adds the rates of a source. False: they are unknown. */
static bool add(const struct rsk_counted *before, const struct rsk_counted *now, double unit_bits,
		uint64_t line_bps, double seconds, double sums[static 2])
{
	double sent, received;

	if (!now->known)
		return true;
	sent = rate_of(before->sent, now->sent, unit_bits, line_bps, seconds);
	received = rate_of(before->received, now->received, unit_bits, line_bps, seconds);
	sums[0] += sent;
	sums[1] += received;
	return sent >= 0 && received >= 0;
}

int64_t rsk_port_rate_take(struct rsk_port_rate *r, const struct rsk_port_reading *now,
			   uint64_t now_ns)
{
	struct rsk_port_rate last = *r;
	double sums[2] = { 0 }, seconds = (double)(now_ns - last.read_ns) / 1e9;

	*r = (struct rsk_port_rate){ .before = *now, .read_ns = now_ns };
	if (!last.read_ns || now_ns <= last.read_ns || last.before.rdma.known != now->rdma.known ||
	    last.before.link.known != now->link.known || (!now->rdma.known && !now->link.known))
		return RSK_PORT_RATE_UNKNOWN;
	if (!add(&last.before.rdma, &now->rdma, RDMA_UNIT_BITS, now->line_bps, seconds, sums) ||
	    !add(&last.before.link, &now->link, LINK_UNIT_BITS, 0, seconds, sums))
		return RSK_PORT_RATE_UNKNOWN;
	return (int64_t)(sums[0] > sums[1] ? sums[0] : sums[1]);
}
