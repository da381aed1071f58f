// SPDX-License-Identifier: BSD-2-Clause
/*
 * relay.c - the relay process: how it is started, and its loop. See relay.h.
 *
 * It is a helper (helper.h): it makes raw system calls only, and uses no memory of the library's
 * but struct rsk_relay.
 */
#include "relay.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <rsock/sys.h>

#include "helper.h"
#include "owner.h"
#include "tuple.h"

#define CLOSED_LOOKS 10
#define DRAIN_FIRST_NS 100000
#define DRAIN_NS 10000000

struct rsk_relay *rsk_relay_new(size_t data_bytes)
{
	size_t bytes = sizeof(struct rsk_relay) + data_bytes;
	struct rsk_relay *r = rsk_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (rsk_sys_is_err(r))
		return NULL;
	r->map_bytes = bytes;
	return r;
}

void rsk_relay_free(struct rsk_relay *r)
{
	if (r)
		rsk_sys_munmap(r, r->map_bytes);
}

/* ---- the loop ---- */

/*
 * One direction. The bytes come from @from in three parts, as struct rsk_relay says, with @text
 * between.
 */
struct way {
	int from, to;
	uint64_t before, skip;
	const uint8_t *text;
	size_t text_bytes;
	uint8_t *block;
	size_t at, end; /* the part of block that is in use */
	bool over;	/* nothing more comes from @from */
	bool failed;	/* ... because it was reset */
	bool ended;	/* all is at @to, which has been told the end */
	bool gone;	/* @to takes no more */
	bool shut;	/* @from was shut for reading: a read of 0 bytes is no end of stream */
	short wants_from, wants_to;
};

