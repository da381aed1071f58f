/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sleep.h - the sleeps of a blocking call (wait.h): the system calls, by way of libc, since they
 * are cancellation points. Internal to stream/ready. Each returns the system call's count or
 * -errno, and leaves errno as it was.
 */
#ifndef RSK_SLEEP_H
#define RSK_SLEEP_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct rsk_wait;

/* ppoll(), until @until_ns; UINT64_MAX: for ever. */
int rsk_sleep_on(struct rsk_wait *w, struct pollfd *fds, nfds_t n, uint64_t until_ns);

/*
 * The same on the set w->set (sleep_set.h), in whole milliseconds. In place of @fds, the TCP socket
 * and the doorbell, whose revents are set. It takes the doorbell's edge out.
 */
int rsk_sleep_on_set(struct rsk_wait *w, struct pollfd fds[static 2], uint64_t until_ns);

/*
 * The sleep of a wait by time, on the TCP socket alone. Below an RLIMIT_NOFILE of 1 ppoll() takes
 * no descriptor at all: then @tcp shows everything that was asked, and the caller finds out.
 */
int rsk_sleep_by_time(struct rsk_wait *w, struct pollfd *tcp, uint64_t until_ns);

/*
 * In between, a handler of this thread finds it asleep in a call that goes on with @fd:
 * rsk_wait_asleep(). begin returns what end is to be given.
 */
int rsk_sleep_begin(int fd);
void rsk_sleep_end(int outer_fd);

/* Whether this thread sleeps (in a signal handler) in a call that goes on with @fd. */
bool rsk_sleeps_on(int fd);

#endif
