// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_apart.c - a set that another process holds, too, since a fork. epoll.c, epoll_wait.c,
 * epoll_nest.c and the fork code call it.
 *
 * The kernel's set is one, and what is in it all its holders see. So the entries of ours (TCP
 * sockets of streams taken over, doorbells) move to a kernel set of this process alone, the private
 * set, as soon as there is one: the set *stands apart*. The set itself is in the private one,
 * level-triggered. Who waits, waits on the private set; where that shows the set, its events are
 * added (rsk_epoll_add_theirs()). For other processes the set is as the application made it, but
 * for the registrations of such streams, whose sockets they do not have.
 *
 * A thread that went to sleep on the set before it stood apart would hear nothing of the private
 * set. So sleepers on a set count themselves (on_set), and while there are any, an eventfd in the
 * set, the kick, wakes them: it is level-triggered, so that a waiter of another process, which it
 * wakes as well, cannot take it from them. The last one to leave removes it.
 *
 * Once no other process holds the set any more, the entries come home at the next takeover. The
 * private set stays for who sleeps there: the set is in it, and that has everything then.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <rsock/sys.h>

#include "epoll.h"
#include "epoll_apart.h"
#include "epollset.h"
#include "kin.h"
#include "stream.h"

/*
 * The set on which this thread sleeps, or has slept when it left by a longjmp() from a handler; and
 * its generation then: it may be another set by now, and count others.
 */
static __thread struct rsk_epoll *sleeps_on;
static __thread uint32_t sleeps_generation;

/* ---- sleepers ---- */

static bool has_sleepers(const struct rsk_epoll *e)
{
	return (uint32_t)atomic_load(&e->on_set) != 0;
}

static void drop_kick(struct rsk_epoll *e)
{
	if (e->kick < 0)
		return;
	rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_DEL, e->kick, NULL);
	rsk_own_close(e->kick);
	atomic_store(&e->kick, -1);
}

static void unkick(struct rsk_epoll *e)
{
	if (!has_sleepers(e))
		drop_kick(e);
}

int rsk_epoll_sleeps_at(struct rsk_epoll *e, int epfd)
{
	if (__builtin_expect(sleeps_on != NULL, 0))
		rsk_epoll_slept(sleeps_on);
	if (__builtin_expect(atomic_load(&e->apart), 0))
		return e->private_set;
	sleeps_on = e;
	/* Counted, then checked; stand_apart() sets the flag, then reads the count: seq_cst. */
	sleeps_generation = (uint32_t)(atomic_fetch_add(&e->on_set, 1) >> 32);
	if (__builtin_expect(!atomic_load(&e->apart), 1))
		return epfd;
	rsk_epoll_slept(e);
	return e->private_set;
}

void rsk_epoll_slept(struct rsk_epoll *e)
{
	uint64_t n;

	if (!e || sleeps_on != e)
		return;
	sleeps_on = NULL;
	n = atomic_load(&e->on_set);
	do
		if ((uint32_t)(n >> 32) != sleeps_generation)
			return;
	while (!atomic_compare_exchange_weak(&e->on_set, &n, n - 1));
	/* The last one; kick() looks at the count once more when the kick is in the set. */
	if ((uint32_t)n != 1 || atomic_load(&e->kick) < 0)
		return;
	rsk_sigdefer_enter();
	rsk_lock(&e->lock);
	unkick(e);
	rsk_unlock(&e->lock);
	rsk_sigdefer_exit();
}

void rsk_epoll_apart_forked(struct rsk_epoll *e)
{
	sleeps_on = NULL;
	atomic_store(&e->on_set, atomic_load(&e->on_set) >> 32 << 32);
	/* Closed with all fds of the library. */
	e->private_set = -1;
	atomic_store(&e->kick, -1);
}

int rsk_epoll_add_theirs(const struct rsk_epoll_family *f, int epfd, struct epoll_event *evs, int n,
			 int max)
{
	int at = 0, more;

	while (at < n && evs[at].data.u64 != (f->tag | RSK_EPOLL_DOORBELL | RSK_EPOLL_THEIRS))
		at++;
	if (at >= n)
		return n;
	evs[at] = evs[--n];
	more = rsk_sys_epoll_pwait(epfd, evs + n, max - n, 0, NULL);
	return more > 0 ? n + more : n;
}

