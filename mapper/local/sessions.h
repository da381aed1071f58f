/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sessions.h - what processes of this host hold of the ledger: each a reservation for a stream of theirs, by the name
 * of its mapping (AssocHandle). Promised when a mapping was answered, used from the process's word on, until it says
 * that it is not any more, or ends. Who may say what of which connection is proven before it comes here. Every
 * operation takes the same time however many are held. No clock, no sockets. One thread.
 */
#ifndef RSK_SESSIONS_H
#define RSK_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_SESSIONS_MOST_OF_ONE 65536u	      /* of one process */
#define RSK_SESSIONS_PROMISED_NS 30000000000u /* then what nobody made use of is given back */

/* Owned by the table. */
struct rsk_session {
	uint64_t link;	  /* not 0 */
	uint32_t process; /* the caller's number of it, not 0 */
	bool used;
	uint64_t cookie;      /* of the stream's socket */
	uint64_t reservation; /* of the ledger */
	uint64_t until_ns;    /* a promised one */
};

struct rsk_sessions_slot;
struct rsk_sessions_of;

/* All zero but for the first two is an empty one. */
struct rsk_sessions {
	void (*release)(void *ctx, uint64_t reservation); /* what is dropped */
	void *ctx;
	struct rsk_sessions_slot *slots;    /* by process and link */
	struct rsk_sessions_of *of;	    /* by process */
	struct rsk_sessions_slot *promised; /* list, the oldest first */
	size_t n, n_promised;
};

/* Releases all. */
void rsk_sessions_fini(struct rsk_sessions *s);

/*
 * Takes over a reservation; @new says all but until when. 0; -EEXIST: the process has one of that link; -ENOSPC: it has
 * as many as it may; -ENOMEM. After an error it is the caller's still.
 */
int rsk_sessions_add(struct rsk_sessions *s, const struct rsk_session *new, uint64_t now_ns);

/* NULL: none. Good until the next call. */
const struct rsk_session *rsk_sessions_find(const struct rsk_sessions *s, uint32_t process,
					    uint64_t link);

/* Is used from now on, if it was promised. False: there is none. */
bool rsk_sessions_use(struct rsk_sessions *s, uint32_t process, uint64_t link);

/* False: there is none. */
bool rsk_sessions_drop(struct rsk_sessions *s, uint32_t process, uint64_t link);

/* How many of its promises it has not made use of yet. */
size_t rsk_sessions_promised(const struct rsk_sessions *s, uint32_t process);

/* The process has ended. */
void rsk_sessions_gone(struct rsk_sessions *s, uint32_t process);

/* Promises whose time is over are dropped; how many. */
size_t rsk_sessions_expire(struct rsk_sessions *s, uint64_t now_ns);

bool rsk_sessions_validate(const struct rsk_sessions *s);

#endif
