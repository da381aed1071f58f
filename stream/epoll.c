// SPDX-License-Identifier: BSD-2-Clause
/* epoll.c - registrations of streams in epoll sets: the shadow, its take-over at joining, its return. */
#include "epoll.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epollset.h"
#include "stream.h"

struct rsk_epoll_family *rsk_epoll_family(void)
{
	static _Atomic(struct rsk_epoll_family *) family;
	struct rsk_epoll_family *f = atomic_load_explicit(&family, memory_order_acquire),
				*none = NULL;
	uint32_t tag = 0;

	if (f)
		return f;
	f = rsk_arena_alloc(sizeof(*f));
	if (!f)
		return NULL;
	while (rsk_sys_getrandom(&tag, sizeof(tag), 0) != sizeof(tag))
		;
	f->tag = (uint64_t)(tag | 0x80000000u) << 32;
	if (!atomic_compare_exchange_strong(&family, &none, f)) {
		rsk_arena_free(f);
		return none;
	}
	return f;
}

/* ---- objects ---- */

static struct rsk_epoll *epoll_new(int epfd)
{
	struct rsk_epoll_family *f = rsk_epoll_family();
	struct rsk_epoll *e;

	if (!f)
		return NULL;
	rsk_lock(&f->lock);
	e = f->free_sets;
	if (e)
		f->free_sets = e->next_free;
	rsk_unlock(&f->lock);
	if (!e)
		e = rsk_arena_alloc(sizeof(*e));
	if (!e)
		return NULL;
	memset(e, 0, sizeof(*e));
	e->epfd = epfd;
	e->home = rsk_pid;
	e->sub = e->lamp = -1;
	atomic_store(&e->fds, 1);
	return e;
}

void rsk_fd_epoll(int fd)
{
	struct rsk_epoll *e;

	if ((uint32_t)fd >= rsk_fdtab.size)
		return;
	rsk_fd_new(fd);
	rsk_guard_enter();
	e = epoll_new(fd);
	rsk_guard_exit();
	if (e)
		rsk_fd_put(fd, (uintptr_t)e | RSK_FD_EPOLL | RSK_FD_HOT);
}

struct rsk_epoll *rsk_epoll_of(int epfd)
{
	uintptr_t w = rsk_fd_word(epfd);

	if (!(w & RSK_FD_EPOLL))
		return NULL;
	return rsk_fd_object(w);
}

void rsk_epoll_dup(int oldfd, int newfd)
{
	struct rsk_epoll *e = rsk_epoll_of(oldfd);

	if (!e)
		return;
	atomic_fetch_add(&e->fds, 1);
	rsk_fd_put(newfd, (uintptr_t)e | RSK_FD_EPOLL | RSK_FD_HOT);
}

void rsk_epoll_fork(struct rsk_epoll *e)
{
	atomic_fetch_add(&e->fds, 1);
}

/* lock held */
static void unqueue(struct rsk_reg *r)
{
	struct rsk_reg **p, *before = NULL;

	if (r->set->hot == r)
		r->set->hot = NULL;
	if (!r->queued)
		return;
	for (p = &r->set->ready; *p && *p != r; p = &(*p)->next_ready)
		before = *p;
	if (*p)
		*p = r->next_ready;
	if (r->set->ready_tail == r)
		r->set->ready_tail = before;
	r->queued = false;
}

/* lock held */
static void unlink_reg(struct rsk_epoll_family *f, struct rsk_reg *r)
{
	struct rsk_reg **p;

	for (p = &r->stream->regs; *p && *p != r; p = &(*p)->next_of_stream)
		;
	if (*p)
		*p = r->next_of_stream;
	*r->at_of_set = r->next_of_set;
	if (r->next_of_set)
		r->next_of_set->at_of_set = r->at_of_set;
	unqueue(r);
	if (r->set->last == r)
		r->set->last = NULL;
	r->set->tagged -= r->tagged;
	r->live = false;
	r->next_of_set = f->free_regs;
	f->free_regs = r;
}

static struct rsk_reg *reg_new(struct rsk_epoll_family *f)
{
	struct rsk_reg *r = f->free_regs;

	if (r)
		f->free_regs = r->next_of_set;
	else
		r = rsk_arena_alloc(sizeof(*r));
	if (r)
		*r = (struct rsk_reg){ .live = true, .armed = true };
	return r;
}

