/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owner.h - proves which process holds one end of a TCP connection on this host. Used by the
 * library when it pairs streams, and by rsockd.
 *
 * The kernel is asked twice: sock_diag(7) says which socket (inode, user, cookie, state) has a
 * 4-tuple in this network namespace; /proc/<pid>/fd/<n> says that a process holds that socket. Both
 * are true at the time of asking only.
 */
#ifndef RSK_MAPPER_OWNER_H
#define RSK_MAPPER_OWNER_H

#include <rsock/tuple.h>
#include <sys/types.h>

struct rsk_owner {
	uint64_t cookie; /* SO_COOKIE of that socket */
	uint32_t inode;	 /* 0: no process holds it any more */
	uid_t uid;
	uint8_t state;	       /* TCP_ESTABLISHED and so on */
	uint32_t rqueue_bytes; /* received, not read */
	uint32_t wqueue_bytes; /* written, not acknowledged */
};

/*
 * Finds the socket of this host that is the end named by *end (its local is that end's local).
 * v4-mapped IPv6 sockets are found under their IPv4 tuple. Listeners are not ends. Returns 0,
 * -ENOENT (no such socket here), -EOPNOTSUPP (the kernel does not answer, or the thread is in
 * another network namespace than end->netns says), -EMFILE, ... Opens and closes one netlink
 * socket; does not block; signal-safe.
 */
int rsk_owner_lookup(const struct rsk_tuple *end, struct rsk_owner *out);

/* Returns 0 if the process holds socket @inode as descriptor @fd, else -ESTALE. */
int rsk_owner_holds(pid_t pid, int fd, uint32_t inode);

/*
 * Checks that the mirror image of my own tuple is a socket of this host and belongs to user @uid.
 * Returns 0 with *out filled; -ENOENT (no such socket), -EPERM (another user's), -EOPNOTSUPP (no
 * sock_diag: not even my own end is found; stay on TCP), other -errno.
 */
int rsk_owner_is(const struct rsk_tuple *mine, uid_t uid, struct rsk_owner *out);

/*
 * The whole proof: rsk_owner_is(), and process @pid holds the socket as @fd. Otherwise -ESTALE,
 * also if /proc does not show it.
 */
int rsk_owner_verify(const struct rsk_tuple *mine, pid_t pid, int fd, uid_t uid,
		     struct rsk_owner *out);

#endif /* RSK_MAPPER_OWNER_H */
