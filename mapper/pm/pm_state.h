/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_state.h - encodes and decodes the state file of rsockd: service mappings that the PM client
 * remembers, and devices that an operator has drained. Called by rsockd. Pure: the caller passes
 * bytes and times.
 *
 * The remaining time of a mapping is stored together with the time since boot (CLOCK_BOOTTIME) and
 * the boot id. That clock cannot be set, so a mapping is never valid longer than its PmTime,
 * whatever happens to the time of day. After another boot, or if that clock has gone back, only
 * mappings without time limit are taken, because the others have expired or their time is unknown.
 *
 *	"RSKSTATE"  version  services  devices  0  boottime_ns  boot_id[16]  hash
 *		64 bytes; XXH3 of the whole file, with the hash as 0
 *	services times 64 bytes, devices times (length, name); numbers in host byte order
 */
#ifndef RSK_PM_STATE_H
#define RSK_PM_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_cache.h"

#define RSK_STATE_SERVICES 65536 /* the newest ones */
#define RSK_STATE_DEVICES 4096
#define RSK_STATE_NAME 512 /* bytes of a device's name, including its terminating zero */
#define RSK_STATE_BYTES_MOST                                                                       \
	(64u + 64u * RSK_STATE_SERVICES + (2u + RSK_STATE_NAME) * RSK_STATE_DEVICES)

struct rsk_state_clock {
	/* /proc/sys/kernel/random/boot_id */
	uint8_t boot_id[16];
	uint64_t boottime_ns; /* time since boot */
	uint64_t now_ns;      /* the daemon's clock: CLOCK_MONOTONIC */
};

/* A list of names; each element is allocated. */
struct rsk_state_device {
	struct rsk_state_device *next;
	char name[RSK_STATE_NAME];
};

/* Allocates *out. Returns 0 or -ENOMEM. */
int rsk_state_encode(const struct rsk_pm_cache *cache, const struct rsk_state_device *devices,
		     const struct rsk_state_clock *clock, uint8_t **out, size_t *n);

/*
 * Adds the mappings to the cache and makes a list of devices that the caller frees. Returns 0;
 * -ENOMEM; -EBADMSG: damaged, or of another version: *why says what (a constant), nothing is taken.
 */
int rsk_state_decode(const uint8_t *bytes, size_t n, const struct rsk_state_clock *clock,
		     struct rsk_pm_cache *cache, struct rsk_state_device **devices,
		     const char **why);

/* Adds the name to the list, or removes it. Returns 0, -ENOMEM, -ENOSPC or -ENAMETOOLONG. */
int rsk_state_device_set(struct rsk_state_device **devices, const char *name, bool in);
void rsk_state_devices_free(struct rsk_state_device **devices);

#endif
