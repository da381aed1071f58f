/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * syn_ends.h - ends of connections whose two ends no tuple brings together, since they are in
 * network namespaces other than rsockd's, or an address is translated: found by the connection's
 * first segment (rsock/syn.h) and the connecting end's port. Used by rsockd. No clock, no sockets.
 * One thread.
 */
#ifndef RSK_SYN_ENDS_H
#define RSK_SYN_ENDS_H

#include <rsock/syn.h>

#include "rendezvous_table.h"

/* Of all processes, and of one user; the user's oldest is dropped */
#define RSK_SYN_ENDS_MOST 16384u
#define RSK_SYN_ENDS_MOST_OF_ONE 1024u
/* That have named a segment, of one user, side and client port: each may be a guess. */
#define RSK_SYN_ENDS_MOST_OF_PORT 4u
/* The same, of ends that have named none. */
#define RSK_SYN_ENDS_UNNAMED_OF_PORT 32u
/* Of all users, with one client port: whoever looks there passes them all. */
#define RSK_SYN_ENDS_MOST_OF_PORT_IN_ALL 256u
#define RSK_SYN_ENDS_WAIT_NS RSK_RENDEZVOUS_TABLE_WAIT_NS

struct rsk_syn_end;
struct rsk_syn_user;
struct rsk_syn_port;

/* All zero initially. Owns what it points to. */
struct rsk_syn_ends {
	struct rsk_syn_end *oldest; /* list by age */
	struct rsk_syn_user *users; /* by uid */
	struct rsk_syn_port *ports; /* by client port */
	size_t n;
};

struct rsk_syn_ends_calls {
	/* Whether the two may be brought together: one is the accepting end. */
	bool (*may)(const void *ctx, const struct rsk_rendezvous_table_end *one,
		    const struct rsk_rendezvous_table_end *other);
	/* Whether an accepting end's peer is, as it sees it, an address of this host. */
	bool (*is_ours)(const void *ctx, const struct rsk_tuple *accepting);
	/*
	 * An end that waits may not be brought together with one that may be its other end, as far
	 * as ports and addresses tell. Once for each.
	 */
	void (*refuse)(void *ctx, const struct rsk_rendezvous_table_end *end);
	/* The connecting end may belong to one that waits: it is to say what its segment was. */
	void (*ask)(void *ctx, const struct rsk_rendezvous_table_end *end);
	/*
	 * The two might be one connection's by users, client port and addresses, and have named
	 * different segments: one of them may be a guess.
	 */
	void (*differ)(void *ctx, const struct rsk_rendezvous_table_end *one,
		       const struct rsk_rendezvous_table_end *other);
	void *ctx;
};

#define RSK_SYN_ENDS_FOUND 1
#define RSK_SYN_ENDS_ASKED 2

/*
 * @end looks for its other end. @syn: its first segment; unknown (n 0): of a connecting end. One
 * that was not asked counts as unknown, whatever it names. Returns FOUND: *other is it, and neither
 * waits any more; 0: it waits, also if several ends fit: none of them is it for sure; ASKED: the
 * same, and it was asked; -EPERM: it waits, and one that may be its other end, as far as ports and
 * addresses tell, may not be brought together with it; -ENOMEM.
 */
int rsk_syn_ends_look(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *end,
		      const struct rsk_syn *syn, uint64_t now_ns,
		      const struct rsk_syn_ends_calls *calls,
		      struct rsk_rendezvous_table_end *other);

/* The process, of that user, has ended. */
void rsk_syn_ends_gone(struct rsk_syn_ends *s, uint32_t process, uint32_t uid);
void rsk_syn_ends_fini(struct rsk_syn_ends *s);

#endif
