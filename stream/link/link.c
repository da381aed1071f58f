// SPDX-License-Identifier: BSD-2-Clause
/* link.c - see link.h. */
#include "link.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <rsock/sys.h>

#include "arena.h"
#include "doorbell.h"
#include "fdmsg.h"
#include "process.h"
#include "rdma.h"

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
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++)
		l->doorbell[i] = l->wake_fd[i] = l->wait_fd[i] = l->seg.peer_doorbell[i] = -1;
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
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++)
		l->doorbell[i] = l->wake_fd[i] = l->wait_fd[i] = l->seg.peer_doorbell[i] = -1;
	atomic_store(&l->part[0], part);
	atomic_store(&l->state, RSK_LINK_UP);
	return l;
}

void rsk_link_forked(struct rsk_link *l, bool asleep)
{
	rsk_sleep_sets_close(l);
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++) {
		rsk_own_close(l->wait_fd[i]);
		rsk_own_close(l->doorbell[i]);
		if (l->remote || i == 0)
			rsk_own_close(l->wake_fd[i]);
		rsk_own_close(l->seg.peer_doorbell[i]);
	}
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++) {
		l->doorbell[i] = l->wake_fd[i] = l->wait_fd[i] = l->seg.peer_doorbell[i] = -1;
	}
	rsk_own_close(l->control);
	l->control = -1;
	l->hollow = true;
	atomic_store(&l->state, RSK_LINK_DEAD);
	if (asleep)
		rsk_seg_hollow(&l->seg);
}

static int add(int set, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return rsk_sys_epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev);
}

int rsk_link_watch(const struct rsk_link *l, uint32_t i, int set, uint64_t data)
{
	int rc;

	if (l->remote)
		return add(set, l->wait_fd[i], EPOLLIN | EPOLLET, data);
	rc = add(set, l->doorbell[i], RSK_DOORBELL_EVENTS, data);
	if (rc < 0)
		return rc;
	rc = add(set, l->wake_fd[i], EPOLLIN | EPOLLET, data);
	if (rc < 0)
		rsk_sys_epoll_ctl(set, EPOLL_CTL_DEL, l->doorbell[i], NULL);
	return rc;
}

void rsk_link_unwatch(const struct rsk_link *l, uint32_t i, int set)
{
	rsk_sys_epoll_ctl(set, EPOLL_CTL_DEL, l->remote ? l->wait_fd[i] : l->doorbell[i], NULL);
	if (!l->remote)
		rsk_sys_epoll_ctl(set, EPOLL_CTL_DEL, l->wake_fd[i], NULL);
}

int rsk_link_make_doorbells(struct rsk_link *l)
{
	int wake_fd = rsk_own_fd(rsk_sys_eventfd2(0, EFD_NONBLOCK | EFD_CLOEXEC)), rc;

	if (wake_fd < 0)
		return wake_fd;
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++)
		l->wake_fd[i] = wake_fd;
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++) {
		l->doorbell[i] = rsk_own_fd(rsk_doorbell_new());
		if (l->doorbell[i] < 0)
			return l->doorbell[i];
		if (i == RSK_SEG_SHARED_DOORBELL)
			break; /* each sleeper has an epoll set of its own */
		l->wait_fd[i] = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));
		if (l->wait_fd[i] < 0)
			return l->wait_fd[i];
		rc = rsk_link_watch(l, i, l->wait_fd[i], 0);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int rsk_link_hear(struct rsk_link *l, int news_fd)
{
	l->remote = true;
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++) {
		int rc;

		l->wake_fd[i] = rsk_own_fd(rsk_sys_eventfd2(0, EFD_NONBLOCK | EFD_CLOEXEC));
		if (l->wake_fd[i] < 0)
			return l->wake_fd[i];
		l->wait_fd[i] = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));
		if (l->wait_fd[i] < 0)
			return l->wait_fd[i];
		rc = add(l->wait_fd[i], l->wake_fd[i], EPOLLIN, 0);
		if (rc == 0)
			rc = add(l->wait_fd[i], news_fd, EPOLLIN, 0);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void rsk_link_strike(const struct rsk_link *l, uint64_t doorbells)
{
	static const uint64_t one = 1;

	for (doorbells &= (1u << RSK_SEG_DOORBELLS) - 1; doorbells; doorbells &= doorbells - 1)
		rsk_sys_write(l->wake_fd[__builtin_ctzll(doorbells)], &one, sizeof(one));
}

