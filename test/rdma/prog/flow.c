// SPDX-License-Identifier: BSD-2-Clause
/*
 * flow.c - threads that send and receive slots over a link of verbs_pair (pair.c). Every byte is
 * computed from its stream position, so the receiver can check it.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rsock/splitmix.h>

#include "pair.h"

/* Different numbers give different ones; 0 gives another one than 0. */
static uint64_t mix(uint64_t z)
{
	return rsk_splitmix_next(&z);
}

/* Computes the @len bytes of the stream that begin at position @pos. */
static void fill(uint64_t seed, uint64_t pos, uint8_t *to, uint32_t len)
{
	while (len) {
		uint64_t word = mix(seed ^ (pos / 8));
		uint32_t at = (uint32_t)(pos % 8), n = 8 - at < len ? 8 - at : len;

		memcpy(to, (const uint8_t *)&word + at, n);
		to += n;
		pos += n;
		len -= n;
	}
}

static bool right(uint64_t seed, uint64_t pos, const uint8_t *is, uint32_t len)
{
	uint8_t want[512];

	while (len) {
		uint32_t n = len < sizeof(want) ? len : sizeof(want);

		fill(seed, pos, want, n);
		if (memcmp(is, want, n))
			return false;
		is += n;
		pos += n;
		len -= n;
	}
	return true;
}

static uint64_t seed(const struct pair_link *l, uint32_t sid, bool from_server)
{
	return mix((uint64_t)l->number << 40 | (uint64_t)sid << 8 | from_server);
}

void pair_flow_init(struct pair_link *l)
{
	bool server = l->p->server;
	for (uint32_t i = 0; i < l->p->plan.streams; i++) {
		struct pair_stream *s = &l->stream[i];
		uint64_t out = seed(l, i, server) + l->round, in = seed(l, i, !server) + l->round;

		memset(s, 0, sizeof(*s));
		s->sid = i;
		s->dice = out;
		rsk_key_init(&s->key_out, out);
		rsk_key_init(&s->key_in, in);
		rsk_ring_tx_init(&s->tx, &l->seg.rail, rsk_seg_ring_off(&l->seg.peer, i),
				 PAIR_CELLS, rsk_ring_first_lap(out));
		rsk_ring_rx_init(&s->rx, l->seg.rail.segment + rsk_seg_ring_off(&l->seg.own, i),
				 PAIR_CELLS, rsk_ring_first_lap(in), false);
		s->credit_said = s->rx.next;
		s->answer_word_seen = rsk_seg_own_ctl(&l->seg, i)->rx_word.hash;
	}
}

static void due(struct pair_link *l, uint32_t sid, uint32_t what)
{
	struct rsk_rail *rail = &l->seg.rail;
	uint64_t doorbells = rail->ops->due(rail, sid, what);

	if (doorbells)
		rail->ops->notify(rail, doorbells);
}

static bool broken(const struct pair_link *l)
{
	return atomic_load(&l->seg.rail.broken) != 0 || atomic_load(&l->p->stop);
}

static void take_credit(struct pair_link *l, struct pair_stream *s)
{
	const struct rsk_control_word *at = &rsk_seg_own_ctl(&l->seg, s->sid)->rx_word;
	struct rsk_control_word m;

	if (!rsk_control_word_fresh(at, s->answer_word_seen) ||
	    !rsk_control_word_get(at, &s->key_out, RSK_CONTROL_WORD_RX, &m))
		return;
	s->answer_word_seen = m.hash;
	if (rsk_ring_tx_credit(&s->tx, m.cells) < 0)
		PAIR_FAIL("stream %u: credit %llu, next %llu", s->sid, (unsigned long long)m.cells,
			  (unsigned long long)s->tx.next);
}

