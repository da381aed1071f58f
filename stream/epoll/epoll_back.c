// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_back.c - gives a stream's registrations back to the kernel's epoll set when the stream has
 * fallen back to TCP for good. The fallback and fork code call it.
 *
 * EPOLL_CTL_MOD is the only way to change an entry, and it has side effects: it watches for ERR and
 * HUP, even if EPOLLONESHOT has disarmed the entry, and it reports what is true now once more, even
 * to an edge-triggered registration that was told. Such registrations therefore keep our tag in the
 * kernel's entry, and the kernel's events go through rsk_epoll_told_back(), which drops what the
 * application would not have been told.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epoll.h"
#include "epollset.h"
#include "kin.h"
#include "stream.h"

#define ROOM_EVENTS (EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)

/*
 * True: of all watched events only room to send is there; it was reported, and no send has come
 * short since, so no thread waits for that edge. A new edge can only follow bytes that are written
 * from now on.
 */
static bool only_room_told(struct rsk_reg *r)
{
	struct pollfd p = { .fd = r->key_fd, .events = (short)(r->events & 0xffff) };

	if (!r->armed || !(r->events & EPOLLET) || r->queued ||
	    r->told_room != rsk_stream_short_sends(r->stream) + 1 || r->set->collides)
		return false;
	return rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0 &&
	       !(p.revents & ~ROOM_EVENTS) &&
	       rsk_kernel_written(r->key_fd, r->stream->connecting_side, &r->written) == 0;
}

struct epoll_event rsk_reg_plain_event(const struct rsk_epoll_family *f, const struct rsk_reg *r)
{
	struct epoll_event ev = { .events = r->events, .data.u64 = r->data };

	if (r->mute)
		ev.events &= EPOLLET | EPOLLONESHOT;
	if (r->named)
		ev.data.u64 = f->tag | rsk_arena_offset(r);
	return ev;
}

static int give_back(struct rsk_epoll_family *f, struct rsk_reg *r)
{
	struct rsk_epoll *e = r->set;
	struct epoll_event ev;
	int rc;

	e->kernel_idle = 0; /* the kernel reports what lies there */
	r->mute = !r->armed;
	r->quiet = only_room_told(r);
	r->named = r->mute || r->quiet;
	ev = rsk_reg_plain_event(f, r);
	if (rsk_epoll_kernel_set(e) == e->epfd || !r->tagged)
		return rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_MOD, r->key_fd, &ev);
	rc = rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_ADD, r->key_fd, &ev);
	if (rc == 0)
		rsk_sys_epoll_ctl(rsk_epoll_kernel_set(e), EPOLL_CTL_DEL, r->key_fd, NULL);
	return rc;
}

/* The family lock and the set's lock are held. */
void rsk_reg_restore(struct rsk_epoll_family *f, struct rsk_reg *r)
{
	if (r->parked) {
		if (rsk_fd_names(r->key_fd, r->stream))
			rsk_reg_drop(f, r, r->key_fd);
		return;
	}
	/*
	 * Oneshot, and never taken over: the entry has our tag already, and the kernel knows
	 * whether it has fired.
	 */
	if (!r->tagged || r->key_fd < 0 || give_back(f, r) < 0)
		return;
	rsk_epoll_unqueue(r);
	r->set->tagged -= r->tagged;
	r->tagged = false;
}

void rsk_epoll_restore(struct rsk_stream *s)
{
	struct rsk_epoll_family *f = rsk_epoll_family_of(s);

	if (!f)
		return;
	rsk_lock(&f->lock);
	for (struct rsk_reg *r = s->regs, *next; r; r = next) {
		struct rsk_epoll *e = r->set;

		next = r->next_of_stream;
		rsk_lock(&e->lock);
		rsk_reg_restore(f, r);
		rsk_unlock(&e->lock);
	}
	rsk_unlock(&f->lock);
}

/*
 * False where another process holds the set and the stream, and in a vfork child, whose rsk_pid is
 * its parent's.
 */
static bool is_replaced(const struct rsk_reg *r, int fd, int pid)
{
	return r->key_fd == fd && pid == rsk_pid &&
	       !(rsk_kin_shares(&r->set->kin) && rsk_kin_shares(&r->stream->fork.kin));
}

int rsk_epoll_replace(struct rsk_stream *s, int fd, int by, int flags)
{
	struct rsk_epoll_family *f = rsk_epoll_family_of(s);
	int pid = f ? rsk_sys_getpid() : 0, rc;

	if (!f)
		return rsk_sys_dup3(by, fd, flags) < 0 ? -EMFILE : 0;
	rsk_lock(&f->lock);
	for (struct rsk_reg *r = s->regs; r; r = r->next_of_stream)
		if (is_replaced(r, fd, pid))
			rsk_sys_epoll_ctl(r->set->epfd, EPOLL_CTL_DEL, fd, NULL);
	rc = rsk_sys_dup3(by, fd, flags);
	for (struct rsk_reg *r = s->regs; r; r = r->next_of_stream) {
		struct epoll_event ev = rsk_reg_plain_event(f, r);

		if (is_replaced(r, fd, pid))
			rsk_sys_epoll_ctl(r->set->epfd, EPOLL_CTL_ADD, fd, &ev);
	}
	rsk_unlock(&f->lock);
	return rc < 0 ? -EMFILE : 0;
}

bool rsk_epoll_told_back(struct rsk_reg *r, struct epoll_event *ev)
{
	uint64_t written;
	bool quiet = r->quiet;

	ev->events &= r->events | EPOLLERR | EPOLLHUP;
	r->quiet = false;
	if (!ev->events || (r->mute && !r->armed))
		return false;
	if (quiet && !(ev->events & ~ROOM_EVENTS) &&
	    rsk_kernel_written(r->key_fd, r->stream->connecting_side, &written) == 0 &&
	    written == r->written)
		return false;
	ev->data.u64 = r->data;
	r->armed = !(r->events & EPOLLONESHOT);
	return true;
}
