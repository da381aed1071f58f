// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_port_rate.c - tests what a port carries, from its counters: units, directions, counters that
 * wrap, are reset, vanish or contain nonsense; and the parsing of the links' counters.
 */
#include "port_rate.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "link_counters.h"

#define SECOND 1000000000ull
#define LINE 100000000000u /* bits per second */

static struct rsk_port_rate rate;
static uint64_t now_ns;

/* A reading @seconds after the one before. */
static int64_t after(double seconds, struct rsk_port_reading reading)
{
	now_ns += (uint64_t)(seconds * 1e9);
	return rsk_port_rate_take(&rate, &reading, now_ns);
}

static struct rsk_port_reading link_of(uint64_t sent, uint64_t received)
{
	return (struct rsk_port_reading){ .link = { true, sent, received } };
}

static struct rsk_port_reading rdma_of(uint64_t sent, uint64_t received)
{
	return (struct rsk_port_reading){ .rdma = { true, sent, received }, .line_bps = LINE };
}

static void begin(void)
{
	rate = (struct rsk_port_rate){ 0 };
	now_ns = 5 * SECOND;
}

Test(port_rate, units_and_directions, .init = begin)
{
	struct rsk_port_reading both = rdma_of(500, 2000);

	cr_assert_eq(after(1, link_of(1000, 1000)), RSK_PORT_RATE_UNKNOWN, "the first");
	cr_assert_eq(after(1, link_of(2000, 1500)), 8000, "octets; the busier direction");
	cr_assert_eq(after(2, link_of(2000, 3500)), 8000, "in two seconds");
	cr_assert_eq(after(0.5, link_of(2000, 3500)), 0, "nothing is known to be nothing");
	begin();
	after(1, rdma_of(0, 0));
	cr_assert_eq(after(1, rdma_of(500, 2000)), 64000, "units of 4 octets");
	/* Both sources add up for each direction. */
	both.link = (struct rsk_counted){ true, 10000, 10000 };
	cr_assert_eq(after(1, both), RSK_PORT_RATE_UNKNOWN, "another source has appeared");
	both.rdma.sent += 1000;
	both.link.sent += 1000;
	both.link.received += 4500;
	cr_assert_eq(after(1, both), 40000, "32000 and 8000 sent, 36000 received");
	both.link.received += 6000;
	cr_assert_eq(after(1, both), 48000);
}

Test(port_rate, wraps, .init = begin)
{
	struct rsk_port_reading slow = rdma_of(UINT32_MAX - 9, 0), next = rdma_of(90, 0);

	after(1, rdma_of(UINT32_MAX - 9, 7));
	cr_assert_eq(after(1, rdma_of(90, 7)), 3200, "100 units over the end of 32 bits");
	/* Beyond 32 bits it is a larger counter, and only a reset makes that smaller. */
	after(1, rdma_of(1ull << 32, 0));
	cr_assert_eq(after(1, rdma_of(90, 0)), RSK_PORT_RATE_UNKNOWN);
	cr_assert_eq(after(1, rdma_of(190, 0)), 3200, "and measured again at once");
	/* With a line rate of nothing known, it may have been a reset. */
	begin();
	slow.line_bps = next.line_bps = 0;
	after(1, slow);
	cr_assert_eq(after(1, next), RSK_PORT_RATE_UNKNOWN);
	begin();
	after(1, link_of(UINT32_MAX - 9, 0));
	cr_assert_eq(after(1, link_of(90, 0)), RSK_PORT_RATE_UNKNOWN,
		     "links do not say their rate");
}

