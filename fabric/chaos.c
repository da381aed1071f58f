// SPDX-License-Identifier: BSD-2-Clause
/* chaos.c - the fabric for tests: see chaos.h. */
#include "chaos.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/splitmix.h>

#define MILLION 1000000u
#define MAX_PIECES 5u

/* A piece of a put under way; its bytes follow. */
struct rsk_chaos_piece {
	struct rsk_chaos_piece *next;
	uint64_t due_steps;
	uint64_t sequence;
	uint64_t off;
	/* A get: from the peer's segment to here, when due. */
	void *get_dst;
	/* Of a torn get: another piece completes it. */
	bool part;
	uint64_t token;
	size_t len;
	uint8_t bytes[];
};

const struct rsk_chaos_config rsk_chaos_wild = {
	.ppm = { [RSK_CHAOS_TEAR] = 300000,
		 [RSK_CHAOS_DELAY] = 400000,
		 [RSK_CHAOS_DUPLICATE] = 60000,
		 [RSK_CHAOS_LATE] = 60000,
		 [RSK_CHAOS_DROP] = 60000,
		 [RSK_CHAOS_CORRUPT] = 60000 },
	.delay_steps = 12,
	.late_steps = 400,
};

const struct rsk_chaos_config rsk_chaos_reliable = {
	.ppm = { [RSK_CHAOS_TEAR] = 400000, [RSK_CHAOS_DELAY] = 600000 },
	.delay_steps = 20,
	.reliable = true,
};

static uint64_t roll(struct rsk_chaos *c)
{
	return rsk_splitmix_next(&c->rng);
}

static uint64_t below(struct rsk_chaos *c, uint64_t n)
{
	return n ? roll(c) % n : 0;
}

static bool happens(struct rsk_chaos *c, enum rsk_chaos_fault fault)
{
	bool lossy = fault == RSK_CHAOS_DROP || fault == RSK_CHAOS_CORRUPT ||
		     fault == RSK_CHAOS_DUPLICATE || fault == RSK_CHAOS_LATE;

	if (!c->config.ppm[fault] || (lossy && c->config.reliable) ||
	    below(c, MILLION) >= c->config.ppm[fault])
		return false;
	c->faults[fault]++;
	return true;
}

static bool overlap(const struct rsk_chaos_piece *a, const struct rsk_chaos_piece *b)
{
	return !a->get_dst && !b->get_dst && a->off < b->off + b->len && b->off < a->off + a->len;
}

/*
 * Inserts in order of time. Pieces of equal time are in random order, so that no code can rely on
 * the order of puts.
 */
static void launch(struct rsk_chaos *c, struct rsk_chaos_piece *p, uint64_t delay_steps)
{
	struct rsk_chaos_piece **at = &c->flying;

	p->due_steps = c->now_steps + delay_steps;
	if (c->config.reliable)
		for (struct rsk_chaos_piece *older = c->flying; older; older = older->next)
			if (overlap(older, p) && older->due_steps >= p->due_steps)
				p->due_steps = older->due_steps + 1;
	while (*at && ((*at)->due_steps < p->due_steps ||
		       ((*at)->due_steps == p->due_steps && delay_steps && roll(c) & 1)))
		at = &(*at)->next;
	/* Puts in order and without a delay stay in order. */
	while (*at && !delay_steps && (*at)->due_steps == p->due_steps)
		at = &(*at)->next;
	p->next = *at;
	*at = p;
	c->flying_bytes += p->get_dst ? 0 : p->len;
	c->flying_pieces++;
	for (struct rsk_chaos_piece *newer = p->next; newer; newer = newer->next)
		if (newer->sequence < p->sequence) {
			c->faults[RSK_CHAOS_REORDER]++;
			break;
		}
}

static struct rsk_chaos_piece *piece_new(struct rsk_chaos *c, uint64_t off, const uint8_t *from,
					 size_t len)
{
	struct rsk_chaos_piece *p = malloc(sizeof(*p) + len);

	/* Without memory a test proves nothing. */
	if (!p)
		abort();
	*p = (struct rsk_chaos_piece){ .off = off, .len = len, .sequence = c->sequence++ };
	if (from)
		memcpy(p->bytes, from, len);
	return p;
}

/* Steps until a piece is sent, on a rail of limited speed. */
static uint64_t in_line(struct rsk_chaos *c, size_t len)
{
	uint64_t a_step = c->config.bytes_per_step;

	if (c->swallows)
		return UINT64_MAX / 2;
	if (!a_step)
		return 0;
	if (c->line < c->now_steps * a_step)
		c->line = c->now_steps * a_step;
	c->line += len;
	return c->line / a_step - c->now_steps;
}

