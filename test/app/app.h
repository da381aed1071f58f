/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * app.h - differential socket tests, one behaviour per CASE(); included by every family in
 * test/app.
 *
 * A case is one function that runs in two processes, the server side and the client side. What it
 * records (returns, errno names, bytes, readiness) is its transcript. The runner starts the case on
 * kernel TCP, then with both sides, only the server and only the client preloaded, and compares the
 * transcripts line by line. So a case may record only facts that TCP guarantees.
 *
 * Barriers and transcripts live in one shared mapping, not behind descriptors: the harness does not
 * disturb descriptor numbers, closefrom() or poll sets.
 */
#ifndef APP_H
#define APP_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Case flags. */
#define DIRECT 1u   /* with both sides preloaded the warmed stream must travel through the ring */
#define LONG_RUN 2u /* moves much data: a wider deadline */

struct app_case {
	const char *name;
	const char *about;
	unsigned int flags;
	void (*run)(void);
};

struct app_helper {
	const char *name;
	int (*run)(int argc, char **argv);
};

#define CASE(ident, case_flags, text)                                                              \
	static void case_##ident(void);                                                            \
	static const struct app_case app_case_##ident = { #ident, text, case_flags,                \
							  case_##ident };                          \
	static const struct app_case *const app_caseptr_##ident                                    \
		__attribute__((section("app_cases"), used)) = &app_case_##ident;                   \
	static void case_##ident(void)

/*
 * A program that a case starts by exec of this very binary, with app_self_argv(). The function
 * returns its exit code.
 */
#define HELPER(ident)                                                                              \
	static int helper_##ident(int argc, char **argv);                                          \
	static const struct app_helper app_helper_##ident = { #ident, helper_##ident };            \
	static const struct app_helper *const app_helperptr_##ident                                \
		__attribute__((section("app_helpers"), used)) = &app_helper_##ident;               \
	static int helper_##ident(int argc, char **argv)

extern int app_side; /* 0: server, 1: client */
#define SRV (app_side == 0)
#define CLI (app_side == 1)

/* --- transcript ------------------------------------------------------------------------------- */

/*
 * Appends a line to this side's transcript; may be called by any thread and any forked or executed
 * process of the side.
 */
void app_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void app_ret(const char *what, long ret, int err);
void app_bytes(const char *what, const void *buf, size_t len);
const char *app_errname(int err);

/*
 * Runs a call and records its text, result and errno name. A successful call that changes errno is
 * recorded as such.
 */
#define R(expr)                                                                                    \
	({                                                                                         \
		errno = 0;                                                                         \
		long r_ = (expr);                                                                  \
		int e_ = errno;                                                                    \
		app_ret(#expr, r_, e_);                                                            \
		errno = e_;                                                                        \
		r_;                                                                                \
	})
/* As R(), and records the bytes that the call put into buf. */
#define RB(buf, expr)                                                                              \
	({                                                                                         \
		long rb_ = R(expr);                                                                \
		if (rb_ > 0)                                                                       \
			app_bytes("  bytes", buf, (size_t)rb_);                                    \
		rb_;                                                                               \
	})
#define LOG(...) app_log(__VA_ARGS__)

/* The side cannot go on: records the reason, then exit(3). */
void app_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* An iovec over a text that is only read. */
#define IOV(text)                                                                                  \
	{                                                                                          \
		(void *)(uintptr_t)(text), sizeof(text) - 1                                        \
	}

/* For calls that are not the behaviour under test. */
#define MUST(expr)                                                                                 \
	({                                                                                         \
		long m_ = (expr);                                                                  \
		if (m_ < 0)                                                                        \
			app_die("%s:%d: %s: %s", __FILE_NAME__, __LINE__, #expr,                   \
				app_errname(errno));                                               \
		m_;                                                                                \
	})
#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif

/* --- lock-step -------------------------------------------------------------------------------- */

void app_sync(void); /* barrier between the two sides (their main processes) */
void app_flag_set(int flag, uint64_t value); /* 0..31, value > 0; wakes waiters */
uint64_t app_flag_wait(int flag);	     /* waits until it is set; returns the value */
bool app_flag_is_set(int flag);
int64_t app_now_ms(void);
void app_pause_ms(int ms); /* one round of a polling loop */

void app_await_inq(int fd, int bytes); /* until FIONREAD returns exactly this */
void app_await_outq_empty(int fd);
/* How many times longer things may take than on the developers' machine: APP_SCALE. */
int app_scale(void);
short app_await_poll(int fd, short events, int timeout_ms); /* returns revents, 0 at the deadline */
void app_await_asleep(
	pid_t tid); /* until this thread (of any process of the test) sleeps in the kernel */

/* --- connections ------------------------------------------------------------------------------ */

#define COLD 0u
#define WARM 1u /* ping-pong until a preloaded pair has been promoted */
#define V6 2u
#define MAPPED 4u /* IPv6 listener, IPv4 client */
#define NODELAY 8u
#define ANYADDR 16u

struct app_addr {
	socklen_t len;
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_storage ss;
	};
};

