/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fdtab.h - the table of descriptors: what the library knows of each descriptor of this process, in
 * one word. Every hook reads it.
 *
 *	0			nothing: plain
 *	ptr | RSK_FD_TRACKED	a stream that is a candidate or paired: calls go to the
 *				engine
 *	ptr			a stream that has given up (its record is still shown):
 *				calls go to the kernel
 *	ptr | RSK_FD_EPOLL	an epoll set; | RSK_FD_TRACKED as well once a paired stream
 *				is in it
 *	4 | RSK_FD_TRACKED		one of the library's own descriptors: the application
 *				gets EBADF
 *	RSK_FD_TCP | ...	flags: a TCP socket without a stream, for which connect()
 *				or accept() may create one; calls go to the kernel
 *	... | RSK_FD_LEFT	the same as without, but not counted in the object any
 *				more: this process is in exit(), and its other threads
 *				go on
 *
 * Private memory, reserved once for the largest descriptor number, touched page by page, and copied
 * by fork as the kernel's own table is. A word is written by the call that changes the descriptor
 * (close, dup, accept; the application serialises those per number, or has the same race with the
 * kernel) and read by every hook: acquire/release, since the object must be complete. Objects are
 * type-stable (arena.h): a stale pointer leads to an object that can be recognised as another one.
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
#define RSK_FD_OWN (4u | RSK_FD_TRACKED) /* not a pointer */
/*
 * The flags record what need not be asked of the kernel. They belong to the number, and the socket
 * may have several numbers: a property that could be changed through another one is dropped as soon
 * as there is one (dup, fork). Flags may be wrong if a descriptor was closed without a hook, so
 * only candidates depend on them; before promotion the kernel is asked (rsk_stream_learn()).
 */
#define RSK_FD_TCP 8u
#define RSK_FD_MODE 16u	    /* it is known whether the socket is O_NONBLOCK */
#define RSK_FD_NONBLOCK 32u /* it is O_NONBLOCK */
#define RSK_FD_DUPPED 64u   /* there are or were other numbers of it in this process */
#define RSK_FD_NO_POINTER 4096u

struct rsk_stream;
#define RSK_FD_LEFT 8u /* of a word with a pointer only: rsk_fd_left() */
#define RSK_FD_BITS                                                                                \
	63u /* flag bits of a word with a pointer, which is a multiple of 64 (arena.h) */

_Static_assert((RSK_FD_TCP | RSK_FD_MODE | RSK_FD_NONBLOCK | RSK_FD_DUPPED | RSK_FD_OWN) <
		       RSK_FD_NO_POINTER,
	       "flags without a pointer are no pointer");
_Static_assert(((RSK_FD_MASK | RSK_FD_LEFT) & ~RSK_FD_BITS) == 0, "flags are no part of a pointer");
_Static_assert((RSK_FD_MASK & (RSK_FD_TCP | RSK_FD_MODE | RSK_FD_NONBLOCK | RSK_FD_DUPPED)) == 0,
	       "a TCP socket without a stream is not tracked");

#define RSK_FD_TABLE_MOST (1u << 20)

struct rsk_fdtab {
	_Atomic(uintptr_t) *word; /* [size] */
	uint32_t size;
	/*
	 * A thread of this process compares rsk_kernel_calls (process.h); before that, kernel calls
	 * are not counted. Set once, by the first comparison, and read by every hook that counts,
	 * both relaxed: see rsk_kernel_calls_so_far().
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

/*
 * One of the library's own descriptors: the application gets EBADF, and loops that close skip it.
 */
static inline bool rsk_fd_ours(int fd)
{
	return rsk_fd_word(fd) == RSK_FD_OWN;
}

/*
 * As rsk_fd_ours(), but false inside a section of the library: other libraries that it uses there
 * make calls on its descriptors, and those go to the kernel.
 */
static inline bool rsk_fd_not_yours(int fd)
{
	return rsk_fd_ours(fd) && !rsk_sigdefer_depth;
}

/* A TCP socket without a stream, known by its flags. */
static inline bool rsk_fd_marked(uintptr_t word)
{
	return (word & RSK_FD_TCP) && word < RSK_FD_NO_POINTER;
}

/*
 * The object that @word leads to does not count this number any more. RSK_FD_LEFT is the same bit
 * as RSK_FD_TCP: the pointer tells which of the two it is.
 */
static inline bool rsk_fd_left(uintptr_t word)
{
	return (word & RSK_FD_LEFT) && word >= RSK_FD_NO_POINTER;
}

/* The stream that @word leads to; NULL: none. */
static inline struct rsk_stream *rsk_fd_stream(uintptr_t word)
{
	if (word < RSK_FD_NO_POINTER || (word & RSK_FD_EPOLL))
		return NULL;
	return (struct rsk_stream *)(word & ~(uintptr_t)RSK_FD_BITS);
}

/* The object that @w leads to: a stream, or with RSK_FD_EPOLL a set. */
static inline void *rsk_fd_object(uintptr_t w)
{
	return (void *)(w & ~(uintptr_t)RSK_FD_BITS); /* NOLINT(performance-no-int-to-ptr) */
}

/* Does @fd refer to stream @s in this process? */
static inline bool rsk_fd_names(int fd, const void *s)
{
	uintptr_t w = rsk_fd_word(fd);

	return !(w & RSK_FD_EPOLL) && rsk_fd_object(w) == s;
}

/* Makes the table; without memory nothing is tracked. */
void rsk_fdtab_init(void);
void rsk_fdtab_begin(void); /* before its first entry */
/* Set an entry; rsk_fd_put_if() only if it is @is. Numbers beyond the table are ignored. */
void rsk_fd_put(int fd, uintptr_t word);
bool rsk_fd_put_if(int fd, uintptr_t is, uintptr_t word); /* false: the word is not @is any more */
/* No entry from this number on was ever used. */
uint32_t rsk_fd_high(void);
/* Replaces @from by @to in all entries. */
void rsk_fd_replace(uintptr_t from, uintptr_t to);

/*
 * The lowest fd >= @from that has an entry (tracked or not) or is the library's own; -1: none. For
 * close_range(), closefrom().
 */
int rsk_fd_next(int from);

#endif
