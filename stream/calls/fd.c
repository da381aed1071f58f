// SPDX-License-Identifier: BSD-2-Clause
/*
 * fd.c - the lifetime of a descriptor: connected, accepted, duplicated, closed, mode changes. The
 * hooks call it by way of engine.h.
 */
#include "calls.h"
#include "engine.h"

#include <errno.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "resolve.h"
#include "epoll.h"
#include "epollset.h"
#include "pairing.h"
#include "fallback.h"
#include "log.h"
#include "fd_wait.h"
#include "stream.h"
#include "tuple.h"
#include "upcalls.h"
#include "timeouts.h"
#include "wait.h"

/* The entry was @w and is removed from the table. @open: the number still leads to its file. */
static inline __attribute__((always_inline)) void gone(int fd, uintptr_t w, bool open)
{
	struct rsk_stream *s;
	uint32_t left;

	if (w & RSK_FD_EPOLL) {
		if (!rsk_fd_left(w))
			rsk_epoll_closed(rsk_fd_object(w));
		return;
	}
	s = rsk_fd_stream(w);
	if (!s)
		return;
	if (rsk_stream_phase(s) != RSK_PHASE_CANDIDATE)
		rsk_fd_wait_disturb(s, fd, open);
	if (rsk_fd_left(w)) {
		left = atomic_load(&s->fds) + rsk_stream_count_fds(s);
		rsk_epoll_forget_fd(s, fd, left);
		if (!left)
			rsk_stream_abandon(s, fd);
		return;
	}
	if (__atomic_load_n(&s->regs, __ATOMIC_RELAXED))
		rsk_epoll_forget_fd(s, fd, atomic_load(&s->fds) - 1);
	/*
	 * The usual end of a short stream: no other fd, no call under way that could use it, no
	 * message to send.
	 */
	if (atomic_load(&s->fds) == 1 && rsk_stream_phase(s) == RSK_PHASE_CANDIDATE &&
	    !s->fork.kin.serial && atomic_compare_exchange_strong(&s->refs, &(uint64_t){ 1 }, 0)) {
		atomic_store_explicit(&s->fds, 0, memory_order_relaxed);
		rsk_stream_free(s);
		return;
	}
	if (atomic_fetch_sub(&s->fds, 1) == 1) {
		/*
		 * A call under way keeps the connection, as it keeps the kernel's file. No call of
		 * ours uses a number that is another file's.
		 */
		atomic_store(&s->goodbye_due, 1);
		rsk_stream_last_goodbye(s, open ? fd : -1);
		rsk_kin_closed(&s->fork.kin);
	}
	rsk_stream_unpin(s);
}

void rsk_fd_closed_unseen(int fd, uintptr_t w)
{
	gone(fd, w, false);
}

/*
 * The number was closed where no hook saw it. Another thread may have found that as well, or have
 * newer information.
 */
static __attribute__((noinline)) void forget(int fd, uintptr_t w)
{
	if (rsk_fd_put_if(fd, w, 0))
		gone(fd, w, false);
}

void rsk_fd_new(int fd)
{
	uintptr_t w;

	while (__builtin_expect((w = rsk_fd_word(fd)) && w != RSK_FD_OWN, 0))
		forget(fd, w);
}

void rsk_fd_check(int fd)
{
	struct rsk_stream *s = rsk_stream_of(fd);

	if (!s)
		return;
	rsk_stream_is_at(s, fd);
	rsk_stream_unpin(s);
}

/* The blocking mode of a marked socket, without a system call if possible. */
static bool mode_of(int fd, uintptr_t w)
{
	return rsk_fd_marked(w) && (w & RSK_FD_MODE) ? !!(w & RSK_FD_NONBLOCK) :
						       rsk_kernel_nonblock(fd);
}

/* Makes the other numbers that a socket got before it had a stream lead to @s. */
static void find_dups(struct rsk_stream *s, int fd)
{
	uint64_t cookie = rsk_cookie_of(fd);
	uint32_t high = rsk_fd_high();

	atomic_store(&s->dupped, 1);
	for (uint32_t i = 0; i < high; i++) {
		uintptr_t w = rsk_fd_word((int)i);

		if ((int)i == fd || !rsk_fd_marked(w) || !(w & RSK_FD_DUPPED) ||
		    rsk_cookie_of((int)i) != cookie)
			continue;
		if (!rsk_stream_pin(s))
			return; /* closed meanwhile */
		atomic_fetch_add(&s->fds, 1);
		if (!rsk_fd_put_if((int)i, w, (uintptr_t)s | RSK_FD_TRACKED)) {
			atomic_fetch_sub(&s->fds, 1);
			rsk_stream_unpin(s);
		}
	}
}

