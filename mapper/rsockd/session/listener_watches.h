/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listener_watches.h - keeps the table of listening sockets true. It asks the kernel from time to
 * time which of them still exist. It also keeps the table in a file beside the daemon's socket,
 * since a process whose connections are all idle does not report its sockets again after a restart
 * of the daemon. What is read from that file counts only if the kernel confirms it. local.c calls
 * this.
 */
#ifndef RSK_LISTENER_WATCHES_H
#define RSK_LISTENER_WATCHES_H

#include "listeners.h"

#define RSK_LISTENER_WATCHES_SUFFIX ".listeners"
#define RSK_LISTENER_WATCHES_MOST 4096u /* entries that the file keeps */
/* process number of entries whose process has exited, or has reported to an earlier daemon */
#define RSK_LISTENER_WATCHES_FORMER UINT32_MAX

struct rsk_listener_watches {
	struct rsk_listeners *table; /* borrowed */
	int fd;			     /* of the file; -1: none */
	uint64_t written;	     /* value of table->changes that the file has */
};

/*
 * Opens the file, which has to happen before the daemon gives up its rights, and takes the entries
 * that are still true. Returns 0 or -errno.
 */
int rsk_listener_watches_open(struct rsk_listener_watches *h, struct rsk_listeners *table,
			      const char *path);
void rsk_listener_watches_close(struct rsk_listener_watches *h);

/*
 * A process reports a listening socket. Returns 0; -ENOENT if the kernel has no such socket, or it
 * is another user's; or another -errno.
 */
int rsk_listener_watches_add(struct rsk_listener_watches *h, uint32_t process, uint32_t uid,
			     const struct rsk_pm_addr *at, uint64_t cookie);

/*
 * The process has exited. A child may have its sockets: a server that went into the background, or
 * one that serves with other processes. An entry stays as long as the socket exists.
 */
void rsk_listener_watches_gone(struct rsk_listener_watches *h, uint32_t process);

/*
 * Checks entries for up to two milliseconds and removes those that are gone; write() then saves
 * what has changed. Both are called once a second.
 */
void rsk_listener_watches_sweep(struct rsk_listener_watches *h);
void rsk_listener_watches_write(struct rsk_listener_watches *h);

#endif