void rsk_link_drop(struct rsk_link *l)
{
	rsk_sleep_sets_close(l);
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++) {
		rsk_own_close(l->wait_fd[i]);
		rsk_own_close(l->doorbell[i]);
		if (l->remote || i == 0)
			rsk_own_close(l->wake_fd[i]);
		rsk_own_close(l->seg.peer_doorbell[i]);
	}
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

/* Each thread takes the one that it had last, which may have a sleep set for its stream. */
static __thread uint32_t taken_last;

int rsk_doorbell_take(struct rsk_doorbell *b, struct rsk_link *l)
{
	uint32_t taken = atomic_load(&l->doorbells_taken);
	int rc;

	if (l->hollow) { /* no process rings it */
		*b = (struct rsk_doorbell){ .l = l, .index = 0, .fd = -1 };
		return 0;
	}
	for (;;) {
		uint32_t i = taken & 1u << taken_last ? (uint32_t)__builtin_ctz(~taken) :
							taken_last;

		if (i >= RSK_SEG_SHARED_DOORBELL)
			break;
		if (atomic_compare_exchange_weak(&l->doorbells_taken, &taken, taken | 1u << i)) {
			taken_last = i;
			/* It may still signal its previous holder's event: one wake-up too many. */
			*b = (struct rsk_doorbell){ .l = l, .index = i, .fd = l->wait_fd[i] };
			b->rung = !l->remote &&
				  atomic_fetch_and(&l->doorbells_rung, ~(1u << i)) & 1u << i;
			return 0;
		}
	}
	*b = (struct rsk_doorbell){ .index = RSK_SEG_SHARED_DOORBELL };
	b->fd = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));
	if (b->fd < 0)
		return b->fd;
	rc = rsk_link_watch(l, b->index, b->fd, 0);
	if (rc < 0) {
		rsk_own_close(b->fd);
		return rc;
	}
	b->l = l;
	if (l->remote)
		rsk_doorbell_rang(b);
	else
		b->rung = true; /* earlier events are discarded */
	return 0;
}

/* Takes the edges out of an epoll set of ours. */
static void hush(int set)
{
	struct epoll_event ev[2];

	rsk_sys_epoll_pwait(set, ev, 2, 0, NULL);
}

void rsk_doorbell_rang(struct rsk_doorbell *b)
{
	uint64_t n;

	if (!b->l->remote) {
		b->rung = true;
		return;
	}
	if (b->index == RSK_SEG_SHARED_DOORBELL)
		hush(b->fd);
	/*
	 * If the wake eventfd was written as well, the doorbell stays signalled, and is emptied the
	 * next time.
	 */
	if (rsk_rdma_poll(true) <= 0 && b->index != RSK_SEG_SHARED_DOORBELL)
		rsk_sys_read(b->l->wake_fd[b->index], &n, sizeof(n));
}

void rsk_doorbell_ready(struct rsk_doorbell *b)
{
	if (!b->rung)
		return;
	b->rung = false;
	hush(b->fd);
}

void rsk_doorbell_give(struct rsk_doorbell *b)
{
	if (!b->l)
		return;
	if (b->index == RSK_SEG_SHARED_DOORBELL) {
		rsk_own_close(b->fd);
	} else {
		/* The next holder takes the event out before it sleeps. */
		if (b->rung)
			atomic_fetch_or(&b->l->doorbells_rung, 1u << b->index);
		atomic_fetch_and(&b->l->doorbells_taken, ~(1u << b->index));
	}
	b->l = NULL;
}
