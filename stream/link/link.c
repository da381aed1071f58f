// SPDX-License-Identifier: BSD-2-Clause
/* link.c - see link.h. */
#include "link.h"

#include <errno.h>
#include <string.h>

#include <rsock/sys.h>

#include "arena.h"
#include "fdmsg.h"
#include "process.h"

static _Atomic(uint32_t) numbers;

struct rsk_link *rsk_link_new(bool initiator)
{
	struct rsk_link *l = rsk_arena_alloc(sizeof(*l));

	if (!l)
		return NULL;
	l->initiator = initiator;
	l->maker = rsk_pid;
	l->control = -1;
	strcpy(l->fabric, "shm");
	l->number = atomic_fetch_add(&numbers, 1) + 1;
	rsk_link_no_doorbells(l);
	return l;
}

struct rsk_link *rsk_link_hollow(void)
{
	struct rsk_seg_geometry g = { .ring_bytes = RSK_SEG_MIN_RING, .streams = 1 };
	struct rsk_link *l = rsk_arena_alloc(sizeof(*l));
	struct rsk_link_part *part = rsk_arena_alloc(sizeof(*part));
	uint8_t *segment, *window;

	g.bytes = rsk_seg_ring_off(&g, 1);
	segment = rsk_arena_alloc(g.bytes);
	window = rsk_arena_alloc(g.bytes);
	if (!l || !part || !segment || !window) {
		rsk_arena_free(l);
		rsk_arena_free(part);
		rsk_arena_free(segment);
		rsk_arena_free(window);
		return NULL;
	}
	l->hollow = true;
	l->maker = rsk_pid;
	l->control = -1;
	strcpy(l->fabric, "none");
	l->seg = (struct rsk_seg){ .own = g, .peer = g, .window_streams = 1 };
	l->seg.rail = (struct rsk_rail){ .segment = segment,
					 .segment_bytes = g.bytes,
					 .window = window,
					 .window_bytes = g.bytes,
					 .ops = &rsk_shm_ops,
					 .priv = &l->seg };
	atomic_store(&l->seg.reach, 1);
	rsk_link_no_doorbells(l);
	atomic_store(&l->part[0], part);
	atomic_store(&l->state, RSK_LINK_UP);
	return l;
}

void rsk_link_forked(struct rsk_link *l, bool asleep)
{
	rsk_sleep_sets_close(l);
	rsk_link_close_doorbells(l);
	rsk_link_no_doorbells(l);
	rsk_own_close(l->control);
	l->control = -1;
	l->hollow = true;
	atomic_store(&l->state, RSK_LINK_DEAD);
	if (asleep)
		rsk_seg_hollow(&l->seg);
}

void rsk_link_drop(struct rsk_link *l)
{
	rsk_sleep_sets_close(l);
	rsk_link_close_doorbells(l);
	rsk_fdmsg_close(l->control, rsk_own_close);
	rsk_seg_detach(&l->seg);
	for (uint32_t i = 0; i < RSK_SEG_STREAMS / RSK_SEG_REACH; i++)
		rsk_arena_free(atomic_load(&l->part[i]));
	rsk_arena_free(l);
}

int rsk_link_reach(struct rsk_link *l, uint32_t sid)
{
	_Atomic(struct rsk_link_part *) *part = &l->part[sid / RSK_SEG_REACH];

	if (!atomic_load(part))
		atomic_store(part, rsk_arena_alloc(sizeof(**part)));
	return atomic_load(part) ? rsk_seg_reach(&l->seg, sid) : -ENOMEM;
}
