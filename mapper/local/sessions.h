/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sessions.h - the ledger reservations that processes of this host hold: each is for one of their
 * streams, identified by its mapping (AssocHandle). Used by rsockd, which proves which process may
 * say what about a connection before it calls.
 *
 * A reservation is promised when the mapping is answered, used from the process's LINK on, and
 * released at its UNLINK, or when the process is gone. add, find, use, drop, promised: O(1).
 * release() must not call back into this table. No clock (now_ns must not go back), no sockets. One
 * thread.
 */
#ifndef RSK_SESSIONS_H
#define RSK_SESSIONS_H

#include <rsock/qos.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_SESSIONS_MOST_OF_ONE 65536u /* of one process */
/* Promises that were not used by then are released */
#define RSK_SESSIONS_PROMISED_NS 30000000000u

/* Owned by the table. */
struct rsk_session {
	uint64_t handle;  /* AssocHandle of the mapping, not 0 */
	uint32_t process; /* the caller's number of it, not 0 */
	bool used;
	int32_t fd;	      /* number of the stream's socket in its process: a hint */
	uint64_t cookie;      /* of the stream's socket */
	uint64_t reservation; /* in the ledger */
	uint64_t until_ns;    /* for a promised one */
	uint8_t from_ip[16];  /* accepting end: where its link must come from; zeros: anywhere */
	struct rsk_qos qos;   /* as its process was told; DSCP 255: not known */
};

struct rsk_session_entry;
struct rsk_session_owner;

/* All zero initially, except the first two. */
struct rsk_sessions {
	void (*release)(void *ctx, uint64_t reservation); /* called for what is dropped */
	void *ctx;
	struct rsk_session_entry *entries;  /* by process and handle */
	struct rsk_session_owner *owners;   /* by process */
	struct rsk_session_entry *promised; /* list, oldest first */
	size_t n, n_promised;
};

/* Releases all reservations. */
void rsk_sessions_fini(struct rsk_sessions *s);

/*
 * Takes over a reservation; @new contains everything but until_ns. Returns 0; -EEXIST: the process
 * has one for that mapping; -EINVAL: a number is 0; -ENOSPC: it has the maximum; -ENOMEM. After an
 * error the caller still owns it.
 */
int rsk_sessions_add(struct rsk_sessions *s, const struct rsk_session *new, uint64_t now_ns);

/* NULL: none. Valid until the next call. */
const struct rsk_session *rsk_sessions_find(const struct rsk_sessions *s, uint32_t process,
					    uint64_t handle);

/* Marks a promised one as used. Returns false if there is none. */
bool rsk_sessions_use(struct rsk_sessions *s, uint32_t process, uint64_t handle);

/* Returns false if there is none. */
bool rsk_sessions_drop(struct rsk_sessions *s, uint32_t process, uint64_t handle);

/* Returns the number of its unused promises. */
size_t rsk_sessions_promised(const struct rsk_sessions *s, uint32_t process);

/* Records what its process was told. Returns false if there is none. */
bool rsk_sessions_set_qos(struct rsk_sessions *s, uint32_t process, uint64_t handle,
			  const struct rsk_qos *qos);

/* Calls @each for all, which may call rsk_sessions_set_qos() for that one, and nothing else. */
void rsk_sessions_each(const struct rsk_sessions *s,
		       void (*each)(void *ctx, const struct rsk_session *one), void *ctx);

/* The process has ended. */
void rsk_sessions_gone(struct rsk_sessions *s, uint32_t process);

/* Drops expired promises; returns how many. */
size_t rsk_sessions_expire(struct rsk_sessions *s, uint64_t now_ns);

bool rsk_sessions_validate(const struct rsk_sessions *s);

#endif
