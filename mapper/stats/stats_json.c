// SPDX-License-Identifier: BSD-2-Clause
/* stats_json.c - see stats_json.h. */
#include "stats_json.h"
#include "tuple.h"

#include <string.h>

const char *rsk_path_token(unsigned int path)
{
	static const char *const tokens[RSK_PATH_COUNT] = { "tcp", "ring" };

	return path < RSK_PATH_COUNT ? tokens[path] : "unknown";
}

const char *rsk_event_token(unsigned int kind)
{
	static const char *const tokens[RSK_EVENT_COUNT] = {
#define X(code, token) [RSK_EVENT_##code] = token,
		RSK_STATS_EVENT_KINDS(X)
#undef X
	};

	return kind < RSK_EVENT_COUNT ? tokens[kind] : "unknown";
}

/* --- the writer -------------------------------------------------------------------------- */

void rsk_json_init(struct rsk_json *j, char *buf, size_t cap)
{
	*j = (struct rsk_json){ .buf = buf, .cap = cap };
}

static void put(struct rsk_json *j, char c)
{
	if (j->len < j->cap)
		j->buf[j->len] = c;
	j->len++;
}

void rsk_json_raw(struct rsk_json *j, const char *text)
{
	while (*text)
		put(j, *text++);
}

static void element(struct rsk_json *j)
{
	if (j->comma)
		put(j, ',');
	j->comma = true;
}

void rsk_json_open(struct rsk_json *j, char bracket)
{
	element(j);
	put(j, bracket);
	j->comma = false;
}

void rsk_json_close(struct rsk_json *j, char bracket)
{
	put(j, bracket);
	j->comma = true;
}

void rsk_json_text(struct rsk_json *j, const char *text, size_t max)
{
	static const char hex[] = "0123456789abcdef";

	element(j);
	put(j, '"');
	for (size_t i = 0; i < max && text[i]; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\') {
			put(j, '\\');
			put(j, (char)c);
		} else if (c < 0x20 || c > 0x7e) {
			rsk_json_raw(j, "\\u00");
			put(j, hex[c >> 4]);
			put(j, hex[c & 15]);
		} else {
			put(j, (char)c);
		}
	}
	put(j, '"');
}

void rsk_json_key(struct rsk_json *j, const char *key)
{
	rsk_json_text(j, key, SIZE_MAX);
	put(j, ':');
	j->comma = false;
}

void rsk_json_u64(struct rsk_json *j, uint64_t value)
{
	char digits[20];
	unsigned int n = 0;

	element(j);
	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	while (n)
		put(j, digits[--n]);
}

void rsk_json_bool(struct rsk_json *j, bool value)
{
	element(j);
	rsk_json_raw(j, value ? "true" : "false");
}

/* --- records ----------------------------------------------------------------------------- */

static void member_u64(struct rsk_json *j, const char *key, uint64_t value)
{
	rsk_json_key(j, key);
	rsk_json_u64(j, value);
}

static void member_text(struct rsk_json *j, const char *key, const char *text)
{
	rsk_json_key(j, key);
	rsk_json_text(j, text, SIZE_MAX);
}

void rsk_stats_json_process(struct rsk_json *j, const struct rsk_stats_process *rec)
{
	rsk_json_open(j, '{');
	member_u64(j, "pid", rec->pid);
	rsk_json_key(j, "comm");
	rsk_json_text(j, rec->comm, sizeof(rec->comm));
	member_u64(j, "spins", rec->spins);
	member_u64(j, "spins_useful", rec->spins_useful);
	member_u64(j, "sleeps", rec->sleeps);
	member_u64(j, "wakes", rec->wakes);
	rsk_json_key(j, "registrations");
	rsk_json_open(j, '{');
#define X(code, name, text) member_u64(j, #name, rec->registrations[RSK_STATS_REG_##code]);
	RSK_STATS_REGISTRATIONS(X)
#undef X
	rsk_json_close(j, '}');
	rsk_json_key(j, "verbs");
	rsk_json_open(j, '{');
#define X(code, name, text) member_u64(j, #name, rec->verbs[RSK_STATS_VERBS_##code]);
	RSK_STATS_VERBS(X)
#undef X
	rsk_json_close(j, '}');
	rsk_json_close(j, '}');
}

