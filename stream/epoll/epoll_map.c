// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_map.c - the peers' ready maps, and what a waiter polls while it spins. epoll_wait.c and
 * epoll_answer.c call it.
 *
 * A sender sets the stream's bit in the map after each slot, and the waiter clears it: two cache
 * lines that travel in each direction for every message. For the stream that was reported last,
 * which is most often the next one as well, the waiter polls the ring itself and leaves the bit
 * set: the sender then finds it set and writes nothing. That bit carries no information any more;
 * all others do. It is ignored only as long as the waiter polls that registration's ring, also in
 * the last check before a sleep. Order of the waiter: announce, fence, check; of the sender: slot,
 * fence, doorbells. A bit that stays set never keeps a sender from ringing the doorbell.
 *
 * This applies only to level-triggered registrations, since an edge is known by the bit, and to
 * streams that are registered once: others need the bit.
 */
#include <poll.h>

#include <rsock/sys.h>

#include "cpu.h"
#include "epoll_apart.h"
#include "epollset.h"
#include "rdma.h"
#include "spin.h"
#include "stream.h"
#include "wait.h"

#define LOOKS_PER_CALL 16u /* of a spin: a call costs as much as some looks at all polled links */

/* Whether the map of @l has bits other than @known. */
static bool marked(const struct rsk_link *l, const struct rsk_epoll_mark *known)
{
	struct rsk_seg_head *head = rsk_seg_own_head(&l->seg);
	uint32_t sums = rsk_seg_sums(&l->seg), word = known->sid / 64;
	uint64_t sum;

	for (uint32_t i = 0; i < sums; i++) {
		sum = atomic_load_explicit(&head->ready_sum[i], memory_order_relaxed);
		if (!sum)
			continue;
		if (known->l != l || i != word / 64 || (sum & ~(1ull << word % 64)))
			return true;
		if (atomic_load_explicit(&head->ready[word], memory_order_relaxed) &
		    ~(1ull << known->sid % 64))
			return true;
	}
	return false;
}

static struct rsk_epoll_mark known_mark(const struct rsk_epoll *e)
{
	const struct rsk_stream *s = e->busiest ? e->busiest->stream : NULL;

	if (!s)
		return (struct rsk_epoll_mark){ 0 };
	return (struct rsk_epoll_mark){ s->link, s->sid };
}

/* Queues all registrations of @s and wakes sleepers of other sets. The chain lock is held. */
static void queue_all(const struct rsk_epoll *e, const struct rsk_stream *s)
{
	for (struct rsk_reg *r = s->regs; r; r = r->next_of_stream)
		if (r->set == e)
			rsk_epoll_queue(r);
		else
			rsk_reg_call(r);
}

static void drain_word(const struct rsk_epoll *e, const struct rsk_link *l, uint32_t w)
{
	uint64_t bits = atomic_exchange(&rsk_seg_own_head(&l->seg)->ready[w], 0);

	/*
	 * A sender that finds its bit set does not set it again (mark_ready()): it put its slot,
	 * executed a full fence, and loaded this word. If that was before the exchange, its slot is
	 * seen by what reads the rings after this fence, the other half of the pair. Without it a
	 * load of the ring might come before the store of the exchange, the sender's load between
	 * the two, and the slot would be in no map.
	 */
	rsk_fence_after_rmw();
	for (; bits; bits &= bits - 1) {
		const struct rsk_stream *s =
			rsk_link_stream(l, w * 64 + (uint32_t)__builtin_ctzll(bits));

		if (s)
			queue_all(e, s);
	}
}

/*
 * No pins are needed: under the chain lock a stream with registrations is not freed, and one
 * without has nothing to queue.
 */
void rsk_epoll_drain_link(const struct rsk_epoll *e, const struct rsk_link *l)
{
	struct rsk_seg_head *head = rsk_seg_own_head(&l->seg);
	uint32_t sums = rsk_seg_sums(&l->seg);

	for (uint32_t i = 0; i < sums; i++) {
		uint64_t words;

		if (!atomic_load_explicit(&head->ready_sum[i], memory_order_relaxed))
			continue;
		words = atomic_exchange(&head->ready_sum[i], 0);
		for (; words; words &= words - 1)
			drain_word(e, l, i * 64 + (uint32_t)__builtin_ctzll(words));
	}
}

static __attribute__((noinline)) void drain_besides(struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	if (e->besides & RSK_EPOLL_REMOTE) {
		rsk_rdma_poll(e->rang);
		e->rang = false;
	}
	if (e->besides & RSK_EPOLL_RUNG)
		rsk_epoll_links_take_rung(f, e);
}

