// SPDX-License-Identifier: BSD-2-Clause
/*
 * streams_read.c - reads the statistics segments that streams.c holds: counts the open streams, and
 * reports those that have ended. See streams.h; local.c and metrics.c call this, and streams.c for
 * a segment that it gives back.
 */
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "pma.h"
#include "streams_parts.h"
#include <utlist.h>

/* Limit of records of all users in one reading. */
#define RECORDS_OF_ALL (4 * RSK_STATS_STREAMS)
#define RECORDS_AT_ONCE 64u
/*
 * A reading on request is made only after so many times the duration of the last one have passed.
 */
#define IDLE_SHARE 19

/*
 * No host's memory is faster: about a terabit per second. A stream may be older than the time at
 * which its segment was taken, by ACQUAINTED_NS.
 */
#define BYTES_IN_NS 128u
#define ACQUAINTED_NS 10000000000ull

bool rsk_streams_read_all(int fd, void *buf, size_t bytes, off_t at)
{
	return pread(fd, buf, bytes, at) == (ssize_t)bytes;
}

static enum rsk_stream_mode mode_of(const struct rsk_stats_stream *r)
{
	int ring = (r->tx == RSK_PATH_RING) + (r->rx == RSK_PATH_RING);

	return ring == 2 ? RSK_STREAM_DIRECT : ring ? RSK_STREAM_HALF : RSK_STREAM_TCP;
}

static void count_open(struct rsk_streams_segment *s, const struct rsk_stats_stream *r,
		       struct rsk_streams_counters *count)
{
	if (r->reason < RSK_REASON_COUNT)
		s->open[mode_of(r)][r->reason]++;
	count->promotions += r->promotions;
	count->demotions += r->demotions;
	count->repairs += r->tx_repairs;
	count->retries += r->hash_retries;
	count->ring_bytes += r->tx_ring_bytes + r->rx_ring_bytes;
	count->tcp_bytes += r->tx_tcp_bytes + r->rx_tcp_bytes;
}

/* Time at which the stream of this record ended; 0: it has not ended, or that is unknown. */
static uint64_t ended_at(const struct rsk_stats_stream *r)
{
	uint64_t last;

	if (r->state != RSK_STATS_CLOSED || !r->events_written)
		return 0;
	last = r->events[(r->events_written - 1) % RSK_STATS_EVENTS];
	return rsk_stats_event_kind(last) == RSK_EVENT_CLOSED ? rsk_stats_event_time_ns(last) : 0;
}

/* Sums the bytes to *total. False: the sum wraps, or is more than can be true. */
static bool plausible(const struct rsk_streams_segment *s, const struct rsk_stats_stream *r,
		      uint64_t ended_ns, uint64_t *total)
{
	const uint64_t part[] = { r->tx_ring_bytes, r->rx_ring_bytes, r->tx_tcp_bytes,
				  r->rx_tcp_bytes };
	uint64_t since = s->taken_ns > ACQUAINTED_NS ? s->taken_ns - ACQUAINTED_NS : 0;

	if (r->opened_ns > since)
		since = r->opened_ns;
	*total = 0;
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++)
		if (__builtin_add_overflow(*total, part[i], total))
			return false;
	return ended_ns >= since && *total / BYTES_IN_NS <= ended_ns - since;
}

static void look_ended(struct rsk_streams *all, struct rsk_streams_segment *s, size_t number,
		       const struct rsk_stats_stream *r, uint64_t now_ns)
{
	uint64_t at = ended_at(r), total;

	if (at <= s->read_ns || at > now_ns)
		return;
	rsk_streams_follow(all, s, number, r, at);
	if (plausible(s, r, at, &total))
		all->ended(all->ctx, s->of_many ? RSK_PMA_NOBODY : s->user->uid, r->connecting,
			   rsk_stats_service_port(r), total);
	else
		all->implausible++;
}

static void read_processes(const struct rsk_streams_segment *s, struct rsk_streams_counters *count)
{
	static struct rsk_stats_process p[RSK_STATS_PROCESSES];

	if (!rsk_streams_read_all(s->fd, p, sizeof(p), offsetof(struct rsk_stats_segment, process)))
		return;
	for (size_t i = 0; i < RSK_STATS_PROCESSES; i++) {
		count->ended += p[i].ended;
		count->promotions += p[i].ended_promotions;
		count->demotions += p[i].ended_demotions;
		count->repairs += p[i].ended_repairs;
		count->retries += p[i].ended_retries;
		count->ring_bytes += p[i].ended_ring_bytes;
		count->tcp_bytes += p[i].ended_tcp_bytes;
		for (int cause = 0; cause < RSK_STATS_REG_COUNT; cause++)
			count->registrations[cause] += p[i].registrations[cause];
		for (int what = 0; what < RSK_STATS_VERBS_COUNT; what++)
			count->verbs[what] += p[i].verbs[what];
	}
}

