// SPDX-License-Identifier: BSD-2-Clause
/*
 * at_start.c - the connections that a program finds when it starts: an inetd, systemd or its own
 * former program has left them open. The start-up steps of preload/ call it, once.
 *
 * Such a connection becomes a stream as if accept() had returned it now. Its positions are the
 * kernel's of this moment: bytes that any other process moves from now on are noticed before a
 * change of path. Whether another process has the socket is found out when the stream has earned
 * promotion (inherited.h). At 0 to 2 it does so only in a program that does not use stdio's streams
 * there (std_use.h).
 */
#include "calls.h"
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rsock/sys.h>

#include "numbers.h"
#include "std_use.h"
#include "stream.h"
#include "tuple.h"

/* So many closed numbers in a row: nothing was left open above them. */
#define GAP 8
#define CONNECTIONS_MOST 64

/* Of the start; on its stack. */
struct found {
	int dir; /* /proc/self/fd */
	int fd[CONNECTIONS_MOST];
	uint32_t n;
	bool std_use; /* the program can use those of 0 to 2 by stdio */
	bool hidden;  /* something is there by which a program gets at a socket without a hook */
};

static bool is_socket(int fd, struct stat *st)
{
	return rsk_sys_fstat(fd, st) == 0 && S_ISSOCK(st->st_mode);
}

/*
 * Most programs find none, and pay for the first look only: a few calls of libc's fstat(), which
 * the loader makes as well. @tcp: one of TCP.
 */
static bool any_socket(bool tcp)
{
	int saved = errno;
	bool found = false;
	struct stat st;

	for (int fd = 0, gap = 0; !found && gap < GAP; fd++) {
		int rc = fstat(fd, &st);

		found = rc == 0 && S_ISSOCK(st.st_mode) && (!tcp || rsk_kernel_is_tcp(fd));
		gap = rc == 0 ? 0 : gap + 1;
	}
	errno = saved;
	return found;
}

bool rsk_fd_any_at_start(void)
{
	return any_socket(false);
}

/*
 * An epoll set in which the former program has registered the socket, or an io_uring: this library
 * knows neither (docs/gaps.md).
 */
static bool is_hidden_way(int dir, const char *name)
{
	static const char *const ways[] = { "anon_inode:[eventpoll]", "anon_inode:[io_uring]" };
	char is[32];
	ssize_t n = rsk_sys_readlinkat(dir, name, is, sizeof(is));

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (n == (ssize_t)strlen(ways[i]) && memcmp(is, ways[i], (size_t)n) == 0)
			return true;
	return n < 0;
}

static int take(void *arg, int fd, const char *name)
{
	struct found *f = arg;
	struct stat st;

	if (fd == f->dir)
		return 0;
	if (!is_socket(fd, &st)) {
		f->hidden = f->hidden || is_hidden_way(f->dir, name);
	} else if (rsk_kernel_is_tcp(fd)) {
		if (f->n == CONNECTIONS_MOST)
			f->hidden = true;
		else
			f->fd[f->n++] = fd;
	}
	return 0;
}

static void list(struct found *f)
{
	f->dir = rsk_sys_openat(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (f->dir < 0 || rsk_numbers_each(f->dir, take, f) < 0)
		f->hidden = true;
	if (f->dir >= 0)
		rsk_sys_close(f->dir);
}

/* Whether libc may use the socket of @fd as 0, 1 or 2, by calls that no hook sees. */
static bool is_std(const struct found *f, int fd)
{
	uint64_t cookie = rsk_cookie_of(fd);

	for (uint32_t i = 0; i < f->n; i++)
		if (f->fd[i] <= STDERR_FILENO && rsk_cookie_of(f->fd[i]) == cookie)
			return f->std_use;
	return false;
}

static void begin(int fd)
{
	uintptr_t w = rsk_fd_word(fd);
	struct rsk_positions at;
	struct rsk_stream *s;
	struct stat st;

	/* Another number of a socket that has a stream by now has no mark any more. */
	if (!rsk_fd_marked(w))
		return;
	if (rsk_sys_fstat(fd, &st) < 0 || rsk_kernel_unfit(fd) ||
	    rsk_kernel_positions(fd, &at) < 0) {
		rsk_fd_put_if(fd, w, 0);
		return;
	}
	s = rsk_fd_begin(fd, w, at.connecting_side, rsk_kernel_nonblock(fd), NULL);
	if (!s)
		return;
	atomic_store(&s->inherited.inode, (uint32_t)st.st_ino);
	s->inherited.uid = st.st_uid;
	atomic_store(&s->tcp_bytes.tx, at.tx);
	atomic_store(&s->tcp_bytes.rx, at.rx);
}

void rsk_fd_at_start(void)
{
	struct found f = { 0 };
	unsigned int std = 0;

	if (!rsk_fdtab.word || !rsk_pid || !any_socket(true))
		return;
	list(&f);
	if (f.hidden)
		return;
	for (uint32_t i = 0; i < f.n; i++)
		std |= f.fd[i] <= STDERR_FILENO ? 1u << f.fd[i] : 0;
	f.std_use = std && rsk_std_use(std);
	/* Marked as numbers of one socket first: the first one's stream finds the others. */
	for (uint32_t i = 0; i < f.n; i++)
		if (!is_std(&f, f.fd[i]))
			rsk_fd_put_if(f.fd[i], 0, RSK_FD_TCP | (f.n > 1 ? RSK_FD_DUPPED : 0));
	for (uint32_t i = 0; i < f.n; i++)
		begin(f.fd[i]);
}