void rsk_epoll_drain(struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	struct rsk_epoll_mark known = known_mark(e);
	struct rsk_reg *busiest = e->busiest;
	bool locked = false;

	rsk_epoll_take_calls(e);
	if (__builtin_expect(e->besides, 0))
		drain_besides(f, e);
	/* If a slot was consumed since, part of it may still be unread. */
	if (known.l && !busiest->queued &&
	    (rsk_stream_stirs(busiest->stream, RSK_WAKE_RX) ||
	     rsk_ring_index(&busiest->stream->rx.ring) != busiest->index))
		rsk_epoll_queue(busiest);
	for (uint32_t i = 0; i < e->links.npolled; i++)
		if (marked(e->links.polled[i].l, &known)) {
			if (!locked)
				rsk_lock(&f->chain);
			locked = true;
			rsk_epoll_drain_link(e, e->links.polled[i].l);
		}
	if (locked)
		rsk_unlock(&f->chain);
}

void rsk_epoll_check_at(struct rsk_epoll_spot *spot, const struct rsk_epoll *e)
{
	struct rsk_stream *last = e->last && e->last->tagged ? e->last->stream : NULL;

	spot->e = e;
	spot->known = known_mark(e);
	spot->same_cpu = last && !rsk_spin_peer_elsewhere(last, rsk_stream_publish_cpu(last));
	if (spot->known.l)
		rsk_stream_peek_at(&spot->peek, e->busiest->stream);
}

static bool besides_stir(const struct rsk_epoll *e)
{
	uint8_t besides = __atomic_load_n(&e->besides, __ATOMIC_RELAXED);

	if (besides & RSK_EPOLL_REMOTE)
		rsk_rdma_poll(false);
	return besides & RSK_EPOLL_RUNG;
}

static uint32_t npolled(const struct rsk_epoll *e)
{
	return __atomic_load_n(&e->links.npolled, __ATOMIC_RELAXED);
}

static bool stirs(void *arg)
{
	const struct rsk_epoll_spot *spot = arg;
	const struct rsk_epoll *e = spot->e;

	if (spot->known.l && rsk_stream_peek_stirs(&spot->peek, RSK_WAKE_RX))
		return true;
	if (__builtin_expect(__atomic_load_n(&e->besides, __ATOMIC_RELAXED), 0) && besides_stir(e))
		return true;
	for (uint32_t i = 0, n = npolled(e); i < n; i++)
		if (marked(__atomic_load_n(&e->links.polled[i].l, __ATOMIC_RELAXED), &spot->known))
			return true;
	return __atomic_load_n(&e->ready, __ATOMIC_RELAXED) ||
	       atomic_load_explicit(&e->calls, memory_order_relaxed);
}

/* News of an announced link is only in the kernel, which is asked now and then. */
static bool stirs_anywhere(void *arg)
{
	struct rsk_epoll_spot *spot = arg;
	struct pollfd p = { .fd = rsk_epoll_shown_by(spot->e, spot->e->epfd), .events = POLLIN };

	if (stirs(spot))
		return true;
	if (++spot->looks % LOOKS_PER_CALL)
		return false;
	spot->kernel = rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0;
	return spot->kernel;
}

static __attribute__((noinline)) bool spin_of_many(struct rsk_epoll_spot *spot)
{
	const struct rsk_epoll *e = spot->e;

	spot->kernel = false;
	spot->looks = 0;
	return (stirs(spot) || rsk_spin(e->spin_ns, spot->same_cpu, stirs_anywhere, spot)) &&
	       !spot->kernel;
}

bool rsk_epoll_spin(struct rsk_epoll_spot *spot)
{
	const struct rsk_epoll *e = spot->e;
	uint32_t n = npolled(e);

	rsk_spin_spent_ns = 0;
	if (__builtin_expect(__atomic_load_n(&e->links.n, __ATOMIC_RELAXED) != n, 0))
		return spin_of_many(spot);
	return stirs(spot) || (n && rsk_spin(e->spin_ns, spot->same_cpu, stirs, spot));
}

uint64_t rsk_epoll_woken(const struct rsk_epoll *e, uint64_t began_ns)
{
	/* Any link serves: one peer is the usual case, and the time is a hint. */
	if (e->links.npolled)
		return rsk_spin_woken(e->links.polled[0].l, began_ns);
	return rsk_now_ns();
}
