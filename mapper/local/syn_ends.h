/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * syn_ends.h - ends of connections whose two ends no tuple brings together, since they are in
 * different network namespaces, or an address is translated: found by the time stamp of the
 * connection's first segment and the connecting end's port. Used by rsockd. No clock, no sockets.
 * One thread.
 */
#ifndef RSK_SYN_ENDS_H
#define RSK_SYN_ENDS_H

#include "rendezvous_table.h"

/* Of all processes, and of one user; the user's oldest is dropped */
#define RSK_SYN_ENDS_MOST 16384u
#define RSK_SYN_ENDS_MOST_OF_ONE 1024u
#define RSK_SYN_ENDS_WAIT_NS RSK_RENDEZVOUS_TABLE_WAIT_NS

/* The values that the time stamp may have: @n of them from @first on, modulo 2^32. */
struct rsk_syn_range {
	uint32_t first, n;
};

/* A connecting end whose values are more than that is not looked for: it could be a guess. */
#define RSK_SYN_RANGE_MOST 64u

struct rsk_syn_end;

/* All zero initially. Owns what it points to. */
struct rsk_syn_ends {
	struct rsk_syn_end *oldest; /* list by age */
	size_t n;
};

/* Whether the two users may be brought together, for that service port. */
typedef bool rsk_syn_may(const void *ctx, uint32_t uid, uint32_t other, uint16_t service);

/*
 * @end looks for its other end. Returns 1: *other is it, and neither waits any more; 0: it waits,
 * also if several ends fit: none of them is it for sure; -EPERM: the two may not be brought
 * together, and it does not wait; -ENOMEM.
 */
int rsk_syn_ends_look(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *end,
		      const struct rsk_syn_range *range, uint64_t now_ns, rsk_syn_may *may,
		      const void *ctx, struct rsk_rendezvous_table_end *other);

/* The process has ended. */
void rsk_syn_ends_gone(struct rsk_syn_ends *s, uint32_t process);
void rsk_syn_ends_fini(struct rsk_syn_ends *s);

#endif