/* ---- moving entries ---- */

/* Adds the entries of ours to @set: 0 or -errno. */
static int add_ours(const struct rsk_epoll_family *f, const struct rsk_epoll *e, int set)
{
	int rc = rsk_epoll_links_watch(&e->links, set, f->tag);

	for (struct rsk_reg *r = e->regs; r && rc == 0; r = r->next_of_set) {
		struct epoll_event ev = rsk_reg_event(f, r);

		if (r->tagged && r->key_fd >= 0)
			rc = rsk_sys_epoll_ctl(set, EPOLL_CTL_ADD, r->key_fd, &ev);
	}
	return rc;
}

static void remove_ours(const struct rsk_epoll *e, int set)
{
	rsk_epoll_links_unwatch(&e->links, NULL, set);
	for (const struct rsk_reg *r = e->regs; r; r = r->next_of_set)
		if (r->tagged && r->key_fd >= 0)
			rsk_sys_epoll_ctl(set, EPOLL_CTL_DEL, r->key_fd, NULL);
}

/*
 * The set is this process's alone. If there is no room in it, it goes on standing apart. Who sleeps
 * on the set needs no kick any more: all is there.
 */
static void come_home(const struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	if (add_ours(f, e, e->epfd) < 0) {
		remove_ours(e, e->epfd);
		return;
	}
	remove_ours(e, e->private_set);
	for (struct rsk_reg *r = e->regs; r; r = r->next_of_set)
		r->fresh |= r->tagged;
	drop_kick(e);
	atomic_store(&e->apart, false);
}

void rsk_epoll_apart_ends(struct rsk_epoll *e)
{
	drop_kick(e);
	atomic_store(&e->apart, false);
}

void rsk_epoll_apart_closed(struct rsk_epoll *e)
{
	rsk_own_close(e->private_set);
	rsk_own_close(e->kick);
	e->private_set = -1;
	atomic_store(&e->kick, -1);
	atomic_store(&e->apart, false);
}

static int make_private(const struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u64 = f->tag | RSK_EPOLL_DOORBELL | RSK_EPOLL_THEIRS };
	int set;

	if (e->private_set >= 0)
		return 0;
	set = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));
	if (set < 0)
		return -EMFILE;
	/* ELOOP: there are sets in it, and too deep. */
	if (rsk_sys_epoll_ctl(set, EPOLL_CTL_ADD, e->epfd, &ev) < 0) {
		rsk_own_close(set);
		return -EBUSY;
	}
	e->private_set = set;
	return 0;
}

static int kick(const struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u64 = f->tag | RSK_EPOLL_DOORBELL | RSK_EPOLL_NONE };
	int rc;

	atomic_store(&e->kick, rsk_own_fd(rsk_sys_eventfd2(1, EFD_NONBLOCK | EFD_CLOEXEC)));
	if (e->kick < 0)
		return -EMFILE;
	rc = rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_ADD, e->kick, &ev);
	if (rc < 0) {
		rsk_own_close(e->kick);
		atomic_store(&e->kick, -1);
		return rc;
	}
	unkick(e); /* the last one may have left meanwhile, and found no kick */
	return 0;
}

static int stand_apart(const struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	int rc = make_private(f, e);

	if (rc < 0)
		return rc;
	/* A woken sleeper takes the kick for one of ours. */
	atomic_store(&e->belled, true);
	atomic_store(&e->apart, true);
	if (has_sleepers(e))
		rc = kick(f, e);
	if (rc < 0)
		atomic_store(&e->apart, false);
	return rc;
}

int rsk_epoll_apart_home(const struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	if (e->apart && rsk_epoll_is_ours_again(e))
		come_home(f, e);
	return e->apart ? -EBUSY : 0;
}

int rsk_epoll_make_place(const struct rsk_epoll_family *f, struct rsk_reg *r)
{
	struct rsk_epoll *e = r->set;

	if (rsk_epoll_is_ours_again(e)) {
		rsk_epoll_apart_home(f, e);
		return 0;
	}
	if (!rsk_epoll_entry_is_ours(e, r))
		return -EBUSY;
	return e->apart ? 0 : stand_apart(f, e);
}
