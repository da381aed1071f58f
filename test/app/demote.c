/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * demote.c - tests an operator that demotes live streams and promotes them again, many times, while
 * bytes go both ways: no byte is lost, duplicated or late, and no call waits for ever.
 */
#include "operator.h"

#define CHUNK 30000
#define STOP 1 /* flags: the operators of sides 0 and 1 have finished */
#define SENT 3 /* flags: bytes sent by each side, plus 1 */
#define PAIRS 4

/* ---- load ---- */

struct half {
	struct app_thread thread;
	int fd;
	unsigned int seed;
	uint64_t bytes;
	size_t most; /* bytes of a message, 0: as many as possible */
	bool ok;
};

/* At full speed, until all operators have finished. */
static void send_half(void *arg)
{
	struct half *h = arg;
	char buf[CHUNK];

	h->ok = true;
	while (h->ok && !over()) {
		size_t len = 1 + (h->bytes * 7919) % (h->most ? h->most : sizeof(buf));

		app_pattern(buf, len, h->bytes, h->seed);
		for (size_t at = 0; h->ok && at < len;) {
			ssize_t n = send(h->fd, buf + at, len - at, 0);

			h->ok = n > 0;
			at += n > 0 ? (size_t)n : 0;
		}
		h->bytes += len;
	}
	h->ok = h->ok && shutdown(h->fd, SHUT_WR) == 0;
}

static void recv_half(void *arg)
{
	struct half *h = arg;
	char buf[CHUNK];
	ssize_t n = 1;

	h->ok = true;
	while (h->ok && n > 0) {
		n = recv(h->fd, buf, 1 + (h->bytes * 104729) % sizeof(buf), 0);
		if (n > 0)
			h->ok = app_pattern_ok(buf, (size_t)n, h->bytes, h->seed);
		h->bytes += n > 0 ? (uint64_t)n : 0;
	}
	h->ok = h->ok && n == 0;
}

/* Compares the number of bytes that each side has sent with what the other side has received. */
static void compare(uint64_t sent, uint64_t got, bool ok)
{
	app_flag_set(SENT + app_side, sent + 1);
	LOG("bytes right: %s, as many as were sent: %s", ok ? "yes" : "NO",
	    app_flag_wait(SENT + !app_side) == got + 1 ? "yes" : "NO");
}

static void both_ways(const int *fds, int count)
{
	struct half out[PAIRS], in[PAIRS];
	uint64_t sent = 0, got = 0;
	bool ok = true;

	for (int i = 0; i < count; i++) {
		out[i] = (struct half){ .fd = fds[i], .seed = (unsigned int)(2 * i + app_side) };
		in[i] = (struct half){ .fd = fds[i], .seed = (unsigned int)(2 * i + !app_side) };
		app_thread_start(&out[i].thread, send_half, &out[i]);
		app_thread_start(&in[i].thread, recv_half, &in[i]);
	}
	for (int i = 0; i < count; i++) {
		app_thread_join(&out[i].thread);
		app_thread_join(&in[i].thread);
		sent += out[i].bytes;
		got += in[i].bytes;
		ok = ok && out[i].ok && in[i].ok;
	}
	compare(sent, got, ok);
}

static void threads_case(int count, bool server, bool client)
{
	bool here = SRV ? server : client;
	pid_t o = operator_new(here, false);
	int fds[PAIRS];

	app_open_more(WARM, fds, count);
	operator_begin(o);
	both_ways(fds, count);
	operator_end(o);
	app_sync();
	for (int i = 0; i < count; i++)
		app_close(fds[i]);
}

CASE(both_ways, DIRECT | LONG_RUN, "threads send and receive flat out, an operator at the server")
{
	threads_case(1, true, false);
}

CASE(both_ways_client, DIRECT | LONG_RUN, "the same at the client")
{
	threads_case(1, false, true);
}

CASE(both_ends, DIRECT | LONG_RUN, "four streams, and an operator at each end")
{
	threads_case(PAIRS, true, true);
}

/*
 * Small messages in one direction: an end that only sends, or only receives, has to apply operator
 * requests there.
 */
static void one_way(bool sender)
{
	pid_t o = operator_new(SRV ? !sender : sender, false);
	int fd = app_open(WARM);
	struct half h = { .fd = fd, .seed = 1, .most = 200 };

	operator_begin(o);
	if (CLI)
		send_half(&h);
	else
		recv_half(&h);
	compare(CLI ? h.bytes : 0, CLI ? 0 : h.bytes, h.ok);
	operator_end(o);
	app_sync();
	app_close(fd);
}

CASE(one_way_sender, DIRECT | LONG_RUN, "small messages one way, an operator at who sends")
{
	one_way(true);
}

CASE(one_way_receiver, DIRECT | LONG_RUN, "the same at who receives")
{
	one_way(false);
}

