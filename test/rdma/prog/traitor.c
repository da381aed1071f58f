// SPDX-License-Identifier: BSD-2-Clause
/*
 * traitor.c - a hostile module that takes the place of librsock-verbs.so (rdma_hostile.py). It
 * passes everything on to the real module, so that its process is admitted as any other and gets a
 * link with a rail. Then it does, by that rail and by the control connection, what its orders say.
 *
 *	TRAITOR_MODULE	the real module
 *	TRAITOR_ORDERS	a file; the progress thread executes the order in it in its next turn,
 *			and removes the file
 *	TRAITOR_SAYS	a file to which it appends what it learns (addresses in the peer's
 *			memory, and their keys) and what it did
 *	TRAITOR_FROM	an IPv4 address from which its rails come, whatever it is told
 *
 * Orders, one a line; numbers are hexadecimal:
 *	write|notice|read|add ADDRESS BYTES RKEY
 *				one work request; notice: a write with immediate
 *	imm VALUE		an immediate alone
 *	send BYTES		a message
 *	scribble ADDRESS BYTES RKEY
 *				random bytes, piece by piece
 *	shift ADDRESS BYTES RKEY
 *				slots that it has put there, again at other places
 *	words SEED COUNT	messages of the kinds that a rail carries, by the rail
 *	control SEED COUNT KIND	messages by the control connection that pass the first check:
 *				of that kind, or (0) of all kinds that a link has when it is
 *				up; ff: any messages, also ones that do not pass
 *	bytes SEED COUNT	so many bytes by the control connection that are no message
 *	tcp FD COUNT		so many bytes by the stream's own TCP connection, though the
 *				stream is on the ring
 *	flood COUNT		immediates, as fast as possible, until it is told to flood 0;
 *				it says when COUNT have been sent
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/splitmix.h>
#include <rsock/sys.h>

#include "inner.h"
#include "remote_msg.h"

#define FDS 65536
#define PIECE 4096u
#define TRIES 10000

static const struct rsk_verbs_module *real;
extern struct rsk_verbs_module rsk_verbs_module; /* what this module exports */
static struct rsk_verbs *verbs;
static struct rsk_verbs_rail *rail; /* the newest */
static uint16_t port;		    /* of the peer's progress thread, TCP and rdma_cm */
static uint64_t flood_left, dice;
static bool floods;

__attribute__((format(printf, 1, 2))) static void says(const char *form, ...)
{
	const char *path = getenv("TRAITOR_SAYS");
	char line[256];
	va_list args;
	int fd, n;

	va_start(args, form);
	n = vsnprintf(line, sizeof(line), form, args);
	va_end(args);
	fd = path ? rsk_sys_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
				   0600) :
		    -1;
	if (fd < 0)
		return;
	rsk_sys_write(fd, line, (size_t)n);
	rsk_sys_close(fd);
}

static uint64_t roll(void)
{
	return rsk_splitmix_next(&dice);
}

static void noise(void *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)at)[i] = (uint8_t)roll();
}

/* ---- what it learns ---- */
static struct rsk_verbs_rail *rail_new(struct rsk_verbs *v, struct rsk_seg *seg,
				       struct rsk_rail *puts, void *ctx)
{
	return rail = real->rail_new(v, seg, puts, ctx);
}

static void rail_free(struct rsk_verbs_rail *r)
{
	if (rail == r)
		rail = NULL;
	real->rail_free(r);
}

static int rail_connect(struct rsk_verbs_rail *r, const struct rsk_verbs_addr *from,
			const struct rsk_verbs_addr *to, const void *data, size_t bytes)
{
	struct rsk_verbs_addr other = { .family = AF_INET };
	const char *set = getenv("TRAITOR_FROM");

	port = to->port;
	if (set && inet_pton(AF_INET, set, other.ip) == 1)
		from = &other;
	return real->rail_connect(r, from, to, data, bytes);
}

static int rail_set_peer(struct rsk_verbs_rail *r, const struct rsk_verbs_end *peer)
{
	int rc = real->rail_set_peer(r, peer);

	says("indirect %llx %x %x\n", (unsigned long long)peer->indirect, RSK_INDIRECT_BYTES,
	     peer->indirect_rkey);
	return rc;
}

static int set_ctl(struct rsk_verbs_rail *r, uint32_t group, uint32_t rkey)
{
	int rc = real->set_ctl(r, group, rkey);

	says("ctl %" PRIx64 " %zx %x\n", r->peer.segment + rsk_seg_ctl_off(0),
	     sizeof(struct rsk_seg_ctl), rkey);
	return rc;
}

static int set_ring(struct rsk_verbs_rail *r, uint32_t sid, enum rsk_verbs_way way, uint32_t rkey,
		    uint32_t bytes)
{
	int rc = real->set_ring(r, sid, way, rkey, bytes);

	if (way == RSK_VERBS_DIRECT)
		says("ring %" PRIx64 " %x %x\n",
		     r->peer.segment + rsk_seg_ring_off(&r->seg->peer, sid), bytes, rkey);
	return rc;
}