Test(port_rate, no_spike, .init = begin)
{
	after(1, rdma_of(1000000, 5));
	cr_assert_eq(after(1, rdma_of(10, 5)), RSK_PORT_RATE_UNKNOWN,
		     "reset: the line cannot carry the rest of 32 bits in a second");
	cr_assert_eq(after(1, rdma_of(10, 5)), 0);
	cr_assert_eq(after(1, rdma_of(10, UINT64_MAX)), RSK_PORT_RATE_UNKNOWN, "a jump");
	cr_assert_eq(after(1, rdma_of(10, 0)), RSK_PORT_RATE_UNKNOWN, "and back");
	/* Devices update counters in steps: two seconds' worth in one is the line's rate. */
	cr_assert_eq(after(1, rdma_of(10 + 2ull * LINE / 32, 0)), LINE);
	cr_assert_eq(after(1, rdma_of(20 + 5ull * LINE / 32, 0)), RSK_PORT_RATE_UNKNOWN);
	begin();
	after(1, link_of(1000, 1000));
	cr_assert_eq(after(1, link_of(10, 2000)), RSK_PORT_RATE_UNKNOWN, "made anew");
	cr_assert_eq(after(1, link_of(1010, 2000)), 8000);
	cr_assert_eq(after(1, link_of(UINT64_MAX, 2000)), RSK_PORT_RATE_UNKNOWN, "a jump");
}

Test(port_rate, vanishes_and_comes_back, .init = begin)
{
	const struct rsk_port_reading none = { 0 };

	after(1, link_of(1000, 1000));
	cr_assert_eq(after(1, none), RSK_PORT_RATE_UNKNOWN);
	cr_assert_eq(after(1, none), RSK_PORT_RATE_UNKNOWN, "not zero: unknown");
	cr_assert_eq(after(1, link_of(9000, 9000)), RSK_PORT_RATE_UNKNOWN, "it is back");
	cr_assert_eq(after(1, link_of(9500, 9000)), 4000);
	cr_assert_eq(after(0, link_of(9600, 9000)), RSK_PORT_RATE_UNKNOWN, "no time has passed");
}

/* ---- links ---- */

static char told[512];

static void tell(void *ctx, const char *link, const struct rsk_counted *octets)
{
	size_t n = strlen(told);

	cr_assert(octets->known);
	snprintf(told + n, sizeof(told) - n, "%s %lu %lu\n", link, (unsigned long)octets->sent,
		 (unsigned long)octets->received);
}

#define HEAD                                                                                       \
	"Inter-|   Receive                                                |  Transmit\n"           \
	" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"

static void is_told(const char *text, const char *want)
{
	FILE *f = tmpfile();

	cr_assert_not_null(f);
	fputs(text, f);
	/* Each reading begins at the beginning. */
	for (int i = 0; i < 2; i++) {
		*told = 0;
		cr_assert_eq(rsk_link_counters_read(f, tell, NULL), 0);
		cr_assert_str_eq(told, want);
	}
	fclose(f);
}

Test(port_rate, links_as_the_kernel_shows_them)
{
	is_told(HEAD "    lo:    1296      16    0    0    0     0          0         0     "
		     "1297      16    0    0    0     0       0          0\n"
		     "eth0.5:18446744073709551615 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n",
		"lo 1297 1296\neth0.5 7 18446744073709551615\n");
}

Test(port_rate, links_that_make_no_sense)
{
	is_told("", "");
	is_told(HEAD, "");
	is_told("eth0: 1 2 3 4 5 6 7 8\neth1:\n:1 2 3 4 5 6 7 8 9\neth2 1 2 3 4 5 6 7 8 9\n", "");
	is_told("eth0: 1 2 3 4 5 6 7 8 -9 1\neth1: x 2 3 4 5 6 7 8 9 1\n"
		"eth2: 18446744073709551616 2 3 4 5 6 7 8 9 1\neth3: 1 2 3 4 5 6 7 8 9z 1\n"
		"eth4: 1 2 3 4 5 6 7 8 9 1\n",
		"eth4 9 1\n");
}

Test(port_rate, links_of_this_host)
{
	FILE *f = fopen(RSK_LINK_COUNTERS, "re");

	cr_assert_not_null(f);
	*told = 0;
	cr_assert_eq(rsk_link_counters_read(f, tell, NULL), 0);
	cr_assert_not_null(strstr(told, "lo "));
	fclose(f);
}
