/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * splice.c - tests splice() out of a stream: what the pipe takes, which end a call waits for, and
 * that nothing is lost in between. splice_into.c tests the other direction.
 */
#include "signals.h"
#include "splice.h"

#include <sys/stat.h>

/* An endless wait ends with EINTR: the signal comes again and again. */
static void ticks(bool on)
{
	struct itimerval it = { { 0, on ? 20000 : 0 }, { 0, on ? 20000 : 0 } };

	if (on)
		catch_signal(SIGALRM, 0);
	MUST(setitimer(ITIMER_REAL, &it, NULL));
}

static void nonblock_pipe(int fd, bool on)
{
	MUST(fcntl(fd, F_SETFL, on ? O_NONBLOCK : 0));
}

static void say_result(const char *what, int mode, ssize_t n)
{
	int err = errno;

	LOG("%s socket %s, pipe %s, flag %s: %s", what, mode & 1 ? "non-blocking" : "blocking",
	    mode & 2 ? "non-blocking" : "blocking", mode & 4 ? "set" : "not",
	    n < 0 ? app_errname(err) :
	    n	  ? "bytes" :
		    "0");
}

CASE(who_waits, DIRECT,
     "full or empty pipe, empty or readable socket, each blocking or not: "
     "bytes, EAGAIN, or it waits")
{
	int fd = app_open(WARM), p[2];
	ssize_t n;

	for (int what = 0; what < 4; what++) {
		for (int mode = 0; mode < 8; mode++) {
			bool full = what & 1, readable = what & 2;

			if (readable && CLI)
				app_write_all(fd, buf, 9000);
			if (SRV) {
				make_pipe(p, full);
				if (readable)
					app_await_inq(fd, 9000);
				app_set_nonblock(fd, mode & 1);
				nonblock_pipe(p[1], mode & 2);
				ticks(true);
				n = splice(fd, NULL, p[1], NULL, 65536,
					   mode & 4 ? SPLICE_F_NONBLOCK : 0);
				say_result(full ? readable ? "full pipe, bytes:" : "full pipe:" :
					   readable ? "bytes:" :
						      "nothing:",
					   mode, n);
				ticks(false);
				/* It can have taken one page at most. */
				if (n > 4096)
					LOG("%zd bytes in a page", n);
				app_set_nonblock(fd, false);
				if (readable)
					app_read_full(fd, buf, 9000 - (size_t)(n > 0 ? n : 0));
				close_pipe(p);
			}
			app_sync();
		}
	}
	if (CLI)
		SAY(fd, "behind it");
	else
		app_hear(fd, 9);
	app_sync();
	app_close(fd);
}

