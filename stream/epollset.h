/* SPDX-License-Identifier: BSD-2-Clause */
/* epollset.h - the objects behind epoll.h, shared by epoll.c (registrations) and epoll_wait.c (waits). */
#ifndef RSK_EPOLLSET_H
#define RSK_EPOLLSET_H

#include <stdbool.h>
#include <stdint.h>

#include "links.h"
#include "lock.h"
#include "stream.h"

#define RSK_EPOLL_TAG_MASK 0xffffffff00000000ull
#define RSK_EPOLL_BELL                                                                             \
	0x80000000ull /* tag | BELL | place in links[]; else tag | arena offset of the reg */
#define RSK_EPOLL_LINKS 64

/* One fd in one set. Type-stable (own free list): a tag that comes late finds live == false, or another reg. */
struct rsk_reg {
	struct rsk_stream *stream;
	struct rsk_epoll *set;
	int key_fd;	 /* the kernel's key; -1: closed, kept alive by a dup */
	uint32_t events; /* the application's */
	uint64_t data;
	bool live;
	bool tagged; /* the kernel's entry carries our tag */
	bool armed;  /* false: oneshot, fired */
	bool queued;
	bool fresh; /* the kernel still has to tell what was true when we registered: told already */
	uint32_t told_ends; /* RDHUP, HUP, ERR that were delivered */
	struct rsk_reg *next_of_stream, *next_of_set, *next_ready;
};

struct rsk_epoll {
	_Atomic(uint32_t) fds;
	int epfd; /* some fd of it */
	int home; /* the process that takes streams over into it; under the lock */
	_Atomic(bool)
		shared; /* another process has waited on it; set by that, cleared under the lock */
	bool collides; /* the application's data look like our tag: no stream in here is promoted */
	bool watched;  /* polled itself, or in another set: its bells always announce */
	uint32_t tagged;   /* registrations taken over */
	uint32_t sleepers; /* threads in the kernel's wait with bells announced */
	uint32_t turn;	   /* whose news come first: the rings', the kernel's */
	uint32_t spin_ns;
	uint64_t relief_ns; /* when a writer whose ring is full is to be taken back to TCP; 0: none; under the lock */
	uint32_t nlinks;
	struct {
		struct rsk_link *l;
		uint32_t bell;
	} links[RSK_EPOLL_LINKS];
	struct rsk_reg *regs;
	struct rsk_reg *ready, *ready_tail;
	struct rsk_epoll *next_free;
};

struct rsk_epoll_family {
	struct rsk_lock lock;
	uint64_t tag;
	struct rsk_reg *free_regs;
	struct rsk_epoll *free_sets;
};

struct rsk_epoll_family *rsk_epoll_family(void);
struct rsk_epoll *rsk_epoll_of(int epfd);
void rsk_epoll_queue(struct rsk_reg *r);
void rsk_epoll_ring(struct rsk_epoll *e);

/*
 * Has this process a mapping of the link? The set's home has one of each; others have those that were there at
 * the fork.
 */
static inline bool rsk_epoll_link_here(const struct rsk_epoll *e, const struct rsk_link *l)
{
	return e->home == rsk_pid || rsk_links_have(l);
}

#endif
