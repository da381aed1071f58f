// SPDX-License-Identifier: BSD-2-Clause
/*
 * flush.c - posts pending writes. Called by put.c, poll.c, dev.c, rail.c and module.c, always with
 * the rail's lock held.
 *
 * A stream that has to wait is in one of two lists: for places in the send queue, which completions
 * free, or for room in the peer's indirect buffer, which the peer frees. What cannot be sent at all
 * yet (CLOSED, or the key of the control blocks is not known) stays pending until the progress
 * thread gets the key.
 *
 * From INDIRECT to DIRECT: the peer could move an entry that is still in the indirect buffer after
 * a later direct write to the same place (in a later lap of the ring, or for the next stream in
 * it), and so overwrite newer data. Therefore the stream waits, in the list for room, until the
 * peer has reported that its newest entry was moved; we ask the peer to report at once.
 */
#include <errno.h>

#include "post.h"

static void list_add(struct rsk_verbs_rail *r, enum rsk_list which, uint32_t sid,
		     struct rsk_vstream *s)
{
	struct rsk_sids *l = &r->list[which];

	if (s->listed)
		return;
	s->listed = (uint8_t)(which + 1);
	s->next = 0;
	if (l->count++)
		rsk_rail_stream(r, l->last)->next = sid;
	else
		l->first = sid;
	l->last = sid;
}

static struct rsk_vstream *list_take(struct rsk_verbs_rail *r, enum rsk_list which, uint32_t *sid)
{
	struct rsk_sids *l = &r->list[which];
	struct rsk_vstream *s;

	if (!l->count)
		return NULL;
	*sid = l->first;
	s = rsk_rail_stream(r, *sid);
	l->first = s->next;
	l->count--;
	s->listed = 0;
	return s;
}

static uint32_t indirect_room(const struct rsk_verbs_rail *r)
{
	return RSK_INDIRECT_UNITS - (uint32_t)(r->out_at - r->out_taken);
}

/* What stopped a stream. */
enum stop {
	DONE,
	SHUT,
	NO_QUEUE,
	NO_ROOM
};

/* How much one flush has added. */
struct gone {
	uint32_t units; /* units of the indirect buffer */
	bool any;
	struct rsk_batch batch;
};

/* Work requests are written when they are added: a batch is a kilobyte. */
static void begin(struct gone *g)
{
	g->units = 0;
	g->any = false;
	g->batch.n = 0;
}

static bool place(struct rsk_verbs_rail *r, struct gone *g)
{
	uint32_t left = rsk_post_room(r, g->batch.n + 1);

	/* Request an event for the next completion, then check again. */
	if (left < g->batch.n + 1) {
		rsk_post_arm(r);
		left = rsk_post_room(r, g->batch.n + 1);
	}
	return left >= g->batch.n + 1;
}

static void took(struct rsk_verbs_rail *r, struct rsk_vstream *s, uint32_t len)
{
	rsk_pending_writes_took(&s->pending_writes, len);
	r->rate_estimator.noted -= len < r->rate_estimator.noted ? len : r->rate_estimator.noted;
}

static enum stop direct(struct rsk_verbs_rail *r, struct rsk_vstream *s, uint64_t ring,
			struct gone *g)
{
	uint32_t off, len;

	while (rsk_pending_writes_first(&s->pending_writes, &off, &len)) {
		if (!place(r, g))
			return NO_QUEUE;
		if (len > RSK_VERBS_WRITE_BYTES)
			len = RSK_VERBS_WRITE_BYTES;
		rsk_post_add(r, &g->batch, r->seg->rail.window + ring + off, len, s->lkey,
			     r->peer.segment + ring + off, s->rkey);
		took(r, s, len);
		g->any = true;
	}
	return DONE;
}

/* Adds an entry with as many of the cells as there is room for; *bytes as in rsk_indirect_put(). */
static enum stop entry_out(struct rsk_verbs_rail *r, uint32_t sid, uint32_t off,
			   const uint8_t *cells, uint32_t *bytes, struct gone *g)
{
	uint32_t at = rsk_indirect_place(r->out_at), units;

	if (indirect_room(r) < 2)
		return NO_ROOM;
	if (!place(r, g))
		return NO_QUEUE;
	units = rsk_indirect_put(r->buf->out, r->out_at, indirect_room(r), sid, off, cells, bytes);
	rsk_post_add(r, &g->batch, r->buf->out + at, units * RSK_CELL_BYTES, r->out_mr->lkey,
		     r->peer.indirect + at, r->peer.indirect_rkey);
	r->out_at += units;
	g->units += units;
	g->any = true;
	return DONE;
}

