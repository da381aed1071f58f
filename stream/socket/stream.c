// SPDX-License-Identifier: BSD-2-Clause
/*
 * stream.c - stream objects: allocation, pins, the fds that lead to them, freeing. See stream.h;
 * what happens to an fd is in calls/fd.c.
 */
#include "stream.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>

#include <rsock/sys.h>

#include "arena.h"
#include "host.h"
#include "log.h"
#include "over.h"
#include "pool.h"
#include "tuple.h"
#include "upcall.h"

/* Rings that carried fewer bytes touched so few pages that the next stream may keep them. */
#define RING_KEEP 16384u

/* Zeroes member @from and the members after it, up to member @to. */
#define CLEAR(s, from, to)                                                                         \
	memset((uint8_t *)(s) + offsetof(struct rsk_stream, from), 0,                              \
	       offsetof(struct rsk_stream, to) - offsetof(struct rsk_stream, from))

static struct rsk_stream *stream_alloc(void)
{
	struct rsk_stream *s = rsk_pool_take();

	if (!s)
		return rsk_arena_alloc(sizeof(*s));
	/*
	 * Most streams were short: the fields used from the first pairing on are still zero. All
	 * but the locks, which a late call on the fast path may hold for a moment.
	 */
	if (s->attached) {
		CLEAR(s, link, rx_lock);
		CLEAR(s, rx, tx_lock);
		memset(&s->tx, 0, sizeof(*s) - offsetof(struct rsk_stream, tx));
	}
	/*
	 * The fields before fds are 0 already, and others may read them: a late pin attempt, a late
	 * rsk_pool_take().
	 */
	CLEAR(s, fds, link);
	/* These may be set before it is attached. */
	s->qos = (struct rsk_qos){ 0 };
	memset((void *)&s->syn, 0, sizeof(s->syn));
	s->apart = false;
	atomic_store_explicit(&s->inherited.inode, 0, memory_order_relaxed);
	s->qos_priority = 0;
	return s;
}

/* ---- default callbacks ---- */

static void no_number(int fd, uintptr_t w)
{
	(void)fd, (void)w;
}

static void no_stream(struct rsk_stream *s)
{
	(void)s;
}

static void none(void)
{
}

static void no_goodbye(struct rsk_stream *s, int fd)
{
	(void)s, (void)fd;
}

static int no_gift(struct rsk_stream *s, int fd)
{
	(void)s, (void)fd;
	return -EAGAIN;
}

static void no_fd(int fd)
{
	(void)fd;
}

static int no_way(int fd, enum rsk_reason why)
{
	(void)fd, (void)why;
	return -EAGAIN;
}

static const struct rsk_upcalls nobody = {
	.closed_unseen = no_number,
	.ending = no_stream,
	.unpaired = no_stream,
	.link_unused = none,
	.paired = no_stream,
	.changed = no_stream,
	.last_goodbye = no_goodbye,
	.give_owed = no_gift,
	.leave = no_way,
	.watched = no_fd,
};
const struct rsk_upcalls *rsk_upcalls = &nobody;

/* ---- the stream's record ---- */

/* A new record: no operator request was made for this generation of it (operator_request.h). */
static void request_init(struct rsk_stream *s)
{
	s->request.generation = rsk_stats_request_generation(rsk_stats_request(s->rec));
	atomic_store_explicit(&s->request.seen, (uint64_t)s->request.generation << 32,
			      memory_order_relaxed);
}

static _Atomic(int) stats_pid;
static _Atomic(uint32_t) stats_ready;

