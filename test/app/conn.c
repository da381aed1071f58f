/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn.c - the part of the harness that cases call for connections, pattern bytes, threads and
 * processes; see app.h.
 */
#include "app.h"
#include "shm.h"

#include <arpa/inet.h>
#include <stdarg.h>

#include "side.h"

#define WARM_ROUNDS 400
#define WARM_MORE 20 /* between two checks whether it is in the ring by now */
#define WARM_BYTES 64

unsigned int app_case_flags;

/* The server side's address: APP_HOST and APP_HOST6, or loopback. */
static struct in_addr host_ip(void)
{
	const char *host = getenv("APP_HOST");
	struct in_addr ip = { htonl(INADDR_LOOPBACK) };

	if (host && !inet_aton(host, &ip))
		app_die("APP_HOST");
	return ip;
}

static struct in6_addr host_ip6(void)
{
	const char *host = getenv("APP_HOST6");
	struct in6_addr ip = in6addr_loopback;

	if (host && inet_pton(AF_INET6, host, &ip) != 1)
		app_die("APP_HOST6");
	return ip;
}

void app_addr_make(struct app_addr *addr, unsigned int how, bool listening, int port)
{
	memset(addr, 0, sizeof(*addr));
	if ((how & V6) || ((how & MAPPED) && listening)) {
		addr->in6.sin6_family = AF_INET6;
		addr->in6.sin6_port = htons((uint16_t)port);
		addr->in6.sin6_addr = (listening && (how & (ANYADDR | MAPPED))) ? in6addr_any :
										  host_ip6();
		addr->len = sizeof(addr->in6);
		return;
	}
	addr->in.sin_family = AF_INET;
	addr->in.sin_port = htons((uint16_t)port);
	addr->in.sin_addr = host_ip();
	if (listening && (how & ANYADDR))
		addr->in.sin_addr.s_addr = htonl(INADDR_ANY);
	addr->len = sizeof(addr->in);
}

int app_listen(unsigned int how)
{
	struct app_addr addr;
	int one = 1;

	app_addr_make(&addr, how, true, 0);
	int fd = (int)MUST(socket(addr.sa.sa_family, SOCK_STREAM, 0));

	MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	MUST(bind(fd, &addr.sa, addr.len));
	MUST(listen(fd, 512));
	MUST(getsockname(fd, &addr.sa, &addr.len));
	atomic_store(&app_shm->port, (uint32_t)ntohs(addr.in.sin_port));
	app_flag_set(31, 1);
	return fd;
}

int app_port(void)
{
	app_flag_wait(31);
	return (int)atomic_load(&app_shm->port);
}

int app_accept(int listener)
{
	return (int)MUST(accept(listener, NULL, NULL));
}

int app_connect(unsigned int how)
{
	struct app_addr addr;

	app_addr_make(&addr, how, false, app_port());
	int fd = (int)MUST(socket(addr.sa.sa_family, SOCK_STREAM, 0));

	MUST(connect(fd, &addr.sa, addr.len));
	return fd;
}

int app_dead_port(int *holder)
{
	struct app_addr addr;

	app_addr_make(&addr, COLD, true, 0);
	*holder = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	MUST(bind(*holder, &addr.sa, addr.len));
	MUST(getsockname(*holder, &addr.sa, &addr.len));
	return ntohs(addr.in.sin_port);
}

void app_open_more(unsigned int how, int *fds, int count)
{
	int one = 1;
	int listener = SRV ? app_listen(how) : -1;

	app_sync(); /* the published port is this listener's, not an earlier one's */
	for (int i = 0; i < count; i++) {
		fds[i] = SRV ? app_accept(listener) : app_connect(how);
		if (how & NODELAY)
			MUST(setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	}
	if (SRV)
		app_close(listener);
	if (how & WARM) {
		for (int i = 0; i < count; i++)
			app_warm(fds[i]);
		if (app_case_flags & DIRECT)
			app_expect_rings(count);
	}
	app_sync();
}

int app_open(unsigned int how)
{
	int fd;

	app_open_more(how, &fd, 1);
	return fd;
}

/* The client's port: both sides see the same one, and no other stream has it. */
static int port_of(int fd)
{
	struct app_addr addr = { .len = sizeof(addr.ss) };

	MUST(SRV ? getpeername(fd, &addr.sa, &addr.len) : getsockname(fd, &addr.sa, &addr.len));
	return ntohs(addr.in.sin_port); /* IPv6 has it at the same offset */
}

static void warm_round(int fd)
{
	char buf[WARM_BYTES];

	memset(buf, 'w', sizeof(buf));
	if (CLI)
		app_write_all(fd, buf, sizeof(buf));
	if (app_read_full(fd, buf, sizeof(buf)) != sizeof(buf))
		app_die("warming: read");
	if (SRV)
		app_write_all(fd, buf, sizeof(buf));
}

bool app_warm_goes_on(int fd, int done, int rounds)
{
	if (done < rounds || !getenv("APP_WARM_S"))
		return done < rounds;
	return (done - rounds) % WARM_MORE || !app_stream_settled(port_of(fd));
}

void app_warm(int fd)
{
	for (int i = 0; app_warm_goes_on(fd, i, WARM_ROUNDS); i++)
		warm_round(fd);
	/* Both send queues are empty and acknowledged when the behaviour under test begins. */
	if (CLI) {
		int one = 1;

		MUST(setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof(one)));
	}
	app_sync();
	app_await_outq_empty(fd);
	app_sync();
}

void app_close(int fd)
{
	MUST(close(fd));
}

