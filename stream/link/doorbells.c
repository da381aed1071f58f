// SPDX-License-Identifier: BSD-2-Clause
/*
 * doorbells.c - the doorbells of a link, and the one that a call sleeps on: see link.h. All of them
 * that lead to another host are this process's own.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <rsock/sys.h>

#include "doorbell.h"
#include "link.h"
#include "process.h"
#include "rdma.h"

static int add(int set, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return rsk_sys_epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev);
}

void rsk_link_no_doorbells(struct rsk_link *l)
{
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++)
		l->doorbell[i] = l->seg.peer_doorbell[i] = -1;
	for (uint32_t i = 0; i < RSK_LINK_DOORBELLS; i++)
		l->wake_fd[i] = l->wait_fd[i] = -1;
	l->news_fd = -1;
	atomic_store(&l->doorbells_taken, ~0ull << RSK_SEG_SHARED_DOORBELL);
}

void rsk_link_close_doorbells(struct rsk_link *l)
{
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++) {
		rsk_own_close(l->doorbell[i]);
		rsk_own_close(l->seg.peer_doorbell[i]);
	}
	for (uint32_t i = 0; i < RSK_LINK_DOORBELLS; i++) {
		rsk_own_close(l->wait_fd[i]);
		if (l->remote || i == 0)
			rsk_own_close(l->wake_fd[i]);
	}
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

/* To another host, by whoever has taken doorbell @i. 0 or -errno; what was made stays. */
static int make_remote(struct rsk_link *l, uint32_t i)
{
	int set = l->wait_fd[i], rc = 0;

	if (set >= 0)
		return 0;
	if (l->wake_fd[i] < 0)
		l->wake_fd[i] = rsk_own_fd(rsk_sys_eventfd2(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (l->wake_fd[i] < 0)
		return l->wake_fd[i];
	set = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));
	if (set < 0)
		return set;
	rc = add(set, l->wake_fd[i], EPOLLIN, 0);
	if (rc == 0)
		rc = add(set, l->news_fd, EPOLLIN, 0);
	if (rc < 0)
		rsk_own_close(set);
	else
		l->wait_fd[i] = set;
	return rc;
}

int rsk_link_hear(struct rsk_link *l, int news_fd)
{
	l->remote = true;
	l->news_fd = news_fd;
	atomic_store(&l->doorbells_taken, 1ull << RSK_SEG_SHARED_DOORBELL);
	return make_remote(l, RSK_SEG_SHARED_DOORBELL);
}

void rsk_link_strike(const struct rsk_link *l, uint64_t doorbells)
{
	static const uint64_t one = 1;

	if (!l->remote)
		doorbells &= (1u << RSK_SEG_DOORBELLS) - 1;
	for (; doorbells; doorbells &= doorbells - 1) {
		int fd = atomic_load_explicit(&l->wake_fd[__builtin_ctzll(doorbells)],
					      memory_order_relaxed);

		if (fd >= 0) /* a peer to another host may have set any bit */
			rsk_sys_write(fd, &one, sizeof(one));
	}
}

uint32_t rsk_link_take_doorbell(struct rsk_link *l, uint32_t like)
{
	uint64_t taken = atomic_load(&l->doorbells_taken);
	uint32_t i;

	do {
		if (taken == UINT64_MAX)
			return RSK_SEG_SHARED_DOORBELL;
		i = taken & 1ull << like ? (uint32_t)__builtin_ctzll(~taken) : like;
	} while (!atomic_compare_exchange_weak(&l->doorbells_taken, &taken, taken | 1ull << i));
	if (l->remote && make_remote(l, i) < 0) {
		rsk_link_give_doorbell(l, i);
		return RSK_SEG_SHARED_DOORBELL;
	}
	return i;
}

void rsk_link_give_doorbell(struct rsk_link *l, uint32_t i)
{
	if (i != RSK_SEG_SHARED_DOORBELL)
		atomic_fetch_and(&l->doorbells_taken, ~(1ull << i));
}

/* Each thread takes the one that it had last, which may have a sleep set for its stream. */
static __thread uint32_t taken_last;

/* An epoll set of its own, which reports what comes from now on. */
static int share(struct rsk_doorbell *b, struct rsk_link *l)
{
	int rc;

	b->fd = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));
	if (b->fd < 0)
		return b->fd;
	if (l->remote) /* the progress thread takes the completions */
		rc = add(b->fd, l->wake_fd[b->index], EPOLLIN | EPOLLET, 0);
	else
		rc = rsk_link_watch(l, b->index, b->fd, 0);
	if (rc < 0) {
		rsk_own_close(b->fd);
		return rc;
	}
	b->l = l;
	b->rung = true; /* earlier events are discarded */
	return 0;
}

int rsk_doorbell_take(struct rsk_doorbell *b, struct rsk_link *l)
{
	*b = (struct rsk_doorbell){ .fd = -1 };
	if (l->hollow) { /* no process rings it */
		b->l = l;
		return 0;
	}
	b->index = rsk_link_take_doorbell(l, taken_last);
	if (b->index == RSK_SEG_SHARED_DOORBELL)
		return share(b, l);
	taken_last = b->index;
	b->l = l;
	b->fd = l->wait_fd[b->index];
	/* It may still signal its previous holder's event: one wake-up too many. */
	b->rung = !l->remote &&
		  atomic_fetch_and(&l->doorbells_rung, ~(1u << b->index)) & 1u << b->index;
	return 0;
}

bool rsk_doorbell_needs_progress(const struct rsk_doorbell *b)
{
	return b->l->remote && b->index == RSK_SEG_SHARED_DOORBELL;
}

int rsk_doorbell_fd(const struct rsk_doorbell *b, enum rsk_news news)
{
	if (news == RSK_NEWS_BY_PROGRESS && b->l->remote && b->index != RSK_SEG_SHARED_DOORBELL)
		return b->l->wake_fd[b->index];
	return b->fd;
}

/* Takes the edges out of an epoll set of ours. */
static void hush(int set)
{
	struct epoll_event ev[2];

	rsk_sys_epoll_pwait(set, ev, 2, 0, NULL);
}

void rsk_doorbell_rang(struct rsk_doorbell *b, enum rsk_news news)
{
	uint64_t n;

	if (!b->l->remote || b->index == RSK_SEG_SHARED_DOORBELL) {
		b->rung = true;
		return;
	}
	/*
	 * If the wake eventfd was written as well, the doorbell stays signalled, and is emptied the
	 * next time.
	 */
	if (news == RSK_NEWS_BY_PROGRESS || rsk_rdma_poll(true) <= 0)
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
		rsk_link_give_doorbell(b->l, b->index);
	}
	b->l = NULL;
}
