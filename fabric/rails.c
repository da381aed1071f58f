// SPDX-License-Identifier: BSD-2-Clause
/*
 * rails.c - several rails as one: chooses the rail for each put, and forwards the other operations.
 * See rails.h.
 */
#include "rails.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Consecutive slots stay on a rail for this many bytes: neighbours go as one write, and choosing
 * asks all rails for their load. Delivery is in order, so everything after a run waits for it, and
 * by a slow rail it may be much slower; for a small ring a run is therefore a small part of it.
 */
static uint32_t run_bytes(const struct rsk_rails *rs)
{
	const uint32_t most = 16u << 10, part = rs->at.ring_bytes / 16;

	return part < most ? part : most;
}

static bool is_up(const struct rsk_rails *rs, uint32_t i)
{
	return rsk_rails_state(rs, i) == RSK_RAILS_UP;
}

uint32_t rsk_rails_count(const struct rsk_rails *rs)
{
	uint32_t up = atomic_load_explicit(&rs->up, memory_order_acquire);

	return (uint32_t)__builtin_popcount(up);
}

/* ---- choice ---- */

/* When the rail would have sent @len more: bytes under way, scaled to a rail of rate @fastest. */
static uint64_t cost(const struct rsk_flow *f, uint64_t len, uint64_t fastest)
{
	uint64_t bytes = f->under_way_bytes + len;

	/* A rail that was never measured is tried. */
	return f->rate ? (uint64_t)((double)bytes * (double)fastest / (double)f->rate) : bytes;
}

/* The rail for what is at @off; -1: none reaches it now. */
static int choose(struct rsk_rails *rs, const struct rsk_rails_stream *s, uint64_t off, size_t len)
{
	struct rsk_flow flow[RSK_RAILS_MOST];
	uint64_t fastest = 0, best_cost = UINT64_MAX;
	bool there[RSK_RAILS_MOST] = { false }, alone = rsk_rails_count(rs) < 2;
	int best = -1;

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		if (!is_up(rs, i))
			continue;
		flow[i] = (struct rsk_flow){ .alone = alone };
		rs->rail[i]->ops->flow(rs->rail[i], off, &flow[i]);
		there[i] = !flow[i].shut;
		if (there[i] && flow[i].rate > fastest)
			fastest = flow[i].rate;
	}
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		uint64_t c;

		if (!there[i])
			continue;
		/* A rail that makes no progress comes last. */
		c = flow[i].held ? UINT64_MAX - 1 : cost(&flow[i], len, fastest);
		if (c < best_cost || (c == best_cost && i == s->last)) {
			best_cost = c;
			best = (int)i;
		}
	}
	return best;
}

/* ---- ops ---- */

static struct rsk_rails_stream *stream_at(const struct rsk_rails *rs, uint64_t off, uint32_t *cell)
{
	uint64_t in = off - rs->at.ring_off, sid = in / rs->at.ring_bytes;

	if (sid >= rs->at.streams)
		return NULL;
	*cell = (uint32_t)(in % rs->at.ring_bytes) / RSK_CELL_BYTES;
	return atomic_load_explicit(&rs->stream[sid], memory_order_acquire);
}

/* Adds @n to a counter of the stream's record, which only the holder of the tx lock writes. */
static void count(uint64_t *words, uint32_t i, uint64_t n)
{
	if (words)
		__atomic_store_n(&words[i], __atomic_load_n(&words[i], __ATOMIC_RELAXED) + n,
				 __ATOMIC_RELAXED);
}

/* Has the choice to be made again? With one rail, only when it is another one. */
static bool has_choice(const struct rsk_rails *rs, struct rsk_rails_stream *s)
{
	uint32_t changes = atomic_load_explicit(&rs->changes, memory_order_acquire);

	if (s->changes != changes) {
		s->changes = changes;
		return true;
	}
	return s->run_bytes >= run_bytes(rs) && rsk_rails_count(rs) > 1;
}

