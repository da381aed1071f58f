// SPDX-License-Identifier: BSD-2-Clause
/* streams.c - see streams.h. */
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pm_hash.h"
#include <utlist.h>

#define REMEMBERED_MOST 1024

struct identity {
	uint64_t dev, ino;
};

/* One that nobody holds is remembered for a while: a process of its family may come yet, or one of it again. */
struct rsk_streams_segment {
	struct identity id;
	const struct rsk_stats_segment *map; /* NULL: only remembered */
	uint64_t created_ns;
	uint32_t refs;
	struct rsk_streams_counters last;	 /* told so far: a counter never goes back */
	struct rsk_streams_segment *prev, *next; /* remembered, by age */
	UT_hash_handle hh;
};

const char *rsk_stream_mode_name(enum rsk_stream_mode mode)
{
	static const char *const names[RSK_STREAM_MODES] = {
		[RSK_STREAM_TCP] = "tcp",
		[RSK_STREAM_HALF] = "half",
		[RSK_STREAM_DIRECT] = "direct",
	};

	return names[mode];
}

#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

static void add(struct rsk_streams_counters *to, const struct rsk_streams_counters *n)
{
#define X(name, text) to->name += n->name;
	RSK_STREAMS_COUNTERS(X)
#undef X
	to->ring_bytes += n->ring_bytes;
	to->tcp_bytes += n->tcp_bytes;
}

/* ---- taking and giving back ---- */

static const struct rsk_stats_segment *map(int fd, const struct stat *st)
{
	int seals = fcntl(fd, F_GET_SEALS);
	const struct rsk_stats_segment *seg;
	const struct rsk_stats_header *h;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || st->st_size != sizeof(*seg))
		return NULL;
	seg = mmap(NULL, sizeof(*seg), PROT_READ, MAP_SHARED, fd, 0);
	if (seg == MAP_FAILED)
		return NULL;
	h = &seg->header;
	if (__atomic_load_n(&h->magic, __ATOMIC_ACQUIRE) == RSK_STATS_MAGIC &&
	    GET(h->version) == RSK_STATS_VERSION && GET(h->bytes) == sizeof(*seg))
		return seg;
	munmap((void *)seg, sizeof(*seg));
	return NULL;
}

static struct rsk_streams_segment *find(const struct rsk_streams *all, const struct identity *id)
{
	struct rsk_streams_segment *s;

	HASH_FIND(hh, all->segments, id, sizeof(*id), s);
	return s;
}

static void forget(struct rsk_streams *all, struct rsk_streams_segment *s)
{
	add(&all->gone, &s->last);
	DL_DELETE(all->remembered, s);
	all->n_remembered--;
	HASH_DEL(all->segments, s);
	free(s);
}

/* A number may be another file's by now. */
static bool again(struct rsk_streams *all, struct rsk_streams_segment *s,
		  const struct rsk_stats_segment *seg)
{
	if (GET(seg->header.created_ns) != s->created_ns) {
		forget(all, s);
		return false;
	}
	DL_DELETE(all->remembered, s);
	all->n_remembered--;
	s->map = seg;
	s->refs = 1;
	return true;
}

struct rsk_streams_segment *rsk_streams_take(struct rsk_streams *all, int fd)
{
	const struct rsk_stats_segment *seg;
	struct rsk_streams_segment *s;
	struct identity id;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return NULL;
	id = (struct identity){ st.st_dev, st.st_ino };
	s = find(all, &id);
	if (s && s->refs) {
		s->refs++;
		return s;
	}
	seg = map(fd, &st);
	if (!seg)
		return NULL;
	if (s && again(all, s, seg))
		return s;
	s = calloc(1, sizeof(*s));
	if (!s) {
		munmap((void *)seg, sizeof(*seg));
		return NULL;
	}
	*s = (struct rsk_streams_segment){
		.id = id, .map = seg, .created_ns = GET(seg->header.created_ns), .refs = 1
	};
	HASH_ADD(hh, all->segments, id, sizeof(id), s);
	return s;
}

/* ---- reading ---- */

static enum rsk_stream_mode mode_of(const struct rsk_stats_stream *r)
{
	int ring = (GET(r->tx) == RSK_CARRIER_RING) + (GET(r->rx) == RSK_CARRIER_RING);

	return ring == 2 ? RSK_STREAM_DIRECT : ring ? RSK_STREAM_HALF : RSK_STREAM_TCP;
}

static void read_stream(const struct rsk_stats_stream *r, struct rsk_streams_counters *count,
			struct rsk_streams_figures *out)
{
	uint8_t reason = GET(r->reason);

	if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) != RSK_STATS_OPEN)
		return;
	if (reason < RSK_REASON_COUNT)
		out->open[mode_of(r)][reason]++;
	count->promotions += GET(r->promotions);
	count->demotions += GET(r->demotions);
	count->repairs += GET(r->tx_repairs);
	count->retries += GET(r->hash_retries);
	count->ring_bytes += GET(r->tx_ring_bytes) + GET(r->rx_ring_bytes);
	count->tcp_bytes += GET(r->tx_tcp_bytes) + GET(r->rx_tcp_bytes);
}

