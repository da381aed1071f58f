/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll.h - epoll sets that hold paired streams. Internal to stream/; the hooks call it by way of
 * engine.h.
 *
 * The application's epoll set stays the kernel's. When a stream in it is paired, its registration
 * is taken over: the kernel's entry is changed to carry a private tag and to report edges only. An
 * event of the kernel for the TCP socket and a bit in the ready map for the ring have the same
 * effect: the registration is queued on the set's ready list, and the next wait asks the stream
 * what is true now. From there on it follows the kernel's own algorithm (fs/eventpoll.c):
 * level-triggered registrations stay on the list while they are ready, edge-triggered ones do not,
 * oneshot ones are disarmed. One doorbell per link (edge-triggered) is in the set and wakes its
 * sleepers. For sets that are polled themselves, or are in other sets, see epoll_nest.c.
 *
 * The objects are in private memory. Each set has a lock, taken before a stream's rx and tx locks;
 * two more locks protect the lists that lead from streams to sets: docs/locks.md.
 */
#ifndef RSK_EPOLL_H
#define RSK_EPOLL_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_epoll;
struct rsk_link;
struct rsk_shared;
struct rsk_stream;

void rsk_epoll_paired(struct rsk_stream *s); /* takes its registrations over */
/* The stream is no longer paired: gives its registrations back to the kernel. */
void rsk_epoll_restore(struct rsk_stream *s);
/* The stream is about to fall back: bytes unread in its ring are reported until then. */
void rsk_epoll_falls_back(struct rsk_stream *s);
/*
 * Makes the kernel socket behind @fd, a number of the stream, the one behind @by: dup3() with
 * @flags. Its registrations in sets of this process, as the application made them, then belong to
 * @by. A set that a child inherited stays as it is: it holds the parent's number. Returns 0 or
 * -EMFILE.
 */
int rsk_epoll_replace(struct rsk_stream *s, int fd, int by, int flags);
void rsk_epoll_forget_fd(struct rsk_stream *s, int fd, uint32_t left);
/* Something changed on the stream: queues its registrations, and wakes other sets. */
void rsk_epoll_stream_event(struct rsk_stream *s);

void rsk_epoll_closed(struct rsk_epoll *e); /* one fd of the set is being closed */
/* The same in a process that is in exit() and goes on using the set. */
void rsk_epoll_leaving(struct rsk_epoll *e);
void rsk_epoll_dup(int oldfd, int newfd);
/*
 * Before a fork (pairing lock held): puts all @n sets of this process, each listed once with one of
 * its descriptors in @fd, into the kernel's form, and takes all locks of epoll. They stay held
 * until rsk_epoll_fork_over().
 */
void rsk_epoll_fork(struct rsk_epoll *const *sets, const int *fd, uint32_t n);
void rsk_epoll_fork_over(struct rsk_epoll *const *sets, uint32_t n, bool child);
/* True: a set holds the stream, and the kernel alone cannot report all of its events. */
bool rsk_epoll_tells(const struct rsk_stream *s);
/*
 * The stream is this process's alone: takes its registrations over again. 0, or -errno: one of its
 * sets is not this process's alone. The pairing lock is held.
 */
int rsk_epoll_retake(struct rsk_stream *s);
void rsk_epoll_stays(struct rsk_epoll *e); /* undoes rsk_epoll_leaving() */
struct rsk_shared *rsk_epoll_kin(struct rsk_epoll *e);
void rsk_epoll_link_gone(struct rsk_link *l);

/*
 * Called before the kernel is asked whether the set itself is ready, and before a sleep on it:
 * brings what the set shows up to date, also for sets in it. True: there are streams in it, and it
 * may show readiness that is not there: after a sleep, check and ask the kernel again. *@until_ns
 * is lowered to the latest time of the next check.
 */
bool rsk_epoll_check(int epfd, uint64_t *until_ns);

#endif