void app_set_nonblock(int fd, bool on)
{
	int flags = (int)MUST(fcntl(fd, F_GETFL));

	MUST(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

/* --- bytes ------------------------------------------------------------------------------------ */

static uint64_t pattern_word(uint64_t index, unsigned int seed)
{
	uint64_t x = (index + 1) * 0x9e3779b97f4a7c15ull + seed * 0xd1b54a32d192ed03ull;

	x ^= x >> 31;
	return x * 0xbf58476d1ce4e5b9ull;
}

static unsigned char pattern_byte(uint64_t pos, unsigned int seed)
{
	return (unsigned char)(pattern_word(pos / 8, seed) >> (8 * (pos % 8)));
}

void app_pattern(void *buf, size_t len, uint64_t pos, unsigned int seed)
{
	unsigned char *out = buf;

	for (; len && pos % 8; len--)
		*out++ = pattern_byte(pos++, seed);
	for (; len >= 8; len -= 8, pos += 8, out += 8) {
		uint64_t word = pattern_word(pos / 8, seed);

		memcpy(out, &word, 8);
	}
	for (; len; len--)
		*out++ = pattern_byte(pos++, seed);
}

bool app_pattern_ok(const void *buf, size_t len, uint64_t pos, unsigned int seed)
{
	unsigned char want[4096];
	const unsigned char *have = buf;

	while (len) {
		size_t now = len < sizeof(want) ? len : sizeof(want);

		app_pattern(want, now, pos, seed);
		if (memcmp(have, want, now))
			return false;
		have += now;
		pos += now;
		len -= now;
	}
	return true;
}

bool app_send_pattern(int fd, uint64_t len, size_t chunk, unsigned int seed)
{
	unsigned char *buf = malloc(chunk);

	for (uint64_t pos = 0; pos < len;) {
		size_t now = len - pos < chunk ? (size_t)(len - pos) : chunk;

		app_pattern(buf, now, pos, seed);
		for (size_t done = 0; done < now;) {
			ssize_t n = write(fd, buf + done, now - done);

			if (n <= 0) {
				app_log("send_pattern: write = %zd %s", n, app_errname(errno));
				free(buf);
				return false;
			}
			done += (size_t)n;
		}
		pos += now;
	}
	free(buf);
	return true;
}

bool app_recv_pattern(int fd, uint64_t len, size_t chunk, unsigned int seed)
{
	unsigned char *buf = malloc(chunk);
	const char *why = NULL;

	for (uint64_t pos = 0; pos < len && !why;) {
		size_t now = len - pos < chunk ? (size_t)(len - pos) : chunk;
		ssize_t n = read(fd, buf, now);

		if (n <= 0)
			why = n ? app_errname(errno) : "EOF";
		else if (!app_pattern_ok(buf, (size_t)n, pos, seed))
			why = "wrong bytes";
		else
			pos += (uint64_t)n;
	}
	if (why)
		app_log("recv_pattern: %s", why);
	free(buf);
	return !why;
}

uint64_t app_fill(int fd, unsigned int seed)
{
	char part[8192];
	uint64_t total = 0;
	ssize_t n;

	app_set_nonblock(fd, true);
	for (;;) {
		app_pattern(part, sizeof(part), total, seed);
		n = write(fd, part, sizeof(part));
		if (n <= 0)
			break;
		total += (uint64_t)n;
	}
	if (errno != EAGAIN)
		app_log("filling ends with %zd %s", n, app_errname(errno));
	return total;
}

int app_pingpong(int fd, uint32_t rounds, bool first)
{
	int good = 0;

	for (uint32_t i = 0; i < rounds; i++) {
		uint32_t got = ~i;

		if (first)
			MUST(write(fd, &i, sizeof(i)));
		if (app_read_full(fd, &got, sizeof(got)) != sizeof(got))
			break;
		if (!first)
			MUST(write(fd, &got, sizeof(got)));
		good += got == i;
	}
	return good;
}

void app_write_all(int fd, const void *buf, size_t len)
{
	const char *at = buf;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			app_die("write_all: %zd %s", n, app_errname(errno));
		at += n;
		len -= (size_t)n;
	}
}

size_t app_read_full(int fd, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, (char *)buf + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			app_log("read_full: %s", app_errname(errno));
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

void app_hear(int fd, size_t len)
{
	char *buf = malloc(len);
	size_t n = app_read_full(fd, buf, len);

	app_bytes("heard", buf, n);
	free(buf);
}

/* --- processes and threads -------------------------------------------------------------------- */

static void *thread_main(void *arg)
{
	struct app_thread *thread = arg;

	atomic_store(&thread->tid, (int)gettid());
	thread->fn(thread->arg);
	return NULL;
}

void app_thread_start(struct app_thread *thread, void (*fn)(void *arg), void *arg)
{
	thread->fn = fn;
	thread->arg = arg;
	atomic_init(&thread->tid, 0);
	errno = pthread_create(&thread->pthread, NULL, thread_main, thread);
	if (errno)
		app_die("pthread_create: %s", app_errname(errno));
	while (!atomic_load(&thread->tid))
		sched_yield();
}

void app_thread_join(struct app_thread *thread)
{
	pthread_join(thread->pthread, NULL);
}

void app_reap(pid_t pid, const char *what)
{
	int status;
	pid_t got;

	do
		got = waitpid(pid, &status, 0);
	while (got < 0 && errno == EINTR);
	if (got != pid)
		app_log("%s: waitpid %s", what, app_errname(errno));
	else if (WIFEXITED(status))
		app_log("%s: exit %d", what, WEXITSTATUS(status));
	else
		app_log("%s: signal %d", what, WTERMSIG(status));
}
