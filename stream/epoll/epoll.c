// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll.c - the shadow of epoll registrations of streams, and how it takes them over when a stream
 * is paired. The pairing code and close() call it.
 */
#include "epoll.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epoll_apart.h"
#include "epollset.h"
#include "stream.h"

/* ---- taking over ---- */

/*
 * In a watched set the entry is added to the sub-set before it is removed from the set, so that
 * there is no moment without it; likewise where the set stands apart.
 */
static int enter(struct rsk_epoll_family *f, struct rsk_reg *r)
{
	struct epoll_event ev = rsk_reg_event(f, r);
	struct rsk_epoll *e = r->set;
	int rc;

	r->kernel_events = ev.events;
	if (rsk_epoll_kernel_set(e) == e->epfd)
		return rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_MOD, r->key_fd, &ev);
	rc = rsk_sys_epoll_ctl(rsk_epoll_kernel_set(e), EPOLL_CTL_ADD, r->key_fd, &ev);
	if (rc == 0)
		rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_DEL, r->key_fd, NULL);
	return rc;
}

int rsk_reg_take_over(struct rsk_epoll_family *f, struct rsk_reg *r)
{
	struct rsk_stream *s = r->stream;
	int rc = atomic_load(&r->set->watched) ? rsk_epoll_sub(f, r->set) :
						 rsk_epoll_make_place(f, r);
	int doorbell = rc;

	if (rc == 0)
		rc = doorbell = rsk_epoll_ensure_doorbell(f, r->set, s->link);
	if (rc >= 0)
		rc = enter(f, r);
	if (rc < 0)
		return rc;
	atomic_fetch_or(&rsk_seg_own_ctl(&s->link->seg, s->sid)->epolls_rx, 1ull << doorbell);
	r->tagged = true;
	r->named = r->mute = r->quiet = false;
	r->fresh = true;
	r->set->tagged++;
	atomic_fetch_add(&r->set->takeovers, 1);
	rsk_epoll_queue(r);
	/*
	 * Also wakes a thread that went to sleep in the kernel while the set had no paired stream,
	 * and has announced nothing.
	 */
	rsk_epoll_stir(r->set);
	return 0;
}

enum rsk_reason rsk_epoll_why_not(int rc)
{
	switch (rc) {
	case -EBUSY:
		return RSK_REASON_EPOLL_SHARED;
	case -E2BIG:
	case -ENOSPC: /* of the kernel's: fs.epoll.max_user_watches */
		return RSK_REASON_EPOLL_PEERS;
	case -ENOMEM:
		return RSK_REASON_MEMORY;
	case -EEXIST:
		return RSK_REASON_EPOLL_TAG;
	case -EBADF:
		return RSK_REASON_EPOLL_CLOSED;
	default:
		return RSK_REASON_FD_LIMIT;
	}
}

void rsk_epoll_paired(struct rsk_stream *s)
{
	struct rsk_epoll_family *f;
	int rc;

	/*
	 * A thread that registers the stream at the same time links the registration, then reads
	 * the phase: epoll_ctl.c.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	f = rsk_epoll_family_of(s);
	if (!f)
		return;
	rsk_lock(&f->lock);
	for (struct rsk_reg *r = s->regs; r; r = r->next_of_stream) {
		rsk_lock(&r->set->lock);
		rc = r->tagged	      ? 0 :
		     r->key_fd < 0    ? -EBADF :
		     r->set->collides ? -EEXIST :
					rsk_reg_take_over(f, r);
		/*
		 * A set that cannot be taken over stays correct: this stream keeps its directions
		 * on TCP.
		 */
		if (rc < 0) {
			s->tx.gave_up = true;
			s->rx.gave_up = true;
			rsk_stats_set_reason(s->rec, rsk_epoll_why_not(rc));
		}
		rsk_unlock(&r->set->lock);
	}
	rsk_unlock(&f->lock);
}

/*
 * This process has removed @fd from its table; @left descriptors remain, in all processes. The
 * kernel keeps the entry while any fd leads to the socket. If those left are other numbers of this
 * process, the entry can no longer be named; if they are another process's (this is a child that
 * exits, for example), it is named as before.
 */
void rsk_epoll_forget_fd(struct rsk_stream *s, int fd, uint32_t left)
{
	struct rsk_epoll_family *f = rsk_epoll_family_of(s);
	struct rsk_reg *r, *next;

	if (!f || (left && left != rsk_stream_count_fds(s)))
		return;
	rsk_lock(&f->lock);
	for (r = s->regs; r; r = next) {
		struct rsk_epoll *e = r->set;

		next = r->next_of_stream;
		rsk_lock(&e->lock);
		if (!left) {
			rsk_reg_unlink(f, r);
		} else if (r->key_fd == fd && r->parked) {
			rsk_reg_drop(f, r, fd);
		} else if (r->key_fd == fd) {
			r->key_fd = -1;
			e->unnamed++;
		}
		rsk_unlock(&e->lock);
	}
	rsk_unlock(&f->lock);
}

void rsk_epoll_closed(struct rsk_epoll *e)
{
	struct rsk_epoll_family *f = rsk_epoll_family();

	if (!f)
		return;
	if (atomic_fetch_sub(&e->fds, 1) != 1)
		return;
	rsk_kin_closed(&e->kin);
	rsk_lock(&f->lock);
	rsk_lock(&e->lock);
	rsk_own_close(e->beacon);
	e->beacon = -1;
	while (e->regs)
		rsk_reg_unlink(f, e->regs);
	rsk_epoll_give_doorbells(e);
	rsk_epoll_apart_closed(e);
	rsk_unlock(&e->lock);
	rsk_epoll_nest_closed(f, e);
	e->next_free = f->free_sets;
	f->free_sets = e;
	rsk_unlock(&f->lock);
}