static void put_piece(struct rsk_chaos *c, uint64_t off, size_t len)
{
	const uint8_t *from = c->rail.window + off;
	struct rsk_chaos_piece *p;
	uint64_t delay = 0;

	if (happens(c, RSK_CHAOS_DUPLICATE))
		launch(c, piece_new(c, off, from, len), below(c, c->config.delay_steps) + 1);
	if (happens(c, RSK_CHAOS_LATE))
		launch(c, piece_new(c, off, from, len), below(c, c->config.late_steps) + 1);
	if (happens(c, RSK_CHAOS_DROP))
		return;
	if (happens(c, RSK_CHAOS_DELAY))
		delay = below(c, c->config.delay_steps) + 1;
	delay += in_line(c, len);
	p = piece_new(c, off, from, len);
	if (happens(c, RSK_CHAOS_CORRUPT))
		p->bytes[below(c, len)] ^= (uint8_t)(1u << below(c, 8));
	launch(c, p, delay);
}

static void unlaunch(struct rsk_chaos *c, struct rsk_chaos_piece *p)
{
	c->flying = p->next;
	c->flying_bytes -= p->get_dst ? 0 : p->len;
	c->flying_pieces--;
}

bool rsk_chaos_happens(struct rsk_chaos *c, enum rsk_chaos_fault fault)
{
	return happens(c, fault);
}

uint64_t rsk_chaos_below(struct rsk_chaos *c, uint64_t n)
{
	return below(c, n);
}

void rsk_chaos_done(struct rsk_chaos *c, uint64_t token, int status)
{
	if (c->done_count == c->done_space) {
		c->done_space = c->done_space ? c->done_space * 2 : 8;
		c->done = realloc(c->done, c->done_space * sizeof(*c->done));
		if (!c->done)
			abort();
	}
	c->done[c->done_count++] = (struct rsk_completion){ .token = token, .status = status };
}

static void land(struct rsk_chaos *c, struct rsk_chaos_piece *p)
{
	c->landed_pieces++;
	if (p->get_dst) {
		memcpy(p->get_dst, c->peer_segment + p->off, p->len);
		if (p->part)
			return;
		rsk_chaos_done(c, p->token, 0);
	} else {
		memcpy(c->peer_segment + p->off, p->bytes, p->len);
		c->landed_bytes += p->len;
	}
}

static void land_due(struct rsk_chaos *c)
{
	while (c->flying && c->flying->due_steps <= c->now_steps) {
		struct rsk_chaos_piece *p = c->flying;

		unlaunch(c, p);
		land(c, p);
		free(p);
	}
}

static int chaos_put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	struct rsk_chaos *c = rail->priv;
	uint32_t pieces = 1;

	if (atomic_load_explicit(&rail->broken, memory_order_relaxed)) {
		c->refused = true;
		return -ENETDOWN;
	}
	/* A put outside the window is a bug of the library, whatever the peer did. */
	if (!len || off > rail->window_bytes || len > rail->window_bytes - off)
		abort();
	if (happens(c, RSK_CHAOS_BREAK)) {
		c->faults[RSK_CHAOS_BREAK]--; /* counted once, by rsk_chaos_break() */
		rsk_chaos_break(c);
		return -ENETDOWN;
	}
	c->puts++;
	if (len > 1 && happens(c, RSK_CHAOS_TEAR))
		pieces = 2 + (uint32_t)below(c, MAX_PIECES - 1);
	for (; pieces > 1 && len > 1; pieces--) {
		size_t part = 1 + below(c, len - 1);

		put_piece(c, off, part);
		off += part;
		len -= part;
	}
	put_piece(c, off, len);
	land_due(c);
	return 0;
}

static int fetch(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token)
{
	struct rsk_chaos *c = rail->priv;
	struct rsk_chaos_piece *p;

	if (atomic_load_explicit(&rail->broken, memory_order_relaxed))
		return -ENETDOWN;
	if (!len || off > rail->segment_bytes || len > rail->segment_bytes - off)
		abort();
	p = piece_new(c, off, NULL, 0);
	p->len = len;
	p->get_dst = dst;
	p->token = token;
	launch(c, p, happens(c, RSK_CHAOS_DELAY) ? below(c, c->config.delay_steps) + 1 : 0);
	land_due(c);
	return 0;
}

/*
 * A torn get, as memory is read while its owner writes: pieces are copied at times of their own, in
 * any order, and after all of them a piece of no bytes completes it.
 */
static void tear_get(struct rsk_chaos *c, uint64_t off, uint8_t *dst, size_t len, uint64_t token)
{
	uint32_t pieces = 2 + (uint32_t)below(c, MAX_PIECES - 1);
	uint64_t delay, last = 0;

	for (bool more = true; more; pieces--) {
		struct rsk_chaos_piece *p = piece_new(c, off, NULL, 0);

		more = len != 0;
		p->len = pieces > 1 && len > 1 ? 1 + below(c, len - 1) : len;
		p->get_dst = dst;
		p->token = token;
		p->part = more;
		delay = more ? below(c, c->config.delay_steps + 1) : last + 1;
		last = delay > last ? delay : last;
		off += p->len;
		dst += p->len;
		len -= p->len;
		launch(c, p, delay);
	}
}

static int chaos_get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token)
{
	struct rsk_chaos *c = rail->priv;

	if (len > 1 && off <= rail->segment_bytes && len <= rail->segment_bytes - off &&
	    !atomic_load_explicit(&rail->broken, memory_order_relaxed) &&
	    happens(c, RSK_CHAOS_TEAR)) {
		tear_get(c, off, dst, len, token);
		land_due(c);
		return 0;
	}
	return fetch(rail, off, dst, len, token);
}

