// SPDX-License-Identifier: BSD-2-Clause
/*
 * link.c - the callbacks that librsock-verbs.so needs of a process, and the links of verbs_pair:
 * segments, keys, and bringing a link up on both sides. pair.h declares them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <netinet/in.h>

#include "pair.h"
#include "shm.h"

struct pair_keys pair_ours, pair_theirs;

/* ---- the TCP connection of the two programs ---- */
void pair_tell(struct pair *p, const void *what, size_t n)
{
	if (send(p->tcp, what, n, MSG_NOSIGNAL) != (ssize_t)n)
		PAIR_FAIL("tell: %s", strerror(errno));
}

void pair_hear(struct pair *p, void *what, size_t n)
{
	ssize_t got = recv(p->tcp, what, n, MSG_WAITALL);

	if (got != (ssize_t)n)
		PAIR_FAIL("hear: %zd of %zu bytes: %s", got, n, strerror(errno));
}

/* Barrier: returns when the other end has called it with the same @what. */
void pair_rendezvous(struct pair *p, char what)
{
	char other;

	pair_tell(p, &what, 1);
	pair_hear(p, &other, 1);
	if (other != what)
		PAIR_FAIL("at %c the other is at %c", what, other);
}

/* ---- callbacks for librsock-verbs.so ---- */
static int own_fd(void *ctx, int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 700);

	(void)ctx;
	if (high < 0)
		high = -errno;
	close(fd);
	return high;
}

static void own_close(void *ctx, int fd)
{
	(void)ctx;
	if (fd < 700 || close(fd))
		PAIR_FAIL("own_close(%d): %s", fd, strerror(errno));
}

static void up(void *ctx, void *rail_ctx)
{
	struct pair_link *l = rail_ctx;

	(void)ctx;
	atomic_fetch_add(&l->up, 1);
}

static void down(void *ctx, void *rail_ctx, int err)
{
	struct pair_link *l = rail_ctx;

	(void)ctx;
	if (err >= 0)
		PAIR_FAIL("down(%d)", err);
	atomic_store(&l->err, err);
	atomic_fetch_add(&l->downs, 1);
	pair_flow_wake(l);
}

static void devices(void *ctx)
{
	(void)ctx;
}

static void news(void *ctx, void *rail_ctx, uint32_t sid, uint32_t what)
{
	(void)ctx;
	pair_flow_news(rail_ctx, sid, what);
}

static void call(void *ctx)
{
	static const uint64_t one = 1;
	struct pair *p = ctx;

	if (write(p->call_fd, &one, sizeof(one)) < 0)
		PAIR_FAIL("call: %s", strerror(errno));
}

static struct rsk_verbs_rail *incoming(void *ctx, const struct rsk_verbs_addr *from,
				       const struct rsk_verbs_addr *here, const void *data,
				       size_t bytes)
{
	struct pair *p = ctx;
	const uint8_t *hello = data;
	struct pair_link *l;

	(void)from;
	(void)here;
	if (bytes < 2 || hello[0] != 'v' || hello[1] >= PAIR_LINKS)
		return NULL;
	l = &p->link[hello[1]];
	if (!l->rail)
		l->rail = p->m->rail_new(p->v, &l->seg, &l->seg.rail, l);
	return l->rail;
}

/* One turn of the progress thread, at most @ms long. */
void pair_keep(struct pair *p, int ms)
{
	struct pollfd fds[] = { { .fd = p->m->work_fd(p->v), .events = POLLIN },
				{ .fd = p->call_fd, .events = POLLIN } };
	uint64_t count;

	if (poll(fds, 2, ms) < 0 && errno != EINTR)
		PAIR_FAIL("poll: %s", strerror(errno));
	if (fds[1].revents && read(p->call_fd, &count, sizeof(count)) < 0)
		PAIR_FAIL("call fd: %s", strerror(errno));
	p->m->work(p->v);
}

void pair_keep_until(struct pair *p, _Atomic(int) *what, int value, const char *say)
{
	uint64_t until = rsk_monotonic_ns() + 60000000000ull;

	while (atomic_load(what) < value) {
		pair_keep(p, 20);
		/* The threads that poll may have ended already. */
		p->m->poll(p->v, true);
		if (rsk_monotonic_ns() > until)
			PAIR_FAIL("no %s", say);
	}
}

