/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * state.h - what outlives the daemon, in a file of its state directory (pm_state.h): read at the start, written a
 * moment after it has changed, and at the end. A new file takes the old one's place only when it is on the disk;
 * writing is a thread's business, since a disk may take its time. That thread touches nothing but the bytes it was
 * handed.
 */
#ifndef RSK_STATE_H
#define RSK_STATE_H

#include <event2/event.h>
#include <pthread.h>

#include "pm_state.h"
#include "pma.h"

/* Owns all but the cache and the agent. The loop's thread, but for what is said. */
struct rsk_state {
	struct rsk_pm_cache *cache;
	struct rsk_pma *pma;
	char *path;  /* of the directory */
	int dir;     /* -1: nothing is kept */
	int why_not; /* errno of the last failure; 0: none */
	uint8_t boot_id[16];
	struct rsk_state_device *drained;
	uint64_t seen; /* changes of the cache that are written, or being written */
	bool dirty;    /* devices */
	bool handed;   /* the writer is at it */
	struct event *timer, *done;
	uint64_t writes, failures, taken; /* taken: mappings read at the start */
	bool started;
	pthread_t writer;
	pthread_mutex_t lock; /* of what follows, with the writer */
	pthread_cond_t wake;
	uint8_t *bytes; /* the writer's until it says so */
	size_t n;
	int (*confine)(void);
	int confined; /* what that said */
	bool up, ends;
	int result;
	int told; /* eventfd: it is written, or not */
};

/*
 * Reads what there is; @note: a line for the operator if that is no good, or nothing can be kept; else "". 0; -ENOMEM
 * and the like.
 */
int rsk_state_open(struct rsk_state *s, struct event_base *base, const char *path,
		   struct rsk_pm_cache *cache, struct rsk_pma *pma, char *note, size_t n);
/* The writer, after rights are given up (it has the same); @confine: first of all it confines itself. 0 or -errno. */
int rsk_state_start(struct rsk_state *s, int (*confine)(void));
/* Writes what has changed. */
void rsk_state_close(struct rsk_state *s);

/* Is anything not on the disk yet? */
bool rsk_state_is_pending(const struct rsk_state *s);
/* The cache may have changed: written in a moment. */
void rsk_state_check(struct rsk_state *s);
/* An operator drains a device, or undoes it: written at once. */
void rsk_state_drained(struct rsk_state *s, const char *device, bool on);
/* Another configuration: what is drained is so still. */
void rsk_state_reloaded(struct rsk_state *s);

#endif