static ssize_t put(int fd, const uint8_t *p, size_t n)
{
	ssize_t done;

	do {
		done = rsk_sys_sendto(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
	} while (done == -EINTR);
	return done;
}

/*
 * Finds out whether the peer repeats some of the ring bytes: known when the first byte after them
 * is there.
 */
static void settle(struct rsk_relay *r, struct way *w)
{
	struct rsk_control_word m;

	if (!r->word || w->text_bytes || w->before)
		return;
	if (rsk_control_word_get(r->word, &r->key, RSK_CONTROL_WORD_TX, &m) &&
	    m.what == RSK_TX_RETRANSMIT && m.gen == r->gen && m.pos <= r->ring_end)
		w->skip += r->ring_end - m.pos;
	r->word = NULL;
}

/* Sends what is in the block, or the text, to @to. True: all of it is there. */
static bool push(struct way *w)
{
	while (w->at < w->end || (!w->before && w->text_bytes)) {
		bool block = w->at < w->end;
		ssize_t n = put(w->to, block ? w->block + w->at : w->text,
				block ? w->end - w->at : w->text_bytes);

		if (n == -EAGAIN) {
			w->wants_to = POLLOUT;
			return false;
		}
		if (n <= 0) {
			w->gone = true;
			return false;
		}
		if (block) {
			w->at += (size_t)n;
		} else {
			w->text += n;
			w->text_bytes -= (size_t)n;
		}
	}
	return true;
}

/*
 * True if the peer has ended its direction, or the connection: the socket's own shutdown for
 * reading looks the same in recv().
 */
static bool peer_ended(int tcp)
{
	uint64_t pos;

	return rsk_kernel_received(tcp, &pos) != 0;
}

/* The peer ended before it had repeated all that it was to. */
static bool is_early(const struct rsk_relay *r, int tcp)
{
	uint64_t pos;

	return r->owed && rsk_kernel_received(tcp, &pos) > 0 && pos < r->owed;
}

/* Reads one block of @from. False: there is none now. */
static bool pull(struct rsk_relay *r, struct way *w, bool down)
{
	size_t most = RSK_RELAY_BLOCK;
	uint8_t byte;
	ssize_t n;

	if (down && r->word) {
		if (rsk_sys_recvfrom(w->from, &byte, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL) > 0)
			settle(r, w);
	}
	if (w->before && w->before < most)
		most = w->before;
	if (!w->before && w->skip && w->skip < most)
		most = w->skip;
	do {
		n = rsk_sys_recvfrom(w->from, w->block, most, MSG_DONTWAIT, NULL, NULL);
	} while (n == -EINTR);
	if (n == -EAGAIN || (n == 0 && w->shut && !peer_ended(w->from))) {
		w->wants_from = POLLIN;
		return false;
	}
	if (n <= 0) {
		w->over = true;
		w->failed = n < 0 || (down && (r->reset || is_early(r, w->from)));
		w->before = w->skip = 0;
		return true;
	}
	w->at = 0;
	w->end = (size_t)n;
	if (w->before) {
		w->before -= (uint64_t)n;
	} else if (w->skip) {
		w->skip -= (uint64_t)n;
		w->end = 0;
	}
	return true;
}

/* As far as it goes without waiting. */
static void move(struct rsk_relay *r, struct way *w, bool down)
{
	w->wants_from = w->wants_to = 0;
	while (!w->ended && !w->gone && push(w)) {
		if (w->over) {
			w->ended = true;
			return;
		}
		if (!pull(r, w, down))
			return;
	}
}

static void reset(int fd)
{
	const struct linger l = { .l_onoff = 1 };

	rsk_sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	rsk_sys_close(fd);
}

static void rest(long ns)
{
	struct timespec t = { .tv_nsec = ns };

	rsk_sys_ppoll(NULL, 0, &t, NULL);
}

/*
 * The program's end has sent FIN: it has closed the socket, or shut one direction. The kernel says
 * whether any process holds that socket; close() sends the FIN a moment before it lets go, so the
 * kernel is asked several times.
 */
static bool closed(int end)
{
	struct rsk_tuple mine, its;
	struct rsk_owner owner;

	if (rsk_tuple_from_fd(end, &mine) < 0) {
		struct pollfd p = { .fd = end };
		struct timespec now = { 0 };

		return rsk_sys_ppoll(&p, 1, &now, NULL) > 0 && (p.revents & POLLHUP);
	}
	its = rsk_tuple_mirror(&mine);
	for (int i = 0; i < CLOSED_LOOKS; i++) {
		int rc = rsk_owner_lookup(&its, &owner);

		if (rc == -ENOENT || (rc == 0 && !owner.inode))
			return true;
		if (rc < 0)
			return false;
		rest(1000000);
	}
	return false;
}

/* Returns when all that was sent by @fd is at its other end. */
static void drained(int fd)
{
	struct pollfd p = { .fd = fd };
	struct timespec t = { .tv_nsec = DRAIN_FIRST_NS };
	int left = 0;

	for (;;) {
		if (rsk_sys_ioctl(fd, SIOCOUTQ, &left) < 0 || left == 0)
			return;
		if (rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0 &&
		    (p.revents & (POLLERR | POLLHUP)))
			return;
		rsk_sys_ppoll(NULL, 0, &t, NULL);
		t.tv_nsec = t.tv_nsec < DRAIN_NS / 2 ? 2 * t.tv_nsec : DRAIN_NS;
	}
}

/*
 * No event was waited for there: bytes and ends are found by moving data. HUP alone is an end both
 * ways, with bytes unread or not; a reset has left an error, also on an AF_UNIX socket.
 */
static bool is_reset(const struct pollfd *p)
{
	return p->fd >= 0 && !p->events && (p->revents & POLLERR);
}

/* Acts on the end of a direction. True: the relay has nothing more to do. */
static bool conclude(struct way *down, struct way *up, bool *down_told, bool *up_told)
{
	if (down->gone || (up->over && up->failed)) { /* the program is gone, with bytes unread */
		reset(up->to);
		return true;
	}
	if (up->gone) { /* the peer is gone; the program still gets what it had sent before */
		up->ended = true;
		*up_told = true;
	}
	if (up->ended && !*up_told) {
		*up_told = true;
		if (closed(up->from)) {
			struct pollfd p = { .fd = up->from };

			/*
			 * With bytes unread: our own direction is still open, so this is not an
			 * orderly end.
			 */
			if (!*down_told &&
			    rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0 && is_reset(&p))
				reset(up->to);
			return true;
		}
		rsk_sys_shutdown(up->to, SHUT_WR);
	}
	/* A reset after the peer's end was caused by what the program has sent since. */
	if (down->ended && (!*down_told || up->gone)) {
		*down_told = true;
		if (down->failed || up->gone) {
			drained(down->to);
			reset(down->to);
			return true;
		}
		rsk_sys_shutdown(down->to, SHUT_WR);
	}
	return down->ended && up->ended;
}

/*
 * A socket that was shut for reading always reports that it is readable, and one that was shut both
 * ways that it has hung up. That something has come is an edge, which an epoll set reports. -1:
 * there is none.
 */
static int edges_of(int tcp)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET };
	int set = rsk_sys_epoll_create1(EPOLL_CLOEXEC);

	if (set >= 0 && rsk_sys_epoll_ctl(set, EPOLL_CTL_ADD, tcp, &ev) < 0) {
		rsk_sys_close(set);
		set = -1;
	}
	return set;
}

