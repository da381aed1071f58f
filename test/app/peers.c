/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peers.c - tests one epoll set with streams to far more processes than the library polls, as a
 * connection pooler has it: all of them ask, at once and in turn; then some end, some are killed,
 * and others come.
 */
#include "app.h"

#include "shm.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

enum {
	PEERS = 150, /* of which a third ends, a third is killed, and a third stays */
	LATER = PEERS / 3,
	REQUESTS = 20,
	REQUEST_BYTES = 64,
	NEXT_BYTES = 20,
	THREADS = 3,
	FDS = 16384, /* a quarter of which is enough for PEERS links */
	FEW_PEERS = 42,
	FEW_LINKS = 8,
	FEW_FDS = 1024 /* a quarter of which is enough for FEW_LINKS */
};

/* Set up by the client, for it and its children. */
static struct shared {
	_Atomic uint32_t turn; /* what the children do now: TURN_* */
	_Atomic uint32_t done; /* children that have done it */
} * shared;

enum {
	TURN_BEGIN,
	TURN_ASK,
	TURN_BURST,
	TURN_LEAVE,
	TURN_COME,
	TURN_AGAIN,
	TURN_END
};

/* Where the streams of the server's set are in fds[]. */
enum {
	AT_LISTENER,
	AT_STOP, /* an eventfd that tells threads to compare turns_over */
	AT_FIRST,
	AT_END = AT_FIRST + PEERS + LATER + 1
};

static int ep, fds[AT_END], opened;
static uint32_t flags; /* of the registrations of streams */
static bool watched;   /* the set is polled itself */
static bool few_fds;   /* most streams stay on TCP, the client's own may */
static int npeers = PEERS;
static _Atomic int ended, ends, turns_over;
static _Atomic int next_fd; /* of the client's main process, which waits for the turn to end */

/* ---- the server ---- */

static void add(int at, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = (uint64_t)at };

	fds[at] = fd;
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
}

static void stop(void)
{
	uint64_t one = 1;

	atomic_fetch_add(&turns_over, 1);
	MUST(write(fds[AT_STOP], &one, sizeof(one)));
}

static void come(void)
{
	int fd = accept(fds[AT_LISTENER], NULL, NULL), one = 1;

	if (fd < 0)
		return; /* another thread has it */
	MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	add(AT_FIRST + __atomic_fetch_add(&opened, 1, __ATOMIC_SEQ_CST), fd, EPOLLIN | flags);
}

/*
 * A message "next" is answered, and ends the turn, once as many more peers have ended as it says.
 */
static void go_on_if_due(void)
{
	int fd;

	if (atomic_load(&ended) < atomic_load(&ends))
		return;
	fd = atomic_exchange(&next_fd, 0);
	if (!fd)
		return;
	stop();
	app_write_all(fd, "go", 2);
}

static void answer(int at, uint32_t events)
{
	struct epoll_event ev = { .events = EPOLLIN | flags, .data.u64 = (uint64_t)at };
	char text[4096];
	ssize_t n = recv(fds[at], text, sizeof(text), MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN)
		app_die("%d: %s, events %#x", at, app_errname(errno), events);
	if (n == 0) {
		close(fds[at]);
		atomic_fetch_add(&ended, 1);
		go_on_if_due();
		return;
	}
	if (n == NEXT_BYTES && !memcmp(text, "next", 4)) {
		atomic_fetch_add(&ends, atoi(text + 4));
		atomic_store(&next_fd, fds[at]);
	} else if (n > 0) {
		app_write_all(fds[at], text, (size_t)n);
	}
	if (flags & EPOLLONESHOT)
		MUST(epoll_ctl(ep, EPOLL_CTL_MOD, fds[at], &ev));
	go_on_if_due();
}

static void serve(void *arg)
{
	int turn = *(int *)arg;
	struct epoll_event evs[16];

	while (atomic_load(&turns_over) < turn) {
		struct pollfd p = { .fd = ep, .events = POLLIN };
		int n;

		if (watched)
			MUST(poll(&p, 1, -1));
		n = (int)MUST(epoll_wait(ep, evs, 16, watched ? 0 : -1));
		for (int i = 0; i < n; i++) {
			int at = (int)evs[i].data.u64;

			if (at == AT_LISTENER)
				come();
			else if (at != AT_STOP)
				answer(at, evs[i].events);
		}
	}
}

/* Serves until the client's main process says that the turn is over. */
static void serve_turn(int threads, const char *what)
{
	struct app_thread thread[THREADS];
	static int turn;
	uint64_t n;

	turn++;
	for (int i = 1; i < threads; i++)
		app_thread_start(&thread[i], serve, &turn);
	serve(&turn);
	for (int i = 1; i < threads; i++)
		app_thread_join(&thread[i]);
	/* Another turn may be over already, or its end be told with this one's. */
	if (read(fds[AT_STOP], &n, sizeof(n)) < 0 && errno != EAGAIN)
		app_die("eventfd: %s", app_errname(errno));
	LOG("%s", what);
}

