// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_ctl.c - epoll_ctl() on sets that may hold streams: adds, changes and deletes registrations.
 * The hook of epoll_ctl() calls it.
 *
 * For a registration that is taken over, the kernel is told only what it must know: it watches
 * every event that was ever asked for, edge-triggered, and its events are filtered by what is
 * wanted now. A registration that is deleted is parked: its entry stays in the kernel's set, where
 * its events are dropped, and it is re-added without a system call.
 */
#include <errno.h>
#include <sys/epoll.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epoll.h"
#include "epoll_order.h"
#include "epollset.h"
#include "kin.h"
#include "stream.h"
#include "upcall.h"

static int kernel_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	rsk_kernel_calls++;
	return rsk_sys_epoll_ctl(epfd, op, fd, ev);
}

static void link_reg(struct rsk_epoll_family *f, struct rsk_reg *r, struct rsk_stream *s,
		     struct rsk_epoll *e, int fd)
{
	__atomic_store_n(&r->set, e, __ATOMIC_RELAXED);
	r->stream = s;
	r->key_fd = fd;
	rsk_lock(&f->chain);
	r->next_of_stream = s->regs;
	__atomic_store_n(&s->regs, r, __ATOMIC_RELAXED);
	rsk_unlock(&f->chain);
	r->next_of_set = e->regs;
	r->at_of_set = &e->regs;
	if (e->regs)
		e->regs->at_of_set = &r->next_of_set;
	__atomic_store_n(&e->regs, r, __ATOMIC_RELAXED);
}

/*
 * The kernel decides. *leaves: the call succeeded, but the stream cannot be paired and stay in this
 * set. The set's lock is held.
 */
static int ctl_plain(struct rsk_epoll_family *f, struct rsk_epoll *e, struct rsk_stream *s,
		     struct rsk_reg *r, int op, int fd, struct epoll_event *ev,
		     enum rsk_reason *leaves)
{
	bool fresh = !r, named;
	struct epoll_event k;
	int rc;

	if (op == EPOLL_CTL_DEL) {
		rc = kernel_ctl(e->epfd, op, fd, ev);
		if (rc == 0 && r)
			rsk_reg_unlink(f, r);
		return rc;
	}
	if (fresh) {
		r = rsk_reg_new(f);
		if (!r) {
			*leaves = RSK_REASON_FD_LIMIT; /* not tracked by us */
			return kernel_ctl(e->epfd, op, fd, ev);
		}
		link_reg(f, r, s, e, fd);
	}
	k = *ev;
	/* Another process would not know the tag. */
	named = (ev->events & EPOLLONESHOT) && !(ev->events & EPOLLEXCLUSIVE) && !e->collides &&
		!rsk_kin_shares(&e->kin);
	if (named) {
		k.data.u64 = f->tag | rsk_arena_offset(r);
		atomic_store(&e->belled, true);
	}
	rc = kernel_ctl(e->epfd, op, fd, &k);
	if (rc < 0) {
		if (fresh)
			rsk_reg_unlink(f, r);
		return rc;
	}
	r->named = named;
	r->mute = r->quiet = false;
	r->told_room = 0;
	r->events = ev->events;
	rsk_epoll_note_data(e, r, ev->data.u64);
	r->armed = true;
	/*
	 * The registration is linked; a thread that pairs the stream meanwhile sees it, or this
	 * thread sees the new phase: rsk_epoll_paired().
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (ev->events & EPOLLEXCLUSIVE)
		*leaves = RSK_REASON_EPOLL_EXCLUSIVE;
	if (rsk_stream_phase(s) != RSK_PHASE_PAIRED)
		return 0;
	if (fresh && !e->collides && !*leaves) {
		rc = rsk_reg_take_over(f, r);
		/*
		 * While another process has the stream, too, it goes by TCP. Who finds that it has
		 * not any more, retakes all registrations afterwards: rsk_epoll_retake().
		 */
		if (rc < 0 && !(rc == -EBUSY && rsk_kin_shares(&s->fork.kin)))
			*leaves = rsk_epoll_why_not(rc);
	}
	if (rsk_epoll_over_lies(s))
		rsk_epoll_over_paired(f, e, r);
	return 0;
}