/*
 * The first record at or after @at that was ever written; RSK_STATS_STREAMS or more: there is none.
 */
static size_t next_written(int fd, size_t at)
{
	off_t base = offsetof(struct rsk_stats_segment, stream);
	off_t is = lseek(fd, base + (off_t)(at * sizeof(struct rsk_stats_stream)), SEEK_DATA);

	return is < 0 ? RSK_STATS_STREAMS : (size_t)(is - base) / sizeof(struct rsk_stats_stream);
}

/* End of the records that are open or were ever used, according to two hints in the header. */
static size_t end_of(const struct rsk_stats_header *h)
{
	size_t word = RSK_STATS_STREAMS / 64, end;

	while (word && !h->busy[word - 1])
		word--;
	end = h->high_water < RSK_STATS_STREAMS ? h->high_water : RSK_STATS_STREAMS;
	return word * 64 > end ? word * 64 : end;
}

/* Returns the number of records that were read. */
static uint32_t read_records(struct rsk_streams *all, struct rsk_streams_segment *s,
			     uint64_t now_ns, struct rsk_streams_counters *count)
{
	static struct rsk_stats_stream r[RECORDS_AT_ONCE];
	struct rsk_stats_header h;
	uint32_t looked = 0;
	size_t end;

	if (!rsk_streams_read_all(s->fd, &h, sizeof(h), 0))
		return 0;
	end = end_of(&h);
	for (size_t i = next_written(s->fd, 0); i < end; i = next_written(s->fd, i)) {
		size_t n = end - i < RECORDS_AT_ONCE ? end - i : RECORDS_AT_ONCE;

		if (!rsk_streams_read_all(s->fd, r, n * sizeof(*r),
					  (off_t)(offsetof(struct rsk_stats_segment, stream) +
						  i * sizeof(*r))))
			break;
		for (size_t k = 0; k < n; k++, i++) {
			if (r[k].state != RSK_STATS_OPEN)
				look_ended(all, s, i, &r[k], now_ns);
			else if (h.busy[i / 64] >> i % 64 & 1) {
				count_open(s, &r[k], count);
				rsk_streams_follow(all, s, i, &r[k], now_ns);
			}
		}
		looked += (uint32_t)n;
	}
	return looked;
}

static void no_less(uint64_t *last, uint64_t now)
{
	if (now > *last)
		*last = now;
}

uint32_t rsk_streams_read_segment(struct rsk_streams *all, struct rsk_streams_segment *s,
				  uint64_t now_ns)
{
	struct rsk_streams_counters now = { 0 };
	uint32_t n;

	memset(s->open, 0, sizeof(s->open));
	n = read_records(all, s, now_ns, &now);
	read_processes(s, &now);
	s->read_ns = now_ns;
#define X(name, text) no_less(&s->last.name, now.name);
	RSK_STREAMS_COUNTERS(X)
#undef X
	no_less(&s->last.ring_bytes, now.ring_bytes);
	no_less(&s->last.tcp_bytes, now.tcp_bytes);
	for (int i = 0; i < RSK_STATS_REG_COUNT; i++)
		no_less(&s->last.registrations[i], now.registrations[i]);
	for (int i = 0; i < RSK_STATS_VERBS_COUNT; i++)
		no_less(&s->last.verbs[i], now.verbs[i]);
	return n + RECORDS_AT_ONCE; /* for the rest of the segment */
}

void rsk_streams_charge(struct rsk_streams_user *u, uint32_t read)
{
	u->left -= read < u->left ? read : u->left;
}

void rsk_streams_read(struct rsk_streams *all, uint64_t now_ns)
{
	uint32_t left = RECORDS_OF_ALL;
	struct rsk_streams_segment *s = all->held, *next;
	uint64_t began_ns = rsk_clock_ns();

	for (struct rsk_streams_user *u = all->users; u; u = u->hh.next)
		u->left = RSK_STREAMS_RECORDS_OF_USER;
	for (size_t n = all->n; n && left; n--, s = next) {
		uint32_t read;

		next = s->next;
		if (!s->user->left) {
			all->put_off++;
			continue;
		}
		read = rsk_streams_read_segment(all, s, now_ns);
		rsk_streams_charge(s->user, read);
		left -= read < left ? read : left;
		DL_DELETE(all->held, s);
		DL_APPEND(all->held, s);
	}
	all->read_ns = rsk_clock_ns();
	all->cost_ns = all->read_ns - began_ns;
}

void rsk_streams_read_anew(struct rsk_streams *all, uint64_t now_ns)
{
	if (now_ns - all->read_ns >= IDLE_SHARE * all->cost_ns)
		rsk_streams_read(all, now_ns);
}
