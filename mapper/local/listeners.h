/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listeners.h - listening sockets that accelerated processes of this host have told of, and whose they are. A table;
 * the caller has asked the kernel whether it is true. No clock, no sockets. One thread.
 */
#ifndef RSK_LISTENERS_H
#define RSK_LISTENERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"

#define RSK_LISTENERS_MOST_OF_ONE 1024u /* process */
#define RSK_LISTENERS_MOST_OF_USER 4096u

struct rsk_listener {
	struct rsk_pm_addr at; /* an all zero address: all of that family; IPv6: of both */
	uint64_t cookie;
	uint32_t process; /* the caller's number, not 0 */
	uint32_t uid;
	uint32_t pad;
};

/* All zero is an empty one. */
struct rsk_listeners {
	struct rsk_listeners_port *by_port;
	size_t n;
	uint32_t round;
	uint64_t changes; /* so far */
};

void rsk_listeners_fini(struct rsk_listeners *l);

/*
 * The same socket of the same process again replaces what was known. 0; -ENOSPC: the process, or its user, has so many;
 * -ENOMEM.
 */
int rsk_listeners_add(struct rsk_listeners *l, const struct rsk_listener *listener);
/* All of a process are another's now; false: it had none. */
bool rsk_listeners_hand_over(struct rsk_listeners *l, uint32_t process, uint32_t to);
/* Of that process, that socket; how many others it has. */
uint32_t rsk_listeners_drop(struct rsk_listeners *l, uint64_t cookie, uint32_t process);

enum rsk_listeners_still {
	RSK_LISTENERS_THERE,
	RSK_LISTENERS_GONE,  /* it is forgotten */
	RSK_LISTENERS_LATER, /* enough for now */
};

/* Asks of each, one after the other, until LATER; the next time goes on there. */
void rsk_listeners_check(struct rsk_listeners *l,
			 enum rsk_listeners_still (*still)(void *ctx,
							   const struct rsk_listener *is),
			 void *ctx);

/* Tells of all. */
void rsk_listeners_each(const struct rsk_listeners *l,
			void (*each)(void *ctx, const struct rsk_listener *is), void *ctx);

/* Who listens for connections to that address; the one that registered last, an exact address first. NULL: nobody. */
const struct rsk_listener *rsk_listeners_find(const struct rsk_listeners *l,
					      const struct rsk_pm_addr *at);
bool rsk_listeners_validate(const struct rsk_listeners *l);

#endif