static bool send_some(struct pair_link *l, struct pair_stream *s, bool time_up)
{
	uint8_t data[RSK_SLOT_MAX_PAYLOAD];
	bool any = false;

	if (s->fin_out)
		return false;
	take_credit(l, s);
	for (int i = 0; i < 8 && !time_up; i++) {
		struct iovec iov = { data, 0 };
		struct rsk_iovcur cur;
		uint64_t r = rsk_splitmix_next(&s->dice);
		ssize_t n;

		if (l->p->plan.ping && s->tx.credit != s->tx.next)
			break;
		iov.iov_len = 1 + (r >> 8) % (r & 1 ? 200 : l->p->plan.largest);
		if (!rsk_ring_tx_room(&s->tx))
			break;
		fill(seed(l, s->sid, l->p->server), s->out, data, (uint32_t)iov.iov_len);
		rsk_iovcur_init(&cur, &iov, 1);
		n = rsk_ring_put_data(&s->tx, &s->key_out, &cur, iov.iov_len);
		if (n < 0)
			return false; /* the rail is broken */
		s->out += (uint64_t)n;
		any |= n > 0;
	}
	if (time_up) {
		struct rsk_slot_command fin = { .pos = s->out, .what = RSK_COMMAND_FIN, .gen = 1 };

		if (rsk_ring_put_command(&s->tx, &s->key_out, &fin) < 0)
			return false;
		s->fin_out = any = true;
	}
	if (any)
		due(l, s->sid, RSK_WAKE_RX);
	return any;
}

static bool receive_some(struct pair_link *l, struct pair_stream *s)
{
	uint8_t data[RSK_SLOT_MAX_PAYLOAD];
	struct rsk_slot_view view;
	bool any = false;

	for (int i = 0; i < 16 && !s->fin_in && rsk_ring_peek(&s->rx, &view); i++) {
		if (!rsk_ring_copy(&s->rx, &s->key_in, &view, data))
			break;
		if (view.head.kind == RSK_SLOT_CONTROL) {
			struct rsk_slot_command c;

			memcpy(&c, data, sizeof(c));
			if (c.pos != s->in)
				PAIR_FAIL("stream %u ends at %llu, not %llu", s->sid,
					  (unsigned long long)s->in, (unsigned long long)c.pos);
			s->fin_in = true;
		} else {
			if (!right(seed(l, s->sid, !l->p->server), s->in, data, view.head.len))
				PAIR_FAIL("stream %u: wrong bytes at %llu", s->sid,
					  (unsigned long long)s->in);
			s->in += view.head.len;
		}
		rsk_ring_consume(&s->rx, &view);
		any = true;
	}
	if (any &&
	    (l->p->plan.ping || s->fin_in || s->rx.next - s->credit_said >= PAIR_CELLS / 4)) {
		struct rsk_control_word m = { .what = RSK_RX_WATCHING,
					      .gen = 1,
					      .cells = s->rx.next };

		if (rsk_control_word_put(&l->seg.rail,
					 rsk_seg_ctl_off(s->sid) +
						 offsetof(struct rsk_seg_ctl, rx_word),
					 &s->key_in, RSK_CONTROL_WORD_RX, &m) < 0)
			return false;
		s->credit_said = s->rx.next;
		due(l, s->sid, RSK_WAKE_TX);
	}
	return any;
}

struct worker {
	struct pair_link *l;
	uint32_t number;
	uint64_t until_ns;
};

/*
 * One pass over all streams of the thread. Returns how many of them moved; *open: how many have not
 * reached their end.
 */
static uint32_t look(const struct worker *w, uint32_t *open)
{
	struct pair_link *l = w->l;
	bool time_up = rsk_monotonic_ns() >= w->until_ns;
	uint32_t moved = 0;

	*open = 0;
	for (uint32_t i = w->number; i < l->p->plan.streams; i += l->p->plan.threads) {
		struct pair_stream *s = &l->stream[i];

		moved += send_some(l, s, time_up);
		moved += receive_some(l, s);
		*open += !s->fin_in || !s->fin_out;
	}
	return moved;
}