static struct rsk_reg *reg_find(const struct rsk_stream *s, const struct rsk_epoll *e, int fd)
{
	for (struct rsk_reg *r = s->regs; r; r = r->next_of_stream)
		if (r->set == e && r->key_fd == fd)
			return r;
	return NULL;
}

void rsk_epoll_queue(struct rsk_reg *r)
{
	struct rsk_epoll *e = r->set;

	if (r->queued || !r->armed || !r->tagged)
		return;
	r->queued = true;
	r->next_ready = NULL;
	if (e->ready_tail)
		e->ready_tail->next_ready = r;
	else
		e->ready = r;
	e->ready_tail = r;
}

/* ---- taking over, giving back ---- */

struct epoll_event rsk_reg_event(const struct rsk_epoll_family *f, const struct rsk_reg *r)
{
	return (struct epoll_event){
		.events = (r->events & (EPOLLIN | EPOLLOUT | EPOLLPRI)) | EPOLLIN | EPOLLRDHUP |
			  EPOLLET,
		.data.u64 = f->tag | rsk_arena_offset(r),
	};
}

/* In a watched set: into the sub-set before out of the set, so that there is no moment without it. */
static int enter(struct rsk_epoll_family *f, struct rsk_reg *r)
{
	struct epoll_event ev = rsk_reg_event(f, r);
	struct rsk_epoll *e = r->set;
	int rc;

	if (e->sub < 0)
		return rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_MOD, r->key_fd, &ev);
	rc = rsk_sys_epoll_ctl(e->sub, EPOLL_CTL_ADD, r->key_fd, &ev);
	if (rc == 0)
		rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_DEL, r->key_fd, NULL);
	return rc;
}

static int take_over(struct rsk_epoll_family *f, struct rsk_reg *r)
{
	struct rsk_stream *s = r->stream;
	int rc = atomic_load(&r->set->watched) ? rsk_epoll_sub(f, r->set) : 0;

	if (rc == 0)
		rc = rsk_epoll_ensure_bell(f, r->set, s->link);
	if (rc == 0)
		rc = enter(f, r);
	if (rc < 0)
		return rc;
	atomic_fetch_or(&rsk_shm_own_ctl(&s->link->shm, s->sid)->epolls_rx,
			rsk_epoll_bell_bit(r->set, s->link));
	r->tagged = true;
	r->named = false;
	r->fresh = true;
	r->set->tagged++;
	atomic_fetch_add(&r->set->takeovers, 1);
	rsk_epoll_queue(r);
	/* Also for who sleeps in the kernel since there was no joined stream in it, and has announced nothing. */
	rsk_epoll_stir(r->set);
	return 0;
}

static enum rsk_reason why_not(int rc)
{
	switch (rc) {
	case -EBUSY:
		return RSK_REASON_EPOLL_SHARED;
	case -ENOSPC:
		return RSK_REASON_EPOLL_PEERS;
	case -EEXIST:
		return RSK_REASON_EPOLL_TAG;
	case -EBADF:
		return RSK_REASON_EPOLL_CLOSED;
	default:
		return RSK_REASON_FD_LIMIT;
	}
}

static int give_back(struct rsk_reg *r)
{
	struct epoll_event ev = { .events = r->armed ? r->events : r->events & EPOLLET,
				  .data.u64 = r->data };
	struct rsk_epoll *e = r->set;
	int rc;

	e->kernel_idle = 0; /* what lies there is the kernel's to tell */
	if (e->sub < 0 || !r->tagged)
		return rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_MOD, r->key_fd, &ev);
	rc = rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_ADD, r->key_fd, &ev);
	if (rc == 0)
		rsk_sys_epoll_ctl(e->sub, EPOLL_CTL_DEL, r->key_fd, NULL);
	return rc;
}

void rsk_epoll_joined(struct rsk_stream *s)
{
	struct rsk_epoll_family *f = s->regs ? rsk_epoll_family() : NULL;
	int rc;

	if (!f)
		return;
	rsk_lock(&f->lock);
	for (struct rsk_reg *r = s->regs; r; r = r->next_of_stream) {
		if (r->tagged)
			continue;
		rc = r->key_fd < 0 ? -EBADF : r->set->collides ? -EEXIST : take_over(f, r);
		/* What cannot be taken over stays right: this stream keeps its directions on TCP. */
		if (rc < 0) {
			s->tx.gave_up = true;
			s->rx.gave_up = true;
			rsk_stats_set_reason(s->rec, why_not(rc));
		}
	}
	rsk_unlock(&f->lock);
}

