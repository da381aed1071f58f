/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.h - a set of sockets that one thread waits for by poll, select or epoll, level-triggered.
 * Used by drive.c.
 */
#ifndef RSK_WAIT_H
#define RSK_WAIT_H

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "rsperf.h"

#define RSK_READY_MAX 64

/* Events that a socket is waited for, or is ready for. */
#define RSK_IN 1u
#define RSK_OUT 2u

struct rsk_ready {
	unsigned int slot;
	unsigned int events; /* an error or hang-up shows as both RSK_IN and RSK_OUT */
};

struct rsk_waitset {
	enum rsk_wait_kind kind;
	unsigned int capacity; /* slots */
	unsigned int used;     /* slots ever used: the prefix to scan */
	/* Where to continue after a truncated answer, so that no slot starves. */
	unsigned int next;
	int epoll_fd;
	struct pollfd *fds; /* owned; with epoll: what each slot has registered in the kernel */
};

int rsk_waitset_init(struct rsk_waitset *ws, enum rsk_wait_kind kind, unsigned int capacity);
void rsk_waitset_fini(struct rsk_waitset *ws);

/*
 * From now on waits for @events of @fd under this slot; no events: not any more, as needed before
 * close().
 */
int rsk_waitset_set(struct rsk_waitset *ws, unsigned int slot, int fd, unsigned int events);

/* Blocks until something is ready; the number of answers, or -errno. */
int rsk_waitset_wait(struct rsk_waitset *ws, struct rsk_ready ready[static RSK_READY_MAX]);

#endif