/* Inlined: accept() pays for it (test/guard). */
static inline __attribute__((always_inline)) struct rsk_stream *
begin_any(int fd, uintptr_t w, bool connecting_side, bool nonblock, const struct rsk_tuple *peer)
{
	struct rsk_stream *s;

	if ((uint32_t)fd >= rsk_fdtab.size || !rsk_pid ||
	    atomic_load_explicit(&rsk_stopped, memory_order_relaxed))
		return NULL;
	s = rsk_stream_new(fd, connecting_side, nonblock, peer);
	if (!s)
		return NULL;
	rsk_fd_put(fd, (uintptr_t)s | RSK_FD_TRACKED);
	rsk_pairing_hello();
	if (__builtin_expect(rsk_fd_marked(w) && (w & RSK_FD_DUPPED), 0))
		find_dups(s, fd);
	return s;
}

struct rsk_stream *rsk_fd_begin(int fd, uintptr_t w, bool connecting_side, bool nonblock,
				const struct rsk_tuple *peer)
{
	return begin_any(fd, w, connecting_side, nonblock, peer);
}

/* A connection that the program has made at 0 to 2 is used by libc as well. */
static void begin(int fd, uintptr_t w, bool connecting_side, bool nonblock,
		  const struct rsk_tuple *peer)
{
	struct rsk_stream *s = begin_any(fd, w, connecting_side, nonblock, peer);

	if (__builtin_expect(s && fd <= 2, 0))
		rsk_stream_untrack(s, RSK_REASON_STDIO);
}

void rsk_fd_socket(int fd, bool tcp, bool nonblock)
{
	rsk_fd_new(fd);
	if (tcp)
		rsk_fd_put(fd, RSK_FD_TCP | RSK_FD_MODE | (nonblock ? RSK_FD_NONBLOCK : 0));
}

void rsk_fd_watched(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	uintptr_t w = rsk_fd_word(fd);
	int listens = 0;

	if (!rsk_fdtab.word || !(w ? rsk_fd_marked(w) : rsk_kernel_is_tcp(fd)) ||
	    rsk_sys_getpeername(fd, (struct sockaddr *)&sa, &len) != -ENOTCONN)
		return;
	len = sizeof(listens);
	if (rsk_sys_getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && !listens)
		begin(fd, w, true, mode_of(fd, w), NULL);
}

bool rsk_fd_may_resolve(void)
{
	return rsk_fdtab.word && rsk_resolve_any();
}

bool rsk_fd_connecting(const struct sockaddr *to, socklen_t len, bool ahead,
		       struct sockaddr_storage *redirect)
{
	return rsk_resolve(to, len, ahead, redirect);
}

/*
 * If there is a stream, this is a second connect() on a socket in progress, or the socket was
 * watched before it was connected.
 */
void rsk_fd_connected(int fd, const struct sockaddr *peer, socklen_t len)
{
	uintptr_t w = rsk_fd_word(fd);
	struct rsk_tuple to;

	if (rsk_fd_marked(w) || (!w && rsk_fdtab.word && rsk_kernel_is_tcp(fd)))
		begin(fd, w, true, mode_of(fd, w), rsk_tuple_peer(peer, len, &to) ? NULL : &to);
}

void rsk_fd_listening(int fd)
{
	if (rsk_fd_marked(rsk_fd_word(fd)) && !rsk_kernel_only())
		rsk_pairing_listening(fd);
}

/* accept() returns only streams, of the listener's kind. */
void rsk_fd_accepted(int fd, bool nonblock, int listener, uintptr_t before)
{
	uintptr_t w = rsk_fd_word(listener);

	rsk_fd_new(fd);
	if (!rsk_fd_marked(w) || w != before) {
		if (!rsk_fdtab.word || !rsk_kernel_speaks_tcp(fd))
			return;
		if (!w && !before) /* inherited; known from the next time on */
			rsk_fd_put_if(listener, 0, RSK_FD_TCP);
	}
	begin(fd, 0, false, nonblock, NULL);
}

void rsk_fd_epoll(int fd)
{
	struct rsk_epoll *e;

	if ((uint32_t)fd >= rsk_fdtab.size || !rsk_pid)
		return;
	rsk_fd_new(fd);
	if (rsk_kernel_only())
		return;
	rsk_sigdefer_enter();
	e = rsk_epoll_new(fd);
	rsk_sigdefer_exit();
	if (e)
		rsk_fd_put(fd, (uintptr_t)e | RSK_FD_EPOLL | RSK_FD_TRACKED);
}

