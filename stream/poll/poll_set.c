// SPDX-License-Identifier: BSD-2-Clause
/* poll_set.c - see poll_set.h. */
#include "poll_set.h"

#include <errno.h>

#include "arena.h"
#include "pairing.h"
#include "stream.h"

#define PAIRING_ROUNDS 16 /* of a stream that is being paired, in one call */

static uint32_t wakes(short events)
{
	uint32_t what = RSK_WAKE_RX;

	if (events & RSK_POLL_OUT_EVENTS)
		what |= RSK_WAKE_TX;
	return what;
}

void rsk_poll_set_retract(struct rsk_poll_set *p)
{
	for (uint32_t i = 0; p->announced && i < p->nannounced; i++) {
		struct rsk_poll_item *it = &p->items[i];

		if (it->paired)
			it->s->link->seg.rail.ops->retract(&it->s->link->seg.rail, it->s->sid,
							   wakes(p->fds[it->at].events),
							   p->doorbells[it->doorbell].index);
	}
	p->announced = false;
}

void rsk_poll_set_asleep(struct rsk_poll_set *p)
{
	bool remote = false, needs = false;

	for (uint32_t i = 0; i < p->ndoorbells; i++) {
		remote |= p->doorbells[i].l->remote;
		needs |= rsk_doorbell_needs_progress(&p->doorbells[i]);
	}
	if (remote)
		p->news = rsk_news_sleep_begin(needs);
}

void rsk_poll_set_awake(struct rsk_poll_set *p)
{
	rsk_news_sleep_end(p->news);
	p->news = RSK_NEWS_AWAKE;
}

/* It is paired now, or the call ends. */
static void waits_no_more(struct rsk_stream *s)
{
	atomic_fetch_sub(&s->plain.rx, RSK_PLAIN_POLL);
}

void rsk_poll_set_fini(struct rsk_poll_set *p)
{
	rsk_poll_set_awake(p);
	if (p->announced)
		rsk_poll_set_retract(p);
	for (uint32_t i = 0; i < p->ndoorbells; i++)
		rsk_doorbell_give(&p->doorbells[i]);
	for (uint32_t i = 0; i < p->nitems; i++) {
		if (!p->items[i].paired)
			waits_no_more(p->items[i].s);
		rsk_stream_unpin(p->items[i].s);
	}
	p->nitems = p->ndoorbells = 0;
	if (p->memory)
		rsk_arena_free(p->memory);
	p->memory = NULL;
	rsk_by_time_end(&p->by_time);
}

int rsk_poll_set_init(struct rsk_poll_set *p, struct pollfd *fds, nfds_t n)
{
	uint32_t tracked = 0;
	nfds_t asked = 0;

	p->fds = fds;
	p->n = n;
	p->nitems = p->npaired = p->nepolls = p->ndoorbells = p->npairing = p->rounds = 0;
	p->news = RSK_NEWS_AWAKE;
	p->pairs = p->heard = p->announced = false;
	p->by_time.on = false;
	p->memory = NULL;
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].fd >= 0) {
			asked++;
			tracked += rsk_fd_tracked(fds[i].fd);
		}
	p->nasked = asked;
	p->kernel = p->small_fds;
	p->items = p->small_items;
	p->doorbells = p->small_doorbells;
	if (n > RSK_POLL_SMALL_SET) {
		size_t fd_bytes = (n + tracked + RSK_POLL_PAIRING_FDS) * sizeof(struct pollfd);

		fd_bytes = (fd_bytes + 63) & ~63ul;
		p->memory = rsk_arena_alloc_raw(fd_bytes + tracked * sizeof(struct rsk_poll_item) +
						tracked * sizeof(struct rsk_doorbell));
		if (!p->memory)
			return -ENOMEM;
		p->kernel = p->memory;
		p->items = (struct rsk_poll_item *)(void *)((uint8_t *)p->memory + fd_bytes);
		p->doorbells = (struct rsk_doorbell *)(void *)(p->items + tracked);
	}
	for (nfds_t i = 0; i < n && p->nitems < tracked; i++) {
		struct rsk_stream *s;
		bool paired;

		if (fds[i].fd < 0 || !rsk_fd_tracked(fds[i].fd))
			continue;
		if (rsk_fd_word(fds[i].fd) & RSK_FD_EPOLL) {
			p->nepolls++;
			continue;
		}
		s = rsk_stream_of(fds[i].fd);
		if (!s)
			continue;
		paired = rsk_stream_phase(s) == RSK_PHASE_PAIRED;
		if (!paired) {
			/*
			 * As in rsk_op_begin(): counted, so that the peer is not told that this end
			 * watches the ring.
			 */
			atomic_fetch_add(&s->plain.rx, RSK_PLAIN_POLL);
			if (atomic_load(&s->phase) == RSK_PHASE_PAIRED) {
				waits_no_more(s);
				paired = true;
			}
			p->pairs |= rsk_stream_is_paired_now(s);
		}
		p->items[p->nitems++] = (struct rsk_poll_item){ .at = i, .s = s, .paired = paired };
		p->npaired += paired;
	}
	return 0;
}

