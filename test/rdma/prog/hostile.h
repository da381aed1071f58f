/* SPDX-License-Identifier: BSD-2-Clause */
/* hostile.h - a hostile peer that uses verbs directly, without librsock; used by pair.c. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/socket.h>

struct hostile;

/* What the hostile peer knows of its victim: remote addresses, offsets and keys. */
struct hostile_target {
	uint64_t segment, indirect, ring_off, ring_bytes, ctl_off;
	uint32_t indirect_rkey, ctl_rkey, ring_rkey;
	/* The same of another rail of the victim's process; these were given to another peer. */
	struct {
		uint64_t segment, indirect;
		uint32_t indirect_rkey, ctl_rkey, ring_rkey;
	} other;
};

/*
 * Connects with rdma_cm and @bytes of private data; ends the program on failure. The caller frees
 * the result with hostile_free().
 */
struct hostile *hostile_connect(const struct sockaddr *to, const void *hello, uint8_t bytes);
/*
 * hostile_do() does deed @number of hostile_deeds() and returns its name. After it, the victim must
 * end the rail, or the hostile peer ends it.
 */
uint32_t hostile_deeds(void);
const char *hostile_do(struct hostile *h, uint32_t number, const struct hostile_target *t);
void hostile_free(struct hostile *h);

/*
 * Sends up to @most notices until none has completed for some seconds. Returns how many completed;
 * the others are under way.
 */
uint32_t hostile_flood(struct hostile *h, uint32_t most);
/* True if everything under way completed within @seconds. */
bool hostile_taken(struct hostile *h, uint32_t seconds);
/* one notice; true if it and all before it completed */
bool hostile_notice(struct hostile *h, uint32_t seconds);
void hostile_end(struct hostile *h); /* does what makes the victim end the rail */

#endif
