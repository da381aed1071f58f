// SPDX-License-Identifier: BSD-2-Clause
/* remote_kit.c - see remote_kit.h. */
#include "remote_kit.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "hash.h"
#include "pairing.h"
#include "progress.h"
#include "links.h"
#include "shm.h"
#include "pm_transaction.h"
#include "plain_host.h"

struct rsk_verbs {
	int news_fd;
};

struct rsk_verbs_rail {
	struct rsk_rail *puts;
	bool connecting;
	struct rsk_verbs_addr from; /* the local address */
};

struct rsk_verbs_device_addr kit_candidates[RSK_REMOTE_CANDIDATES];
uint32_t kit_candidates_n;
struct kit_fabric kit_fabric;

/* ---- rails that carry nothing and never report an arrival ---- */

static int put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	return 0;
}

static uint64_t due(struct rsk_rail *rail, uint32_t sid, uint32_t what)
{
	return 0;
}

/* No peer process exists to notify: a sleeper wakes by its timeout or by the TCP socket. */
static void sleeper(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t doorbell)
{
}

static bool arrived(struct rsk_rail *rail, uint64_t off)
{
	return kit_fabric.arrived;
}

static void flow(struct rsk_rail *rail, uint64_t off, struct rsk_flow *f)
{
}

static int get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token)
{
	struct kit_fabric *f = &kit_fabric;

	if (!f->gets)
		return -EAGAIN;
	f->begun++;
	f->dst = dst;
	f->len = len;
	f->off = off;
	f->token = token;
	return 0;
}

static int poll_none(struct rsk_rail *rail, struct rsk_completion *done, int max)
{
	if (!kit_fabric.landed || max < 1)
		return 0;
	kit_fabric.landed = false;
	done[0] = (struct rsk_completion){ .token = kit_fabric.token };
	return 1;
}

static const struct rsk_fabric_ops ops = {
	.name = "nowhere",
	.caps = RSK_FABRIC_RELIABLE,
	.put = put,
	.due = due,
	.announce = sleeper,
	.retract = sleeper,
	.arrived = arrived,
	.flow = flow,
	.get = get,
	.poll = poll_none,
};

/* ---- the verbs module ---- */

static void rail_free(struct rsk_verbs_rail *r)
{
	free(r);
}

static struct rsk_verbs_rail *rail_new(struct rsk_verbs *v, struct rsk_seg *seg,
				       struct rsk_rail *rail, void *ctx)
{
	struct rsk_verbs_rail *r = calloc(1, sizeof(*r));

	cr_assert_not_null(r);
	r->puts = rail;
	rail->ops = &ops;
	rail->priv = r;
	rail->window = seg->rail.window;
	rail->window_bytes = seg->rail.window_bytes;
	rail->segment = seg->rail.segment;
	rail->segment_bytes = seg->rail.segment_bytes;
	return r;
}

static int rail_connect(struct rsk_verbs_rail *r, const struct rsk_verbs_addr *from,
			const struct rsk_verbs_addr *to, const void *data, size_t bytes)
{
	r->connecting = true;
	r->from = *from;
	return 0;
}

static void rail_dscp(struct rsk_verbs_rail *r, uint8_t dscp)
{
}

static void rail_break(struct rsk_verbs_rail *r)
{
	r->connecting = false;
}

static int rail_end(struct rsk_verbs_rail *r, struct rsk_verbs_end *out)
{
	*out = (struct rsk_verbs_end){ .segment = 4096, .indirect = 4096 };
	return 0;
}

static int rail_set_peer(struct rsk_verbs_rail *r, const struct rsk_verbs_end *peer)
{
	return 0;
}

static void rail_from(const struct rsk_verbs_rail *r, struct rsk_verbs_addr *from)
{
	*from = r->from;
}

static const char *rail_device(const struct rsk_verbs_rail *r, uint32_t *mtu_bytes)
{
	*mtu_bytes = 1024;
	return "kit0/1";
}

static int rail_say(struct rsk_verbs_rail *r, const void *word, size_t bytes)
{
	return 0;
}

static void rail_probe(struct rsk_verbs_rail *r)
{
}

static int reg_ctl(struct rsk_verbs_rail *r, uint32_t group, uint32_t *rkey)
{
	*rkey = 1;
	return 0;
}

static int reg_ring(struct rsk_verbs_rail *r, uint32_t sid, uint32_t bytes, uint32_t *rkey)
{
	kit_fabric.rings++;
	*rkey = 2;
	return kit_fabric.registers;
}

static int set_ctl(struct rsk_verbs_rail *r, uint32_t group, uint32_t rkey)
{
	return 0;
}

static int set_ring(struct rsk_verbs_rail *r, uint32_t sid, enum rsk_verbs_way way, uint32_t rkey,
		    uint32_t bytes)
{
	return way == RSK_VERBS_DIRECT && kit_fabric.sets < 0 ? kit_fabric.sets : (int)way;
}