static enum stop indirect(struct rsk_verbs_rail *r, uint32_t sid, struct rsk_vstream *s,
			  uint64_t ring, struct gone *g)
{
	uint32_t off, len;

	while (rsk_pending_writes_first(&s->pending_writes, &off, &len)) {
		uint32_t bytes = (len + RSK_CELL_BYTES - 1) & ~(RSK_CELL_BYTES - 1);
		enum stop stop =
			entry_out(r, sid, off, r->seg->rail.window + ring + off, &bytes, g);

		if (stop != DONE)
			return stop;
		s->indirect_to = r->out_at;
		if (!bytes)
			continue;
		RSK_COUNT(r->v, INDIRECT_SLOTS, 1);
		RSK_COUNT(r->v, INDIRECT_BYTES, bytes);
		took(r, s, bytes < len ? bytes : len);
	}
	return DONE;
}

static enum stop ring_out(struct rsk_verbs_rail *r, uint32_t sid, struct rsk_vstream *s,
			  struct gone *g)
{
	uint64_t ring = rsk_seg_ring_off(&r->seg->peer, sid);

	if (!s->pending_writes.ranges)
		return DONE;
	switch (atomic_load_explicit(&s->way, memory_order_relaxed)) {
	case RSK_VERBS_INDIRECT:
		return indirect(r, sid, s, ring, g);
	case RSK_VERBS_DIRECT:
		return s->indirect_to > r->out_taken ? NO_ROOM : direct(r, s, ring, g);
	default:
		return SHUT;
	}
}

static enum stop words_out(struct rsk_verbs_rail *r, uint32_t sid, struct rsk_vstream *s,
			   struct gone *g)
{
	const struct rsk_vgroup *group = rsk_rail_has_group(r, sid / RSK_VERBS_GROUP);
	uint64_t off = rsk_seg_ctl_off(sid);
	uint32_t len = sizeof(struct rsk_control_word);

	if (!s->pending_writes.words)
		return DONE;
	if (!group->ctl_known)
		return SHUT;
	if (!place(r, g))
		return NO_QUEUE;
	if (s->pending_writes.words == RSK_PENDING_RX_WORD)
		off += offsetof(struct rsk_seg_ctl, rx_word);
	else if (s->pending_writes.words == (RSK_PENDING_TX_WORD | RSK_PENDING_RX_WORD))
		len *= 2;
	rsk_post_add(r, &g->batch, r->seg->rail.window + off, len, 0, r->peer.segment + off,
		     group->ctl_rkey);
	s->pending_writes.words = 0;
	g->any = true;
	return DONE;
}
_Static_assert(offsetof(struct rsk_seg_ctl, rx_word) == sizeof(struct rsk_control_word),
	       "side by side");

/*
 * Sends the immediate with the writes that were added even if others have to wait: at worst it
 * wakes the peer once too often.
 */
void rsk_flush_stream(struct rsk_verbs_rail *r, uint32_t sid, struct rsk_vstream *s)
{
	struct gone g;
	enum stop stop[2];

	begin(&g);
	if (!r->live || !r->peer_known || atomic_load(&r->err))
		return;
	/* The immediate needs a place even if there is nothing else to send. */
	if (!place(r, &g)) {
		RSK_COUNT(r->v, HELD_BACK, 1);
		list_add(r, RSK_LIST_QUEUE, sid, s);
		return;
	}
	stop[0] = ring_out(r, sid, s, &g);
	stop[1] = words_out(r, sid, s, &g);
	if (stop[0] == DONE && stop[1] == DONE) {
		s->pending = false;
	} else if (stop[0] == NO_QUEUE || stop[1] == NO_QUEUE) {
		RSK_COUNT(r->v, HELD_BACK, 1);
		list_add(r, RSK_LIST_QUEUE, sid, s);
	} else if (stop[0] == NO_ROOM) {
		RSK_COUNT(r->v, HELD_BACK, 1);
		list_add(r, RSK_LIST_ROOM, sid, s);
		/*
		 * The progress thread checks the list itself after its flush (verbs_work()). Waking
		 * it from there would make it run again and again.
		 */
		if (!r->in_work && !atomic_load(&r->v->room_heard))
			r->v->host.call(r->v->host.ctx);
	}
	if (g.any || !s->pending)
		s->last = r->posted + g.batch.n + !g.batch.n;
	if (g.any || !s->pending)
		rsk_post_last(r, &g.batch,
			      sid | g.units << 15 | RSK_IMM_DATA << 24 | (uint32_t)s->due << 28);
	if (!s->pending)
		s->due = 0;
}