void rsk_epoll_restore(struct rsk_stream *s, int fd)
{
	struct rsk_epoll_family *f = s->regs ? rsk_epoll_family() : NULL;

	(void)fd;
	if (!f)
		return;
	rsk_lock(&f->lock);
	for (struct rsk_reg *r = s->regs; r; r = r->next_of_stream) {
		if ((!r->tagged && !r->named) || r->key_fd < 0 || give_back(r) < 0)
			continue;
		unqueue(r);
		r->set->tagged -= r->tagged;
		r->tagged = r->named = false;
	}
	rsk_unlock(&f->lock);
}

/*
 * This process has taken @fd out of its table; so many are @left, of all processes. The kernel keeps the entry while
 * any fd leads to the socket. If those left are other numbers of this process, nobody can name it any more; if they are
 * another process's (we are a child that exits, say), it is named as before.
 */
void rsk_epoll_forget_fd(struct rsk_stream *s, int fd, uint32_t left)
{
	struct rsk_epoll_family *f = s->regs ? rsk_epoll_family() : NULL;
	struct rsk_reg *r, *next;

	if (!f || (left && left != rsk_stream_count_fds(s)))
		return;
	rsk_lock(&f->lock);
	for (r = s->regs; r; r = next) {
		next = r->next_of_stream;
		if (!left)
			unlink_reg(f, r);
		else if (r->key_fd == fd)
			r->key_fd = -1;
	}
	rsk_unlock(&f->lock);
}

void rsk_epoll_closed(struct rsk_epoll *e)
{
	struct rsk_epoll_family *f = rsk_epoll_family();

	if (!f)
		return;
	if (atomic_fetch_sub(&e->fds, 1) != 1) {
		rsk_lock(&f->lock);
		if (!rsk_epoll_count_fds(e)) {
			rsk_epoll_nest_drop(e);
			rsk_epoll_keep_links(e);
		}
		rsk_unlock(&f->lock);
		return;
	}
	rsk_lock(&f->lock);
	while (e->regs)
		unlink_reg(f, e->regs);
	rsk_epoll_give_bells(e);
	rsk_epoll_nest_closed(f, e);
	e->next_free = f->free_sets;
	f->free_sets = e;
	rsk_unlock(&f->lock);
}

void rsk_epoll_stream_event(struct rsk_stream *s)
{
	struct rsk_epoll_family *f = s->regs ? rsk_epoll_family() : NULL;

	if (!f)
		return;
	rsk_lock(&f->lock);
	for (struct rsk_reg *r = s->regs; r; r = r->next_of_stream) {
		rsk_epoll_queue(r);
		if (r->set->sleepers || r->set->sub >= 0)
			rsk_epoll_stir(r->set);
	}
	rsk_unlock(&f->lock);
}

/* ---- epoll_ctl ---- */

static void link_reg(struct rsk_reg *r, struct rsk_stream *s, struct rsk_epoll *e, int fd)
{
	if (s->regs && s->regs->set->hot == s->regs)
		s->regs->set->hot = NULL;
	r->stream = s;
	r->set = e;
	r->key_fd = fd;
	r->next_of_stream = s->regs;
	s->regs = r;
	r->next_of_set = e->regs;
	r->at_of_set = &e->regs;
	if (e->regs)
		e->regs->at_of_set = &r->next_of_set;
	e->regs = r;
}

/* The kernel decides. *leaves: done, but the stream cannot be joined and in this set. lock held. */
static int ctl_plain(struct rsk_epoll_family *f, struct rsk_epoll *e, struct rsk_stream *s,
		     struct rsk_reg *r, int op, int fd, struct epoll_event *ev,
		     enum rsk_reason *leaves)
{
	bool fresh = !r, named;
	struct epoll_event k;
	int rc;

