// SPDX-License-Identifier: BSD-2-Clause
/* streams.c - see streams.h. */
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "pm_hash.h"
#include "pma.h"
#include <utlist.h>

#define REMEMBERED_MOST 1024
#define REMEMBERED_OF_USER 128
/*
 * Limits of records in one reading: of a user, after which no other segment of that user is begun;
 * of all users.
 */
#define RECORDS_OF_USER RSK_STATS_STREAMS
#define RECORDS_OF_ALL (4 * RSK_STATS_STREAMS)
#define RECORDS_AT_ONCE 64u
/*
 * A reading on request is made only after so many times the duration of the last one have passed.
 */
#define IDLE_SHARE 19

/*
 * No host's memory is faster: about a terabit per second. A stream may be older than the time at
 * which its segment was taken, by ACQUAINTED_NS; one that ended up to ENDED_BEFORE_NS earlier is
 * counted.
 */
#define BYTES_IN_NS 128u
#define ACQUAINTED_NS 10000000000ull
#define ENDED_BEFORE_NS 1000000000ull

struct identity {
	uint64_t dev, ino;
};

struct rsk_streams_user {
	uint32_t uid;
	uint32_t left; /* records that may still be read in this reading */
	size_t segments, remembered;
	UT_hash_handle hh;
};

/*
 * A segment that no process holds is remembered for a while: another process of its family may
 * come, or one of them may connect again.
 */
struct rsk_streams_segment {
	struct identity id;
	int fd; /* -1: it is only remembered */
	uint32_t refs;
	bool of_many; /* processes of several users have it, and each can write anything into it */
	struct rsk_streams_user *user; /* of the first process */
	uint64_t created_ns, taken_ns, read_ns;
	struct rsk_streams_counters last; /* reported so far: a counter never decreases */
	uint16_t open[RSK_STREAM_MODES][RSK_REASON_COUNT];
	struct rsk_streams_segment *prev, *next; /* in one of the lists held and remembered */
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

static void add(struct rsk_streams_counters *to, const struct rsk_streams_counters *n)
{
#define X(name, text) to->name += n->name;
	RSK_STREAMS_COUNTERS(X)
#undef X
	to->ring_bytes += n->ring_bytes;
	to->tcp_bytes += n->tcp_bytes;
}

/* ---- users ---- */

static struct rsk_streams_user *user_of(struct rsk_streams *all, uint32_t uid)
{
	struct rsk_streams_user *u;

