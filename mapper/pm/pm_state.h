/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_state.h - what outlives the daemon, as bytes of a file: service mappings that the PM client remembers, and devices
 * that an operator has drained. Pure: bytes and clocks are handed in.
 *
 * How long a mapping still holds is written down together with the time since the machine was started (CLOCK_BOOTTIME)
 * and which start that was: nobody sets that clock, so that a mapping never holds for longer than its PmTime, whatever
 * the time of day does in between. Of another start of the machine, or if that clock has gone back, only lasting ones
 * are taken: the others' time is over, or cannot be known.
 *
 *	"RSKSTATE"  version  services  devices  0  boottime_ns  boot_id[16]  hash   64 bytes; XXH3 of all, itself as 0
 *	services times 64 bytes, devices times (length, name); numbers as the machine has them
 */
#ifndef RSK_PM_STATE_H
#define RSK_PM_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_cache.h"

#define RSK_STATE_SERVICES 65536 /* the newest of them */
#define RSK_STATE_DEVICES 4096
#define RSK_STATE_NAME 512 /* bytes of a device's name, its end included */
#define RSK_STATE_BYTES_MOST                                                                       \
	(64u + 64u * RSK_STATE_SERVICES + (2u + RSK_STATE_NAME) * RSK_STATE_DEVICES)

struct rsk_state_clock {
	uint8_t boot_id[16];  /* of this start of the machine (/proc/sys/kernel/random/boot_id) */
	uint64_t boottime_ns; /* since then */
	uint64_t now_ns;      /* the daemon's own: CLOCK_MONOTONIC */
};

/* Names, allocated as a list of its own. */
struct rsk_state_device {
	struct rsk_state_device *next;
	char name[RSK_STATE_NAME];
};

/* *out is allocated. -ENOMEM. */
int rsk_state_encode(const struct rsk_pm_cache *cache, const struct rsk_state_device *devices,
		     const struct rsk_state_clock *clock, uint8_t **out, size_t *n);

/*
 * Into the cache, and a list of devices that is the caller's to free. 0; -ENOMEM; -EBADMSG: damaged, or another
 * version's: *why says what (a constant), nothing is taken.
 */
int rsk_state_decode(const uint8_t *bytes, size_t n, const struct rsk_state_clock *clock,
		     struct rsk_pm_cache *cache, struct rsk_state_device **devices,
		     const char **why);

/* Of that name: put into the list, or taken out of it. -ENOMEM, -ENOSPC, -ENAMETOOLONG. */
int rsk_state_device_set(struct rsk_state_device **devices, const char *name, bool in);
void rsk_state_devices_free(struct rsk_state_device **devices);

#endif