static void member_addr(struct rsk_json *j, const char *key, uint16_t family,
			const uint8_t addr[static 16], uint16_t port)
{
	char text[RSK_ADDR_TEXT];

	rsk_addr_text(family, addr, port, text);
	member_text(j, key, text);
}

/* Oldest event first. */
static void member_history(struct rsk_json *j, const struct rsk_stats_stream *rec)
{
	uint32_t written = rec->events_written;
	uint32_t n = written < RSK_STATS_EVENTS ? written : RSK_STATS_EVENTS;

	rsk_json_key(j, "history");
	rsk_json_open(j, '[');
	for (uint32_t i = written - n; i != written; i++) {
		uint64_t event = rec->events[i % RSK_STATS_EVENTS];

		rsk_json_open(j, '{');
		member_u64(j, "time_ns", rsk_stats_event_time_ns(event));
		member_text(j, "event", rsk_event_token(rsk_stats_event_kind(event)));
		member_text(j, "cause", rsk_reason_token(rsk_stats_event_cause(event)));
		rsk_json_close(j, '}');
	}
	rsk_json_close(j, ']');
}

/* Splits "verbs DEVICE/PORT" into two members. The text may come from a hostile segment. */
static void member_fabric(struct rsk_json *j, const struct rsk_stats_stream *rec)
{
	size_t n = strnlen(rec->fabric, sizeof(rec->fabric));
	const char *space = memchr(rec->fabric, ' ', n);
	size_t name = space ? (size_t)(space - rec->fabric) : n;

	rsk_json_key(j, "fabric");
	rsk_json_text(j, rec->fabric, name);
	rsk_json_key(j, "device");
	rsk_json_text(j, space ? space + 1 : "", space ? n - name - 1 : 0);
}

void rsk_stats_json_stream_members(struct rsk_json *j, const struct rsk_stats_stream *rec,
				   const char comm[static 16])
{
	member_u64(j, "pid", rec->pid);
	rsk_json_key(j, "comm");
	rsk_json_text(j, comm, 16);
	member_addr(j, "local", rec->family, rec->local, rec->local_port);
	member_addr(j, "peer", rec->family, rec->peer, rec->peer_port);
	member_text(j, "tx", rsk_path_token(rec->tx));
	member_text(j, "rx", rsk_path_token(rec->rx));
	member_text(j, "reason", rsk_reason_token(rec->reason));
	member_text(j, "peer_reason", rec->peer_reason ? rsk_reason_token(rec->peer_reason) : "");
	member_u64(j, "tx_ring_bytes", rec->tx_ring_bytes);
	member_u64(j, "rx_ring_bytes", rec->rx_ring_bytes);
	member_u64(j, "tx_tcp_bytes", rec->tx_tcp_bytes);
	member_u64(j, "rx_tcp_bytes", rec->rx_tcp_bytes);
	member_u64(j, "tx_slots", rec->tx_slots);
	member_u64(j, "rx_slots", rec->rx_slots);
	member_u64(j, "transactions", rsk_stats_transactions(rec));
	member_u64(j, "hash_retries", rec->hash_retries);
	member_u64(j, "repairs", rec->tx_repairs);
	member_u64(j, "promotions", rec->promotions);
	member_u64(j, "demotions", rec->demotions);
	member_text(j, "demote_cause",
		    rec->demote_cause ? rsk_reason_token(rec->demote_cause) : "");
	member_u64(j, "link", rec->link);
	member_fabric(j, rec);
	member_u64(j, "rails_lost", rec->rails_lost);
	member_u64(j, "missing", rec->missing);
	member_u64(j, "missing_first", rec->missing_first);
	member_u64(j, "reordered", rec->ahead.slots);
	member_u64(j, "overtook", rec->ahead.overtook);
	member_u64(j, "gap", rec->ahead.gap);
	member_u64(j, "gap_lowest", rec->ahead.gap_lowest);
	rsk_json_key(j, "tx_rail_bytes");
	rsk_json_open(j, '[');
	for (unsigned int i = 0; i < RSK_STATS_RAILS; i++)
		rsk_json_u64(j, rec->tx_rail_bytes[i]);
	rsk_json_close(j, ']');
	rsk_json_key(j, "open");
	rsk_json_bool(j, rec->state == RSK_STATS_OPEN);
	member_history(j, rec);
}

