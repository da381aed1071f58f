// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_wait.c - epoll_wait() on a set that may hold paired streams: spins, sleeps, and uses the
 * kernel's own wait. The hooks of epoll_wait() and its variants call it.
 */
#include <errno.h>
#include <string.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epoll.h"
#include "epoll_apart.h"
#include "epollset.h"
#include "spin.h"
#include "stream.h"
#include "syn.h"
#include "touch.h"
#include "wait.h"

static void retract(struct rsk_epoll *e)
{
	const struct rsk_epoll_links *k = &e->links;

	if (__builtin_expect(k->n > RSK_EPOLL_POLLED, 0))
		rsk_epoll_links_woken(e);
	for (uint32_t i = 0; i < k->npolled; i++)
		if (k->polled[i].doorbell != RSK_SEG_SHARED_DOORBELL)
			atomic_fetch_and(&rsk_seg_own_head(&k->polled[i].l->seg)->asleep,
					 ~(1ull << k->polled[i].doorbell));
}

/* *asleep: the set on which this thread sleeps, announced; or NULL. */
static void wake_up(struct rsk_epoll **asleep)
{
	struct rsk_epoll *e = *asleep;

	if (!e)
		return;
	*asleep = NULL;
	rsk_lock(&e->lock);
	e->sleepers--;
	/*
	 * Other threads still sleep, or a thread polls the set: their announcement, which a
	 * doorbell may have taken back, is renewed.
	 */
	if (e->sleepers || e->watched)
		rsk_epoll_announce(e);
	else
		retract(e);
	rsk_unlock(&e->lock);
}

/* An event that the thread has got from the kernel is lost. */
static __attribute__((noinline)) void cancelled(struct rsk_epoll **asleep)
{
	struct rsk_epoll *e = *asleep;

	wake_up(asleep);
	rsk_lock(&e->lock);
	if (e->links.n > e->links.npolled)
		rsk_epoll_links_recheck(e, e->links.used);
	if (e->sleepers)
		rsk_epoll_ring(e);
	rsk_unlock(&e->lock);
}

/* Asleep no more, unless the thread is cancelled in its sleep. */
static inline __attribute__((always_inline)) void leave(struct rsk_epoll **asleep)
{
	if (__builtin_expect(*asleep != NULL, 0))
		cancelled(asleep);
}

static void slept(struct rsk_epoll **e)
{
	rsk_epoll_slept(*e);
}

static inline int kernel_wait(int epfd, struct epoll_event *evs, int max, uint64_t until_ns,
			      bool poll_only, const sigset_t *mask)
{
	int saved = errno, rc, ms = -1;

	if (poll_only) {
		ms = 0;
	} else if (until_ns != UINT64_MAX) {
		uint64_t now = rsk_now_ns(), left;

		left = until_ns > now ? (until_ns - now + 999999) / 1000000 : 0;
		ms = left > INT32_MAX ? INT32_MAX : (int)left;
	}
	rc = rsk_host->epoll_pwait(epfd, evs, max, ms, mask);
	if (rc < 0)
		rc = -errno;
	errno = saved;
	return rc;
}

/* The same on a set of ours. */
static inline int wait_on(const struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
			  struct epoll_event *evs, int max, uint64_t until_ns, bool poll_only,
			  const sigset_t *mask)
{
	struct rsk_epoll *on __attribute__((cleanup(slept))) = poll_only ? NULL : e;
	int at = on ? rsk_epoll_sleeps_at(e, epfd) : rsk_epoll_shown_by(e, epfd);
	int n = kernel_wait(at, evs, max, until_ns, poll_only, mask);

	return __builtin_expect(at != epfd, 0) ? rsk_epoll_add_theirs(f, epfd, evs, n, max) : n;
}

/*
 * Nested sets have been checked; does the kernel still show nothing? After a check, news may come
 * that makes nothing ready (a control word, credit), and an event that reports it cannot be taken
 * back: so there is a second check.
 */
static bool shows_nothing(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd)
{
	struct pollfd p = { .fd = rsk_epoll_shown_by(e, epfd), .events = POLLIN };
	uint64_t never = UINT64_MAX;

	if (rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) == 0)
		return true;
	rsk_epoll_check_inside(f, e, &never);
	return rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) == 0;
}

/*
 * For a set whose nested sets hold streams: what the kernel shows of those may be more than is
 * true, so it is asked for events only after a check. The sleep itself consumes no event.
 */
static int nested_wait(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		       struct epoll_event *evs, int max, uint64_t until_ns, const sigset_t *mask)
{
	struct rsk_epoll *on __attribute__((cleanup(slept))) = e;
	struct pollfd p = { .fd = rsk_epoll_sleeps_at(on, epfd), .events = POLLIN };
	uint64_t now = rsk_now_ns(), left = until_ns > now ? until_ns - now : 0, never = UINT64_MAX;
	struct timespec ts = { .tv_sec = (time_t)(left / 1000000000u),
			       .tv_nsec = (long)(left % 1000000000u) };
	int saved = errno, rc;

	rc = rsk_host->ppoll(&p, 1, until_ns == UINT64_MAX ? NULL : &ts, mask);
	if (rc < 0)
		rc = -errno;
	errno = saved;
	if (rc >= 0) {
		rsk_epoll_check_inside(f, e, &never);
		rc = shows_nothing(f, e, epfd) ? 0 : rsk_epoll_ask_set(f, e, epfd, evs, max);
	}
	return rc;
}

#define EVENTS_A_PAGE (int)(RSK_TOUCH_PAGE / sizeof(struct epoll_event))