	HASH_FIND(hh, all->users, &uid, sizeof(uid), u);
	if (u)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	u->left = RECORDS_OF_USER;
	HASH_ADD(hh, all->users, uid, sizeof(uid), u);
	return u;
}

static void user_put(struct rsk_streams *all, struct rsk_streams_user *u)
{
	if (u->segments || u->remembered)
		return;
	HASH_DEL(all->users, u);
	free(u);
}

/* ---- taking and giving back ---- */

static bool read_all(int fd, void *buf, size_t bytes, off_t at)
{
	return pread(fd, buf, bytes, at) == (ssize_t)bytes;
}

/*
 * Checks seals and size, and reads the first fields of the header. The size has to be fixed: a
 * process that could grow the file could keep the kernel busy with it, and make us wait.
 */
static bool is_segment(int fd, const struct stat *st, struct rsk_stats_header *h)
{
	int seals = fcntl(fd, F_GET_SEALS), wanted = F_SEAL_SHRINK | F_SEAL_GROW;

	return seals >= 0 && (seals & wanted) == wanted &&
	       st->st_size == sizeof(struct rsk_stats_segment) &&
	       read_all(fd, h, offsetof(struct rsk_stats_header, spare), 0) &&
	       h->magic == RSK_STATS_MAGIC && h->version == RSK_STATS_VERSION &&
	       h->bytes == sizeof(struct rsk_stats_segment);
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
	s->user->remembered--;
	user_put(all, s->user);
	HASH_DEL(all->segments, s);
	free(s);
}

/* A user whose processes come and go all the time displaces only the user's own segments. */
static void remember(struct rsk_streams *all, struct rsk_streams_segment *s)
{
	struct rsk_streams_segment *oldest = all->remembered;

	DL_APPEND(all->remembered, s);
	s->user->remembered++;
	all->n_remembered++;
	if (s->user->remembered > REMEMBERED_OF_USER)
		while (oldest->user != s->user)
			oldest = oldest->next;
	else if (all->n_remembered <= REMEMBERED_MOST)
		return;
	forget(all, oldest ? oldest : s);
}

static void hold(struct rsk_streams *all, struct rsk_streams_segment *s, int fd, uint64_t now_ns)
{
	s->fd = fd;
	s->refs = 1;
	s->of_many = false;
	s->taken_ns = now_ns;
	s->read_ns = now_ns > ENDED_BEFORE_NS ? now_ns - ENDED_BEFORE_NS : 0;
	s->user->segments++;
	all->n++;
	/* Read before those that have been read already. */
	DL_PREPEND(all->held, s);
}

static struct rsk_streams_segment *make(struct rsk_streams *all, const struct identity *id,
					uint64_t created_ns, struct rsk_streams_user *user)
{
	struct rsk_streams_segment *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->id = *id;
	s->user = user;
	s->created_ns = created_ns;
	HASH_ADD(hh, all->segments, id, sizeof(s->id), s);
	return s;
}

/*
 * Uses the remembered segment if it is the same file, of the same user; else makes a new one. NULL:
 * out of memory.
 */
static struct rsk_streams_segment *again(struct rsk_streams *all, struct rsk_streams_segment *s,
					 const struct identity *id, uint64_t created_ns,
					 struct rsk_streams_user *user)
{
	if (s && (created_ns != s->created_ns || s->user != user)) {
		user->segments++; /* so that forget() does not free the user */
		forget(all, s);
		user->segments--;
		s = NULL;
	}
	if (!s)
		return make(all, id, created_ns, user);
	DL_DELETE(all->remembered, s);
	all->n_remembered--;
	user->remembered--;
	return s;
}

struct rsk_streams_segment *rsk_streams_take(struct rsk_streams *all, int fd, uint32_t uid,
					     uint64_t now_ns)
{
	struct rsk_streams_segment *s;
	struct rsk_streams_user *user;
	struct rsk_stats_header h;
	struct identity id;
	struct stat st;
	int own;

	/*
	 * The seals first: a file that is not a memfd may be on a file system whose server never
	 * answers fstat().
	 */
	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0) {
		all->refused++;
		return NULL;
	}
	id = (struct identity){ st.st_dev, st.st_ino };
	s = find(all, &id);
	if (s && s->refs) {
		s->of_many |= s->user->uid != uid;
		s->refs++;
		return s;
	}
	user = user_of(all, uid);
	if (!user)
		return NULL;
	if (!is_segment(fd, &st, &h) || all->n >= all->max || user->segments >= all->max / 2)
		goto no;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		goto no;
	s = again(all, s, &id, h.created_ns, user);
	if (s) {
		hold(all, s, own, now_ns);
		return s;
	}
	close(own);
no:
	all->refused++;
	user_put(all, user);
	return NULL;
}

/* ---- reading ---- */

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

static void look_ended(struct rsk_streams *all, const struct rsk_streams_segment *s,
		       const struct rsk_stats_stream *r, uint64_t now_ns)
{
	uint64_t at = ended_at(r), total;

	if (at <= s->read_ns || at > now_ns)
		return;
	if (plausible(s, r, at, &total))
		all->ended(all->ctx, s->of_many ? RSK_PMA_NOBODY : s->user->uid, r->local_port,
			   r->peer_port, total);
	else
		all->implausible++;
}