static void narrow_ring(struct rsk_verbs_rail *r, uint32_t sid, uint32_t bytes)
{
	kit_fabric.narrowed++;
}

static int narrow_window(struct rsk_verbs_rail *r, uint32_t sid, uint32_t rkey, uint32_t bytes)
{
	return kit_fabric.narrows;
}

static int poll_nothing(struct rsk_verbs *v, bool events)
{
	return 0;
}

static uint32_t addresses(struct rsk_verbs *v, struct rsk_verbs_device_addr *out, uint32_t most)
{
	uint32_t n = kit_candidates_n < most ? kit_candidates_n : most;

	memcpy(out, kit_candidates, n * sizeof(*out));
	return n;
}

static const struct rsk_verbs_module module = {
	.version = RSK_VERBS_VERSION,
	.poll = poll_nothing,
	.addresses = addresses,
	.rail_new = rail_new,
	.rail_free = rail_free,
	.rail_dscp = rail_dscp,
	.rail_connect = rail_connect,
	.rail_break = rail_break,
	.rail_end = rail_end,
	.rail_set_peer = rail_set_peer,
	.rail_from = rail_from,
	.rail_device = rail_device,
	.rail_probe = rail_probe,
	.rail_say = rail_say,
	.reg_ctl = reg_ctl,
	.reg_ring = reg_ring,
	.set_ctl = set_ctl,
	.set_ring = set_ring,
	.narrow_ring = narrow_ring,
	.narrow_window = narrow_window,
};

struct rsk_verbs_device_addr kit_candidate(uint8_t network, uint8_t host, uint16_t device)
{
	return (struct rsk_verbs_device_addr){ .addr = { .ip = { 10, 0, network, host },
							 .family = AF_INET },
					       .prefix_bits = 24,
					       .device = device };
}

/* ---- the process ---- */

void kit_init(void)
{
	static struct rsk_verbs verbs;
	int news[2];

	setenv("RSOCK_DAEMON", "", 1);
	rsk_engine_init(&plain_host);
	cr_assert_eq(rsk_progress_start(), 0);
	while (!rsk_progress_failed())
		sched_yield();
	cr_assert_eq(pipe(news), 0);
	verbs.news_fd = news[0];
	rsk_rdma_module = &module;
	rsk_rdma = &verbs;
}

/* ---- a link ---- */

void kit_link(struct kit *k, bool initiator)
{
	struct rsk_remote *r = k->r = rsk_remote_new(initiator, rsk_remote_message);
	struct rsk_rails_layout at;
	int control[2], fd;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, control), 0);
	k->peer = control[1];
	cr_assert_eq(rsk_control_conn_open(&r->control, rsk_own_fd(control[0]), false), 0);
	r->control.other_version = rsk_link_handshake_other_version;
	r->nonce = r->secret = 1;
	r->target.to = kit_candidate(0, 2, 0).addr;
	r->l = rsk_link_new(initiator);
	cr_assert_eq(rsk_link_hear(r->l, rsk_rdma->news_fd), 0);
	fd = rsk_shm_create(&r->l->seg, 1u << 20);
	cr_assert_geq(fd, 0);
	close(fd);
	cr_assert_eq(rsk_shm_mirror(&r->l->seg, &r->l->seg.own), 0);
	at = rsk_rails_layout_of(&r->l->seg);
	cr_assert_eq(rsk_rails_init(&r->rails, &r->l->seg.rail, &at), 0);
	r->rail[0].to = r->target.to;
	cr_assert_eq(rsk_remote_rail_make(r, 0), 0);
	r->state = RSK_REMOTE_RAILING;
}

bool kit_comes_from(struct kit *k, uint32_t index, uint32_t generation,
		    const struct rsk_verbs_addr *here, const struct rsk_verbs_addr *from)
{
	struct rsk_remote_private p = { .magic = RSK_REMOTE_MAGIC,
					.nonce = k->r->nonce,
					.secret = k->r->secret,
					.rail = index,
					.generation = generation,
					.epoch = k->r->epoch + (k->r->state != RSK_REMOTE_UP) };

	if (!rsk_remote_host.incoming(NULL, from, here, &p, sizeof(p)))
		return false;
	k->r->rail[index].rail->from = *here;
	return true;
}

bool kit_comes(struct kit *k, uint32_t index, uint32_t generation,
	       const struct rsk_verbs_addr *here)
{
	return kit_comes_from(k, index, generation, here, &k->r->target.to);
}