void rsk_relay_run(struct rsk_relay *r, int tcp, int end)
{
	int edges = r->rd_shut ? edges_of(tcp) : -1;
	struct way down = { .from = tcp,
			    .to = end,
			    .before = r->before,
			    .skip = r->skip,
			    .text = r->data,
			    .text_bytes = r->down_bytes,
			    .block = r->block[0],
			    .shut = edges >= 0,
			    .over = r->reset && !r->before,
			    .failed = r->reset };
	struct way up = { .from = end,
			  .to = tcp,
			  .text = r->data + r->down_bytes,
			  .text_bytes = r->up_bytes,
			  .block = r->block[1] };
	const struct linger none = { 0 };
	bool down_told = false, up_told = false, hung_up[2] = { false };
	int one = 1;

	/*
	 * The program's end has the linger option: the program closes that end, but not this
	 * socket.
	 */
	rsk_sys_setsockopt(tcp, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	rsk_sys_setsockopt(tcp, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
	rsk_sys_setsockopt(tcp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (;;) {
		struct pollfd p[3] = { [2] = { .fd = edges, .events = POLLIN } };
		struct epoll_event ev;

		move(r, &down, true);
		move(r, &up, false);
		if (conclude(&down, &up, &down_told, &up_told))
			return;
		p[0] = (struct pollfd){ .fd = tcp, .events = down.wants_from | up.wants_to };
		p[1] = (struct pollfd){ .fd = end, .events = up.wants_from | down.wants_to };
		if (down.shut && !down.over) {
			p[0].events = up.wants_to;
			p[0].fd = p[0].events ? tcp : -1;
		}
		for (int i = 0; i < 2; i++)
			if (!p[i].events && hung_up[i])
				p[i].fd = -1;
		rsk_sys_ppoll(p, 3, NULL, NULL);
		if (p[2].revents)
			rsk_sys_epoll_pwait(edges, &ev, 1, 0, NULL);
		/*
		 * These events stay: a socket on which nothing else is waited for must not wake the
		 * loop again.
		 */
		for (int i = 0; i < 2; i++)
			hung_up[i] |= (p[i].revents & (POLLERR | POLLHUP)) != 0;
		up.gone = up.gone || is_reset(&p[0]);
		down.gone = down.gone || is_reset(&p[1]);
	}
}

/* ---- the process ---- */

struct ends {
	struct rsk_relay *r;
	int tcp, end;
};

static void be_relay(void *arg)
{
	const struct ends *e = arg;

	RSK_SYS1(SYS_chdir, "/");
	rsk_relay_run(e->r, e->tcp, e->end);
}

static void be_owed(void *arg)
{
	const struct ends *e = arg;
	struct pollfd p = { .fd = e->tcp, .events = POLLOUT };
	const uint8_t *at = e->r->data + e->r->down_bytes;
	ssize_t n;

	RSK_SYS1(SYS_chdir, "/");
	if (e->end != e->tcp) {
		struct pollfd until = { .fd = e->end, .events = POLLIN };

		while (rsk_sys_ppoll(&until, 1, NULL, NULL) < 0)
			;
		if (until.revents & POLLIN)
			return;
	}
	for (size_t left = e->r->up_bytes; left; left -= (size_t)n, at += n) {
		n = put(e->tcp, at, left);
		if (n == -EAGAIN) {
			rsk_sys_ppoll(&p, 1, NULL, NULL);
			n = 0;
		}
		if (n < 0)
			return;
	}
	if (e->r->fin)
		rsk_sys_shutdown(e->tcp, SHUT_WR);
}

int rsk_relay_start_owed(struct rsk_relay *r, int tcp, int until)
{
	struct ends e = { r, tcp, until < 0 ? tcp : until };

	return rsk_helper_start(be_owed, &e, "rsock-owed", e.tcp, e.end);
}

int rsk_relay_start(struct rsk_relay *r, int tcp, int end)
{
	struct ends e = { r, tcp, end };

	return rsk_helper_start(be_relay, &e, "rsock-relay", tcp, end);
}
