// SPDX-License-Identifier: BSD-2-Clause
#include "link.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epoll.h"
#include "rdma.h"
#include "stream.h"

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
	atomic_store(&l->holders, 1);
	l->number = atomic_fetch_add(&numbers, 1) + 1;
	for (uint32_t i = 0; i < RSK_SEG_BELLS; i++) {
		l->bell[i] = -1;
		l->seg.peer_bell[i] = -1;
	}
	for (uint32_t i = 0; i < RSK_SEG_BELLS; i++) {
		l->bell[i] = rsk_own_fd(rsk_sys_eventfd2(0, EFD_NONBLOCK | EFD_CLOEXEC));
		l->gong[i] = l->bell[i];
		if (l->bell[i] < 0) {
			rsk_link_drop(l, &l->seg);
			return NULL;
		}
	}
	return l;
}

int rsk_link_hear(struct rsk_link *l, int news_fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	l->remote = true;
	for (uint32_t i = 0; i < RSK_SEG_BELLS; i++) {
		int rc;

		l->bell[i] = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));
		if (l->bell[i] < 0)
			return l->bell[i];
		rc = rsk_sys_epoll_ctl(l->bell[i], EPOLL_CTL_ADD, l->gong[i], &ev);
		if (rc == 0)
			rc = rsk_sys_epoll_ctl(l->bell[i], EPOLL_CTL_ADD, news_fd, &ev);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void rsk_link_strike(const struct rsk_link *l, uint64_t bells)
{
	static const uint64_t one = 1;

	for (bells &= (1u << RSK_SEG_BELLS) - 1; bells; bells &= bells - 1)
		rsk_sys_write(l->gong[__builtin_ctzll(bells)], &one, sizeof(one));
}

void rsk_link_drop(struct rsk_link *l, const struct rsk_seg *mapped)
{
	struct rsk_seg here = *mapped;

	for (uint32_t i = 0; i < RSK_SEG_BELLS; i++) {
		rsk_own_close(l->bell[i]);
		if (l->remote)
			rsk_own_close(l->gong[i]);
		rsk_own_close(here.peer_bell[i]);
	}
	rsk_own_close(l->control);
	rsk_seg_detach(&here);
	rsk_link_put(l);
}

void rsk_link_put(struct rsk_link *l)
{
	if (atomic_fetch_sub(&l->holders, 1) != 1 || atomic_load(&l->kept))
		return;
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

int rsk_bell_take(struct rsk_bell *b, struct rsk_link *l)
{
	uint32_t taken = atomic_load(&l->bells_taken);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int rc;

	for (;;) {
		uint32_t i = (uint32_t)__builtin_ctz(~taken);

		if (i >= RSK_SEG_SHARED_BELL)
			break;
		if (atomic_compare_exchange_weak(&l->bells_taken, &taken, taken | 1u << i)) {
			/* It may still ring for who had it last: one wake-up more than need be. */
			*b = (struct rsk_bell){ .l = l, .index = i, .fd = l->bell[i] };
			return 0;
		}
	}
	*b = (struct rsk_bell){ .index = RSK_SEG_SHARED_BELL };
	b->fd = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));
	if (b->fd < 0)
		return b->fd;
	rc = rsk_sys_epoll_ctl(b->fd, EPOLL_CTL_ADD, l->bell[b->index], &ev);
	if (rc < 0) {
		rsk_own_close(b->fd);
		return rc;
	}
	b->l = l;
	b->index = RSK_SEG_SHARED_BELL;
	rsk_bell_drain(b); /* what rang before counts for nothing */
	return 0;
}

void rsk_bell_drain(struct rsk_bell *b)
{
	struct epoll_event ev;
	bool came = false;
	uint64_t n;

	/* Whoever hears edges has heard this one before it looks what there was. */
	if (b->index == RSK_SEG_SHARED_BELL)
		rsk_sys_epoll_pwait(b->fd, &ev, 1, 0, NULL);
	if (b->l->remote)
		came = rsk_rdma_poll(true) > 0;
	/* That was it, most likely. If it was struck as well, it rings on, and is emptied the next time. */
	if (b->index != RSK_SEG_SHARED_BELL && !came)
		rsk_sys_read(b->l->gong[b->index], &n, sizeof(n));
}

void rsk_bell_give(struct rsk_bell *b)
{
	if (!b->l)
		return;
	if (b->index == RSK_SEG_SHARED_BELL)
		rsk_own_close(b->fd);
	else
		atomic_fetch_and(&b->l->bells_taken, ~(1u << b->index));
	b->l = NULL;
}
