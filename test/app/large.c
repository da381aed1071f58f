/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * large.c - tests one large blocking call on a fresh connection: the kernel sends it whole, the
 * library in chunks.
 */
#include "signals.h"

#define BYTES (48u << 20)

static char *pattern(size_t len)
{
	char *buf = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buf == MAP_FAILED)
		app_die("mmap");
	app_pattern(buf, len, 0, 5);
	return buf;
}

/* Classifies a result: more than nothing and less than all depends on the buffers. */
static const char *part(ssize_t n)
{
	return n <= 0 ? "none" : n < (ssize_t)BYTES ? "a part" : "all";
}

/* Between hosts all of it would be sent before a fresh stream has a mapping. */
static int open_fresh(void)
{
	return app_open(getenv("APP_WARM_S") ? WARM : COLD);
}

CASE(one_write, LONG_RUN, "one write of 48 MiB on a fresh connection returns all of it")
{
	int fd = open_fresh();

	if (CLI) {
		char *buf = pattern(BYTES);

		R(write(fd, buf, BYTES));
	} else {
		R(app_recv_pattern(fd, BYTES, 65536, 5));
	}
	app_sync();
	app_close(fd);
}

CASE(one_sendmsg, LONG_RUN, "the same from a vector of odd pieces, and a second one behind it")
{
	int fd = open_fresh();

	if (CLI) {
		char *buf = pattern(BYTES);
		struct iovec iov[3] = { { buf, 1000001 },
					{ buf + 1000001, 0 },
					{ buf + 1000001, BYTES - 1000001 } };
		struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };

		R(sendmsg(fd, &msg, MSG_NOSIGNAL));
		R(write(fd, "end", 3));
	} else {
		R(app_recv_pattern(fd, BYTES, 100000, 5));
		app_hear(fd, 3);
	}
	app_sync();
	app_close(fd);
}

/* A signal handler, restarting or not, ends a send that has taken a part. */
static void interrupted(int flags)
{
	int fd = open_fresh();

	if (CLI) {
		char *buf = pattern(BYTES);
		uint64_t sent;

		catch_signal(SIGUSR1, flags);
		app_flag_set(1, (uint64_t)getpid());
		ssize_t n = write(fd, buf, BYTES);

		LOG("sent %s", part(n));
		sent = n > 0 ? (uint64_t)n : 0;
		app_flag_set(2, sent + 1);
	} else {
		pid_t sender = (pid_t)app_flag_wait(1);

		app_await_asleep(sender);
		MUST(kill(sender, SIGUSR1));
		uint64_t sent = app_flag_wait(2) - 1;

		LOG("right %d", app_recv_pattern(fd, sent, 65536, 5));
	}
	app_sync();
	app_close(fd);
}

CASE(signal_ends_it, 0, "a handler meets a large blocked write: its part is returned")
{
	interrupted(0);
}

CASE(restarting_signal_ends_it, 0, "SA_RESTART restarts nothing of which a part was sent")
{
	interrupted(SA_RESTART);
}

CASE(timeout_ends_it, 0, "SO_SNDTIMEO over a large write: its part, then EAGAIN")
{
	int fd = open_fresh();

	if (CLI) {
		struct timeval tv = { .tv_usec = 100000 };
		char *buf = pattern(BYTES);

		MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
		ssize_t n = write(fd, buf, BYTES);

		LOG("sent %s", part(n));
		uint64_t sent = n > 0 ? (uint64_t)n : 1;

		/* The kernel's buffers may have grown meanwhile. */
		while ((n = write(fd, buf + sent, BYTES - sent)) > 0)
			sent += (uint64_t)n;
		app_ret("then", n, errno);
		app_flag_set(2, sent);
	} else {
		LOG("right %d", app_recv_pattern(fd, app_flag_wait(2), 65536, 5));
	}
	app_sync();
	app_close(fd);
}

CASE(reset_ends_it, 0, "the peer resets under a large write: its part, then the error, then EPIPE")
{
	int fd = open_fresh();

	MUST((long)signal(SIGPIPE, SIG_IGN));
	if (CLI) {
		char *buf = pattern(BYTES);

		app_flag_set(1, (uint64_t)getpid());
		ssize_t n = write(fd, buf, BYTES);

		LOG("sent %s", part(n));
		R(write(fd, buf, BYTES));
		R(write(fd, buf, BYTES));
		app_close(fd);
	} else {
		app_await_asleep((pid_t)app_flag_wait(1));
		app_close(fd); /* with everything unread */
	}
	app_sync();
}

CASE(never_blocks, 0, "a large write that must not block takes what there is room for")
{
	int fd = open_fresh();

	if (CLI) {
		char *buf = pattern(BYTES);
		ssize_t n = send(fd, buf, BYTES, MSG_DONTWAIT);

		LOG("sent %s", part(n));
		app_set_nonblock(fd, true);
		R(write(fd, buf, BYTES));
		app_flag_set(2, n > 0 ? (uint64_t)n : 1);
	} else {
		LOG("right %d", app_recv_pattern(fd, app_flag_wait(2), 65536, 5));
	}
	app_sync();
	app_close(fd);
}