static void server(int threads)
{
	struct rlimit limit;

	MUST(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = few_fds ? FEW_FDS : FDS;
	MUST(setrlimit(RLIMIT_NOFILE, &limit));
	ep = (int)MUST(epoll_create1(0));
	add(AT_STOP, (int)MUST(eventfd(0, EFD_NONBLOCK)), EPOLLIN);
	add(AT_LISTENER, app_listen(COLD), EPOLLIN);
	app_set_nonblock(fds[AT_LISTENER], true);
	serve_turn(threads, "begin");
	serve_turn(threads, "ask");
	app_expect_rings(few_fds ? FEW_LINKS : npeers + 1);
	serve_turn(threads, "burst");
	serve_turn(threads, "leave");
	serve_turn(threads, "come");
	serve_turn(threads, "again");
	app_expect_rings(few_fds ? 0 : npeers / 3 * 2 + 1);
	serve_turn(threads, "end");
	LOG("opened %d, ended %d", opened, ended);
	app_sync();
}

/* ---- the client ---- */

static int join(void)
{
	struct app_addr addr;
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0)), one = 1;

	app_addr_make(&addr, COLD, false, app_port());
	MUST(connect(fd, &addr.sa, addr.len));
	MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	if (app_pingpong(fd, 200, true) != 200)
		_exit(1);
	return fd;
}

static void await_turn(uint32_t turn)
{
	uint32_t now;

	while ((now = atomic_load(&shared->turn)) < turn)
		app_futex_wait(&shared->turn, now, 1000);
}

static void is_done(void)
{
	atomic_fetch_add(&shared->done, 1);
	app_futex_wake(&shared->done);
}

static void ask(int fd, int count, char seed)
{
	char text[REQUEST_BYTES], back[REQUEST_BYTES];

	for (int i = 0; i < count; i++) {
		memset(text, seed + i % 8, sizeof(text));
		app_write_all(fd, text, sizeof(text));
		if (app_read_full(fd, back, sizeof(back)) != sizeof(back) ||
		    memcmp(text, back, sizeof(text)) != 0)
			_exit(2);
		app_pause_ms(1);
	}
	is_done();
}

static _Noreturn void peer(int i)
{
	char seed = (char)('A' + i % 16);
	bool later = i >= npeers;
	int fd;

	await_turn(later ? TURN_COME : TURN_BEGIN);
	fd = join();
	is_done();
	if (!later) {
		await_turn(TURN_ASK);
		ask(fd, REQUESTS, seed);
		await_turn(TURN_BURST);
		ask(fd, 1, seed);
		await_turn(TURN_LEAVE);
		if (i % 3 == 0)
			_exit(0);
	}
	await_turn(TURN_AGAIN);
	ask(fd, REQUESTS, seed);
	await_turn(TURN_END);
	_exit(0);
}

static void await_done(uint32_t count)
{
	uint32_t now;

	while ((now = atomic_load(&shared->done)) < count)
		app_futex_wait(&shared->done, now, 1000);
	atomic_store(&shared->done, 0);
}

/*
 * The turn of both sides ends once @leaving more peers have ended; with @rings the streams are to
 * be direct by then.
 */
static void next_turn(int fd, int leaving, bool rings)
{
	char text[NEXT_BYTES] = "", back[2];

	snprintf(text, sizeof(text), "next %d", leaving);
	app_write_all(fd, text, sizeof(text));
	if (app_read_full(fd, back, sizeof(back)) != sizeof(back))
		app_die("the server does not answer");
	if (rings)
		app_expect_rings(!few_fds);
	atomic_fetch_add(&shared->turn, 1);
	app_futex_wake(&shared->turn);
}

/*
 * Waits for the processes of a third (-1: all) of those from @from to @to. Returns how many ended
 * as they should.
 */
static int reap(const pid_t *pid, int from, int to, int third, bool killed)
{
	int good = 0;

	for (int i = from; i < to; i++) {
		int status = -1;

		if (third >= 0 && i % 3 != third)
			continue;
		MUST(waitpid(pid[i], &status, 0));
		good += killed ? WIFSIGNALED(status) : status == 0;
	}
	return good;
}

static void client(void)
{
	pid_t pid[PEERS + LATER] = { 0 };
	int fd;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		app_die("mmap");
	app_port();
	for (int i = 0; i < npeers + npeers / 3; i++) {
		pid[i] = (pid_t)MUST(fork());
		if (!pid[i])
			peer(i);
	}
	fd = join();
	await_done(npeers);
	next_turn(fd, 0, false);
	await_done(npeers);
	next_turn(fd, 0, true);
	await_done(npeers);
	next_turn(fd, 0, false);
	LOG("ended %d", reap(pid, 0, npeers, 0, false));
	for (int i = 1; i < npeers; i += 3)
		kill(pid[i], SIGKILL);
	LOG("killed %d", reap(pid, 0, npeers, 1, true));
	next_turn(fd, npeers / 3 * 2, false);
	await_done(npeers / 3);
	next_turn(fd, 0, false);
	await_done(npeers / 3 * 2);
	next_turn(fd, 0, true);
	LOG("stayed %d", reap(pid, 0, npeers, 2, false));
	LOG("came %d", reap(pid, npeers, npeers + npeers / 3, -1, false));
	next_turn(fd, npeers / 3 * 2, false);
	app_sync();
}

static void peers(int threads)
{
	if (SRV)
		server(threads);
	else
		client();
}

CASE(peers_level, LONG_RUN, "one epoll set with streams to 150 processes")
{
	peers(1);
}

CASE(peers_edge, LONG_RUN, "the same, edge-triggered")
{
	flags = EPOLLET;
	peers(1);
}

CASE(peers_watched, LONG_RUN, "the same, and the set is polled")
{
	watched = true;
	peers(1);
}

CASE(peers_threads, LONG_RUN, "the same with three threads on the set")
{
	flags = EPOLLONESHOT;
	peers(THREADS);
}

CASE(peers_few_fds, LONG_RUN, "the same, with descriptors for a few links only")
{
	few_fds = true;
	npeers = FEW_PEERS;
	peers(1);
}