CASE(exact, DIRECT, "1 MiB by pipes of several sizes, emptied by odd amounts: every byte, once")
{
	static const int sizes[] = { 4096, 8192, 65536, 262144 };
	int fd = app_open(WARM), p[2];

	for (unsigned int i = 0; i < 8; i++) {
		uint64_t in = 0, out = 0;

		if (CLI) {
			app_send_pattern(fd, 1 << 20, 30011, 5);
			app_sync();
			continue;
		}
		MUST(pipe(p));
		MUST(fcntl(p[1], F_SETPIPE_SZ, sizes[i / 2]));
		while (out < 1 << 20) {
			size_t most = 1 + (out * 7919 + i) % 50000, left = (1 << 20) - in;
			ssize_t n = 0;

			if (left)
				n = splice(fd, NULL, p[1], NULL, left < 70000 ? left : 70000,
					   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
			if (n < 0 && errno != EAGAIN)
				app_die("splice: %s", app_errname(errno));
			in += (uint64_t)(n > 0 ? n : 0);
			if (in == out)
				continue;
			n = MUST(read(p[0], buf, most < in - out ? most : in - out));
			if (!app_pattern_ok(buf, (size_t)n, out, 5))
				app_die("wrong bytes at %llu", (unsigned long long)out);
			out += (uint64_t)n;
		}
		LOG("all %d", in == out);
		close_pipe(p);
		app_sync();
	}
	app_close(fd);
}

static int fifo_end(int *reader)
{
	char path[64];
	int writer;

	snprintf(path, sizeof(path), "/tmp/app_splice.%d", (int)getpid());
	unlink(path);
	MUST(mkfifo(path, 0600));
	*reader = (int)MUST(open(path, O_RDONLY | O_NONBLOCK));
	writer = (int)MUST(open(path, O_WRONLY));
	MUST(unlink(path));
	MUST(fcntl(*reader, F_SETFL, 0));
	return writer;
}

CASE(named_pipe, DIRECT, "into a pipe with a name, until it is full, and the rest of it")
{
	int fd = app_open(WARM), reader, writer;
	size_t in = 0, out = 0;
	ssize_t n;

	if (CLI) {
		app_send_pattern(fd, 200000, 200000, 3);
	} else {
		writer = fifo_end(&reader);
		while (out < 200000) {
			n = splice(fd, NULL, writer, NULL, 200000 - in, SPLICE_F_NONBLOCK);
			if (n < 0 && errno != EAGAIN)
				app_die("splice: %s", app_errname(errno));
			if (n > 0)
				in += (size_t)n;
			else if (in > out)
				out += app_read_full(reader, buf + out, in - out);
			else
				app_await_poll(fd, POLLIN, 5000);
		}
		LOG("right %d", app_pattern_ok(buf, out, 0, 3));
		app_close(reader);
		app_close(writer);
	}
	app_sync();
	app_close(fd);
}

CASE(no_reader, DIRECT,
     "a pipe that nobody reads: EPIPE and SIGPIPE, before any wait; no byte is lost")
{
	int fd = app_open(WARM), p[2];

	for (int turn = 0; turn < 4; turn++) {
		if (CLI && turn > 1)
			SAY(fd, "kept");
		if (SRV) {
			make_pipe(p, turn & 1);
			app_close(p[0]);
			if (turn > 1)
				app_await_inq(fd, 4);
			atomic_store(&signals, 0);
			catch_signal(SIGPIPE, 0);
			R(splice(fd, NULL, p[1], NULL, 100, turn == 3 ? SPLICE_F_NONBLOCK : 0));
			LOG("signals %d", atomic_load(&signals));
			app_close(p[1]);
			if (turn > 1)
				app_hear(fd, 4);
		}
		app_sync();
	}
	app_close(fd);
}

struct emptier {
	int fd;
	size_t len;
	pthread_t other;
	pid_t other_tid;
};

static void empty_pipe(void *arg)
{
	struct emptier *e = arg;

	app_await_asleep(e->other_tid);
	pthread_kill(e->other, SIGUSR1);
	app_await_asleep(e->other_tid);
	app_read_full(e->fd, buf, e->len);
}

CASE(room_later, DIRECT,
     "a blocking splice into a full pipe goes on when another thread empties it")
{
	int fd = app_open(WARM), p[2];
	struct app_thread thread;

	if (CLI)
		SAY(fd, "waits for room");
	else {
		struct emptier e = { .len = 4096, .other = pthread_self(), .other_tid = getpid() };

		make_pipe(p, true);
		e.fd = p[0];
		app_await_inq(fd, 14);
		atomic_store(&signals, 0);
		catch_signal(SIGUSR1, SA_RESTART);
		app_thread_start(&thread, empty_pipe, &e);
		R(splice(fd, NULL, p[1], NULL, 100, 0));
		app_thread_join(&thread);
		LOG("signals %d", atomic_load(&signals));
		app_hear(p[0], 14);
		close_pipe(p);
	}
	app_sync();
	app_close(fd);
}

CASE(patience, DIRECT, "SO_RCVTIMEO ends a wait for bytes, with SPLICE_F_NONBLOCK or not")
{
	int fd = app_open(WARM), p[2];
	struct timeval tv = { 0, 30000 };

	if (SRV) {
		MUST(pipe(p));
		R(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		R(splice(fd, NULL, p[1], NULL, 100, 0));
		R(splice(fd, NULL, p[1], NULL, 100, SPLICE_F_NONBLOCK));
		close_pipe(p);
	}
	app_sync();
	if (CLI)
		SAY(fd, "x");
	else
		app_hear(fd, 1);
	app_sync();
	app_close(fd);
}

/* What the two readers of one socket get, in all. */
struct share {
	int fd;
	_Atomic uint64_t *bytes, *sum;
};

static void add(struct share *s, ssize_t n)
{
	static __thread unsigned char mine[65536];
	uint64_t sum = 0;
	ssize_t got = 0;

	while (got < n) {
		ssize_t k = read(s->fd, mine, sizeof(mine));

		if (k <= 0)
			app_die("read: %zd", k);
		for (ssize_t i = 0; i < k; i++)
			sum += mine[i];
		got += k;
	}
	atomic_fetch_add(s->bytes, (uint64_t)got);
	atomic_fetch_add(s->sum, sum);
}

static void read_share(void *arg)
{
	struct share *s = arg;
	static unsigned char other[50000];
	ssize_t n;

	while ((n = recv(s->fd, other, sizeof(other), 0)) > 0) {
		uint64_t sum = 0;

		for (ssize_t i = 0; i < n; i++)
			sum += other[i];
		atomic_fetch_add(s->bytes, (uint64_t)n);
		atomic_fetch_add(s->sum, sum);
	}
}

CASE(two_readers, DIRECT, "one thread splices, another receives: together each byte once")
{
	_Atomic uint64_t bytes = 0, sum = 0;
	int fd = app_open(WARM), p[2];
	struct app_thread thread;

	if (CLI) {
		for (int i = 0; i < 4; i++)
			app_send_pattern(fd, 1 << 20, 10007, 9);
		R(shutdown(fd, SHUT_WR));
	} else {
		struct share mine, other = { fd, &bytes, &sum };
		ssize_t n;

		MUST(pipe(p));
		mine = (struct share){ p[0], &bytes, &sum };
		app_thread_start(&thread, read_share, &other);
		while ((n = splice(fd, NULL, p[1], NULL, 20000, 0)) > 0)
			add(&mine, n);
		LOG("ends with %zd", n);
		app_thread_join(&thread);
		LOG("%llu bytes, sum %llu", (unsigned long long)bytes, (unsigned long long)sum);
		close_pipe(p);
	}
	app_sync();
	app_close(fd);
}

CASE(refused, DIRECT, "wrong ends, flags, offsets: as the kernel says, and no byte moves")
{
	int fd = app_open(WARM), p[2], file = (int)MUST(memfd_create("file", 0));
	loff_t at = 0;

	MUST(pipe(p));
	if (CLI)
		SAY(fd, "still here");
	else
		app_await_inq(fd, 10);
	R(splice(fd, NULL, p[1], NULL, 0, 0));
	R(splice(fd, NULL, p[1], NULL, 0, 99));
	R(splice(fd, NULL, p[1], NULL, 5, 64));
	R(splice(fd, NULL, p[0], NULL, 5, 0));
	R(splice(fd, NULL, p[1], &at, 5, 0));
	R(splice(fd, NULL, -1, NULL, 5, 0));
	R(splice(fd, NULL, file, NULL, 5, 0));
	R(splice(fd, NULL, fd, NULL, 5, 0));
	R(splice(p[1], NULL, fd, NULL, 5, SPLICE_F_NONBLOCK));
	R(splice(p[0], NULL, fd, NULL, 5, SPLICE_F_NONBLOCK));
	R(splice(-1, NULL, fd, NULL, 5, 0));
	app_sync();
	if (SRV)
		app_hear(fd, 10);
	app_sync();
	app_close(file);
	close_pipe(p);
	app_close(fd);
}

CASE(childs_nonblock, DIRECT,
     "O_NONBLOCK that a child of a fork has set, or has taken back, counts here")
{
	int fd = app_open(WARM), p[2];

	if (SRV) {
		make_pipe(p, false);
		pid_t pid = fork();

		if (!pid) {
			MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
			app_flag_set(1, 1);
			app_flag_wait(2);
			MUST(fcntl(fd, F_SETFL, 0));
			app_flag_set(3, 1);
			_exit(0);
		}
		app_flag_wait(1);
		ticks(true);
		R(splice(fd, NULL, p[1], NULL, 10, 0));
		ticks(false);
		app_flag_set(2, 1);
		app_flag_wait(3);
		app_flag_set(4, (uint64_t)gettid());
		R(splice(fd, NULL, p[1], NULL, 10, 0));
		app_reap(pid, "child");
		close(p[0]);
		close(p[1]);
	} else {
		app_await_asleep((pid_t)app_flag_wait(4));
		SAY(fd, "12345");
	}
	app_sync();
	app_close(fd);
}

CASE(reset, DIRECT, "the peer resets the stream: splice tells it once, then the end")
{
	int fd = app_open(WARM), p[2];
	struct linger linger = { 1, 0 };

	MUST(pipe(p));
	if (CLI) {
		R(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
		app_sync();
		app_close(fd);
	} else {
		app_sync();
		app_await_poll(fd, POLLERR | POLLHUP, 5000);
		R(splice(fd, NULL, p[1], NULL, 100, 0));
		R(splice(fd, NULL, p[1], NULL, 100, 0));
		app_close(fd);
	}
	close_pipe(p);
	app_sync();
}
