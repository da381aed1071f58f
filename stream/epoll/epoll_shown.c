// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_shown.c - takes from the kernel's events what a segment caused that it showed again: of the
 * stream's first sends one was to be shown (stream/socket/syn.h), was lost, and was sent again. A
 * registration that is not taken over reports EPOLLERR for that, which stays until the packet is
 * taken. epoll_answer.c calls it.
 */
#include <sys/epoll.h>

#include <rsock/sys.h>

#include "epollset.h"
#include "ready.h"
#include "stream.h"
#include "syn.h"

#define UNSHOWN_MOST 64

static bool is_of(const struct rsk_reg *r, const struct epoll_event *ev)
{
	return r->live && !r->tagged && r->key_fd >= 0 && r->data == ev->data.u64 &&
	       atomic_load(&r->stream->syn.shown) && rsk_fd_names(r->key_fd, r->stream);
}

/*
 * Several registrations may have the same data, so that an event may be another one's, of a file
 * that is none of ours: it comes again, whereas a packet that has been taken causes nothing more.
 */
static bool is_none_of_ours(struct rsk_epoll *e)
{
	uint32_t taken = atomic_load_explicit(&rsk_syn_taken, memory_order_relaxed);

	if (e->unshown_taken != taken)
		e->unshown = 0;
	e->unshown_taken = taken;
	if (e->unshown == UNSHOWN_MOST)
		return true;
	e->unshown++;
	return false;
}

bool rsk_epoll_unshow(const struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *ev)
{
	bool ours = false;

	if (!atomic_load_explicit(&rsk_syn_some_shown, memory_order_relaxed))
		return true;
	for (struct rsk_reg *r = e->regs; r; r = r->next_of_set) {
		struct epoll_event again;
		uint32_t asked = r->events & (EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP);
		unsigned short now;

		if (!is_of(r, ev))
			continue;
		now = (unsigned short)rsk_stream_poll_unpaired(r->stream, r->key_fd, (short)asked,
							       (short)EPOLLERR);
		now &= (unsigned short)(ev->events | EPOLLERR | EPOLLHUP);
		if (now) {
			ev->events = now;
			return true;
		}
		ours = true;
		if (r->events & EPOLLONESHOT) {
			r->armed = true;
			again = rsk_reg_plain_event(f, r);
			rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_MOD, r->key_fd, &again);
		}
	}
	return !ours || is_none_of_ours(e);
}