static int put_slot(struct rsk_rails *rs, uint64_t off, size_t len)
{
	struct rsk_rails_stream *s;
	uint32_t cell = 0;
	int i, rc;

	s = stream_at(rs, off, &cell);
	if (!s)
		return -ENOTCONN;
	i = s->last;
	if (has_choice(rs, s) || !is_up(rs, s->last)) {
		i = choose(rs, s, off, len);
		if (i < 0) {
			/*
			 * ^The rails that reach it are gone, others do not yet: again() puts it
			 * later.
			 */
			s->changes = 0;
			s->waiting = atomic_load_explicit(&rs->lives, memory_order_relaxed);
			s->carried[cell] = RSK_RAILS_NOBODY;
			return 0;
		}
		/* The previous rail posts now what it was given, not together with the others. */
		if (i != s->last && is_up(rs, s->last))
			rs->rail[s->last]->ops->due(rs->rail[s->last], 0, 0);
		s->last = (uint8_t)i;
		s->run_bytes = 0;
	}
	s->run_bytes += (uint32_t)len;
	s->used |= (uint8_t)(1u << i);
	s->carried[cell] = (uint8_t)i;
	count(s->record.bytes, (uint32_t)i, len);
	rc = rs->rail[i]->ops->put(rs->rail[i], off, len);
	/*
	 * If the rail is broken and refuses, which is not known here yet, the slot is lost with it
	 * and will be named.
	 */
	return rc < 0 ? 0 : rc;
}

static int put_word(struct rsk_rails *rs, uint64_t off, size_t len)
{
	int lead, rc;

	/* Order the control word before the load of @lead; lead_by() has the other half. */
	atomic_thread_fence(memory_order_seq_cst);
	lead = atomic_load(&rs->lead);
	if (lead < 0)
		return 0;
	rc = rs->rail[lead]->ops->put(rs->rail[lead], off, len);
	return rc < 0 ? 0 : rc;
}

static int rails_put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	struct rsk_rails *rs = rail->priv;
	int err;

	if (rs->mute)
		return RSK_RAIL_MUTE;
	err = atomic_load_explicit(&rail->broken, memory_order_relaxed);
	if (err)
		return err;
	return off >= rs->at.ring_off ? put_slot(rs, off, len) : put_word(rs, off, len);
}

/*
 * The rail for a slot that has arrived: the lead, if it reaches the ring itself, or another one
 * that does. -EAGAIN: none reaches the ring now; -EOPNOTSUPP: indirect buffers only.
 */
static int direct(struct rsk_rails *rs, uint64_t off)
{
	int lead = atomic_load(&rs->lead), best = -EAGAIN;

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		struct rsk_flow flow = { .alone = true };

		if (!is_up(rs, i))
			continue;
		rs->rail[i]->ops->flow(rs->rail[i], off, &flow);
		if (!flow.shut && !flow.indirect && (best < 0 || (int)i == lead))
			best = (int)i;
		else if (!flow.shut && best < 0)
			best = -EOPNOTSUPP;
	}
	return best;
}

/*
 * What a lost rail has carried, or none has, is not put here: the other end names it, if it is not
 * whole there. The rail's failure may also be what it is not known of here yet: then the slot is
 * lost with the rail, and is named.
 */
static int put_asked(struct rsk_rails *rs, struct rsk_rails_stream *s, uint64_t off, size_t len,
		     uint32_t cell)
{
	uint32_t by = s->carried[cell];
	int i, rc;

	if (by >= RSK_RAILS_MOST || rsk_rails_state(rs, by) == RSK_RAILS_LOST)
		return -EAGAIN;
	i = direct(rs, off);
	if (i < 0)
		return i;
	s->used |= (uint8_t)(1u << i);
	s->carried[cell] = (uint8_t)i;
	count(s->record.bytes, (uint32_t)i, len);
	count(s->record.again, 0, 1);
	rc = rs->rail[i]->ops->put(rs->rail[i], off, len);
	return rc < 0 ? 0 : rc;
}

