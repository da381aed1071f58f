/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll.h - epoll sets that hold joined streams. Internal to stream/; the hooks' side is in engine.h.
 *
 * The application's epoll set stays the kernel's. When a stream in it is joined, its registration is
 * changed to carry a private tag and to tell edges only: whatever the kernel then says of the companion,
 * and whatever the ready map says of the ring, leads to the same place: the registration is queued on the
 * set's ready list, and the next wait asks the stream what is true now. From there on it is the kernel's
 * own algorithm (fs/eventpoll.c): level triggered ones stay on the list while they are ready, edge
 * triggered ones do not, oneshot ones are disarmed. A bell (edge triggered) per link sits in the set
 * and wakes its sleepers. Sets that are polled themselves, or are in other sets: epoll_nest.c.
 *
 * Family memory. A lock for each set, taken before a stream's rx and tx locks; and two for what leads from streams to
 * sets: docs/locks.md.
 */
#ifndef RSK_EPOLL_H
#define RSK_EPOLL_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_epoll;
struct rsk_link;
struct rsk_shared;
struct rsk_stream;

void rsk_epoll_paired(struct rsk_stream *s);	      /* take its registrations over */
void rsk_epoll_restore(struct rsk_stream *s, int fd); /* it left: give them back to the kernel */
void rsk_epoll_falls_back(
	struct rsk_stream *s); /* it will: what is unread in its ring is told of until then */
/*
 * The kernel's socket behind @fd, a number of the stream, becomes @by's: dup3() with @flags, and its registrations in
 * sets of this process, as the application made them, are @by's from then on. A set that a child has from its parent
 * stays as it is: the parent's number is in it. 0 or -EMFILE.
 */
int rsk_epoll_replace(struct rsk_stream *s, int fd, int by, int flags);
void rsk_epoll_forget_fd(struct rsk_stream *s, int fd, uint32_t left);
void rsk_epoll_stream_event(
	struct rsk_stream *s);		    /* something stirred: queue, and wake other sets */
void rsk_epoll_closed(struct rsk_epoll *e); /* one fd of the set is being closed */
void rsk_epoll_leaving(
	struct rsk_epoll *e); /* the same of a process in exit(), which goes on using it */
void rsk_epoll_dup(int oldfd, int newfd);
/*
 * Before a fork (join lock held): all @n sets of this process, each once, with one descriptor of it, are as the kernel
 * has them, and all locks of epoll are held; until it is over.
 */
void rsk_epoll_fork(struct rsk_epoll *const *sets, const int *fd, uint32_t n);
void rsk_epoll_fork_over(struct rsk_epoll *const *sets, uint32_t n, bool child);
/* Is it this set's business what the stream has to tell: does a set hold it that the kernel alone cannot tell of it? */
bool rsk_epoll_tells(const struct rsk_stream *s);
/* It is this process's alone: its registrations are taken over again. 0, or -errno: a set is not. Join lock held. */
int rsk_epoll_retake(struct rsk_stream *s);
void rsk_epoll_stays(struct rsk_epoll *e); /* rsk_epoll_leaving() is taken back */
struct rsk_shared *rsk_epoll_kin(struct rsk_epoll *e);
void rsk_epoll_link_gone(struct rsk_link *l);

/*
 * Before the kernel is asked whether the set itself is ready, and before a sleep on it: what it shows becomes
 * true, also of sets in it. True: there are streams in it, and its showing can be ahead of the truth: after a sleep
 * look, then ask again. *@until_ns is lowered to when to look again at the latest.
 */
bool rsk_epoll_check(int epfd, uint64_t *until_ns);

#endif