/* Requests an event for the moment when everything posted up to @last has arrived. */
static void fence(struct rsk_verbs_rail *r, uint64_t last)
{
	if (r->signalled < last && rsk_post_room(r, 1))
		rsk_post_fence(r);
	rsk_post_arm(r);
}

bool rsk_flush_is_there(const struct rsk_verbs_rail *r, const struct rsk_vstream *s)
{
	return !rsk_pending_writes_any(&s->pending_writes) && !s->pending && r->done >= s->last;
}

bool rsk_flush_arrived(struct rsk_verbs_rail *r, struct rsk_vstream *s)
{
	if (!r->live || atomic_load(&r->err))
		return false;
	rsk_post_reap(r);
	if (!rsk_flush_is_there(r, s) && !s->pending)
		fence(r, s->last);
	if (rsk_flush_is_there(r, s) && !atomic_load(&r->err))
		return true;
	r->arrivals += !s->arrival;
	s->arrival = true;
	return false;
}

uint32_t rsk_flush_arrivals(struct rsk_verbs_rail *r, uint32_t sid[RSK_VERBS_TOLD])
{
	uint32_t n = 0, left = r->arrivals;

	for (uint32_t i = 0; left && i < r->groups; i++) {
		struct rsk_vgroup *g = rsk_rail_has_group(r, i);

		for (uint32_t k = 0; g && k < RSK_VERBS_GROUP; k++) {
			struct rsk_vstream *s = &g->stream[k];

			if (!s->arrival)
				continue;
			left--;
			if (!rsk_flush_is_there(r, s)) {
				if (!s->pending)
					fence(r, s->last);
			} else if (n < RSK_VERBS_TOLD) {
				sid[n++] = i * RSK_VERBS_GROUP + k;
				s->arrival = false;
				r->arrivals--;
			}
		}
	}
	return n;
}

/* Sends the messages about the indirect buffers: freed units, and the request to report them. */
static void flush_msgs(struct rsk_verbs_rail *r)
{
	struct gone g;

	begin(&g);
	if (r->give_back && place(r, &g)) {
		uint32_t units = r->give_back;

		if (units > RSK_INDIRECT_UNITS)
			units = RSK_INDIRECT_UNITS;
		r->give_back -= units;
		rsk_post_last(r, &g.batch, units << 15 | RSK_IMM_ROOM << 24);
	}
	if (r->ask_back && place(r, &g)) {
		r->ask_back = false;
		rsk_post_last(r, &g.batch, RSK_IMM_FLUSH << 24);
	}
}

/*
 * Sends control messages, as many as there is room for. The rest follows when there is room, or a
 * place in the queue.
 */
static void say_words(struct rsk_verbs_rail *r)
{
	const uint8_t *cells;
	uint32_t off, bytes;
	struct gone g;

	begin(&g);
	while ((cells = rsk_control_msgs_next(&r->said, &off, &bytes)) &&
	       entry_out(r, RSK_INDIRECT_WORDS, off, cells, &bytes, &g) == DONE)
		rsk_control_msgs_sent(&r->said, bytes);
	if (g.any)
		rsk_post_last(r, &g.batch, g.units << 15 | RSK_IMM_DATA << 24);
}

void rsk_flush_lists(struct rsk_verbs_rail *r)
{
	if (!r->live || !r->peer_known)
		return;
	flush_msgs(r);
	say_words(r);
	for (int which = 0; which < RSK_LISTS; which++)
		for (uint32_t n = r->list[which].count; n; n--) {
			struct rsk_vstream *s;
			uint32_t sid = 0;

			if (which == RSK_LIST_QUEUE && !rsk_post_room(r, 1))
				return;
			s = list_take(r, (enum rsk_list)which, &sid);
			/* A due() of the stream may have flushed it already. */
			if (s && s->pending)
				rsk_flush_stream(r, sid, s);
		}
}