void rsk_poll_set_pair(struct rsk_poll_set *p)
{
	bool heard = p->heard;

	p->npairing = 0;
	p->heard = false;
	if (p->rounds++ >= PAIRING_ROUNDS)
		return;
	for (uint32_t i = 0; i < p->nitems; i++) {
		struct rsk_poll_item *it = &p->items[i];

		if (it->paired)
			continue;
		p->npairing += rsk_pairing_watch(it->s, p->fds[it->at].fd, heard,
						 p->pairing + p->npairing,
						 RSK_POLL_PAIRING_FDS - p->npairing);
		if (rsk_stream_phase(it->s) != RSK_PHASE_PAIRED)
			continue;
		waits_no_more(it->s);
		it->paired = true;
		p->npaired++;
	}
}

/* @index: where the doorbell was the last time. False: no descriptor is left. */
static bool doorbell_for(struct rsk_poll_set *p, struct rsk_link *l, uint32_t *index)
{
	if (*index < p->ndoorbells && p->doorbells[*index].l == l)
		return true;
	for (*index = 0; *index < p->ndoorbells; ++*index)
		if (p->doorbells[*index].l == l)
			return true;
	if (rsk_doorbell_take(&p->doorbells[p->ndoorbells], l) < 0)
		return false;
	rsk_doorbell_ready(&p->doorbells[p->ndoorbells++]);
	return true;
}

void rsk_poll_set_go_by_time(struct rsk_poll_set *p)
{
	rsk_poll_set_retract(p);
	for (uint32_t i = 0; i < p->ndoorbells; i++)
		rsk_doorbell_give(&p->doorbells[i]);
	p->ndoorbells = p->npairing = 0;
	p->rounds = PAIRING_ROUNDS;
	rsk_by_time_begin(&p->by_time);
}

void rsk_poll_set_announce(struct rsk_poll_set *p)
{
	p->nannounced = 0;
	p->announced = true;
	for (uint32_t i = 0; i < p->ndoorbells; i++)
		rsk_doorbell_ready(&p->doorbells[i]);
	for (uint32_t i = 0; i < p->nitems; i++) {
		struct rsk_poll_item *it = &p->items[i];

		if (!it->paired)
			continue;
		if (!doorbell_for(p, it->s->link, &it->doorbell)) {
			rsk_poll_set_go_by_time(p);
			return;
		}
		it->s->link->seg.rail.ops->announce(&it->s->link->seg.rail, it->s->sid,
						    wakes(p->fds[it->at].events),
						    p->doorbells[it->doorbell].index);
		p->nannounced = i + 1;
	}
	atomic_thread_fence(memory_order_seq_cst);
}