static void stats_begin(void)
{
	const struct timespec patience = { .tv_sec = 1 };
	int seen = atomic_load(&stats_pid);

	if (rsk_host && rsk_host->streams)
		rsk_host->streams();
	rsk_sigdefer_enter();
	if (seen != rsk_pid && atomic_compare_exchange_strong(&stats_pid, &seen, rsk_pid) &&
	    !seen) {
		rsk_stats_init(rsk_own_fd);
		atomic_store(&stats_ready, 1);
		rsk_sys_futex((uint32_t *)&stats_ready, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	}
	/*
	 * Another thread may be initialising: the streams of this thread are to be recorded as
	 * well; but the wait is bounded.
	 */
	if (!atomic_load(&stats_ready))
		rsk_sys_futex((uint32_t *)&stats_ready, FUTEX_WAIT, 0, &patience, NULL, 0);
	rsk_sigdefer_exit();
}

void rsk_streams_forked(void)
{
	atomic_store(&stats_pid, 0);
	atomic_store(&stats_ready, 0);
	rsk_own_close(rsk_stats_fd());
	rsk_stats_forked();
}

void rsk_stream_record_anew(struct rsk_stream *s, enum rsk_reason why)
{
	if (atomic_load(&stats_pid) != rsk_pid)
		stats_begin();
	s->rec = rsk_stats_stream_get(NULL, rsk_tick_ns());
	rsk_stats_stream_end(s->rec, s->connecting_side, atomic_load(&s->fd));
	request_init(s);
	atomic_store(&s->named, false);
	/* The parent holds it, too; reasons that later steps find replace this one. */
	rsk_stats_set_reason(s->rec, RSK_REASON_SHARED_HOLDER);
	if (why == RSK_REASON_DIRECT)
		return;
	rsk_stats_event(s->rec, rsk_now_ns(), RSK_EVENT_REFUSED, why);
	rsk_stats_set_reason(s->rec, why);
	rsk_stats_given_up(s->rec);
}

/* Makes no system call: most streams are short, and every one pays this cost. */
struct rsk_stream *rsk_stream_new(int fd, bool connecting_side, bool nonblock,
				  const struct rsk_tuple *peer)
{
	struct rsk_stream *s;

	if (__builtin_expect(atomic_load(&stats_pid) != rsk_pid || !atomic_load(&stats_ready), 0))
		stats_begin();
	s = stream_alloc();
	if (!s)
		return NULL;
	s->connecting_side = connecting_side;
	atomic_store_explicit(&s->fd, fd, memory_order_relaxed);
	atomic_store_explicit(&s->rcvlowat, 1, memory_order_relaxed);
	atomic_store_explicit(&s->nonblock, nonblock, memory_order_relaxed);
	/* No pairing step before the stream has earned one: rsk_op_moved(). */
	atomic_store_explicit(&s->work.step, UINT64_MAX, memory_order_relaxed);
	s->rec = rsk_stats_stream_get(peer, rsk_tick_ns());
	rsk_stats_stream_end(s->rec, connecting_side, fd);
	request_init(s);
	atomic_store_explicit(&s->fds, 1, memory_order_relaxed);
	atomic_store_explicit(&s->phase, RSK_PHASE_CANDIDATE, memory_order_release);
	atomic_store_explicit(&s->refs, 1, memory_order_release);
	return s;
}

void rsk_stream_name(struct rsk_stream *s, int fd)
{
	struct rsk_tuple tuple;

	if (atomic_load_explicit(&s->named, memory_order_relaxed) ||
	    rsk_tuple_names(fd, &tuple) < 0)
		return;
	atomic_store_explicit(&s->named, true, memory_order_relaxed);
	rsk_stats_stream_name(s->rec, &tuple);
}

/*
 * Reads the kernel's values for what was assumed, or as the hooks saw it, before other state
 * depends on it. A thread that changes the mode meanwhile does so in the kernel first, then here:
 * the last store is right.
 */
int rsk_stream_learn(struct rsk_stream *s, int fd)
{
	socklen_t len = sizeof(int);
	bool nonblock;
	int low = 1, err;

	if (!rsk_kernel_is_tcp(fd))
		return -EOPNOTSUPP;
	do {
		nonblock = rsk_kernel_nonblock(fd);
		atomic_store(&s->nonblock, nonblock);
	} while (rsk_kernel_nonblock(fd) != nonblock);
	/*
	 * Set before the connection was made, or inherited from its listener. A thread that sets it
	 * meanwhile stores after us, or set what we read.
	 */
	if (atomic_load(&s->rcvlowat) == 1 &&
	    rsk_sys_getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, &len) == 0 && low > 1)
		atomic_store(&s->rcvlowat, low);
	err = rsk_tuple_from_fd(fd, &s->tuple);
	if (err < 0)
		return err;
	s->cookie = rsk_cookie_of(fd);
	atomic_store_explicit(&s->named, true, memory_order_relaxed);
	rsk_stats_stream_name(s->rec, &s->tuple);
	return 0;
}

void rsk_stream_quiesce(struct rsk_stream *s)
{
	rsk_lock(&s->tx_lock);
	rsk_unlock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	rsk_unlock(&s->rx_lock);
}

/* True: that was the link's last stream. */
static bool unpair(struct rsk_stream *s)
{
	struct rsk_seg_ctl *ctl = rsk_seg_own_ctl(&s->link->seg, s->sid);
	bool idle;

	rsk_stream_quiesce(s);
	atomic_store(&ctl->epolls_rx, 0);
	atomic_store(&ctl->epolls_tx, 0);
	/* Registered memory is kept; so is memory that a sender may still have to repeat. */
	if (s->rx.ring_bytes >= RING_KEEP && !s->link->remote && !s->rx.fallback.asked &&
	    !rsk_kernel_only())
		rsk_seg_drop_ring(&s->link->seg, s->sid, 0);
	rsk_link_set_stream(s->link, s->sid, NULL);
	rsk_upcalls->unpaired(s);
	rsk_rx_fini(&s->rx);
	rsk_tx_fini(&s->tx);
	rsk_links_use(); /* the link is read once more below */
	idle = atomic_fetch_sub(&s->link->streams, 1) == 1 && rsk_link_useless(s->link);
	rsk_links_let_go();
	return idle;
}

void rsk_stream_unpair(struct rsk_stream *s)
{
	if (unpair(s))
		rsk_upcalls->link_unused();
}