/* ---- what it does ---- */
/* Its own work requests ask for no completion, so the library's count stays right. */
static bool post(enum ibv_wr_opcode opcode, const void *from, uint32_t lkey, uint64_t to,
		 uint64_t bytes, uint32_t rkey, uint32_t imm)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from, .length = (uint32_t)bytes, .lkey = lkey };
	struct ibv_send_wr wr = { .opcode = opcode,
				  .sg_list = &sge,
				  .num_sge = bytes != 0,
				  .imm_data = htonl(imm) },
			   *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = to;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(rail->qp, &wr, &bad) == 0;
}

/* Takes its data from the indirect send buffer, which is unused here. */
static bool simple(enum ibv_wr_opcode opcode, uint64_t to, uint64_t bytes, uint32_t rkey)
{
	return post(opcode, rail->buf->out, rail->out_mr->lkey, to, bytes, rkey, 1u << 28);
}

static void scribble(uint64_t to, uint64_t bytes, uint32_t rkey)
{
	for (uint64_t at = 0; at < bytes; at += PIECE) {
		uint64_t n = bytes - at < PIECE ? bytes - at : PIECE;

		simple(IBV_WR_RDMA_WRITE_WITH_IMM, to + at, n, rkey);
	}
}

/* Writes whole slots, as they were put, one cell further. */
static void shift(uint64_t to, uint64_t bytes, uint32_t rkey)
{
	const struct rsk_vstream *s;
	const struct ibv_mr *from;

	for (uint32_t sid = 0; sid < rsk_seg_streams(rail->seg); sid++) {
		s = rsk_rail_stream(rail, sid);
		if (!s || !s->window.mr[0] || s->rkey != rkey)
			continue;
		from = s->window.mr[0];
		bytes = bytes < from->length ? bytes : from->length;
		post(IBV_WR_RDMA_WRITE_WITH_IMM, from->addr, from->lkey, to + RSK_CELL_BYTES,
		     bytes - RSK_CELL_BYTES, rkey, sid | 1u << 28);
		return;
	}
	says("nothing to shift\n");
}

/* Random values, but most fields are in bounds, so that the message passes the first checks. */
static struct rsk_remote_msg message(uint32_t type)
{
	struct rsk_remote_msg m;

	noise(&m, sizeof(m));
	m.magic = RSK_REMOTE_MAGIC;
	m.type = type;
	m.epoch %= 4;
	m.rail %= 6;
	m.generation %= 4;
	m.sid %= roll() % 4 ? 8 : UINT32_MAX;
	m.reason %= roll() % 4 ? 8 : 256;
	m.way %= roll() % 4 ? 3 : 16;
	m.gaps %= 20;
	m.pos >>= roll() % 64;
	m.cell >>= roll() % 64;
	m.missing %= 4096;
	if (roll() % 4) {
		m.link_bytes = sizeof(m.link);
		m.link.type %= 16;
		m.link.sid %= 8;
	}
	for (uint32_t i = 0; type == RSK_REMOTE_MISSING && i < RSK_REMOTE_MISSING_MOST; i++) {
		m.gap[i].from = i * 64 + roll() % 32;
		m.gap[i].to = m.gap[i].from + roll() % 32;
	}
	if (type == RSK_REMOTE_HELLO || type == RSK_REMOTE_WELCOME) {
		m.geometry = rail->seg->own;
		m.order = (struct rsk_remote_order){ 0 };
		m.tuple.family = AF_INET;
	}
	if (type == RSK_REMOTE_CANDIDATE) {
		m.candidate.addr.family = roll() % 4 ? AF_INET : AF_INET6;
		m.candidate.soft %= 2;
		m.candidate.prefix_bits %= 33;
		m.gaps %= 4;
	}
	return m;
}

static void words(uint64_t count)
{
	int rc = 0;

	for (uint64_t i = 0; i < count && rc == 0; i++) {
		struct rsk_remote_msg m = message((uint32_t)(roll() % (RSK_REMOTE_TYPES + 2)));

		rc = real->rail_say(rail, &m, 1 + roll() % sizeof(m));
		if (rc == 0)
			rc = real->rail_say(rail, &m, sizeof(m));
	}
	says("words %d\n", rc);
}

/*
 * Finds the control connection's descriptor by asking the kernel: the library hides its own
 * descriptors from the program.
 */
static int control_fd(void)
{
	for (int fd = FDS; fd >= 0; fd--) {
		struct sockaddr_in6 sa;
		socklen_t n = sizeof(sa);

		if (rsk_sys_getpeername(fd, (struct sockaddr *)&sa, &n) == 0 &&
		    (sa.sin6_family == AF_INET || sa.sin6_family == AF_INET6) &&
		    ntohs(sa.sin6_port) == port)
			return fd;
	}
	return -1;
}

