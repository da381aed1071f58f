/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * state.h - keeps what must outlive the daemon in a file of its state directory (pm_state.h). The
 * file is read at the start, and written a moment after a change and at the end, by disk.c; a write
 * that fails is repeated. daemon_open.c, daemon.c and the API call this.
 */
#ifndef RSK_STATE_H
#define RSK_STATE_H

#include <event2/event.h>

#include "disk.h"
#include "pm_state.h"
#include "pma.h"

/* Owns everything but the cache, the agent and the disk. One thread. */
struct rsk_state {
	struct rsk_pm_cache *cache;
	struct rsk_pma *pma;
	struct rsk_disk *disk;
	struct rsk_disk_file file;
	int why_not; /* errno of the last failure; 0: none */
	uint8_t boot_id[16];
	struct rsk_state_device *drained;
	uint64_t seen; /* value of cache->changes that was handed to the writer last */
	bool dirty;    /* devices have changed since the last write, or it has failed */
	struct event *timer;
	uint64_t writes, failures, taken; /* taken: mappings that were read at the start */
};

/*
 * Reads the file, if there is one. @note gets a line for the operator if the file is unusable or
 * nothing can be kept, else "". Returns 0 or -ENOMEM.
 */
int rsk_state_open(struct rsk_state *s, struct event_base *base, struct rsk_disk *disk,
		   struct rsk_pm_cache *cache, struct rsk_pma *pma, char *note, size_t n);
/* Writes what has changed. The disk was stopped before. */
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