	if (op == EPOLL_CTL_DEL) {
		rc = rsk_sys_epoll_ctl(e->epfd, op, fd, ev);
		if (rc == 0 && r)
			unlink_reg(f, r);
		return rc;
	}
	if (fresh) {
		r = reg_new(f);
		if (!r) {
			*leaves = RSK_REASON_FD_LIMIT; /* unseen by us */
			return rsk_sys_epoll_ctl(e->epfd, op, fd, ev);
		}
		link_reg(r, s, e, fd);
	}
	k = *ev;
	named = (ev->events & EPOLLONESHOT) && !(ev->events & EPOLLEXCLUSIVE) && !e->collides;
	if (named) {
		k.data.u64 = f->tag | rsk_arena_offset(r);
		atomic_store(&e->belled, true);
	}
	rc = rsk_sys_epoll_ctl(e->epfd, op, fd, &k);
	if (rc < 0) {
		if (fresh)
			unlink_reg(f, r);
		return rc;
	}
	r->named = named;
	r->events = ev->events;
	r->data = ev->data.u64;
	r->armed = true;
	if (ev->events & EPOLLEXCLUSIVE)
		*leaves = RSK_REASON_EPOLL_EXCLUSIVE;
	else if (fresh && rsk_stream_phase(s) == RSK_PHASE_JOINED && !e->collides) {
		rc = take_over(f, r);
		if (rc < 0)
			*leaves = why_not(rc);
	}
	return 0;
}

/* We decide. lock held. */
static int ctl_taken(struct rsk_epoll_family *f, struct rsk_epoll *e, struct rsk_reg *r, int op,
		     int fd, struct epoll_event *ev)
{
	struct epoll_event k;
	int rc;

	if (op != EPOLL_CTL_MOD) {
		/* DEL; or EEXIST, EINVAL: the kernel's word. */
		rc = rsk_sys_epoll_ctl(rsk_epoll_kernel_set(e), op, fd, ev);
		if (rc == 0 && op == EPOLL_CTL_DEL)
			unlink_reg(f, r);
		return rc;
	}
	if (ev->events & EPOLLEXCLUSIVE)
		return -EINVAL;
	unqueue(r);
	r->events = ev->events;
	r->data = ev->data.u64;
	r->armed = true;
	r->fresh = true;
	r->told_ends = 0;
	k = rsk_reg_event(f, r);
	rc = rsk_sys_epoll_ctl(rsk_epoll_kernel_set(e), op, fd, &k);
	rsk_epoll_queue(r);
	if (e->sleepers || e->sub >= 0)
		rsk_epoll_stir(e);
	return rc;
}

int rsk_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct rsk_epoll_family *f;
	struct rsk_epoll *e = rsk_epoll_of(epfd), *inner = rsk_epoll_of(fd);
	enum rsk_reason leaves = RSK_REASON_DIRECT;
	struct rsk_stream *s;
	struct rsk_reg *r;
	int rc;

	if (rsk_fd_ours(epfd) || rsk_fd_ours(fd))
		return -EBADF;
	rsk_kernel_acts++;
	f = rsk_epoll_family();
	if (e && !inner && op == EPOLL_CTL_ADD && !rsk_fd_stream(rsk_fd_word(fd)))
		rsk_fd_watched(fd);
	s = f ? rsk_stream_of(fd) : NULL;
	if (s && !e && op == EPOLL_CTL_ADD) {
		/* A set that was made where we did not see it (before exec). */
		rc = rsk_sys_epoll_ctl(epfd, op, fd, ev);
		if (rc == 0)
			rsk_fd_leave(fd, RSK_REASON_INHERITED);
		rsk_stream_unpin(s);
		return rc;
	}
	if (e && f && (uintptr_t)ev >= 4096 && op != EPOLL_CTL_DEL &&
	    (ev->data.u64 & RSK_EPOLL_TAG_MASK) == f->tag)
		e->collides = true;
	if (inner && f)
		return rsk_epoll_nest_ctl(f, epfd, op, fd, ev);
	if (!s || !e || ((uintptr_t)ev < 4096 && op != EPOLL_CTL_DEL)) {
		if (s)
			rsk_stream_unpin(s);
		return rsk_sys_epoll_ctl(epfd, op, fd, ev);
	}
	rsk_lock(&f->lock);
	e->epfd = epfd;
	r = reg_find(s, e, fd);
	rc = r && r->tagged ? ctl_taken(f, e, r, op, fd, ev) :
			      ctl_plain(f, e, s, r, op, fd, ev, &leaves);
	rsk_unlock(&f->lock);
	if (rc == 0 && op != EPOLL_CTL_DEL && e->collides)
		leaves = RSK_REASON_EPOLL_TAG;
	if (leaves)
		rsk_fd_leave(fd, leaves);
	rsk_stream_unpin(s);
	return rc;
}