/* ---- links ---- */
void pair_make_segments(struct pair_link *l)
{
	struct rsk_seg mirror = { .window_streams = RSK_SEG_MIN_STREAMS };
	int fds[2];

	l->seg.window_streams = RSK_SEG_MIN_STREAMS;
	fds[0] = rsk_shm_create(&l->seg, PAIR_RING);
	fds[1] = rsk_shm_create(&mirror, PAIR_RING);
	if (fds[0] < 0 || fds[1] < 0)
		PAIR_FAIL("segments: %d %d", fds[0], fds[1]);
	close(fds[0]);
	close(fds[1]);
	l->seg.peer = mirror.own;
	l->seg.rail.window = mirror.rail.segment;
	l->seg.rail.window_bytes = mirror.rail.segment_bytes;
	if (rsk_seg_reach(&l->seg, PAIR_MAX_STREAMS - 1) < 0)
		PAIR_FAIL("reach");
	for (uint32_t b = 0; b < RSK_SEG_DOORBELLS; b++)
		l->doorbell[b] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

/*
 * Registers our memory and collects the keys for the peer; a ring that cannot be registered is
 * reached indirectly.
 */
static void get_keys(struct pair_link *l, struct pair_keys *k)
{
	const struct pair_plan *plan = &l->p->plan;
	const struct rsk_verbs_module *m = l->p->m;

	memset(k, 0, sizeof(*k));
	if (m->rail_end(l->rail, &k->end))
		PAIR_FAIL("rail_end");
	for (uint32_t g = 0; g * RSK_SEG_REACH < plan->streams; g++)
		if (m->reg_ctl(l->rail, g, &k->ctl[g]))
			PAIR_FAIL("reg_ctl %u", g);
	for (uint32_t i = 0; i < plan->streams; i++) {
		k->way[i] = RSK_VERBS_INDIRECT;
		if (plan->way != 'i' &&
		    m->reg_ring(l->rail, i, l->seg.own.ring_bytes, &k->ring[i]) == 0)
			k->way[i] = plan->way == 's' ? RSK_VERBS_INDIRECT : RSK_VERBS_DIRECT;
	}
}

static void set_keys(struct pair_link *l, const struct pair_keys *k)
{
	const struct pair_plan *plan = &l->p->plan;
	const struct rsk_verbs_module *m = l->p->m;

	if (m->rail_set_peer(l->rail, &k->end))
		PAIR_FAIL("rail_set_peer");
	for (uint32_t g = 0; g * RSK_SEG_REACH < plan->streams; g++)
		if (m->set_ctl(l->rail, g, k->ctl[g]))
			PAIR_FAIL("set_ctl %u", g);
	for (uint32_t i = 0; i < plan->streams; i++) {
		int way = m->set_ring(l->rail, i, (enum rsk_verbs_way)k->way[i], k->ring[i],
				      l->seg.peer.ring_bytes);

		/*
		 * The module may choose the indirect way: the window's ring could not be
		 * registered.
		 */
		if ((way != (int)k->way[i] && way != RSK_VERBS_INDIRECT) ||
		    m->ring_way(l->rail, i) != way)
			PAIR_FAIL("set_ring %u: %d, not %u", i, way, k->way[i]);
	}
}

/* The RDMA address of the host that has this TCP address. */
static void address(const struct sockaddr_storage *at, uint16_t port, struct rsk_verbs_addr *a)
{
	const struct sockaddr_in *four = (const void *)at;
	const struct sockaddr_in6 *six = (const void *)at;

	*a = (struct rsk_verbs_addr){ .family = at->ss_family, .port = port };
	if (at->ss_family == AF_INET) {
		memcpy(a->ip, &four->sin_addr, 4);
	} else {
		memcpy(a->ip, &six->sin6_addr, 16);
		a->scope = six->sin6_scope_id;
	}
}

static void connect_link(struct pair_link *l, const struct rsk_verbs_addr *from)
{
	uint8_t hello[2] = { 'v', (uint8_t)l->number };
	struct pair *p = l->p;
	struct sockaddr_storage at;
	struct rsk_verbs_addr to;
	socklen_t n = sizeof(at);
	int rc;

	memset(&at, 0, sizeof(at));
	if (getpeername(p->tcp, (struct sockaddr *)&at, &n))
		PAIR_FAIL("getpeername: %s", strerror(errno));
	address(&at, p->port, &to);
	if (!l->rail)
		l->rail = p->m->rail_new(p->v, &l->seg, &l->seg.rail, l);
	rc = p->m->rail_connect(l->rail, from, &to, hello, sizeof(hello));
	if (rc < 0)
		PAIR_FAIL("rail_connect: %s", strerror(-rc));
}

/* When it returns, the link is up on both sides, keys are exchanged, and nothing was sent yet. */
void pair_bring_up(struct pair_link *l, const struct rsk_verbs_addr *from)
{
	struct pair *p = l->p;
	uint32_t mtu;
	const char *device;

	l->round++;
	if (!p->server)
		connect_link(l, from);
	pair_keep_until(p, &l->up, (int)l->round, "connection");
	device = p->m->rail_device(l->rail, &mtu);
	fprintf(stderr, "link %u up: %s, mtu %u\n", l->number, device, mtu);
	get_keys(l, &pair_ours);
	pair_tell(p, &pair_ours, sizeof(pair_ours));
	pair_hear(p, &pair_theirs, sizeof(pair_theirs));
	set_keys(l, &pair_theirs);
	pair_flow_init(l);
	pair_rendezvous(p, 'u');
}

void pair_load(struct pair *p)
{
	const struct rsk_verbs_host host = { .ctx = p,
					     .counts = p->counts,
					     .own_fd = own_fd,
					     .own_close = own_close,
					     .incoming = incoming,
					     .up = up,
					     .down = down,
					     .devices = devices,
					     .news = news,
					     .call = call };
	const char *path = getenv("RSOCK_VERBS");
	void *lib = dlopen(path ? path : "librsock-verbs.so", RTLD_NOW | RTLD_LOCAL);
	int rc;

	if (!lib)
		PAIR_FAIL("%s", dlerror());
	p->m = dlsym(lib, "rsk_verbs_module");
	p->mech = dlsym(lib, "rsk_mech_verbs");
	if (!p->m || p->m->version != RSK_VERBS_VERSION)
		PAIR_FAIL("no module");
	p->call_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	rc = p->m->open(&host, &p->v);
	if (rc < 0)
		PAIR_FAIL("open: %s", strerror(-rc));
}
