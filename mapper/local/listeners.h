/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listeners.h - table of the listening sockets that accelerated processes of this host have
 * reported, and their owners. Used by rsockd, which has verified them with the kernel. No clock, no
 * sockets. One thread.
 */
#ifndef RSK_LISTENERS_H
#define RSK_LISTENERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"

#define RSK_LISTENERS_MOST_OF_ONE 1024u /* of one process */
#define RSK_LISTENERS_MOST_OF_USER 4096u

struct rsk_listener {
	/* An all-zero address: all addresses of the family; IPv6: of both families */
	struct rsk_pm_addr at;
	uint64_t cookie;
	uint32_t process; /* the caller's number, not 0 */
	uint32_t uid;
	uint32_t pad;
};

/* All zero initially. */
struct rsk_listeners {
	struct rsk_listeners_port *by_port;
	size_t n;
	uint32_t round;
	uint64_t changes; /* number of changes so far */
};

void rsk_listeners_fini(struct rsk_listeners *l);

/*
 * Adds a socket; replaces an entry of the same socket and process. Returns 0; -ENOSPC: the process,
 * or its user, has too many; -ENOMEM.
 */
int rsk_listeners_add(struct rsk_listeners *l, const struct rsk_listener *listener);
/* All entries of a process now belong to another; false: it had none. */
bool rsk_listeners_hand_over(struct rsk_listeners *l, uint32_t process, uint32_t to);
/* Removes the process's entries of that socket. Returns how many other entries it has. */
uint32_t rsk_listeners_drop(struct rsk_listeners *l, uint64_t cookie, uint32_t process);

enum rsk_listeners_still {
	RSK_LISTENERS_THERE,
	RSK_LISTENERS_GONE,  /* it is removed */
	RSK_LISTENERS_LATER, /* enough for now */
};

/*
 * Calls @still for each entry, one after the other, until it returns LATER; the next call continues
 * there.
 */
void rsk_listeners_check(struct rsk_listeners *l,
			 enum rsk_listeners_still (*still)(void *ctx,
							   const struct rsk_listener *is),
			 void *ctx);

/* Calls @each for all entries. */
void rsk_listeners_each(const struct rsk_listeners *l,
			void (*each)(void *ctx, const struct rsk_listener *is), void *ctx);

/*
 * Returns the listener for connections to that address: an exact address is preferred, then the
 * last one registered. NULL: none.
 */
const struct rsk_listener *rsk_listeners_find(const struct rsk_listeners *l,
					      const struct rsk_pm_addr *at);
bool rsk_listeners_validate(const struct rsk_listeners *l);

#endif
