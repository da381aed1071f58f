/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fdtab.h - what the library knows of each fd of this process: one word.
 *
 *	0			nothing: plain
 *	ptr | RSK_FD_TRACKED	a stream that is a candidate, or joined with its peer: calls go to the engine
 *	ptr			a stream that has given up (its record is still shown): calls go to the kernel
 *	ptr | RSK_FD_EPOLL	an epoll set; | RSK_FD_TRACKED as well once a stream that is joined is in it
 *	4 | RSK_FD_TRACKED		one of the library's own fds: the application gets EBADF
 *	RSK_FD_TCP | ...	a mark: a TCP socket without a stream, which connect() or accept() may make one of;
 *				calls go to the kernel
 *	... | RSK_FD_LEFT	the same as without, but no longer counted in the object: this process is in exit(), and
 *				other threads of it go on
 *
 * Private memory, reserved once for the largest fd number, touched page by page; copied by fork like the
 * kernel's own table. Words are written by whoever changes the fd (close, dup, accept: the application
 * serialises those per number, or has the same race with the kernel) and read by every hook: acquire/release,
 * since what the pointer leads to must be complete. Objects are type-stable (arena.h): a stale pointer
 * leads to an object that says it is not the one.
 */
#ifndef RSK_FDTAB_H
#define RSK_FDTAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sigdefer.h"

#define RSK_FD_TRACKED 1u
#define RSK_FD_EPOLL 2u
#define RSK_FD_MASK 3u
#define RSK_FD_OWN (4u | RSK_FD_TRACKED) /* no pointer */
/*
 * A mark is what need not be asked of the kernel. It belongs to the number, the socket may have several: what could
 * be changed by another one is not in it from the moment there is one (dup, fork). It may be wrong where an fd was
 * closed unseen, so no more than candidates hang on it: who is promoted is asked (rsk_stream_learn()).
 */
#define RSK_FD_TCP 8u
#define RSK_FD_MODE 16u	    /* whether it is O_NONBLOCK is known */
#define RSK_FD_NONBLOCK 32u /* it is */
#define RSK_FD_DUPPED 64u   /* there are or were other numbers of it in this process */
#define RSK_FD_NO_POINTER 4096u

struct rsk_stream;
#define RSK_FD_LEFT 8u
#define RSK_FD_BITS 63u /* of a word; the rest is the pointer */

#define RSK_FD_TABLE_MOST (1u << 20)

struct rsk_fdtab {
	_Atomic(uintptr_t) *word; /* [size] */
	uint32_t size;
	/*
	 * Somebody of this process compares rsk_kernel_calls (engine.h); until then nobody counts. Set once, by whoever
	 * compares, and read by every hook that acts, both relaxed: see rsk_kernel_calls_so_far().
	 */
	_Atomic(bool) kernel_calls_count;
};

extern struct rsk_fdtab rsk_fdtab;

static inline uintptr_t rsk_fd_word(int fd)
{
	if ((uint32_t)fd >= rsk_fdtab.size)
		return 0;
	return atomic_load_explicit(&rsk_fdtab.word[fd], memory_order_acquire);
}

static inline bool rsk_fd_tracked(int fd)
{
	return rsk_fd_word(fd) & RSK_FD_TRACKED;
}

/* One of the library's own: the application gets EBADF, close loops skip it. */
static inline bool rsk_fd_ours(int fd)
{
	return rsk_fd_word(fd) == RSK_FD_OWN;
}

/*
 * The same, of the application's call: a library that we use, inside one of our sections, makes calls on descriptors of
 * ours that go to the kernel.
 */
static inline bool rsk_fd_not_yours(int fd)
{
	return rsk_fd_ours(fd) && !rsk_sigdefer_depth;
}

/* Known to be a TCP socket, and without a stream. */
static inline bool rsk_fd_marked(uintptr_t word)
{
	return (word & RSK_FD_TCP) && word < RSK_FD_NO_POINTER;
}

/* The stream that a word leads to; NULL: to none. */
static inline struct rsk_stream *rsk_fd_stream(uintptr_t word)
{
	if (word < RSK_FD_NO_POINTER || (word & RSK_FD_EPOLL))
		return NULL;
	return (struct rsk_stream *)(word & ~(uintptr_t)RSK_FD_BITS);
}

/* What it leads to: a stream, or with RSK_FD_EPOLL a set. */
static inline void *rsk_fd_object(uintptr_t w)
{
	return (void *)(w &
			~(uintptr_t)
				RSK_FD_BITS); /* NOLINT(performance-no-int-to-ptr): that is what it is */
}

/* Is @fd one of this process's for the stream @s? */
static inline bool rsk_fd_names(int fd, const void *s)
{
	uintptr_t w = rsk_fd_word(fd);

	return !(w & RSK_FD_EPOLL) && rsk_fd_object(w) == s;
}

void rsk_fdtab_init(void); /* no memory: nothing is tracked */
void rsk_fd_put(int fd, uintptr_t word);
bool rsk_fd_put_if(int fd, uintptr_t is, uintptr_t word); /* false: it is another by now */
uint32_t rsk_fd_high(void);
void rsk_fd_replace(uintptr_t from, uintptr_t to);

/*
 * Lowest fd >= @from that has an entry (hot or cold) or is ours, -1 if none: for close_range(),
 * closefrom().
 */
int rsk_fd_next(int from);

#endif
