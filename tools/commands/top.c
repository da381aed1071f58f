// SPDX-License-Identifier: BSD-2-Clause
/* top.c - see top.h. */
#include "top.h"

#include "rsock.h"
#include "stats_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *token;
	int key;
} sorts[] = {
#define X(code, token, key, help) { token, key },
	TOP_SORTS(X)
#undef X
};

int top_sort_named(const char *token)
{
	for (int i = 0; i < TOP_SORT_COUNT; i++)
		if (strcmp(token, sorts[i].token) == 0)
			return i;
	return -1;
}

int top_sort_of_key(int key)
{
	for (int i = 0; i < TOP_SORT_COUNT; i++)
		if (sorts[i].key == key)
			return i;
	return -1;
}

static int more_first(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

/* Orders equal rows by process and addresses, so that the lines of the table stay in place. */
static int settle(const struct top_row *a, const struct top_row *b)
{
	int order = (a->pid > b->pid) - (a->pid < b->pid);

	if (!order)
		order = strcmp(a->local, b->local);
	return order ? order : strcmp(a->peer, b->peer);
}

static int by_rate(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	int order = more_first(x->tx_rate + x->rx_rate, y->tx_rate + y->rx_rate);

	return order ? order : settle(x, y);
}

static int by_bytes(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	int order = more_first(x->bytes, y->bytes);

	return order ? order : settle(x, y);
}

static int by_pid(const void *a, const void *b)
{
	return settle(a, b);
}

static int by_reason(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	int order = (x->reason == RSK_REASON_DIRECT) - (y->reason == RSK_REASON_DIRECT);

	if (!order)
		order = strcmp(rsk_reason_token(x->reason), rsk_reason_token(y->reason));
	return order ? order : by_rate(a, b);
}

static void fill(struct top_row *row, const struct segment *seg, const struct rsk_stats_stream *s,
		 struct rates r)
{
	char comm[16];

	segment_comm(seg, s->pid, comm);
	memset(row, 0, sizeof(*row));
	row->pid = s->pid;
	text_clean(row->comm, sizeof(row->comm), comm, sizeof(comm));
	rsk_addr_text(s->family, s->local, s->local_port, row->local);
	rsk_addr_text(s->family, s->peer, s->peer_port, row->peer);
	row->tx = s->tx;
	row->rx = s->rx;
	row->reason = s->reason;
	row->peer_reason = s->peer_reason;
	row->demotions = s->demotions;
	row->tx_rate = r.tx_ring + r.tx_tcp;
	row->rx_rate = r.rx_ring + r.rx_tcp;
	row->bytes = s->tx_ring_bytes + s->tx_tcp_bytes + s->rx_ring_bytes + s->rx_tcp_bytes;
}

int top_take(const struct segment *before, const struct segment *now, uint32_t pid,
	     enum top_sort sort, struct top *out)
{
	static int (*const order[])(const void *, const void *) = {
		[TOP_SORT_RATE] = by_rate,
		[TOP_SORT_BYTES] = by_bytes,
		[TOP_SORT_PID] = by_pid,
		[TOP_SORT_REASON] = by_reason,
	};
	struct rsk_stats_stream s;
	struct top_row *more;
	size_t room = 0;

	memset(out, 0, sizeof(*out));
	for (const struct segment *seg = now; seg; seg = seg->next) {
		for (unsigned int i = 0; i < seg->copy->header.high_water; i++) {
			const struct rsk_stats_stream *in = &seg->copy->stream[i];
			struct rates r;

			if (!rsk_stats_copy_stream(in, &s) || s.state != RSK_STATS_OPEN ||
			    (pid && s.pid != pid) || !segment_held_by(seg, s.pid))
				continue;
			if (out->count == room) {
				room = room ? 2 * room : 64;
				more = realloc(out->row, room * sizeof(*more));
				if (!more) {
					top_free(out);
					return -ENOMEM;
				}
				out->row = more;
			}
			r = record_rates(before, seg, in);
			out->direct += stream_is_direct(&s);
			out->ring_rate += r.tx_ring + r.rx_ring;
			out->tcp_rate += r.tx_tcp + r.rx_tcp;
			fill(&out->row[out->count++], seg, &s, r);
		}
	}
	if (out->count)
		qsort(out->row, out->count, sizeof(*out->row), order[sort]);
	return 0;
}

void top_free(struct top *top)
{
	free(top->row);
	memset(top, 0, sizeof(*top));
}

const char *top_heading(char line[static TOP_LINE])
{
	snprintf(line, TOP_LINE, "%-7s %-15s %-21s %-21s %-4s %-4s %8s %8s %8s %4s %s", "PID",
		 "PROGRAM", "LOCAL", "PEER", "SEND", "RECV", "SEND/s", "RECV/s", "BYTES", "DEM",
		 "REASON");
	return line;
}

const char *top_line(const struct top_row *row, char line[static TOP_LINE])
{
	char size[3][16];

	snprintf(line, TOP_LINE,
		 "%-7" PRIu32 " %-15s %-21s %-21s %-4s %-4s %8s %8s %8s %4" PRIu32 " %s%s%s%s",
		 row->pid, row->comm, row->local, row->peer, rsk_path_token(row->tx),
		 rsk_path_token(row->rx), size_text(size[0], row->tx_rate),
		 size_text(size[1], row->rx_rate), size_text(size[2], row->bytes), row->demotions,
		 rsk_reason_token(row->reason), row->peer_reason ? " (peer: " : "",
		 row->peer_reason ? rsk_reason_token(row->peer_reason) : "",
		 row->peer_reason ? ")" : "");
	return line;
}

const char *top_summary(const struct top *top, char line[static TOP_LINE])
{
	char ring[16], tcp[16], more[64] = "";
	size_t others;

	segments_of_other_versions(&others);
	if (others)
		snprintf(more, sizeof(more), "; %zu processes of another version", others);
	snprintf(line, TOP_LINE,
		 "%zu streams, %zu accelerated; %s/s by rings, %s/s by TCP, both directions at "
		 "each end%s",
		 top->count, top->direct, size_text(ring, top->ring_rate),
		 size_text(tcp, top->tcp_rate), more);
	return line;
}

json_t *top_json(const struct top *top)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < top->count; i++) {
		const struct top_row *row = &top->row[i];

		json_array_append_new(
			rows, json_pack("{s:I,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:I}", "pid",
					(json_int_t)row->pid, "comm", row->comm, "local",
					row->local, "peer", row->peer, "tx",
					rsk_path_token(row->tx), "rx", rsk_path_token(row->rx),
					"reason", rsk_reason_token(row->reason), "peer_reason",
					row->peer_reason ? rsk_reason_token(row->peer_reason) : "",
					"tx_bytes_s", json_u64(row->tx_rate), "rx_bytes_s",
					json_u64(row->rx_rate), "bytes", json_u64(row->bytes),
					"demotions", (json_int_t)row->demotions));
	}
	return json_pack("{s:I,s:o,s:o,s:o}", "accelerated", (json_int_t)top->direct,
			 "ring_bytes_s", json_u64(top->ring_rate), "tcp_bytes_s",
			 json_u64(top->tcp_rate), "streams", rows);
}