/* The array may end before @max. At most a page is checked: there are hardly ever more events. */
static inline int fitting(struct epoll_event *evs, int max)
{
	int looked = max < EVENTS_A_PAGE ? max : EVENTS_A_PAGE, n = 0;

	if (__builtin_expect(rsk_touch_writes(evs, (size_t)looked * sizeof(*evs)), 1))
		return max;
	while (n < looked && rsk_touch_writes(evs + n, sizeof(*evs)))
		n++;
	return n;
}

static inline int tell_over(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
			    struct epoll_event *evs, int max)
{
	if (__builtin_expect(!atomic_load_explicit(&e->over, memory_order_relaxed), 1))
		return 0;
	return rsk_epoll_tell_over(f, e, epfd, evs, max);
}

/*
 * What the set has, spinning for it until @until_ns at most; 0: not at all. Links are used from the
 * check on that says where the spin looks.
 */
static inline __attribute__((always_inline)) int gather_and_spin(struct rsk_epoll_family *f,
								 struct rsk_epoll *e, int epfd,
								 struct epoll_event *evs, int max,
								 uint64_t until_ns)
{
	uint32_t spins = until_ns ? RSK_SPINS_OF_A_WAIT : 0;
	struct rsk_epoll_spot spot;
	int n;

	rsk_links_use();
	n = rsk_epoll_gather(f, e, epfd, evs, max, &spot);
	while (!n && spins--) {
		rsk_sigdefer_post(); /* what the check has put does not wait for the spin */
		if (!rsk_epoll_spin(&spot))
			break;
		n = rsk_epoll_gather(f, e, epfd, evs, max, &spot);
		if (until_ns != UINT64_MAX && rsk_now_ns() >= until_ns)
			break;
	}
	rsk_links_let_go();
	return n;
}

/* Also after the last paired stream has fallen back. */
static inline bool is_to_be_translated(const struct rsk_epoll *e)
{
	return e->belled ||
	       __builtin_expect(atomic_load_explicit(&rsk_syn_some_shown, memory_order_relaxed), 0);
}

int rsk_epoll_wait(int epfd, struct epoll_event *evs, int max, const struct timespec *timeout,
		   const sigset_t *mask)
{
	struct rsk_epoll_family *f = rsk_epoll_family();
	struct rsk_epoll *e = rsk_epoll_of(epfd);
	struct rsk_epoll *asleep __attribute__((cleanup(leave))) = NULL;
	uint64_t began = 0, until = UINT64_MAX, wake_ns;
	bool poll_only = timeout && !timeout->tv_sec && !timeout->tv_nsec;
	uint32_t handled = rsk_sigdefer_handled;
	int n;

	if (rsk_fd_not_yours(epfd))
		return -EBADF;
	if (timeout && !poll_only) {
		began = rsk_now_ns();
		until = rsk_until_ns(began, timeout);
	}
	if (!e || !f || max <= 0 || (uintptr_t)evs < 4096)
		return kernel_wait(epfd, evs, max, until, poll_only, mask);
	rsk_epoll_name(e, epfd);
	/* The set holds no stream of ours: the kernel handles it, unless that changes meanwhile. */
	if (!e->tagged && !e->ninner && until == UINT64_MAX) {
		uint32_t takeovers = atomic_load(&e->takeovers);

		n = tell_over(f, e, epfd, evs, max);
		if (n)
			return n;
		n = wait_on(f, e, epfd, evs, max, until, poll_only, mask);
		if (n >= 0 && is_to_be_translated(e))
			n = rsk_epoll_settle(f, e, epfd, evs, n, max, takeovers, 0);
		if (n || poll_only)
			return n;
	}
	max = fitting(evs, max);
	if (!max)
		return -EFAULT;
	for (;;) {
		uint32_t takeovers = atomic_load(&e->takeovers);
		bool nested, cut;

		n = tell_over(f, e, epfd, evs, max);
		if (n)
			return n;
		wake_ns = until;
		nested = rsk_epoll_check_inside(f, e, &wake_ns);
		if (e->tagged) {
			n = gather_and_spin(f, e, epfd, evs, max, poll_only ? 0 : until);
			if (n) {
				atomic_store_explicit(&e->spin_ns, rsk_spin_longest(),
						      memory_order_relaxed);
				return n;
			}
			if (!poll_only) {
				began = rsk_now_ns() - rsk_spin_spent_ns;
				rsk_lock(&e->lock);
				e->sleepers++;
				rsk_epoll_announce(e);
				rsk_unlock(&e->lock);
				asleep = e;
				/*
				 * The last check: news that came before the announcement rang no
				 * doorbell.
				 */
				n = gather_and_spin(f, e, epfd, evs, max, 0);
				if (n) {
					wake_up(&asleep);
					return n;
				}
			}
		}
		if (e->tagged && e->relief_ns && e->relief_ns < wake_ns)
			wake_ns = e->relief_ns;
		/*
		 * A handler ran while this thread spun: what the kernel has by now comes first.
		 * (With a mask it may be one that has to wait.)
		 */
		cut = !mask && !poll_only && rsk_sigdefer_handled != handled;
		if (cut)
			wake_ns = 0;
		if (nested && !poll_only)
			n = nested_wait(f, e, epfd, evs, max, wake_ns, mask);
		else if (nested && shows_nothing(f, e, epfd))
			n = 0;
		else
			n = wait_on(f, e, epfd, evs, max, wake_ns, poll_only, mask);
		wake_up(&asleep);
		if (n < 0)
			return n;
		if (is_to_be_translated(e))
			n = rsk_epoll_settle(f, e, epfd, evs, n, max, takeovers, cut ? 0 : began);
		if (!n && cut)
			return -EINTR;
		if (n || poll_only || rsk_now_ns() >= until)
			return n;
	}
}