static int rails_again(struct rsk_rail *rail, uint64_t off, size_t len, uint32_t lost)
{
	struct rsk_rails *rs = rail->priv;
	struct rsk_rails_stream *s;
	uint32_t cell = 0;
	int rc;

	if (rs->mute || off < rs->at.ring_off)
		return rs->mute ? RSK_RAIL_MUTE : -EINVAL;
	s = stream_at(rs, off, &cell);
	if (s && lost == RSK_RAILS_ASKED)
		return put_asked(rs, s, off, len, cell);
	if (!s || s->carried[cell] != lost)
		return 0;
	if (lost != RSK_RAILS_NOBODY &&
	    (lost >= RSK_RAILS_MOST || rsk_rails_state(rs, lost) != RSK_RAILS_LOST))
		return 0;
	if (lost == RSK_RAILS_NOBODY)
		s->waiting = 0; /* put_slot() sets it again if needed */
	/* Adjacent slots go as one write; otherwise post what was put again before more is put. */
	if (off != s->again_end && is_up(rs, s->last))
		rs->rail[s->last]->ops->due(rs->rail[s->last], 0, 0);
	s->again_end = (off + len + RSK_CELL_BYTES - 1) & ~(uint64_t)(RSK_CELL_BYTES - 1);
	rc = put_slot(rs, off, len);
	if (rc >= 0 && lost < RSK_RAILS_MOST)
		count(s->record.again, 0, 1);
	return rc;
}

static bool rails_several(const struct rsk_rail *rail)
{
	const struct rsk_rails *rs = rail->priv;

	return rsk_rails_count(rs) > 1;
}

static uint64_t rails_due(struct rsk_rail *rail, uint32_t sid, uint32_t what)
{
	struct rsk_rails *rs = rail->priv;
	uint64_t doorbells = 0;

	if (!rs->mute)
		for (uint32_t up = atomic_load_explicit(&rs->up, memory_order_acquire); up;
		     up &= up - 1) {
			struct rsk_rail *by = rs->rail[__builtin_ctz(up)];

			doorbells |= by->ops->due(by, sid, what);
		}
	atomic_thread_fence(memory_order_seq_cst);
	return doorbells;
}

/*
 * Asks all rails that may have some of it, so that each will notify when it has arrived. The
 * stream's tx lock is held. For a lost rail it is not known what arrived until everything missing
 * is named. Until then the answer is false for streams that have put by it since it last reported
 * that everything had arrived; and for all streams until their control words, which went by it if
 * it was the lead, are under way by another one.
 */
static bool rails_arrived(struct rsk_rail *rail, uint64_t off)
{
	struct rsk_rails *rs = rail->priv;
	struct rsk_rails_stream *s;
	int lead = atomic_load(&rs->lead);
	bool there = lead >= 0 && !atomic_load(&rs->words_open), used;
	uint32_t cell;

	if (rs->mute)
		return false;
	s = stream_at(rs, off, &cell);
	if (s && s->waiting == atomic_load_explicit(&rs->lives, memory_order_relaxed))
		return false;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		used = (int)i == lead || (s && s->used & 1u << i);
		switch (rsk_rails_state(rs, i)) {
		case RSK_RAILS_LOST:
			there &= s && !used;
			break;
		case RSK_RAILS_UP:
			if (!used)
				break;
			if (!rs->rail[i]->ops->arrived(rs->rail[i], off))
				there = false;
			else if (s)
				s->used &= (uint8_t) ~(1u << i); /* until it has something more */
			break;
		default:
			break;
		}
	}
	return there && atomic_load(&rs->lead) == lead;
}

static struct rsk_rail *leader(struct rsk_rail *rail)
{
	struct rsk_rails *rs = rail->priv;
	int lead = atomic_load(&rs->lead);

	return lead < 0 || rs->mute ? NULL : rs->rail[lead];
}

static int rails_get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token)
{
	struct rsk_rail *one = leader(rail);

	return one ? one->ops->get(one, off, dst, len, token) : -ENOTCONN;
}

static int rails_poll(struct rsk_rail *rail, struct rsk_completion *done, int max)
{
	struct rsk_rails *rs = rail->priv;
	int n = 0, rc;

	for (uint32_t i = 0; i < RSK_RAILS_MOST && n < max && !rs->mute; i++) {
		if (!rs->rail[i])
			continue;
		rc = rs->rail[i]->ops->poll(rs->rail[i], done + n, max - n);
		n += rc > 0 ? rc : 0;
	}
	return n ? n : atomic_load_explicit(&rail->broken, memory_order_relaxed);
}

/*
 * Doorbells and announcements are in the segment, which is the same for all rails: any rail will
 * do.
 */