/*
 * One process holds both ends, and receives what it has sent: its calls have no events to handle
 * but these bytes. The stream must have applied a request after at most HEARD_BY calls; an invalid
 * request has no effect.
 */
#define HEARD_BY 1100 /* an eighth of a ring's cells, and some */

static void there(const int *fd, int n)
{
	char buf[64] = { 0 };

	for (int i = 0; i < n; i++)
		if (send(fd[0], buf, sizeof(buf), 0) != sizeof(buf) ||
		    recv(fd[1], buf, sizeof(buf), 0) != sizeof(buf))
			app_die("there: %s", app_errname(errno));
}

static struct rsk_stats_stream *record_of(int fd)
{
	struct rsk_stats_segment *seg = segment_of(getpid());

	for (uint32_t i = 0; seg && i < seg->header.high_water; i++)
		if (is_open(&seg->stream[i]) && seg->stream[i].fd_plus_1 == (uint32_t)fd + 1)
			return &seg->stream[i];
	return NULL;
}

static bool hears(const int *fd, int end, enum rsk_stats_request kind)
{
	struct rsk_stats_stream *s = record_of(fd[end]);
	int calls = 0;

	if (!s)
		return true;
	request(s, kind);
	while (!heard(s) && calls++ < HEARD_BY)
		there(fd, 1);
	return heard(s);
}

CASE(nothing_else_to_do, LONG_RUN,
     "calls that find nothing but their bytes see an operator's request all the same")
{
	int listener = CLI ? app_listen(COLD) : -1, fd[2], back[2];

	if (CLI) {
		fd[0] = back[1] = app_connect(COLD);
		fd[1] = back[0] = app_accept(listener);
		for (int i = 0; i < 400; i++) {
			there(fd, 1);
			there(back, 1);
		}
		struct rsk_stats_stream *s[2] = { record_of(fd[0]), record_of(fd[1]) };

		/* Both are on the ring, or there is no library. */
		LOG("by one path: %s",
		    !s[0] || (s[1] && s[0]->tx && s[0]->rx && s[1]->tx && s[1]->rx) ? "yes" : "NO");
		for (int end = 0; end < 2; end++) {
			LOG("demoted: %s", hears(fd, end, RSK_REQUEST_DEMOTE) ? "yes" : "NO");
			there(fd, 3);
			there(back, 3);
			LOG("by TCP: %s", !s[0] || !(s[0]->tx || s[0]->rx || s[1]->tx || s[1]->rx) ?
						  "yes" :
						  "NO");
			LOG("promoted: %s", hears(fd, end, RSK_REQUEST_PROMOTE) ? "yes" : "NO");
			for (int i = 0; i < 400; i++) {
				there(fd, 1);
				there(back, 1);
			}
			LOG("by the ring: %s",
			    !s[0] || (s[0]->tx && s[0]->rx && s[1]->tx && s[1]->rx) ? "yes" : "NO");
		}
		/*
		 * Requests of another generation or of an unknown kind: they are read, and nothing
		 * is done.
		 */
		for (int i = 0; s[0] && i < 2; i++) {
			uint64_t word = s[0]->request + (i ? 0x100 + 77 : UINT64_C(1) << 32);

			__atomic_store_n(&s[0]->request, word, __ATOMIC_RELAXED);
			there(fd, HEARD_BY);
			LOG("left alone: %s", heard(s[0]) && s[0]->tx && s[0]->rx ? "yes" : "NO");
		}
		for (int i = 0; !s[0] && i < 2; i++)
			LOG("left alone: yes");
		app_close(fd[0]);
		app_close(fd[1]);
		app_close(listener);
	}
	app_sync();
}

/* ---- one message there, one back ---- */

CASE(ping_pong, DIRECT | LONG_RUN,
     "a message there and one back, operators at both ends; then the ring again")
{
	pid_t o = operator_new(true, false);
	int fd = app_open(WARM | NODELAY);
	uint32_t rounds = 0, right = 0;

	operator_begin(o);
	/* The client says whether there is another round. */
	for (char more = 1; more;) {
		more = CLI ? !over() : 0;
		if (CLI)
			app_write_all(fd, &more, 1);
		else if (app_read_full(fd, &more, 1) != 1)
			break;
		right += (uint32_t)app_pingpong(fd, 1, CLI);
		rounds++;
	}
	LOG("rounds right: %s", right == rounds && rounds ? "all" : "NO");
	operator_end(o);
	app_sync();
	app_warm(fd);
	app_expect_rings(1);
	app_sync();
	app_close(fd);
}

/* ---- event loops ---- */

struct flow {
	uint64_t sent, got;
	int fd;
	bool ended, shut;
};