/* Changes the wanted events of a registration that is taken over. The set's lock is held. */
static int renew(struct rsk_epoll_family *f, struct rsk_reg *r, int fd,
		 const struct epoll_event *ev)
{
	struct rsk_epoll *e = r->set;
	struct epoll_event k;
	int rc = 0;

	if (e->busiest == r)
		e->busiest = NULL;
	r->parked = false;
	r->events = ev->events;
	rsk_epoll_note_data(e, r, ev->data.u64);
	r->armed = true;
	r->told_ends = 0;
	r->told_room = 0;
	k = rsk_reg_event(f, r);
	if (k.events != r->kernel_events) {
		r->kernel_events = k.events;
		r->fresh = true;
		rc = kernel_ctl(rsk_epoll_kernel_set(e), EPOLL_CTL_MOD, fd, &k);
	}
	rsk_epoll_queue(r);
	if (e->sleepers || e->sub >= 0)
		rsk_epoll_stir(e);
	return rc;
}

/* We decide. The set's lock is held. */
static int ctl_taken(struct rsk_epoll_family *f, struct rsk_reg *r, int op, int fd,
		     struct epoll_event *ev)
{
	if (op == EPOLL_CTL_MOD && (ev->events & EPOLLEXCLUSIVE))
		return -EINVAL;
	if (op == EPOLL_CTL_MOD || (op == EPOLL_CTL_ADD && r->parked))
		return op == EPOLL_CTL_MOD && r->parked ? -ENOENT : renew(f, r, fd, ev);
	if (op != EPOLL_CTL_DEL) /* EEXIST, EINVAL: the kernel decides */
		return kernel_ctl(rsk_epoll_kernel_set(r->set), op, fd, ev);
	if (r->parked)
		return -ENOENT;
	rsk_epoll_unqueue(r);
	r->parked = true;
	r->armed = false;
	r->events = 0;
	return 0;
}

/* Whether a parked registration can be re-added as it is. The set's lock is held. */
static bool comes_back(const struct rsk_reg *r, const struct epoll_event *ev)
{
	return !(ev->events & EPOLLEXCLUSIVE) && !r->set->collides &&
	       rsk_stream_phase(r->stream) == RSK_PHASE_PAIRED;
}

/*
 * Handles a registration that exists and is taken over, without the family lock. False: nothing was
 * done.
 */
static bool ctl_there(struct rsk_epoll_family *f, struct rsk_epoll *e, struct rsk_stream *s,
		      int epfd, int op, int fd, struct epoll_event *ev, int *rc)
{
	struct rsk_reg *r;
	bool there;

	rsk_lock(&e->lock);
	rsk_lock(&f->chain);
	r = rsk_reg_find(s, e, fd);
	rsk_unlock(&f->chain);
	there = r && r->tagged && (op != EPOLL_CTL_ADD || !r->parked || comes_back(r, ev));
	if (there) {
		rsk_epoll_name(e, epfd);
		*rc = ctl_taken(f, r, op, fd, ev);
	}
	rsk_unlock(&e->lock);
	return there;
}

/*
 * When a stream is added to a set, drops its parked registrations, and clears e->busiest in the
 * sets that hold it: its ready bit is needed from now on. The family lock is held.
 */
static void enters(struct rsk_epoll_family *f, struct rsk_stream *s)
{
	for (struct rsk_reg *p = s->regs, *next; p; p = next) {
		struct rsk_epoll *e = p->set;

		next = p->next_of_stream;
		rsk_lock(&e->lock);
		if (e->busiest == p)
			e->busiest = NULL;
		if (p->parked && rsk_fd_names(p->key_fd, s))
			rsk_reg_drop(f, p, p->key_fd);
		rsk_unlock(&e->lock);
	}
}

