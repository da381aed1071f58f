/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nettab.h - the TCP sockets of a network namespace, from /proc/PID/net/tcp and tcp6 (proc(5)).
 * This works for the namespace of every readable process, whereas sock_diag shows only the
 * caller's.
 */
#ifndef RSK_TOOLS_NETTAB_H
#define RSK_TOOLS_NETTAB_H

#include <rsock/tuple.h>
#include <sys/types.h>

/*
 * A socket. tuple: canonical; the peer of a listener is all zero. inode 0: no process has it,
 * because it is not accepted yet or already closed.
 */
struct sock_row {
	struct rsk_tuple tuple;
	uint64_t inode;
	uid_t uid;
	uint8_t state; /* TCP_ESTABLISHED and so on */
};

/* Owned: nettab_free(). */
struct nettab {
	struct sock_row *row;	    /* sorted by tuple */
	struct sock_row **by_inode; /* those with an inode, sorted by it */
	size_t count;
	size_t inodes;
};

/*
 * Reads the namespace of process @pid; 0: the tool's. 0 or -errno (-ENOENT: gone, -EACCES,
 * -ENOMEM).
 */
int nettab_read(pid_t pid, struct nettab *out);
void nettab_free(struct nettab *tab);

/* Sorts the rows for the two searches below, after all have been added. 0 or -ENOMEM. */
int nettab_settle(struct nettab *tab);

/* Borrowed; NULL: none. If several have the tuple, one that a process has is returned. */
const struct sock_row *nettab_socket(const struct nettab *tab, uint64_t inode);
const struct sock_row *nettab_find(const struct nettab *tab, const struct rsk_tuple *tuple);

/* Parses one line of the files; changes it. False: the heading, or not of the expected form. */
bool nettab_parse(char *line, struct sock_row *out);

/* The order of tuples in these tables: by addresses and ports; the namespace is ignored. */
int tuple_compare(const struct rsk_tuple *a, const struct rsk_tuple *b);

#endif /* RSK_TOOLS_NETTAB_H */