static struct rsk_rail *any(const struct rsk_rail *rail)
{
	return ((const struct rsk_rails *)rail->priv)->rail[0];
}

static void rails_notify(struct rsk_rail *rail, uint64_t doorbells)
{
	any(rail)->ops->notify(any(rail), doorbells);
}

static void rails_announce(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t doorbell)
{
	any(rail)->ops->announce(any(rail), sid, what, doorbell);
}

static void rails_retract(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t doorbell)
{
	any(rail)->ops->retract(any(rail), sid, what, doorbell);
}

static const struct rsk_fabric_ops rails_ops = {
	.name = "rails",
	.caps = RSK_FABRIC_RELIABLE,
	.put = rails_put,
	.get = rails_get,
	.poll = rails_poll,
	.due = rails_due,
	.arrived = rails_arrived,
	.again = rails_again,
	.several = rails_several,
	.notify = rails_notify,
	.announce = rails_announce,
	.retract = rails_retract,
};

/* ---- start, end, and streams: progress thread ---- */

struct rsk_rails_layout rsk_rails_layout_of(const struct rsk_seg *seg)
{
	return (struct rsk_rails_layout){ .ctl_off = rsk_seg_ctl_off(0),
					  .ctl_step = sizeof(struct rsk_seg_ctl),
					  .rx_word_off = offsetof(struct rsk_seg_ctl, rx_word),
					  .ring_off = rsk_seg_ring_off(&seg->peer, 0),
					  .ring_bytes = seg->peer.ring_bytes,
					  .streams = seg->peer.streams };
}

int rsk_rails_init(struct rsk_rails *rs, struct rsk_rail *one, const struct rsk_rails_layout *at)
{
	memset(rs, 0, sizeof(*rs));
	rs->stream = calloc(at->streams, sizeof(*rs->stream));
	if (!rs->stream)
		return -ENOMEM;
	rs->one = one;
	rs->at = *at;
	atomic_store(&rs->lead, -1);
	atomic_store(&rs->changes, 1);
	atomic_store(&rs->lives, 1);
	rs->fresh = true;
	one->ops = &rails_ops;
	one->priv = rs;
	return 0;
}

void rsk_rails_fini(struct rsk_rails *rs)
{
	for (uint32_t i = 0; rs->stream && i < rs->at.streams; i++)
		free(atomic_load(&rs->stream[i]));
	free(rs->stream);
	rs->stream = NULL;
}

int rsk_rails_reach(struct rsk_rails *rs, uint32_t sid, const struct rsk_rails_record *record)
{
	struct rsk_rails_stream *s;

	if (sid >= rs->at.streams)
		return -EINVAL;
	s = atomic_load(&rs->stream[sid]);
	if (s) {
		s->waiting = 0; /* of an earlier stream with the same id */
		s->record = *record;
		return 0;
	}
	s = calloc(1, sizeof(*s) + rs->at.ring_bytes / RSK_CELL_BYTES);
	if (!s)
		return -ENOMEM;
	s->record = *record;
	atomic_store_explicit(&rs->stream[sid], s, memory_order_release);
	return 0;
}

bool rsk_rails_validate(const struct rsk_rails *rs)
{
	int lead = atomic_load(&rs->lead);
	uint32_t up = 0;

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		up |= (uint32_t)is_up(rs, i) << i;
	if (atomic_load(&rs->up) != up)
		return false;
	if (lead >= (int)RSK_RAILS_MOST || (lead >= 0 && !is_up(rs, (uint32_t)lead)))
		return false;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (rsk_rails_state(rs, i) > RSK_RAILS_LOST ||
		    (rs->open & 1u << i && rsk_rails_state(rs, i) != RSK_RAILS_LOST))
			return false;
	for (uint32_t sid = 0; sid < rs->at.streams; sid++) {
		const struct rsk_rails_stream *s = atomic_load(&rs->stream[sid]);

		if (!s)
			continue;
		if (s->last >= RSK_RAILS_MOST || s->used >> RSK_RAILS_MOST)
			return false;
		for (uint32_t c = 0; c < rs->at.ring_bytes / RSK_CELL_BYTES; c++)
			if (s->carried[c] >= RSK_RAILS_MOST && s->carried[c] != RSK_RAILS_NOBODY)
				return false;
	}
	return true;
}
