// SPDX-License-Identifier: BSD-2-Clause
/*
 * transfer.c - mode transfer of verbs_pair (pair.c): transfers of so many bytes, each with a
 * registration of its own, by several methods in turn. This is the experiment of the dynamic
 * transfer (../../../docs/adr/verbs.md).
 *
 * The client requests the ring over TCP, as librsock does over its control connection. The server
 * registers the ring and answers with its key, or says that it could not. All methods request again
 * after the same time without a valid answer. They differ in when data may go; the same
 * registrations fail for all of them:
 *
 *	t	traditional: not before a valid answer
 *	d	dynamic: as stream/ring/ring_registration.h decides; it may be indirectly
 *	a	at once, indirectly; directly from the valid answer on
 *
 * The time of a transfer is from its request until the receiver's credit covers its last byte.
 * Then, not measured, the ring is released and deregistered, so that no answer to it is valid any
 * more.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rsock/splitmix.h>

#include "pair.h"
#include "ring_registration.h"

#define TURN_SLOTS 8 /* between two checks for credit and answers */
#define PATIENCE_NS 120000000000ull

enum what {
	REQUEST = 1,
	VALID,
	INVALID,
	RELEASE,
	RELEASED,
	END
};

struct word {
	uint32_t what, number; /* of the transfer */
	uint64_t value;	       /* VALID: rkey; RELEASED: processor time of the server */
};

/* State of one end for all transfers. */
struct end {
	struct pair_link *l;
	struct pair_stream *s;
	uint32_t number;
	uint32_t asked;	  /* requests of this transfer that the server has seen */
	struct word word; /* the message being received */
	size_t heard;
};

/* One transfer, at the client. */
struct transfer {
	char method;
	enum rsk_verbs_way way;
	struct rsk_ring_reg automaton;
	uint64_t counts[RSK_STATS_REG_COUNT];
	uint64_t begun_ns, first_ns, due_ns;
	uint32_t requests, invalid;
};

static void tell(const struct end *e, enum what what, uint64_t value)
{
	struct word w = { .what = what, .number = e->number, .value = value };

	pair_tell(e->l->p, &w, sizeof(w));
}