void kit_rail_up(struct kit *k, uint32_t index)
{
	struct rsk_remote_rail *rail = &k->r->rail[index];
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RAIL, .rail = index };

	if (k->r->initiator) {
		rsk_remote_rail_begin(rail);
	} else {
		cr_assert(kit_comes(k, index, rail->generation + 1, &kit_candidates[index].addr));
	}
	rsk_remote_host.up(NULL, rail);
	m.generation = rail->generation;
	m.epoch = rail->epoch;
	rsk_remote_on_rail(k->r, &m);
	cr_assert_eq(rail->state, RSK_REMOTE_RAIL_UP);
	cr_assert_eq(k->r->state, RSK_REMOTE_UP);
}

void kit_link_two(struct kit *k)
{
	kit_init();
	kit_link(k, true);
	kit_rail_up(k, 0);
	kit_rail_up(k, 1);
}

void kit_rail_down(struct kit *k, uint32_t index, int err)
{
	rail_break(k->r->rail[index].rail);
	rsk_remote_host.down(NULL, &k->r->rail[index], err);
}

bool kit_connecting(const struct kit *k, uint32_t index)
{
	return k->r->rail[index].rail && k->r->rail[index].rail->connecting;
}

/* ---- streams ---- */

struct kit_stream kit_connected(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(sa);
	struct kit_stream ks;

	cr_assert_eq(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&sa, &len), 0);
	ks.fd = socket(AF_INET, SOCK_STREAM, 0);
	rsk_fd_new(ks.fd);
	cr_assert_eq(connect(ks.fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	rsk_fd_connected(ks.fd, (struct sockaddr *)&sa, sizeof(sa));
	ks.other = accept(listener, NULL, NULL);
	cr_assert_geq(ks.other, 0);
	close(listener);
	ks.s = rsk_stream_of(ks.fd);
	cr_assert_not_null(ks.s);
	rsk_stream_unpin(ks.s);
	return ks;
}

/* The other end's receiver answers the proposal. */
static void answer(struct rsk_stream *s, int fd)
{
	struct rsk_seg_ctl *ctl = rsk_seg_own_ctl(&s->link->seg, s->sid);
	struct rsk_control_word m = { .what = RSK_RX_WATCHING,
				      .gen = s->tx.gen,
				      .cells = s->tx.ring.next };
	struct rsk_kernel_tcp c;

	m.hash = rsk_hash_control_word(&s->tx.key, &m, RSK_CONTROL_WORD_RX);
	ctl->rx_word = m;
	rsk_kernel_tcp_init(&c, s, fd);
	cr_assert_eq(rsk_tx_serve(&s->tx, &c.c), 0);
}

struct kit_stream kit_stream(struct kit *k, bool on)
{
	const struct rsk_rails_record nobody_counts = { .bytes = NULL };
	struct kit_stream ks = kit_connected();

	cr_assert_eq(rsk_stream_of(ks.fd), ks.s);
	cr_assert_eq(rsk_stream_learn(ks.s, ks.fd), 0);
	rsk_pairing_take();
	rsk_pm_transaction_begin(ks.s, ks.fd, k->r->l, -1);
	rsk_pairing_give();
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_PAIRING);
	atomic_store(&ks.s->phase, RSK_PHASE_PAIRED);
	cr_assert_eq(rsk_rails_reach(&k->r->rails, ks.s->sid, &nobody_counts), 0);
	if (on)
		kit_promote(&ks);
	rsk_stream_unpin(ks.s);
	return ks;
}

void kit_promote(const struct kit_stream *ks)
{
	rsk_lock(&ks->s->tx_lock);
	cr_assert_geq(rsk_tx_propose(&ks->s->tx), 0);
	answer(ks->s, ks->fd);
	cr_assert_eq(ks->s->tx.state, RSK_TX_ONRING);
	rsk_unlock(&ks->s->tx_lock);
}

/* ---- the control connection ---- */

bool kit_hear(struct kit *k, struct rsk_remote_msg *m)
{
	ssize_t n = recv(k->peer, m, sizeof(*m), 0);

	if (n < 0 || !n)
		return false;
	/* A part of a message: the rest is written when there is room. */
	for (size_t got = (size_t)n; got < sizeof(*m); got += (size_t)n) {
		kit_turn(k);
		n = recv(k->peer, (uint8_t *)m + got, sizeof(*m) - got, 0);
		cr_assert_gt(n, 0);
	}
	cr_assert_eq(rsk_remote_msg_check(m), 0, "type %u was said, and is refused", m->type);
	return true;
}

void kit_say(struct kit *k, struct rsk_remote_msg m)
{
	m.magic = RSK_REMOTE_MAGIC;
	cr_assert_eq(send(k->peer, &m, sizeof(m), MSG_NOSIGNAL), (ssize_t)sizeof(m));
	kit_turn(k);
}

void kit_turn(struct kit *k)
{
	struct rsk_watch *w = &k->r->control.watch;
	struct pollfd p = { .fd = w->fd, .events = POLLIN | POLLOUT };

	if (w->fd >= 0 && poll(&p, 1, 0) > 0)
		w->ready(w, (uint32_t)p.revents);
}
