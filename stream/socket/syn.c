// SPDX-License-Identifier: BSD-2-Clause
/*
 * syn.c - see syn.h.
 *
 * The accepting end reads the segment that the kernel has kept (TCP_SAVED_SYN): address translation
 * leaves its options alone. The connecting end reads its clock for time stamps (TCP_TIMESTAMP),
 * which is the monotonic clock in milliseconds plus an offset of the connection: with the time at
 * which connect() began, and that at which it returned, this is what the segment had.
 */
#include "syn.h"

#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "engine.h"
#include "stream.h"

#define NS_PER_MS 1000000u
#define CLOCK_TRIES 4
#define OPTION_TIMESTAMP 8
#define OPTION_TIMESTAMP_BYTES 10
#define IP4_MOST 60
#define TCP_MOST 60

/* Set by any thread, never cleared; relaxed. */
static _Atomic(bool) programs, kept;
_Atomic(bool) rsk_syn_wanted;

void rsk_syn_is_the_programs(void)
{
	atomic_store_explicit(&programs, true, memory_order_relaxed);
}

static bool left_alone(void)
{
	return atomic_load_explicit(&programs, memory_order_relaxed);
}

bool rsk_syn_hidden(void)
{
	return atomic_load_explicit(&kept, memory_order_relaxed) && !left_alone();
}

void rsk_syn_keep(int listener)
{
	socklen_t len = sizeof(int);
	int is = 0, on = 1;

	if (left_alone() || rsk_sys_getsockopt(listener, IPPROTO_TCP, TCP_SAVE_SYN, &is, &len) < 0)
		return;
	if (is) {
		/* By us; or by a program before this one, which may want them. */
		if (!rsk_syn_hidden())
			rsk_syn_is_the_programs();
		return;
	}
	atomic_store_explicit(&kept, true, memory_order_relaxed);
	rsk_sys_setsockopt(listener, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on));
}

/* Where the TCP header begins; 0: no IP header that is understood. */
static size_t behind_ip(const uint8_t *p, size_t n)
{
	if (n >= sizeof(struct iphdr) && p[0] >> 4 == 4)
		return (size_t)(p[0] & 15) * 4;
	if (n >= sizeof(struct ip6_hdr) && p[0] >> 4 == 6 &&
	    p[offsetof(struct ip6_hdr, ip6_nxt)] == IPPROTO_TCP)
		return sizeof(struct ip6_hdr);
	return 0;
}

/* The time stamp among the options of a segment with its IP header. */
static bool find_stamp(const uint8_t *p, size_t n, uint32_t *out)
{
	size_t at = behind_ip(p, n), end;

	if (!at || at + sizeof(struct tcphdr) > n)
		return false;
	end = at + (size_t)(p[at + 12] >> 4) * 4;
	if (end > n)
		return false;
	for (at += sizeof(struct tcphdr); at < end;) {
		size_t len;

		if (p[at] == TCPOPT_EOL)
			return false;
		if (p[at] == TCPOPT_NOP) {
			at++;
			continue;
		}
		if (at + 2 > end)
			return false;
		len = p[at + 1];
		if (len < 2 || at + len > end)
			return false;
		if (p[at] == OPTION_TIMESTAMP && len == OPTION_TIMESTAMP_BYTES) {
			uint32_t value;

			memcpy(&value, p + at + 2, sizeof(value));
			*out = ntohl(value);
			return true;
		}
		at += len;
	}
	return false;
}

static struct rsk_syn accepted(int fd)
{
	uint8_t segment[sizeof(struct ip6_hdr) + IP4_MOST + TCP_MOST];
	socklen_t len = sizeof(segment);
	struct rsk_syn syn = { .n = 1 };

	/* It can be read once. */
	if (!rsk_syn_hidden() ||
	    rsk_sys_getsockopt(fd, IPPROTO_TCP, TCP_SAVED_SYN, segment, &len) < 0 ||
	    !find_stamp(segment, len, &syn.first))
		syn.n = 0;
	return syn;
}

/* The connection's clock less ours, in milliseconds. False: time stamps are not in use. */
static bool offset_of(int fd, uint32_t *offset)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	memset(&info, 0, sizeof(info));
	if (rsk_sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
	    !(info.tcpi_options & TCPI_OPT_TIMESTAMPS))
		return false;
	for (int i = 0; i < CLOCK_TRIES; i++) {
		uint64_t before = rsk_now_ns() / NS_PER_MS;
		uint32_t clock = 0;

		len = sizeof(clock);
		if (rsk_sys_getsockopt(fd, IPPROTO_TCP, TCP_TIMESTAMP, &clock, &len) < 0)
			return false;
		*offset = clock - (uint32_t)before;
		if (rsk_now_ns() / NS_PER_MS == before)
			return true;
	}
	return false;
}

static struct rsk_syn connected(const struct rsk_stream *s, int fd)
{
	uint64_t first = s->syn.began_ns / NS_PER_MS, last = s->syn.ended_ns / NS_PER_MS;
	struct rsk_syn syn = { 0 };
	uint32_t offset;

	if (!s->syn.ended_ns || last - first > RSK_SYN_MOST - 3 || !offset_of(fd, &offset))
		return syn;
	/* One more on each side: the two clocks are read at different moments of a millisecond. */
	syn.first = (uint32_t)first + offset - 1;
	syn.n = (uint32_t)(last - first) + 3;
	return syn;
}

bool rsk_syn_learn(struct rsk_stream *s, int fd, struct rsk_syn *out)
{
	if (!s->syn.looked) {
		s->syn.looked = true;
		s->syn.is = s->connecting_side ? connected(s, fd) : accepted(fd);
	}
	*out = s->syn.is;
	return out->n;
}
