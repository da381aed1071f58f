/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listener_watches.h - what is known of listening sockets, kept true: the kernel is asked now and then which of them are
 * still there, and what is known outlives the daemon in a file beside its socket, since a process whose connections
 * all rest says nothing for a long time. What is read there counts only as far as the kernel says the same.
 */
#ifndef RSK_LISTENER_WATCHES_H
#define RSK_LISTENER_WATCHES_H

#include "listeners.h"

#define RSK_LISTENER_WATCHES_SUFFIX ".listeners"
#define RSK_LISTENER_WATCHES_MOST 4096u /* that outlive the daemon */
#define RSK_LISTENER_WATCHES_FORMER                                                                \
	UINT32_MAX /* the number of processes that are gone, or of another daemon's time */

struct rsk_listener_watches {
	struct rsk_listeners *table; /* borrowed */
	int fd;			     /* of the file; -1: none */
	uint64_t written;	     /* changes that are in it */
};

/* Opens it, while there are rights to, and takes in what is still so. 0 or -errno. */
int rsk_listener_watches_open(struct rsk_listener_watches *h, struct rsk_listeners *table,
			      const char *path);
void rsk_listener_watches_close(struct rsk_listener_watches *h);

/* A process says that it listens there. 0; -ENOENT: the kernel says nothing of it, or that it is another user's. */
int rsk_listener_watches_add(struct rsk_listener_watches *h, uint32_t process, uint32_t uid,
			     const struct rsk_pm_addr *at, uint64_t cookie);

/*
 * The process is gone. What it had may be its child's: a server that puts itself into the background, or one that
 * serves with others. It stays as long as the socket does.
 */
void rsk_listener_watches_gone(struct rsk_listener_watches *h, uint32_t process);

/* Once a second, for two milliseconds at the most: forgets what is gone; then writes what has changed. */
void rsk_listener_watches_sweep(struct rsk_listener_watches *h);
void rsk_listener_watches_write(struct rsk_listener_watches *h);

#endif