static void read_processes(const struct rsk_streams_segment *s, struct rsk_streams_counters *count)
{
	static struct rsk_stats_process p[RSK_STATS_PROCESSES];

	if (!read_all(s->fd, p, sizeof(p), offsetof(struct rsk_stats_segment, process)))
		return;
	for (size_t i = 0; i < RSK_STATS_PROCESSES; i++) {
		count->ended += p[i].ended;
		count->promotions += p[i].ended_promotions;
		count->demotions += p[i].ended_demotions;
		count->repairs += p[i].ended_repairs;
		count->retries += p[i].ended_retries;
		count->ring_bytes += p[i].ended_ring_bytes;
		count->tcp_bytes += p[i].ended_tcp_bytes;
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

	if (!read_all(s->fd, &h, sizeof(h), 0))
		return 0;
	end = end_of(&h);
	for (size_t i = next_written(s->fd, 0); i < end; i = next_written(s->fd, i)) {
		size_t n = end - i < RECORDS_AT_ONCE ? end - i : RECORDS_AT_ONCE;

		if (!read_all(s->fd, r, n * sizeof(*r),
			      (off_t)(offsetof(struct rsk_stats_segment, stream) + i * sizeof(*r))))
			break;
		for (size_t k = 0; k < n; k++, i++) {
			if (r[k].state != RSK_STATS_OPEN)
				look_ended(all, s, &r[k], now_ns);
			else if (h.busy[i / 64] >> i % 64 & 1)
				count_open(s, &r[k], count);
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

/*
 * A stream that ends during the reading is counted twice or not at all this time, and a stream of a
 * killed process is dropped by the other processes of its family: no_less() hides both. Returns the
 * number of records that were read.
 */
static uint32_t read_segment(struct rsk_streams *all, struct rsk_streams_segment *s,
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
	return n + RECORDS_AT_ONCE; /* for the rest of the segment */
}

static void charge(struct rsk_streams_user *u, uint32_t read)
{
	u->left -= read < u->left ? read : u->left;
}

void rsk_streams_read(struct rsk_streams *all, uint64_t now_ns)
{
	uint32_t left = RECORDS_OF_ALL;
	struct rsk_streams_segment *s = all->held, *next;
	uint64_t began_ns = rsk_clock_ns();

	for (struct rsk_streams_user *u = all->users; u; u = u->hh.next)
		u->left = RECORDS_OF_USER;
	for (size_t n = all->n; n && left; n--, s = next) {
		uint32_t read;

		next = s->next;
		if (!s->user->left) {
			all->put_off++;
			continue;
		}
		read = read_segment(all, s, now_ns);
		charge(s->user, read);
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

void rsk_streams_figures(struct rsk_streams *all, struct rsk_streams_figures *out)
{
	*out = (struct rsk_streams_figures){ .count = all->gone };
	for (struct rsk_streams_segment *s = all->segments; s; s = s->hh.next) {
		for (int m = 0; m < RSK_STREAM_MODES; m++)
			for (unsigned int r = 0; r < RSK_REASON_COUNT; r++)
				out->open[m][r] += s->open[m][r];
		add(&out->count, &s->last);
	}
}

/* ---- the end ---- */

void rsk_streams_put(struct rsk_streams *all, struct rsk_streams_segment *s, uint64_t now_ns)
{
	if (!s || --s->refs)
		return;
	/*
	 * A process that comes and goes all the time gets no larger share of the reading than one
	 * that stays.
	 */
	if (s->user->left)
		charge(s->user, read_segment(all, s, now_ns));
	else
		all->put_off++;
	memset(s->open, 0, sizeof(s->open));
	close(s->fd);
	s->fd = -1;
	all->n--;
	s->user->segments--;
	DL_DELETE(all->held, s);
	remember(all, s);
}

void rsk_streams_fini(struct rsk_streams *all)
{
	struct rsk_streams_segment *s = all->segments, *next;
	struct rsk_streams_user *u = all->users, *other;

	/* The tables are emptied; their entries are still linked as a list. */
	HASH_CLEAR(hh, all->segments);
	HASH_CLEAR(hh, all->users);
	for (; s; s = next) {
		next = s->hh.next;
		if (s->fd >= 0)
			close(s->fd);
		free(s);
	}
	for (; u; u = other) {
		other = u->hh.next;
		free(u);
	}
}
