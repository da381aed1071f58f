// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_sub.c - the sub-set and the ready eventfd of a set that is watched itself. epoll_nest.c
 * describes them; epoll.c, epoll_ctl.c, epoll_fork.c and epoll_nest.c call this.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epoll.h"
#include "epollset.h"
#include "stream.h"

static int enter_all(const struct rsk_epoll_family *f, const struct rsk_epoll *e, int sub,
		     int ready_fd)
{
	struct epoll_event ev;
	int rc = 0;

	for (struct rsk_reg *r = e->regs; r && rc == 0; r = r->next_of_set) {
		ev = rsk_reg_event(f, r);
		if (r->tagged && r->key_fd >= 0)
			rc = rsk_sys_epoll_ctl(sub, EPOLL_CTL_ADD, r->key_fd, &ev);
	}
	if (rc == 0)
		rc = rsk_epoll_links_watch(&e->links, sub, f->tag);
	ev = (struct epoll_event){ .events = EPOLLIN,
				   .data.u64 = f->tag | RSK_EPOLL_DOORBELL | RSK_EPOLL_NONE };
	if (rc == 0)
		rc = rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_ADD, ready_fd, &ev);
	if (rc == 0)
		rc = rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_ADD, sub, &ev);
	return rc;
}

void rsk_epoll_sub_empty(const struct rsk_epoll *e)
{
	int set = rsk_epoll_kernel_set(e);

	for (struct rsk_reg *r = e->regs; r; r = r->next_of_set)
		if (r->tagged && r->key_fd >= 0)
			rsk_sys_epoll_ctl(set, EPOLL_CTL_DEL, r->key_fd, NULL);
	rsk_epoll_links_unwatch(&e->links, NULL, set);
}

int rsk_epoll_sub(const struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	int sub, ready_fd, rc = -EMFILE;

	if (e->sub >= 0)
		return 0;
	/* Another process that holds the set would not have the sub-set. */
	if (!rsk_epoll_is_ours_again(e))
		return -EBUSY;
	sub = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));
	ready_fd = rsk_own_fd(rsk_sys_eventfd2(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (sub >= 0 && ready_fd >= 0)
		rc = enter_all(f, e, sub, ready_fd);
	if (rc < 0) {
		rsk_own_close(sub);
		rsk_own_close(ready_fd);
		return rc;
	}
	rsk_epoll_sub_empty(e);
	e->sub = sub;
	e->ready_fd = ready_fd;
	e->lit = false;
	return 0;
}

void rsk_epoll_sub_light(struct rsk_epoll *e, bool on)
{
	uint64_t n = 1;

	if (e->lit == on)
		return;
	if (on)
		rsk_sys_write(e->ready_fd, &n, sizeof(n));
	else
		rsk_sys_read(e->ready_fd, &n, sizeof(n));
	e->lit = on;
}

void rsk_epoll_stir(struct rsk_epoll *e)
{
	if (e->sub < 0)
		rsk_epoll_ring(e);
	else if (e->ready)
		rsk_epoll_sub_light(e, true);
}

/* This process has no fd of the set any more. */
void rsk_epoll_nest_drop(const struct rsk_epoll *e)
{
	rsk_own_close(e->sub);
	rsk_own_close(e->ready_fd);
}

void rsk_epoll_nest_closed(struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	struct rsk_nest **p = &f->nests, *n;

	while ((n = *p)) {
		if (n->outer != e && n->inner != e) {
			p = &n->next;
			continue;
		}
		*p = n->next;
		n->outer->ninner--;
		rsk_arena_free(n);
	}
	rsk_epoll_nest_drop(e);
	e->sub = e->ready_fd = -1;
}
