/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * state.h - keeps what must outlive the daemon in a file of its state directory (pm_state.h). The
 * file is read at the start, and written a moment after a change and at the end; a write that fails
 * is repeated. A new file replaces the old one only when it is on the disk. A thread writes it,
 * since a disk may be slow; that thread touches nothing but the bytes that it was given.
 * daemon_open.c, daemon.c and the API call this.
 */
#ifndef RSK_STATE_H
#define RSK_STATE_H

#include <event2/event.h>
#include <pthread.h>

#include "pm_state.h"
#include "pma.h"

/*
 * Owns everything but the cache and the agent. Only the event loop's thread uses it, except for the
 * fields that are marked below.
 */
struct rsk_state {
	struct rsk_pm_cache *cache;
	struct rsk_pma *pma;
	char *path;  /* of the directory */
	int dir;     /* -1: nothing is kept */
	int why_not; /* errno of the last failure; 0: none */
	uint8_t boot_id[16];
	struct rsk_state_device *drained;
	uint64_t seen; /* value of cache->changes that was handed to the writer last */
	bool dirty;    /* devices have changed since the last write, or it has failed */
	bool handed;   /* the writer has been given bytes and on_done() has not run yet */
	struct event *timer, *done;
	uint64_t writes, failures, taken; /* taken: mappings that were read at the start */
	bool started;
	pthread_t writer;
	pthread_mutex_t lock; /* protects the following fields, which the writer thread uses, too */
	pthread_cond_t wake;
	uint8_t *bytes; /* the writer's until it sets them to NULL */
	size_t n;
	int (*confine)(void);
	int confined; /* what confine() returned */
	bool up, ends;
	int result;
	int told; /* eventfd: a write has ended, with success or not; see result */
};

/*
 * Reads the file, if there is one. @note gets a line for the operator if the file is unusable or
 * nothing can be kept, else "". Returns 0, or -errno for lack of memory or descriptors.
 */
int rsk_state_open(struct rsk_state *s, struct event_base *base, const char *path,
		   struct rsk_pm_cache *cache, struct rsk_pma *pma, char *note, size_t n);
/*
 * Starts the writer. It is called after rights are given up, so that the thread has no more than
 * the rest of the daemon. The thread first calls @confine. Returns 0 or -errno.
 */
int rsk_state_start(struct rsk_state *s, int (*confine)(void));
/* Ends the writer and writes what has changed. */
void rsk_state_close(struct rsk_state *s);

/* True if a change is not on the disk yet. */
bool rsk_state_is_pending(const struct rsk_state *s);
/* Called when the cache may have changed; starts the timer for a write if it has. */
void rsk_state_check(struct rsk_state *s);
/* An operator drains a device, or ends that; written at once. */
void rsk_state_drained(struct rsk_state *s, const char *device, bool on);
/* A new configuration is in force: drains the devices again that were drained. */
void rsk_state_reloaded(struct rsk_state *s);

#endif
