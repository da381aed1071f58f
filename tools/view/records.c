// SPDX-License-Identifier: BSD-2-Clause
/* records.c - see records.h. */
#include "records.h"

#include "nettab.h"
#include "proc.h"
#include "stats_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct rsk_tuple record_tuple(const struct rsk_stats_stream *stream)
{
	struct rsk_tuple t = { .local_port = stream->local_port,
			       .peer_port = stream->peer_port,
			       .family = stream->family };

	memcpy(t.local, stream->local, 16);
	memcpy(t.peer, stream->peer, 16);
	return t;
}

static int record_compare(const void *a, const void *b)
{
	const struct record *x = a, *y = b;
	struct rsk_tuple left = record_tuple(x->stream), right = record_tuple(y->stream);
	int order = tuple_compare(&left, &right);

	return order ? order :
		       (x->stream->pid > y->stream->pid) - (x->stream->pid < y->stream->pid);
}

int records_index(const struct segment *list, struct records *out)
{
	struct rsk_stats_stream copy;
	size_t room = 0;

	memset(out, 0, sizeof(*out));
	for (const struct segment *seg = list; seg; seg = seg->next)
		for (unsigned int i = 0; i < seg->copy->header.high_water; i++) {
			const struct rsk_stats_stream *s = &seg->copy->stream[i];

			if (s->state != RSK_STATS_OPEN || !s->local_port ||
			    !rsk_stats_copy_stream(s, &copy) || !segment_held_by(seg, s->pid))
				continue;
			if (out->count == room) {
				struct record *more;

				room = room ? 2 * room : 256;
				more = realloc(out->at, room * sizeof(*more));
				if (!more) {
					records_free(out);
					return -ENOMEM;
				}
				out->at = more;
			}
			out->at[out->count++] = (struct record){ seg, s };
		}
	if (out->count)
		qsort(out->at, out->count, sizeof(*out->at), record_compare);
	return 0;
}

void records_free(struct records *all)
{
	free(all->at);
	memset(all, 0, sizeof(*all));
}

const struct record *records_find(const struct records *all, const struct rsk_tuple *tuple,
				  pid_t pid, pid_t like)
{
	size_t low = 0, high = all->count;
	const struct record *found = NULL;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct rsk_tuple t = record_tuple(all->at[middle].stream);

		if (tuple_compare(&t, tuple) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < all->count; low++) {
		struct rsk_tuple t = record_tuple(all->at[low].stream);
		pid_t have = (pid_t)all->at[low].stream->pid;

		if (tuple_compare(&t, tuple) != 0)
			break;
		if (pid && have == pid)
			return &all->at[low];
		if (!found)
			found = &all->at[low];
		else if (like && proc_netns((pid_t)found->stream->pid) != proc_netns(like) &&
			 proc_netns(have) == proc_netns(like))
			found = &all->at[low];
	}
	return found;
}

const struct record *records_other_end(const struct records *all,
				       const struct rsk_stats_stream *stream)
{
	struct rsk_tuple tuple = record_tuple(stream), mirror = rsk_tuple_mirror(&tuple);

	if (!stream->local_port || !stream->peer_port)
		return NULL;
	return records_find(all, &mirror, 0, (pid_t)stream->pid);
}

const struct rsk_stats_stream *record_before(const struct segment *before,
					     const struct segment *seg,
					     const struct rsk_stats_stream *stream,
					     uint64_t *taken_ns)
{
	size_t i = (size_t)(stream - seg->copy->stream);

	for (; before; before = before->next) {
		const struct rsk_stats_stream *then = &before->copy->stream[i];

		if (before->dev != seg->dev || before->ino != seg->ino)
			continue;
		*taken_ns = before->taken_ns;
		return then->state != RSK_STATS_FREE && then->opened_ns == stream->opened_ns ?
			       then :
			       NULL;
	}
	return NULL;
}

static uint64_t rate(uint64_t before, uint64_t now, uint64_t ns)
{
	/* Every process of the user can write to the segment, so a counter may have decreased. */
	return now > before && ns ? (uint64_t)((double)(now - before) * 1e9 / (double)ns) : 0;
}

struct rates record_rates(const struct segment *before, const struct segment *seg,
			  const struct rsk_stats_stream *s)
{
	uint64_t then_ns = 0, ns;
	const struct rsk_stats_stream *then = record_before(before, seg, s, &then_ns);

	if (!then || seg->taken_ns <= then_ns)
		return (struct rates){ 0 };
	ns = seg->taken_ns - then_ns;
	return (struct rates){
		.tx_ring = rate(then->tx_ring_bytes, s->tx_ring_bytes, ns),
		.tx_tcp = rate(then->tx_tcp_bytes, s->tx_tcp_bytes, ns),
		.rx_ring = rate(then->rx_ring_bytes, s->rx_ring_bytes, ns),
		.rx_tcp = rate(then->rx_tcp_bytes, s->rx_tcp_bytes, ns),
	};
}
