// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_set.c - epoll sets and registrations as objects: creates, finds and links them, keeps the
 * ready list, and notifies the waiters of a set. The other epoll*.c files call it.
 */
#include "epoll.h"

#include <stddef.h>
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
	if (rsk_random(&tag, sizeof(tag)) < 0) {
		rsk_arena_free(f);
		return NULL;
	}
	f->tag = (uint64_t)(tag | 0x80000000u) << 32;
	if (!atomic_compare_exchange_strong(&family, &none, f)) {
		rsk_arena_free(f);
		return none;
	}
	return f;
}

struct rsk_epoll *rsk_epoll_new(int epfd)
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
	atomic_store(&e->on_set, ((atomic_load(&e->on_set) >> 32) + 1) << 32);
	/* All but the lock, which another thread may be taking, and what counts its sleepers. */
	memset((char *)e + offsetof(struct rsk_epoll, fds), 0,
	       sizeof(*e) - offsetof(struct rsk_epoll, fds));
	e->epfd = epfd;
	e->sub = e->ready_fd = e->beacon = e->private_set = -1;
	atomic_store(&e->kick, -1);
	atomic_store(&e->fds, 1);
	return e;
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
	rsk_fd_put(newfd, (uintptr_t)e | RSK_FD_EPOLL | RSK_FD_TRACKED);
}

struct rsk_shared *rsk_epoll_kin(struct rsk_epoll *e)
{
	return &e->kin;
}

void rsk_epoll_unqueue(struct rsk_reg *r)
{
	struct rsk_epoll *e = r->set;

	if (e->busiest == r)
		e->busiest = NULL;
	if (r->queued)
		rsk_epoll_take_ready(r);
}

void rsk_reg_unlink(struct rsk_epoll_family *f, struct rsk_reg *r)
{
	struct rsk_reg **p;

	rsk_lock(&f->chain);
	for (p = &r->stream->regs; *p && *p != r; p = &(*p)->next_of_stream)
		;
	if (*p)
		__atomic_store_n(p, r->next_of_stream, __ATOMIC_RELAXED);
	rsk_epoll_take_calls(r->set); /* no thread pushes it from here on */
	rsk_unlock(&f->chain);
	__atomic_store_n(r->at_of_set, r->next_of_set, __ATOMIC_RELAXED);
	if (r->next_of_set)
		r->next_of_set->at_of_set = r->at_of_set;
	rsk_epoll_unqueue(r);
	if (r->set->last == r)
		r->set->last = NULL;
	r->set->tagged -= r->tagged;
	r->set->unnamed -= r->key_fd < 0;
	r->live = false;
	r->next_of_set = f->free_regs;
	f->free_regs = r;
}

/* This process's fd of the set; -1: only other processes hold it. */
static int find_fd(const struct rsk_epoll *e)
{
	uint32_t high = rsk_fd_high();

	if (rsk_epoll_of(e->epfd) == e)
		return e->epfd;
	for (uint32_t i = 0; i < high; i++)
		if (rsk_epoll_of((int)i) == e)
			return (int)i;
	return -1;
}

void rsk_reg_drop(struct rsk_epoll_family *f, struct rsk_reg *r, int fd)
{
	int epfd = find_fd(r->set);

	if (epfd < 0)
		return;
	rsk_epoll_name(r->set, epfd);
	rsk_sys_epoll_ctl(rsk_epoll_kernel_set(r->set), EPOLL_CTL_DEL, fd, NULL);
	rsk_reg_unlink(f, r);
}

struct rsk_reg *rsk_reg_new(struct rsk_epoll_family *f)
{
	struct rsk_reg *r = f->free_regs;

	if (r)
		f->free_regs = r->next_of_set;
	else
		r = rsk_arena_alloc(sizeof(*r));
	if (r) {
		/* All but the set, which a thread that has an old tag may read. */
		memset((char *)r + offsetof(struct rsk_reg, stream), 0,
		       sizeof(*r) - offsetof(struct rsk_reg, stream));
		r->live = r->armed = true;
	}
	return r;
}

void rsk_epoll_queue(struct rsk_reg *r)
{
	struct rsk_epoll *e = r->set;

	if (r->queued || !r->armed || !r->tagged)
		return;
	r->queued = true;
	r->next_ready = NULL;
	r->prev_ready = e->ready_tail;
	if (e->ready_tail)
		e->ready_tail->next_ready = r;
	else
		__atomic_store_n(&e->ready, r, __ATOMIC_RELAXED);
	e->ready_tail = r;
}

void rsk_epoll_take_called(struct rsk_epoll *e)
{
	struct rsk_reg *r, *next;

	for (r = atomic_exchange(&e->calls, NULL); r; r = next) {
		next = r->next_call;
		/*
		 * An exchange: a thread that was content to find the flag set came before, with its
		 * news (model: calls).
		 */
		atomic_exchange(&r->called, false);
		rsk_epoll_queue(r);
	}
}

/* ---- notifying waiters ---- */

void rsk_epoll_ring(struct rsk_epoll *e)
{
	const struct rsk_epoll_polled *any = &e->links.polled[0];

	if (e->links.npolled)
		rsk_link_strike(any->l, 1ull << any->doorbell);
}

void rsk_epoll_announce(struct rsk_epoll *e)
{
	const struct rsk_epoll_links *k = &e->links;

	for (uint32_t i = 0; i < k->npolled; i++)
		atomic_fetch_or(&rsk_seg_own_head(&k->polled[i].l->seg)->asleep,
				1ull << k->polled[i].doorbell);
	atomic_thread_fence(memory_order_seq_cst);
}

void rsk_reg_call(struct rsk_reg *r)
{
	struct rsk_epoll *e = r->set;
	struct rsk_reg *head;

	if (!atomic_exchange(&r->called, true)) {
		head = atomic_load(&e->calls);
		do
			r->next_call = head;
		while (!atomic_compare_exchange_weak(&e->calls, &head, r));
	}
	if (atomic_load(&e->sleepers) || e->sub >= 0)
		rsk_epoll_ring(e);
}

void rsk_epoll_stream_event(struct rsk_stream *s)
{
	struct rsk_epoll_family *f = rsk_epoll_family_of(s);

	if (!f)
		return;
	rsk_lock(&f->chain);
	for (struct rsk_reg *r = s->regs; r; r = r->next_of_stream)
		rsk_reg_call(r);
	rsk_unlock(&f->chain);
}

struct epoll_event rsk_reg_event(const struct rsk_epoll_family *f, const struct rsk_reg *r)
{
	return (struct epoll_event){
		.events = (r->events & (EPOLLOUT | EPOLLPRI)) | r->kernel_events | EPOLLIN |
			  EPOLLRDHUP | EPOLLET,
		.data.u64 = f->tag | rsk_arena_offset(r),
	};
}