/* @leaves: the call succeeded, but the stream cannot be on a ring and in this set. */
static int ctl(struct rsk_epoll_family *f, struct rsk_epoll *e, struct rsk_stream *s, int epfd,
	       int op, int fd, struct epoll_event *ev, enum rsk_reason *leaves)
{
	struct rsk_reg *r;
	int rc;

	if (rsk_stream_phase(s) == RSK_PHASE_PAIRED && ctl_there(f, e, s, epfd, op, fd, ev, &rc))
		return rc;
	rsk_lock(&f->lock);
	if (op == EPOLL_CTL_ADD && s->regs)
		enters(f, s);
	rsk_lock(&e->lock);
	rsk_epoll_name(e, epfd);
	r = rsk_reg_find(s, e, fd);
	rc = r && r->tagged ? ctl_taken(f, r, op, fd, ev) :
			      ctl_plain(f, e, s, r, op, fd, ev, leaves);
	rsk_unlock(&e->lock);
	/*
	 * A thread that checked before the registration was linked may have set e->busiest to
	 * another one of the stream.
	 */
	if (op == EPOLL_CTL_ADD && s->regs && s->regs->next_of_stream)
		enters(f, s);
	rsk_unlock(&f->lock);
	return rc;
}

/*
 * Adds to a set that is unknown (created before exec, or without memory for it), or to an fd that
 * is no set: the kernel says which. The stream falls back before it is added for good, as a relay
 * would put another file in its place.
 */
static int add_unseen(int epfd, int fd, struct epoll_event *ev)
{
	struct epoll_event probe = { 0 };
	int rc;

	if ((uintptr_t)ev < 4096)
		return kernel_ctl(epfd, EPOLL_CTL_ADD, fd, ev);
	/* The kernel may report an end or an error to a waiter there, whatever is asked for. */
	probe.data = ev->data;
	rc = kernel_ctl(epfd, EPOLL_CTL_ADD, fd, &probe);
	if (rc < 0)
		return rc;
	kernel_ctl(epfd, EPOLL_CTL_DEL, fd, NULL);
	if (rsk_upcalls->leave(fd, RSK_REASON_INHERITED) < 0)
		return -ENOMEM;
	return kernel_ctl(epfd, EPOLL_CTL_ADD, fd, ev);
}

int rsk_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct rsk_epoll_family *f = rsk_epoll_family();
	/* Without a family no set is known. */
	struct rsk_epoll *e = f ? rsk_epoll_of(epfd) : NULL, *inner = f ? rsk_epoll_of(fd) : NULL;
	enum rsk_reason leaves = RSK_REASON_DIRECT;
	struct rsk_stream *s;
	int rc;

	if (rsk_fd_not_yours(epfd) || rsk_fd_not_yours(fd))
		return -EBADF;
	if (!inner && op == EPOLL_CTL_ADD && !rsk_fd_stream(rsk_fd_word(fd)))
		rsk_upcalls->watched(fd);
	s = rsk_stream_of(fd);
	if (s && !e && op == EPOLL_CTL_ADD) {
		rc = add_unseen(epfd, fd, ev);
		rsk_stream_unpin(s);
		return rc;
	}
	if (e && (uintptr_t)ev >= 4096 && op != EPOLL_CTL_DEL &&
	    (ev->data.u64 & RSK_EPOLL_TAG_MASK) == f->tag)
		e->collides = true;
	if (inner)
		return rsk_epoll_nest_ctl(f, epfd, op, fd, ev);
	if (!s || !e || ((uintptr_t)ev < 4096 && op != EPOLL_CTL_DEL)) {
		if (s)
			rsk_stream_unpin(s);
		return kernel_ctl(epfd, op, fd, ev);
	}
	rc = ctl(f, e, s, epfd, op, fd, ev, &leaves);
	if (rc == 0 && op != EPOLL_CTL_DEL && e->collides)
		leaves = RSK_REASON_EPOLL_TAG;
	if (leaves)
		rsk_upcalls->leave(fd, leaves);
	rsk_stream_unpin(s);
	return rc;
}