static void each(const struct worker *w,
		 void (*call)(struct rsk_rail *, uint32_t, uint32_t, uint32_t))
{
	for (uint32_t i = w->number; i < w->l->p->plan.streams; i += w->l->p->plan.threads)
		call(&w->l->seg.rail, i, RSK_WAKE_RX | RSK_WAKE_TX, w->number);
}

/* Announces its sleep, checks once more, then sleeps, as stream/ready/wait.c does. */
static void sleep_on(const struct worker *w)
{
	const struct rsk_fabric_ops *ops = w->l->seg.rail.ops;
	struct pair *p = w->l->p;
	struct pollfd fds[] = { { .fd = w->l->doorbell[w->number], .events = POLLIN },
				{ .fd = p->m->news_fd(p->v), .events = POLLIN } };
	uint64_t count, now = rsk_monotonic_ns();
	int ms = PAIR_ASLEEP_MS, n;
	uint32_t open;

	each(w, ops->announce);
	atomic_thread_fence(memory_order_seq_cst);
	if (look(w, &open) || !open || broken(w->l))
		goto out;
	/* The end of the test's time is no wake-up: the timeout is shortened to it. */
	if (w->until_ns > now && (w->until_ns - now) / 1000000 < (uint64_t)ms)
		ms = (int)((w->until_ns - now) / 1000000 + 1);
	atomic_fetch_add(&p->slept, 1);
	n = poll(fds, 2, ms);
	if (n == 0 && ms == PAIR_ASLEEP_MS) {
		bool came = look(w, &open);

		/* Data that came just now may still wake this thread: it waits once more. */
		n = poll(fds, 2, came ? PAIR_ASLEEP_MS : 0);
		if (n == 0 && (came || p->m->poll(p->v, true)))
			atomic_fetch_add(&p->woken_late, 1);
	}
	if (n > 0 && fds[1].revents)
		p->m->poll(p->v, true);
	if (n > 0 && fds[0].revents && read(fds[0].fd, &count, sizeof(count)) < 0 &&
	    errno != EAGAIN)
		PAIR_FAIL("doorbell: %s", strerror(errno));
out:
	each(w, ops->retract);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint32_t open;
	int idle = 0;

	do {
		if (look(w, &open)) {
			idle = 0;
			continue;
		}
		/*
		 * Polls a few times before it sleeps, as a spinning reader does: poll() also moves
		 * what came through the indirect buffer.
		 */
		if (open && ++idle < 3)
			w->l->p->m->poll(w->l->p->v, true);
		else if (open)
			sleep_on(w);
	} while (open && !broken(w->l));
	atomic_fetch_sub(&w->l->running, 1);
	free(w);
	return NULL;
}

void pair_flow_start(struct pair_link *l)
{
	const struct pair_plan *plan = &l->p->plan;
	uint64_t until = rsk_monotonic_ns() + plan->seconds * 1000000000ull;

	atomic_store(&l->running, plan->threads);
	for (uint32_t i = 0; i < plan->threads; i++) {
		struct worker *w = calloc(1, sizeof(*w));

		if (!w)
			PAIR_FAIL("no memory");
		*w = (struct worker){ .l = l, .number = i, .until_ns = until };
		if (pthread_create(&l->thread[i], NULL, work, w))
			PAIR_FAIL("no thread");
	}
}

void pair_flow_join(struct pair_link *l)
{
	for (uint32_t i = 0; i < l->p->plan.threads; i++)
		pthread_join(l->thread[i], NULL);
}

static void ring(struct pair_link *l, uint64_t doorbells)
{
	static const uint64_t one = 1;

	for (uint32_t b = 0; b < RSK_SEG_DOORBELLS; b++)
		if ((doorbells >> b & 1) && write(l->doorbell[b], &one, sizeof(one)) < 0)
			PAIR_FAIL("doorbell: %s", strerror(errno));
}

void pair_flow_wake(struct pair_link *l)
{
	ring(l, UINT64_MAX);
}

void pair_flow_news(struct pair_link *l, uint32_t sid, uint32_t what)
{
	ring(l, rsk_seg_due(rsk_seg_own_head(&l->seg), sid, what));
}