int rsk_fd_closing(int fd)
{
	uintptr_t w = rsk_fd_word(fd);

	if (!w)
		return 0;
	if (w == RSK_FD_OWN) {
		if (!rsk_sigdefer_depth)
			return -EBADF;
		rsk_fd_put(fd, 0); /* a library that we use closes it */
		return 0;
	}
	/* The thread that takes the word out owns the reference. */
	gone(fd, atomic_exchange(&rsk_fdtab.word[fd], 0), true);
	return 0;
}

/* The socket has more than one number: its mode may be changed by another one. */
static void mark_dup(int oldfd, int newfd, uintptr_t w)
{
	uintptr_t less = (w & ~(uintptr_t)(RSK_FD_MODE | RSK_FD_NONBLOCK)) | RSK_FD_DUPPED;

	rsk_fd_put_if(oldfd, w, less);
	rsk_fd_put(newfd, less);
}

void rsk_fd_leaving(int fd)
{
	uintptr_t w = rsk_fd_word(fd);
	struct rsk_stream *s;

	/*
	 * A thread that reads the word from now on leaves the counts alone; and what they counted
	 * stays allocated.
	 */
	do {
		if (w < RSK_FD_NO_POINTER || rsk_fd_left(w))
			return;
	} while (!atomic_compare_exchange_weak(&rsk_fdtab.word[fd], &w, w | RSK_FD_LEFT));
	if (w & RSK_FD_EPOLL) {
		rsk_epoll_leaving(rsk_fd_object(w));
		return;
	}
	s = rsk_fd_object(w);
	if (atomic_fetch_sub(&s->fds, 1) == 1)
		rsk_stream_abandon(s, fd);
}

void rsk_fd_dup(int oldfd, int newfd)
{
	struct rsk_stream *s = rsk_stream_of(oldfd);
	uintptr_t w = rsk_fd_word(oldfd);

	rsk_fd_new(newfd);
	if (w & RSK_FD_EPOLL) {
		rsk_epoll_dup(oldfd, newfd);
		return;
	}
	if (!s) {
		if (rsk_fd_marked(w))
			mark_dup(oldfd, newfd, w);
		return;
	}
	rsk_stream_name(s, oldfd); /* the number in its record may become another file's */
	if ((uint32_t)newfd >= rsk_fdtab.size) {
		rsk_stream_unpin(s);
		rsk_fd_fall_back(oldfd, RSK_REASON_FD_LIMIT);
		return;
	}
	atomic_store(&s->dupped, 1);
	atomic_fetch_add(&s->fds, 1);
	/* The pin becomes the new entry's reference. */
	rsk_fd_put(newfd, rsk_stream_phase(s) == RSK_PHASE_UNTRACKED ?
				  (uintptr_t)s :
				  (uintptr_t)s | RSK_FD_TRACKED);
	if (newfd <= 2)
		rsk_fd_fall_back(newfd, RSK_REASON_STDIO);
}

void rsk_fd_set_nonblock(int fd, bool on)
{
	struct rsk_stream *s = rsk_stream_of(fd);
	uintptr_t w = rsk_fd_word(fd);

	if (s) {
		atomic_store(&s->nonblock, on);
		rsk_stream_unpin(s);
	} else if (rsk_fd_marked(w) && (w & RSK_FD_MODE)) {
		rsk_fd_put_if(fd, w, on ? w | RSK_FD_NONBLOCK : w & ~(uintptr_t)RSK_FD_NONBLOCK);
	}
}

void rsk_fd_set_rcvlowat(int fd, int bytes)
{
	struct rsk_stream *s = rsk_stream_of(fd);

	if (!s)
		return;
	atomic_store(&s->rcvlowat, bytes < 0 ? INT32_MAX : bytes ? bytes : 1);
	rsk_stream_unpin(s);
}

void rsk_fd_set_patience(int fd, bool recv, bool none)
{
	struct rsk_stream *s = rsk_stream_of(fd);

	if (!s)
		return;
	atomic_store(recv ? &s->timeouts.rx_none : &s->timeouts.tx_none, none);
	rsk_stream_timeout_set(s, fd, recv);
	rsk_stream_unpin(s);
}

int rsk_fd_refuse(int fd, enum rsk_reason why)
{
	uintptr_t w = rsk_fd_word(fd);

	if (rsk_fd_marked(w) || (!w && rsk_fdtab.word && rsk_kernel_is_tcp(fd)))
		begin(fd, w, false, mode_of(fd, w), NULL);
	return rsk_fd_fall_back(fd, why);
}