static void read_ended(const struct rsk_stats_process *p, struct rsk_streams_counters *count)
{
	count->ended += GET(p->ended);
	count->promotions += GET(p->ended_promotions);
	count->demotions += GET(p->ended_demotions);
	count->repairs += GET(p->ended_repairs);
	count->retries += GET(p->ended_retries);
	count->ring_bytes += GET(p->ended_ring_bytes);
	count->tcp_bytes += GET(p->ended_tcp_bytes);
}

static void no_less(uint64_t *last, uint64_t now)
{
	if (now > *last)
		*last = now;
}

/*
 * A stream that ends meanwhile is counted twice or not at all this time, and one of a killed process is forgotten by
 * its family: hence no_less().
 */
static void read_segment(struct rsk_streams_segment *s, struct rsk_streams_figures *out)
{
	struct rsk_streams_counters now = { 0 };

	for (unsigned int i = 0; i < RSK_STATS_STREAMS / 64; i++)
		for (uint64_t busy = GET(s->map->header.busy[i]); busy; busy &= busy - 1)
			read_stream(&s->map->stream[i * 64 + (unsigned int)__builtin_ctzll(busy)],
				    &now, out);
	for (unsigned int i = 0; i < RSK_STATS_PROCESSES; i++)
		read_ended(&s->map->process[i], &now);
#define X(name, text) no_less(&s->last.name, now.name);
	RSK_STREAMS_COUNTERS(X)
#undef X
	no_less(&s->last.ring_bytes, now.ring_bytes);
	no_less(&s->last.tcp_bytes, now.tcp_bytes);
}

void rsk_streams_read(struct rsk_streams *all, struct rsk_streams_figures *out)
{
	struct rsk_streams_segment *s, *next;

	*out = (struct rsk_streams_figures){ .count = all->gone };
	HASH_ITER(hh, all->segments, s, next) {
		if (s->map)
			read_segment(s, out);
		add(&out->count, &s->last);
	}
}

/* ---- what has ended ---- */

/* When the stream ended whose record it is; 0: it has not, or nobody can say. */
static uint64_t ended_at(const struct rsk_stats_stream *r)
{
	uint32_t n = GET(r->events_written);
	uint64_t last;

	if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) != RSK_STATS_CLOSED || !n)
		return 0;
	last = GET(r->events[(n - 1) % RSK_STATS_EVENTS]);
	return rsk_stats_event_kind(last) == RSK_EVENT_CLOSED ? rsk_stats_event_time_ns(last) : 0;
}

static void ended_of(const struct rsk_streams_segment *s, uint64_t since_ns, uint64_t now_ns,
		     rsk_streams_ended_fn *ended, void *ctx)
{
	uint32_t n = s->map ? GET(s->map->header.high_water) : 0;

	for (uint32_t i = 0; i < n && i < RSK_STATS_STREAMS; i++) {
		const struct rsk_stats_stream *r = &s->map->stream[i];
		uint64_t at = ended_at(r);

		if (at > since_ns && at <= now_ns)
			ended(ctx, GET(r->local_port), GET(r->peer_port),
			      GET(r->tx_ring_bytes) + GET(r->rx_ring_bytes) + GET(r->tx_tcp_bytes) +
				      GET(r->rx_tcp_bytes));
	}
}

void rsk_streams_ended(struct rsk_streams *all, uint64_t now_ns, rsk_streams_ended_fn *ended,
		       void *ctx)
{
	struct rsk_streams_segment *s, *next;

	HASH_ITER(hh, all->segments, s, next)
		ended_of(s, all->ended_ns, now_ns, ended, ctx);
	all->ended_ns = now_ns;
}

void rsk_streams_ended_last(const struct rsk_streams *all, const struct rsk_streams_segment *s,
			    uint64_t now_ns, rsk_streams_ended_fn *ended, void *ctx)
{
	if (s && s->refs == 1)
		ended_of(s, all->ended_ns, now_ns, ended, ctx);
}

/* ---- the end ---- */

void rsk_streams_put(struct rsk_streams *all, struct rsk_streams_segment *s)
{
	struct rsk_streams_figures figures = { 0 };

	if (!s || --s->refs)
		return;
	read_segment(s, &figures);
	munmap((void *)s->map, sizeof(*s->map));
	s->map = NULL;
	DL_APPEND(all->remembered, s);
	if (++all->n_remembered > REMEMBERED_MOST)
		forget(all, all->remembered);
}

void rsk_streams_fini(struct rsk_streams *all)
{
	struct rsk_streams_segment *s = all->segments, *next;

	/* The table goes; what was in it stays a list. */
	HASH_CLEAR(hh, all->segments);
	for (; s; s = next) {
		next = s->hh.next;
		if (s->map)
			munmap((void *)s->map, sizeof(*s->map));
		free(s);
	}
}