void app_addr_make(struct app_addr *addr, unsigned int how, bool listening, int port);
int app_listen(unsigned int how); /* publishes the port */
int app_accept(int listener);
int app_connect(unsigned int how); /* waits for the port */
int app_port(void);
int app_open(unsigned int how); /* both sides: one connection; the listener is closed again */
void app_open_more(unsigned int how, int *fds, int count);
void app_warm(int fd); /* both sides, lock-step */
/*
 * Called by both sides after @done rounds of a case's own warming: returns true if another round is
 * needed. There are at least @rounds; where it takes longer to get into the ring (between hosts),
 * rounds go on until the stream is there.
 */
bool app_warm_goes_on(int fd, int done, int rounds);
/*
 * Called by both sides, in lock-step. In the run with both sides preloaded the runner asserts that
 * the calling process of each side has at least the @count open streams of that side whose both
 * directions are on the ring, and have moved bytes through it.
 */
void app_expect_rings(int count);
/* The same for another process of this side, which does not call it. */
void app_expect_rings_of(pid_t pid, int count);
/* Returns a port without a listener, as long as the socket *holder exists. */
int app_dead_port(int *holder);
void app_close(int fd); /* a close that must succeed */

/* --- bytes ------------------------------------------------------------------------------------ */

void app_pattern(void *buf, size_t len, uint64_t pos, unsigned int seed);
bool app_pattern_ok(const void *buf, size_t len, uint64_t pos, unsigned int seed);
/*
 * Moves exactly @len pattern bytes with blocking calls; false (recorded) on error, EOF or a wrong
 * byte.
 */
bool app_send_pattern(int fd, uint64_t len, size_t chunk, unsigned int seed);
bool app_recv_pattern(int fd, uint64_t len, size_t chunk, unsigned int seed);
/* Sets O_NONBLOCK and writes pattern bytes until EAGAIN. Returns their number. */
uint64_t app_fill(int fd, unsigned int seed);
/* Round trips of 4 bytes; one end has @first set. Returns the number of right ones. */
int app_pingpong(int fd, uint32_t rounds, bool first);
void app_write_all(int fd, const void *buf, size_t len);
size_t app_read_full(int fd, void *buf, size_t len); /* until len, EOF or an error (recorded) */
void app_drain(int fd, const char *what); /* to EOF or an error: records total, digest, end */
#define SAY(fd, text) app_write_all(fd, text, sizeof(text) - 1)
void app_hear(int fd, size_t len); /* reads exactly len bytes and records them */

/* --- processes and threads -------------------------------------------------------------------- */

struct app_thread {
	pthread_t pthread;
	_Atomic int tid;
	void (*fn)(void *arg);
	void *arg;
};
void app_thread_start(struct app_thread *thread, void (*fn)(void *arg), void *arg);
void app_thread_join(struct app_thread *thread);

char **app_self_argv(const char *helper, ...) __attribute__((sentinel));
const char *app_self(void);		    /* path of this binary */
const char *app_static_cat(void);	    /* path of a static program that copies fd 0 to fd 1 */
const char *app_beside(const char *name);   /* path of a program in the same folder */
void app_reap(pid_t pid, const char *what); /* waitpid, records how it ended */
void app_set_nonblock(int fd, bool on);

#endif