static bool flow_out(struct flow *f, unsigned int seed, bool last)
{
	char buf[CHUNK];

	for (int i = 0; i < 4 && !f->shut; i++) {
		size_t len = 1 + (f->sent * 31) % sizeof(buf);
		ssize_t n;

		if (last) {
			f->shut = true;
			return shutdown(f->fd, SHUT_WR) == 0;
		}
		app_pattern(buf, len, f->sent, seed);
		n = send(f->fd, buf, len, MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN;
		f->sent += (uint64_t)n;
	}
	return true;
}

static bool flow_in(struct flow *f, unsigned int seed)
{
	char buf[CHUNK];

	for (;;) {
		ssize_t n = recv(f->fd, buf, sizeof(buf), MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN;
		f->ended = n == 0;
		if (f->ended)
			return true;
		if (!app_pattern_ok(buf, (size_t)n, f->got, seed))
			return false;
		f->got += (uint64_t)n;
	}
}

/*
 * Acts on what the set reports, and on nothing else. A level triggered sender sends a limited
 * amount each time; an edge triggered one fills the available room, and gets an event when there is
 * room again.
 */
static void event_loop(uint32_t mode)
{
	struct flow flow[PAIRS] = { 0 };
	pid_t o = operator_new(true, false); /* must not have the set: streams in it would leave */
	int fds[PAIRS], ep = (int)MUST(epoll_create1(0)), left = PAIRS;
	uint64_t sent = 0, got = 0;
	bool ok = true;

	app_open_more(WARM, fds, PAIRS);
	for (int i = 0; i < PAIRS; i++) {
		struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | mode,
					  .data.u32 = (uint32_t)i };

		flow[i].fd = fds[i];
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &ev));
	}
	operator_begin(o);
	while (ok && left) {
		struct epoll_event evs[PAIRS];
		int n = epoll_wait(ep, evs, PAIRS, 10000);

		ok = n > 0;
		for (int i = 0; i < n && ok; i++) {
			struct flow *f = &flow[evs[i].data.u32];
			unsigned int at = evs[i].data.u32, out = 2 * at + (unsigned int)app_side;
			bool was_over = f->ended && f->shut;

			if ((evs[i].events & EPOLLIN) && !f->ended)
				ok = flow_in(f, 2 * at + (unsigned int)!app_side);
			while (ok && (evs[i].events & EPOLLOUT) && !f->shut) {
				uint64_t before = f->sent;

				ok = flow_out(f, out, over());
				if (!mode || f->sent == before)
					break;
				/*
				 * Edge triggered: sends until the stream is full, but what comes in
				 * must not wait for that.
				 */
				if (!f->ended)
					ok = ok && flow_in(f, 2 * at + (unsigned int)!app_side);
			}
			if (f->ended && f->shut && !was_over) {
				MUST(epoll_ctl(ep, EPOLL_CTL_DEL, f->fd, NULL));
				left--;
			}
		}
	}
	for (int i = 0; i < PAIRS; i++) {
		sent += flow[i].sent;
		got += flow[i].got;
	}
	compare(sent, got, ok);
	operator_end(o);
	app_sync();
	for (int i = 0; i < PAIRS; i++)
		app_close(fds[i]);
	app_close(ep);
}

CASE(epoll_level, DIRECT | LONG_RUN, "event loops at both ends, by level")
{
	event_loop(0);
}

CASE(epoll_edge, DIRECT | LONG_RUN, "event loops at both ends, by edge")
{
	event_loop(EPOLLET);
}

/* ---- a child ---- */

CASE(forked, DIRECT | LONG_RUN,
     "a forked child goes on with the stream; its parent has let go of it")
{
	pid_t o = operator_new(SRV, false);
	int fd = app_open(WARM);

	if (SRV) {
		pid_t child = (pid_t)MUST(fork());

		if (!child) {
			app_warm(fd);
			operator_begin(o);
			both_ways(&fd, 1);
			_exit(0);
		}
		app_close(fd);
		app_reap(child, "child");
		operator_end(o);
	} else {
		app_warm(fd);
		both_ways(&fd, 1);
	}
	app_sync();
	if (CLI)
		app_close(fd);
}

CASE(shared, DIRECT | LONG_RUN,
     "a child that writes beside its parent, who reads: both hold the socket")
{
	pid_t o = operator_new(SRV, true);
	int fd = app_open(WARM);

	if (SRV) {
		struct half in = { .fd = fd, .seed = 1 }, out = { .fd = fd, .seed = 0 };
		pid_t child = (pid_t)MUST(fork());

		if (!child) {
			send_half(&out);
			app_flag_set(SENT, out.bytes + 1);
			_exit(!out.ok);
		}
		operator_begin(o);
		recv_half(&in);
		LOG("bytes right: %s, as many as were sent: %s", in.ok ? "yes" : "NO",
		    app_flag_wait(SENT + 1) == in.bytes + 1 ? "yes" : "NO");
		operator_end(o);
		app_reap(child, "child");
	} else {
		both_ways(&fd, 1);
	}
	app_sync();
	app_close(fd);
}