static int chaos_poll(struct rsk_rail *rail, struct rsk_completion *done, int max)
{
	struct rsk_chaos *c = rail->priv;
	uint32_t n = 0;

	while (n < c->done_count && n < (uint32_t)max) {
		done[n] = c->done[n];
		n++;
	}
	c->done_count -= n;
	if (c->done_count)
		memmove(c->done, c->done + n, c->done_count * sizeof(*c->done));
	if (!n && atomic_load_explicit(&rail->broken, memory_order_relaxed))
		return -ENETDOWN;
	return (int)n;
}

/* No thread sleeps in a test on a virtual clock. */
static uint64_t chaos_due(struct rsk_rail *rail, uint32_t sid, uint32_t what)
{
	return 0;
}

static void chaos_notify(struct rsk_rail *rail, uint64_t doorbells)
{
}

/*
 * As one queue pair acknowledges: what was not acknowledged when it broke never will be, nor what
 * was put since.
 */
static bool chaos_arrived(struct rsk_rail *rail, uint64_t off)
{
	const struct rsk_chaos *c = rail->priv;

	return !c->flying && !c->cut && !c->refused;
}

/* The rate is known once something has landed. */
static void chaos_flow(struct rsk_rail *rail, uint64_t off, struct rsk_flow *flow)
{
	const struct rsk_chaos *c = rail->priv;

	flow->under_way_bytes = c->flying_bytes;
	flow->rate = c->landed_bytes ? c->config.bytes_per_step : 0;
	flow->shut = c->shut;
	flow->held = false;
}

static const struct rsk_fabric_ops chaos_ops = {
	.name = "chaos",
	.put = chaos_put,
	.get = chaos_get,
	.poll = chaos_poll,
	.due = chaos_due,
	.notify = chaos_notify,
};

static const struct rsk_fabric_ops chaos_reliable_ops = {
	.name = "chaos-reliable",
	.caps = RSK_FABRIC_RELIABLE,
	.put = chaos_put,
	.get = chaos_get,
	.poll = chaos_poll,
	.due = chaos_due,
	.notify = chaos_notify,
	.arrived = chaos_arrived,
	.flow = chaos_flow,
};

int rsk_chaos_open(struct rsk_chaos *c, const struct rsk_chaos_config *config, uint64_t seed,
		   uint8_t *segment, uint8_t *peer_segment, size_t bytes)
{
	uint8_t *window = calloc(1, bytes);

	if (!window)
		return -ENOMEM;
	memset(c, 0, sizeof(*c));
	c->config = *config;
	c->rng = seed;
	c->peer_segment = peer_segment;
	c->rail.ops = config->reliable ? &chaos_reliable_ops : &chaos_ops;
	c->rail.window = window;
	c->rail.window_bytes = bytes;
	c->rail.segment = segment;
	c->rail.segment_bytes = bytes;
	c->rail.priv = c;
	return 0;
}

void rsk_chaos_close(struct rsk_chaos *c)
{
	while (c->flying) {
		struct rsk_chaos_piece *p = c->flying;

		c->flying = p->next;
		free(p);
	}
	if (c->more)
		c->more->close(c);
	free(c->rail.window);
	free(c->done);
	memset(c, 0, sizeof(*c));
}

void rsk_chaos_step(struct rsk_chaos *c)
{
	c->now_steps++;
	land_due(c);
	if (c->more)
		c->more->step(c);
}

void rsk_chaos_settle(struct rsk_chaos *c)
{
	while (c->flying || (c->more && c->more->busy(c)))
		rsk_chaos_step(c);
}

void rsk_chaos_stop(struct rsk_chaos *c)
{
	if (!atomic_exchange_explicit(&c->rail.broken, -ENETDOWN, memory_order_relaxed))
		c->faults[RSK_CHAOS_BREAK]++;
}

void rsk_chaos_break(struct rsk_chaos *c)
{
	rsk_chaos_stop(c);
	c->cut |= c->flying != NULL;
	if (c->more)
		c->more->cut(c);
	while (c->flying) {
		struct rsk_chaos_piece *p = c->flying;

		unlaunch(c, p);
		if (!p->get_dst && roll(c) & 1)
			land(c, p);
		free(p);
	}
}

void rsk_chaos_repair(struct rsk_chaos *c)
{
	c->cut = c->refused = c->swallows = false;
	atomic_store(&c->rail.broken, 0);
}

uint64_t rsk_chaos_injected(const struct rsk_chaos *c)
{
	uint64_t n = 0;

	for (int i = 0; i < RSK_CHAOS_FAULTS; i++)
		n += c->faults[i];
	return n;
}

bool rsk_chaos_validate(const struct rsk_chaos *c)
{
	uint64_t n = 0, last = c->now_steps;

	for (const struct rsk_chaos_piece *p = c->flying; p; p = p->next) {
		if (p->due_steps < last)
			return false;
		last = p->due_steps;
		n++;
	}
	return n == c->flying_pieces;
}