void rsk_stats_json_stream(struct rsk_json *j, const struct rsk_stats_stream *rec,
			   const char comm[static 16])
{
	rsk_json_open(j, '{');
	rsk_stats_json_stream_members(j, rec, comm);
	rsk_json_close(j, '}');
}

/* Copies word by word, each atomically: other processes write meanwhile. */
static void words_load(void *to, const void *from, size_t bytes)
{
	uint64_t *t = to;
	const uint64_t *f = from;

	for (size_t i = 0; i < bytes / sizeof(*t); i++)
		t[i] = __atomic_load_n(&f[i], __ATOMIC_RELAXED);
}

void rsk_stats_copy_process(const struct rsk_stats_process *shared, struct rsk_stats_process *out)
{
	words_load(out, shared, sizeof(*out));
}

bool rsk_stats_copy_stream(const struct rsk_stats_stream *shared, struct rsk_stats_stream *out)
{
	uint32_t state = __atomic_load_n(&shared->state, __ATOMIC_ACQUIRE);

	if (state != RSK_STATS_OPEN && state != RSK_STATS_CLOSED)
		return false;
	words_load(out, shared, sizeof(*out));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	out->state = state;
	/*
	 * If the record was reused while it was copied, it has passed through FREE or has another
	 * opened_ns.
	 */
	return __atomic_load_n(&shared->state, __ATOMIC_RELAXED) != RSK_STATS_FREE &&
	       __atomic_load_n(&shared->opened_ns, __ATOMIC_RELAXED) == out->opened_ns;
}

static const struct rsk_stats_process *process_of(const struct rsk_stats_segment *seg, uint32_t pid)
{
	for (unsigned int i = 0; i < RSK_STATS_PROCESSES; i++) {
		if (__atomic_load_n(&seg->process[i].pid, __ATOMIC_RELAXED) == pid)
			return &seg->process[i];
	}
	return NULL;
}

/* Records beyond high_water are not read, because reading them would allocate memory. */
static unsigned int in_use(const struct rsk_stats_segment *seg)
{
	uint32_t n = __atomic_load_n(&seg->header.high_water, __ATOMIC_RELAXED);

	return n < RSK_STATS_STREAMS ? n : RSK_STATS_STREAMS;
}

void rsk_stats_json_own(struct rsk_json *j, const struct rsk_stats_segment *seg, uint32_t pid)
{
	const struct rsk_stats_process *shared = process_of(seg, pid);
	struct rsk_stats_process process = { 0 };
	struct rsk_stats_stream stream;

	rsk_json_open(j, '{');
	rsk_json_key(j, "processes");
	rsk_json_open(j, '[');
	if (shared) {
		rsk_stats_copy_process(shared, &process);
		rsk_stats_json_process(j, &process);
	}
	rsk_json_close(j, ']');
	rsk_json_key(j, "streams");
	rsk_json_open(j, '[');
	for (unsigned int i = 0; i < in_use(seg); i++) {
		if (rsk_stats_copy_stream(&seg->stream[i], &stream) && stream.pid == pid)
			rsk_stats_json_stream(j, &stream, process.comm);
	}
	rsk_json_close(j, ']');
	rsk_json_close(j, '}');
	put(j, '\n');
}
