/* SPDX-License-Identifier: BSD-2-Clause */
/* hostile.h - a peer that is not librsock's: verbs by hand. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/socket.h>

struct hostile;

/* What it knows of its victim. */
struct hostile_target {
	uint64_t segment, indirect, ring_off, ring_bytes, ctl_off;
	uint32_t indirect_rkey, ctl_rkey, ring_rkey;
	/* Of another rail of that process, which was told to somebody else. */
	struct {
		uint64_t segment, indirect;
		uint32_t indirect_rkey, ctl_rkey, ring_rkey;
	} other;
};

/* Connected, with that private data; ends the program if it cannot. */
struct hostile *hostile_connect(const struct sockaddr *to, const void *hello, uint8_t bytes);
/* What it does, by number; the victim has to end the rail, or the hostile one does. */
uint32_t hostile_deeds(void);
const char *hostile_do(struct hostile *h, uint32_t number, const struct hostile_target *t);
void hostile_free(struct hostile *h);

/* Notices, up to so many, until none has been taken for long: how many were. Those that were not are under way. */
uint32_t hostile_flood(struct hostile *h, uint32_t most);
/* All that is under way has been taken, in so many seconds. */
bool hostile_taken(struct hostile *h, uint32_t seconds);
bool hostile_notice(struct hostile *h, uint32_t seconds); /* one, and all before it */
void hostile_end(struct hostile *h);			  /* what the victim ends a rail for */

#endif