/* Takes the next message of the other end, if there is one. */
static bool hear(struct end *e, struct word *w)
{
	ssize_t n = recv(e->l->p->tcp, (char *)&e->word + e->heard, sizeof(e->word) - e->heard,
			 MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		PAIR_FAIL("hear: %s", n ? strerror(errno) : "the other is gone");
	e->heard += n > 0 ? (size_t)n : 0;
	if (e->heard < sizeof(e->word))
		return false;
	*w = e->word;
	e->heard = 0;
	return true;
}

/*
 * Sleeps until something comes, or until @until_ns. One thread takes all completions, so no
 * doorbell is needed.
 */
static void rest(const struct end *e, uint64_t until_ns)
{
	struct pair *p = e->l->p;
	struct pollfd fds[] = { { .fd = p->m->work_fd(p->v), .events = POLLIN },
				{ .fd = p->call_fd, .events = POLLIN },
				{ .fd = p->m->news_fd(p->v), .events = POLLIN },
				{ .fd = p->tcp, .events = POLLIN } };
	uint64_t now = rsk_monotonic_ns(), ns = until_ns > now ? until_ns - now : 0;
	struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	if (ppoll(fds, 4, &t, NULL) < 0 && errno != EINTR)
		PAIR_FAIL("poll: %s", strerror(errno));
	if (fds[0].revents || fds[1].revents)
		pair_keep(p, 0);
	p->m->poll(p->v, true);
	if (atomic_load(&e->l->seg.rail.broken))
		PAIR_FAIL("transfer %u: the rail broke: %d", e->number,
			  atomic_load(&e->l->seg.rail.broken));
}

/*
 * Sets up rings and keys of transfer e->number, at both ends. Each transfer has another first lap,
 * so that no old slot is taken for one of it.
 */
static void begin(struct end *e)
{
	struct pair_link *l = e->l;
	uint64_t seed = (e->number + 1ull) * RSK_SPLITMIX_STEP;

	e->s->out = e->s->in = 0;
	e->asked = 0;
	rsk_key_init(&e->s->key_out, seed);
	rsk_key_init(&e->s->key_in, seed);
	rsk_ring_tx_init(&e->s->tx, &l->seg.rail, rsk_seg_ring_off(&l->seg.peer, 0), PAIR_CELLS,
			 rsk_ring_first_lap(seed));
	rsk_ring_rx_init(&e->s->rx, l->seg.rail.segment + rsk_seg_ring_off(&l->seg.own, 0),
			 PAIR_CELLS, rsk_ring_first_lap(seed), false);
	e->s->credit_said = e->s->rx.next;
	e->s->answer_word_seen = rsk_seg_own_ctl(&l->seg, 0)->rx_word.hash;
}

/* ---- the client sends ---- */
static void set_way(const struct end *e, struct transfer *t, enum rsk_verbs_way way, uint32_t rkey)
{
	int is = e->l->p->m->set_ring(e->l->rail, 0, way, rkey, e->l->seg.peer.ring_bytes);

	if (is != (int)way)
		PAIR_FAIL("set_ring: %d, not %d", is, way);
	t->way = way;
}

static void request(const struct end *e, struct transfer *t)
{
	tell(e, REQUEST, 0);
	t->requests++;
	t->due_ns = rsk_monotonic_ns() + e->l->p->plan.timer_ms * 1000000ull;
}

/* The methods differ only here, and in how they begin. */
static void obey(const struct end *e, struct transfer *t, enum rsk_ring_reg_action action,
		 uint32_t rkey)
{
	if (action == RSK_RING_REG_DO_DIRECT)
		set_way(e, t, RSK_VERBS_DIRECT, rkey);
	else if (action == RSK_RING_REG_DO_INDIRECT && t->method != 't')
		set_way(e, t, RSK_VERBS_INDIRECT, 0);
}

static void take_answers(struct end *e, struct transfer *t)
{
	struct word w;

	while (hear(e, &w)) {
		if (w.number != e->number || (w.what != VALID && w.what != INVALID))
			PAIR_FAIL("transfer %u: word %u of %u", e->number, w.what, w.number);
		if (w.what == INVALID) {
			t->invalid++;
			t->due_ns = rsk_monotonic_ns() + e->l->p->plan.timer_ms * 1000000ull;
		}
		obey(e, t, rsk_ring_reg_answer(&t->automaton, w.what == VALID, t->counts),
		     (uint32_t)w.value);
	}
}

/* The automaton's clock is passed in here: it advances when the time for an answer is over. */
static void tick(const struct end *e, struct transfer *t)
{
	if (t->way == RSK_VERBS_DIRECT || rsk_monotonic_ns() < t->due_ns)
		return;
	obey(e, t, rsk_ring_reg_tick(&t->automaton, t->automaton.due_ns, t->counts), 0);
	request(e, t);
}

static bool send_some(const struct end *e, struct transfer *t)
{
	static uint8_t data[RSK_SLOT_MAX_PAYLOAD];
	const struct pair_plan *plan = &e->l->p->plan;
	struct rsk_rail *rail = &e->l->seg.rail;
	struct pair_stream *s = e->s;
	bool any = false;

	for (int i = 0; i < TURN_SLOTS && t->way != RSK_VERBS_CLOSED && s->out < plan->bytes; i++) {
		uint64_t left = plan->bytes - s->out;
		struct iovec iov = { data, left < plan->largest ? left : plan->largest };
		struct rsk_iovcur cur;
		ssize_t n;

		rsk_iovcur_init(&cur, &iov, 1);
		n = rsk_ring_put_data(&s->tx, &s->key_out, &cur, iov.iov_len);
		if (n < 0)
			PAIR_FAIL("put: %s", strerror((int)-n));
		if (n == 0)
			break;
		if (!s->out)
			t->first_ns = rsk_monotonic_ns();
		s->out += (uint64_t)n;
		/* Each slot is posted by itself. */
		rail->ops->due(rail, 0, RSK_WAKE_RX);
		any = true;
	}
	return any;
}

/* True when the receiver's credit covers all that was sent, and all was sent. */
static bool arrived(const struct end *e)
{
	const struct rsk_control_word *at = &rsk_seg_own_ctl(&e->l->seg, 0)->rx_word;
	struct pair_stream *s = e->s;
	struct rsk_control_word m;

	if (rsk_control_word_fresh(at, s->answer_word_seen) &&
	    rsk_control_word_get(at, &s->key_out, RSK_CONTROL_WORD_RX, &m)) {
		s->answer_word_seen = m.hash;
		if (rsk_ring_tx_credit(&s->tx, m.cells) < 0)
			PAIR_FAIL("credit %llu", (unsigned long long)m.cells);
	}
	return s->out == e->l->p->plan.bytes && s->tx.credit == s->tx.next;
}

/* Returns the processor time of the server. */
static uint64_t release(struct end *e, struct transfer *t)
{
	const struct rsk_verbs_module *m = e->l->p->m;
	struct word w = { .what = 0 };

	set_way(e, t, RSK_VERBS_CLOSED, 0);
	if (m->rail_settle(e->l->rail, PATIENCE_NS))
		PAIR_FAIL("transfer %u: settle", e->number);
	tell(e, RELEASE, 0);
	while (!hear(e, &w) || w.what != RELEASED)
		rest(e, rsk_monotonic_ns() + 1000000000ull);
	return w.value;
}

static void transfer(struct end *e, char method)
{
	const uint64_t *indirect_bytes = &e->l->p->counts[RSK_STATS_VERBS_INDIRECT_BYTES];
	uint64_t indirect = __atomic_load_n(indirect_bytes, __ATOMIC_RELAXED),
		 cpu = rsk_time_ns(CLOCK_PROCESS_CPUTIME_ID), took, peer_cpu;
	struct transfer t = { .method = method };

	begin(e);
	t.begun_ns = rsk_monotonic_ns();
	rsk_ring_reg_begin(&t.automaton, 0, t.counts);
	request(e, &t);
	if (method == 'a')
		set_way(e, &t, RSK_VERBS_INDIRECT, 0);
	while (!arrived(e)) {
		take_answers(e, &t);
		tick(e, &t);
		if (!send_some(e, &t))
			rest(e, t.way == RSK_VERBS_DIRECT ? rsk_monotonic_ns() + 1000000000ull :
							    t.due_ns);
		if (rsk_monotonic_ns() - t.begun_ns > PATIENCE_NS)
			PAIR_FAIL("transfer %u: %llu of %llu bytes", e->number,
				  (unsigned long long)e->s->out,
				  (unsigned long long)e->l->p->plan.bytes);
	}
	took = rsk_monotonic_ns() - t.begun_ns;
	peer_cpu = release(e, &t);
	printf("{\"method\": \"%c\", \"ns\": %llu, \"first_ns\": %llu, \"requests\": %u, "
	       "\"invalid\": %u, \"indirect_bytes\": %llu, \"cpu_ns\": %llu, "
	       "\"peer_cpu_ns\": %llu}\n",
	       method, (unsigned long long)took, (unsigned long long)(t.first_ns - t.begun_ns),
	       t.requests, t.invalid,
	       (unsigned long long)(__atomic_load_n(indirect_bytes, __ATOMIC_RELAXED) - indirect),
	       (unsigned long long)(rsk_time_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu),
	       (unsigned long long)peer_cpu);
}

/* ---- the server receives ---- */
static void say_credit(struct end *e)
{
	struct rsk_control_word m = { .what = RSK_RX_WATCHING, .gen = 1, .cells = e->s->rx.next };
	struct rsk_rail *rail = &e->l->seg.rail;

	if (rsk_control_word_put(rail, rsk_seg_ctl_off(0) + offsetof(struct rsk_seg_ctl, rx_word),
				 &e->s->key_in, RSK_CONTROL_WORD_RX, &m) < 0)
		PAIR_FAIL("credit");
	e->s->credit_said = e->s->rx.next;
	rail->ops->due(rail, 0, RSK_WAKE_TX);
}

static bool receive_some(struct end *e)
{
	static uint8_t data[RSK_SLOT_MAX_PAYLOAD];
	struct pair_stream *s = e->s;
	struct rsk_slot_view view;
	bool any = false;

	while (rsk_ring_peek(&s->rx, &view) && rsk_ring_copy(&s->rx, &s->key_in, &view, data)) {
		s->in += view.head.len;
		rsk_ring_consume(&s->rx, &view);
		any = true;
	}
	if (any && (s->in == e->l->p->plan.bytes || s->rx.next - s->credit_said >= PAIR_CELLS / 4))
		say_credit(e);
	return any;
}

/*
 * True if this registration shall fail, as a device or a limit would refuse it. Attempts are
 * independent of each other, but the same for each method of a round.
 */
static bool injected(const struct end *e)
{
	const struct pair_plan *plan = &e->l->p->plan;
	uint64_t attempt = (uint64_t)plan->dice << 48 ^
			   (uint64_t)(e->number / strlen(plan->methods)) << 16 ^ e->asked;

	return rsk_splitmix_mix(attempt) % 100 < plan->fail;
}

/* Returns false at the end of all transfers. */
static bool answer(struct end *e, uint64_t *cpu)
{
	const struct rsk_verbs_module *m = e->l->p->m;
	uint32_t rkey = 0;
	struct word w;

	while (hear(e, &w)) {
		if (w.what == END)
			return false;
		if (w.number != e->number)
			PAIR_FAIL("transfer %u: word %u of %u", e->number, w.what, w.number);
		if (w.what == REQUEST) {
			bool valid = !injected(e) &&
				     m->reg_ring(e->l->rail, 0, e->l->seg.own.ring_bytes, &rkey) ==
					     0;

			e->asked++;
			tell(e, valid ? VALID : INVALID, rkey);
			continue;
		}
		e->l->p->mech->unreg_ring(e->l->rail, 0);
		tell(e, RELEASED, rsk_time_ns(CLOCK_PROCESS_CPUTIME_ID) - *cpu);
		*cpu = rsk_time_ns(CLOCK_PROCESS_CPUTIME_ID);
		e->number++;
		begin(e);
	}
	return true;
}

static void serve(struct end *e)
{
	uint64_t cpu = rsk_time_ns(CLOCK_PROCESS_CPUTIME_ID);

	begin(e);
	while (answer(e, &cpu))
		if (!receive_some(e))
			rest(e, rsk_monotonic_ns() + 1000000000ull);
}

void pair_transfers(struct pair *p, const struct rsk_verbs_addr *from)
{
	struct end e = { .l = &p->link[0], .s = &p->link[0].stream[0] };
	uint32_t methods = (uint32_t)strlen(p->plan.methods);
	uint64_t until;

	if (!p->mech)
		PAIR_FAIL("RSOCK_VERBS is not librsock-verbs-mech.so");
	p->plan.streams = 1;
	p->plan.way = 'i'; /* no ring is registered beforehand */
	pair_bring_up(e.l, from);
	until = rsk_monotonic_ns() + p->plan.seconds * 1000000000ull;
	if (p->server) {
		serve(&e);
	} else {
		/* Each method once in a round; each is the first one in its turn. */
		for (uint32_t n = 0; n < p->plan.rounds && rsk_monotonic_ns() < until; n++)
			for (uint32_t i = 0; i < methods; i++, e.number++)
				transfer(&e, p->plan.methods[(i + n) % methods]);
		tell(&e, END, 0);
	}
	/* No wait for down(): where packets are lost, the end of a rail may not be noticed. */
	pair_rendezvous(p, 'e');
}