CASE(wild_end, 0,
     "a large write from memory that ends before it: EFAULT, or the part that is there")
{
	int fd = open_fresh();

	if (CLI) {
		char *buf = pattern(BYTES);

		MUST(munmap(buf + (1 << 20), BYTES - (1 << 20)));
		ssize_t n = write(fd, buf, BYTES);

		LOG("sent %s", part(n));
		app_flag_set(2, n > 0 ? (uint64_t)n : 1);
	} else {
		LOG("right %d", app_recv_pattern(fd, app_flag_wait(2), 65536, 5));
	}
	app_sync();
	app_close(fd);
}

enum {
	DUP_ROUNDS = 150,
	DUP_BYTES = 1 << 20
};

static int dup_fd;
static char *dup_buf;
static _Atomic int dup_go;
static ssize_t dup_sent;

static void send_when_told(void *arg)
{
	(void)arg;
	while (!dup_go)
		;
	dup_sent = send(dup_fd, dup_buf, DUP_BYTES, MSG_NOSIGNAL);
}

/* Reads both connections to their ends, in turn as they come. */
static void drain_two(const int *fds, size_t *got)
{
	static char buf[65536];
	struct pollfd pfd[2] = { { .fd = fds[0], .events = POLLIN },
				 { .fd = fds[1], .events = POLLIN } };
	int open = 2;

	got[0] = got[1] = 0;
	while (open) {
		MUST(poll(pfd, 2, -1));
		for (int i = 0; i < 2; i++) {
			ssize_t n;

			if (!pfd[i].revents)
				continue;
			n = read(fds[i], buf, sizeof(buf));
			if (n > 0) {
				got[i] += (size_t)n;
				continue;
			}
			pfd[i].fd = -1;
			open--;
		}
	}
}

CASE(dup2_while_it_is_sent, LONG_RUN,
     "dup2 over the number of a large send that does not block: it goes to one connection")
{
	int one_each = 0, whole = 0;

	if (CLI)
		dup_buf = pattern(DUP_BYTES);
	for (int i = 0; i < DUP_ROUNDS; i++) {
		struct app_thread thread;
		int room = 8 << 20, fds[2];
		size_t got[2];

		app_open_more(COLD, fds, 2);
		if (SRV) {
			drain_two(fds, got);
			one_each += got[0] + got[1] == DUP_BYTES && (!got[0] || !got[1]);
		} else {
			for (int k = 0; k < 2; k++)
				if (setsockopt(fds[k], SOL_SOCKET, SO_SNDBUFFORCE, &room,
					       sizeof(room)) < 0)
					MUST(setsockopt(fds[k], SOL_SOCKET, SO_SNDBUF, &room,
							sizeof(room)));
			dup_fd = fds[0];
			dup_go = 0;
			app_thread_start(&thread, send_when_told, NULL);
			dup_go = 1;
			for (int k = 0; k < i * 200; k++)
				__asm__ volatile("");
			MUST(dup2(fds[1], fds[0]));
			app_thread_join(&thread);
			whole += dup_sent == DUP_BYTES;
		}
		app_close(fds[0]);
		app_close(fds[1]);
	}
	LOG("%d %d", whole, one_each);
	app_sync();
}

enum {
	FORK_ROUNDS = 60,
	FORK_BYTES = 8 << 20
};

static volatile pid_t forked;
static int sending_fd;

static void ring_in(suseconds_t us)
{
	struct itimerval timer = { .it_value.tv_usec = us };

	MUST(setitimer(ITIMER_REAL, &timer, NULL));
}

/* Forks if the send has filled the peer's buffer, and comes again otherwise. */
static void fork_once(int sig)
{
	int queued = 0;

	(void)sig;
	MUST(ioctl(sending_fd, TIOCOUTQ, &queued));
	if (queued)
		forked = fork();
	else
		ring_in(20);
}

static void fork_rounds(void)
{
	char *buf = CLI ? pattern(FORK_BYTES) : NULL;
	struct sigaction act = { .sa_handler = fork_once, .sa_flags = SA_RESTART };
	int once = 0, all = 0, childs = 0;

	MUST(sigaction(SIGALRM, &act, NULL));
	for (int i = 0; i < FORK_ROUNDS; i++) {
		int fd = app_open(COLD), room = 64 << 20, status;
		ssize_t n;

		if (SRV) {
			static char to[1 << 16];
			size_t got = 0;

			app_sync();
			while ((n = read(fd, to, sizeof(to))) > 0)
				got += (size_t)n;
			once += got == FORK_BYTES && n == 0;
			app_close(fd);
			continue;
		}
		if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0)
			MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)));
		forked = -1;
		sending_fd = fd;
		ring_in(1 + i * 40);
		n = send(fd, buf, FORK_BYTES, MSG_NOSIGNAL);
		while (forked < 0)
			;
		if (!forked)
			_exit(n == FORK_BYTES ? 0 : 1);
		app_sync();
		all += n == FORK_BYTES;
		MUST(waitpid(forked, &status, 0));
		childs += WIFEXITED(status) && !WEXITSTATUS(status);
		app_close(fd);
	}
	LOG("%d %d %d", once, all, childs);
	app_sync();
}

CASE(fork_in_a_handler, LONG_RUN,
     "a handler forks under a large send that does not block: it is sent once, both see all of it")
{
	fork_rounds();
}

static void idle(void *arg)
{
	sigset_t all;

	(void)arg;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	app_flag_wait(3);
}

CASE(fork_in_a_handler_threads, LONG_RUN, "the same in a process with two threads")
{
	struct app_thread thread;

	app_thread_start(&thread, idle, NULL);
	fork_rounds();
	app_flag_set(3, 1);
	app_thread_join(&thread);
}