void rsk_stream_free(struct rsk_stream *s)
{
	bool idle = false;

	if (atomic_load(&s->goodbye_due) || __builtin_expect(s->pairing.mapping != 0, 0))
		rsk_upcalls->ending(s);
	if (s->pairing.held)
		rsk_arena_free(s->pairing.held);
	s->pairing.held = NULL;
	if (rsk_over_is(s))
		rsk_over_close(s, -1);
	if (s->fork.kin.serial)
		rsk_kin_closed(&s->fork.kin);
	if (s->link) {
		idle = unpair(s);
	} else if (s->pairing.search.looks) {
		idle = true; /* a link may have been started for it, by either end, in vain */
	}
	/* The end must not precede the stream's events, as a coarse tick could. */
	rsk_stats_stream_put(s->rec, s->rec->events_written == 1 ? rsk_tick_ns() : rsk_now_ns());
	atomic_store_explicit(&s->phase, RSK_PHASE_FREE, memory_order_relaxed);
	rsk_pool_give(s);
	if (idle)
		rsk_upcalls->link_unused();
}

struct rsk_stream *rsk_stream_of(int fd)
{
	for (;;) {
		uintptr_t w = rsk_fd_word(fd);
		struct rsk_stream *s = rsk_fd_stream(w);

		if (!s)
			return NULL;
		if (rsk_stream_pin(s)) {
			uintptr_t again = rsk_fd_word(fd);

			if (((w ^ again) & ~(uintptr_t)(RSK_FD_TRACKED | RSK_FD_LEFT)) == 0)
				return s;
			rsk_stream_unpin(s);
		}
		if (rsk_fd_word(fd) == w && !rsk_stream_holders(s))
			return NULL;
	}
}

/*
 * A close() that we see removes the table's entry before it closes the number: if the number is
 * another file's, and the entry is still there, no hook saw the close. If the kernel does not
 * report a cookie, the descriptor is trusted.
 */
bool rsk_stream_is_at(struct rsk_stream *s, int fd)
{
	uintptr_t w = rsk_fd_word(fd);

	if (!s->cookie || rsk_cookie_of(fd) == s->cookie || !rsk_fd_names(fd, s))
		return true;
	rsk_log(RSK_LOG_INFO, "fd %d: was closed by a call that no hook saw", fd);
	/* Another thread may have found that as well, or have newer information. */
	if (rsk_fd_put_if(fd, w, 0))
		rsk_upcalls->closed_unseen(fd, w);
	return false;
}

static uint32_t count_fds(struct rsk_stream *s, int *any)
{
	uint32_t n = 0, high = rsk_fd_high();

	for (uint32_t i = 0; i < high; i++)
		if (rsk_fd_names((int)i, s)) {
			n++;
			*any = (int)i;
		}
	return n;
}

bool rsk_fdtab_validate(void)
{
	uint32_t high = rsk_fd_high();

	for (uint32_t i = 0; i < high; i++) {
		uintptr_t w = rsk_fd_word((int)i);
		struct rsk_stream *s = rsk_fd_stream(w);
		uint32_t fds;

		if (!s) {
			if (w && !(w & RSK_FD_EPOLL) && !rsk_fd_marked(w) && !rsk_fd_ours((int)i))
				return false;
			if (rsk_fd_marked(w) && (w & (RSK_FD_MASK | RSK_FD_OWN)))
				return false;
			continue;
		}
		if (!rsk_arena_holds(s) || rsk_stream_phase(s) == RSK_PHASE_FREE)
			return false;
		fds = atomic_load(&s->fds);
		/* Other processes that share the stream since a fork may have more. */
		if (fds < rsk_stream_count_fds(s) || rsk_stream_holders(s) < fds)
			return false;
		if (rsk_stream_phase(s) == RSK_PHASE_UNTRACKED && (w & RSK_FD_TRACKED))
			return false;
	}
	return true;
}

bool rsk_stream_sole_process(struct rsk_stream *s)
{
	if (__builtin_expect(atomic_load(&s->inherited.inode) != 0, 0))
		return false;
	if (!rsk_kin_shares(&s->fork.kin))
		return true;
	rsk_kin_check();
	return !rsk_kin_shares(&s->fork.kin);
}

uint32_t rsk_stream_count_fds(struct rsk_stream *s)
{
	int any;

	return count_fds(s, &any);
}

int rsk_stream_find_fd(struct rsk_stream *s)
{
	int fd = atomic_load(&s->fd), any = -1;

	if (rsk_fd_names(fd, s))
		return fd;
	if (!count_fds(s, &any))
		return -1;
	atomic_store(&s->fd, any);
	return any;
}

void rsk_fd_name_all(void)
{
	uint32_t high = rsk_fd_high();

	for (uint32_t i = 0; i < high; i++) {
		struct rsk_stream *s = rsk_stream_of((int)i);

		if (!s)
			continue;
		rsk_stream_name(s, (int)i);
		rsk_stream_unpin(s);
	}
}