static void control(uint64_t count, uint32_t kind)
{
	int fd = control_fd();
	ssize_t n = -EBADF;

	for (uint64_t i = 0; fd >= 0 && i < count; i++) {
		struct rsk_remote_msg m;
		uint32_t type = kind ? kind :
				       RSK_REMOTE_RAIL + (uint32_t)(roll() % (RSK_REMOTE_TYPES -
									      RSK_REMOTE_RAIL));

		for (int tries = 0; tries < TRIES; tries++) {
			m = message(kind == 0xff ? (uint32_t)(i % (RSK_REMOTE_TYPES + 1)) : type);
			if (kind == 0xff || rsk_remote_msg_check(&m) == 0)
				break;
		}
		n = rsk_sys_sendto(fd, &m, sizeof(m), MSG_NOSIGNAL, NULL, 0);
	}
	says("control %zd\n", n);
}

static void bytes_of(uint64_t count)
{
	int fd = control_fd();
	ssize_t n = -EBADF;

	for (; fd >= 0 && count; count--) {
		uint8_t byte = (uint8_t)roll();

		n = rsk_sys_sendto(fd, &byte, 1, MSG_NOSIGNAL, NULL, 0);
	}
	says("bytes %zd\n", n);
}

/* Posts as many as the send queue has room for; the rest follows in later turns. */
static void flood(void)
{
	while (simple(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0))
		if (flood_left && !--flood_left)
			says("flooded\n");
	verbs->host.call(verbs->host.ctx);
}

static void order(const char *line)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
	} simple_ones[] = { { "write", IBV_WR_RDMA_WRITE },
			    { "notice", IBV_WR_RDMA_WRITE_WITH_IMM },
			    { "read", IBV_WR_RDMA_READ },
			    { "add", IBV_WR_ATOMIC_FETCH_AND_ADD } };
	unsigned long long a = 0, b = 0, c = 0;
	char name[16];

	if (sscanf(line, "%15s %llx %llx %llx", name, &a, &b, &c) < 1)
		return;
	dice = a;
	if (!rail || !rail->live) {
		says("no rail\n");
		return;
	}
	pthread_mutex_lock(&rail->lock);
	noise(rail->buf->out, PIECE);
	for (size_t i = 0; i < sizeof(simple_ones) / sizeof(*simple_ones); i++)
		if (!strcmp(name, simple_ones[i].name))
			simple(simple_ones[i].opcode, a, b, (uint32_t)c);
	if (!strcmp(name, "imm"))
		post(IBV_WR_RDMA_WRITE_WITH_IMM, NULL, 0, 0, 0, 0, (uint32_t)a);
	if (!strcmp(name, "send"))
		simple(IBV_WR_SEND, 0, a, 0);
	if (!strcmp(name, "scribble"))
		scribble(a, b, (uint32_t)c);
	if (!strcmp(name, "shift"))
		shift(a, b, (uint32_t)c);
	pthread_mutex_unlock(&rail->lock);
	if (!strcmp(name, "words"))
		words(b);
	if (!strcmp(name, "control"))
		control(b, (uint32_t)c);
	if (!strcmp(name, "bytes"))
		bytes_of(b);
	if (!strcmp(name, "tcp"))
		rsk_sys_sendto((int)a, line, b < sizeof(name) ? b : sizeof(name), MSG_NOSIGNAL,
			       NULL, 0);
	if (!strcmp(name, "flood")) {
		flood_left = a;
		floods = a != 0;
	}
	says("did %s\n", name);
}

static void obey(void)
{
	const char *path = getenv("TRAITOR_ORDERS");
	int fd = path ? rsk_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0) : -1;
	char line[256];
	ssize_t n;

	if (fd < 0)
		return;
	n = rsk_sys_read(fd, line, sizeof(line) - 1);
	rsk_sys_close(fd);
	if (n <= 0)
		return; /* the order is still being written */
	unlink(path);
	line[n] = 0;
	order(line);
}

static void work(struct rsk_verbs *v)
{
	verbs = v;
	real->work(v);
	obey();
	if (floods && rail && rail->live) {
		pthread_mutex_lock(&rail->lock);
		flood();
		pthread_mutex_unlock(&rail->lock);
	}
}

struct rsk_verbs_module rsk_verbs_module;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("TRAITOR_MODULE");
	void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

	real = lib ? dlsym(lib, "rsk_verbs_module") : NULL;
	if (!real)
		return; /* the module has another version */
	rsk_verbs_module = *real;
	rsk_verbs_module.work = work;
	rsk_verbs_module.rail_new = rail_new;
	rsk_verbs_module.rail_free = rail_free;
	rsk_verbs_module.rail_connect = rail_connect;
	rsk_verbs_module.rail_set_peer = rail_set_peer;
	rsk_verbs_module.set_ctl = set_ctl;
	rsk_verbs_module.set_ring = set_ring;
}
