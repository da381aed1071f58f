/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nettab.h - the TCP sockets of a network namespace, from /proc/PID/net/tcp and tcp6 (proc(5)): those of any process
 * that can be looked at, which sock_diag, asked from here, cannot show of another namespace.
 */
#ifndef RSK_TOOLS_NETTAB_H
#define RSK_TOOLS_NETTAB_H

#include <rsock/tuple.h>
#include <sys/types.h>

/* A socket. tuple: canonical; of a listener the peer is all zero. inode 0: no process has it (any more, or yet). */
struct sock_row {
	struct rsk_tuple tuple;
	uint64_t inode;
	uid_t uid;
	uint8_t state; /* TCP_ESTABLISHED and so on */
};

/* Owned: nettab_free(). */
struct nettab {
	struct sock_row *row;	    /* in the order of tuples */
	struct sock_row **by_inode; /* those with an inode, in its order */
	size_t count;
	size_t inodes;
};

/* Of the namespace that process @pid is in; 0: this one. 0 or -errno (-ENOENT: gone, -EACCES, -ENOMEM). */
int nettab_read(pid_t pid, struct nettab *out);
void nettab_free(struct nettab *tab);

/* Puts rows in order, once all are there, so that they can be found. 0 or -ENOMEM. */
int nettab_settle(struct nettab *tab);

/* Borrowed; NULL: none. Of several with one tuple: one that a process has. */
const struct sock_row *nettab_socket(const struct nettab *tab, uint64_t inode);
const struct sock_row *nettab_find(const struct nettab *tab, const struct rsk_tuple *tuple);

/* One line of the files, which is taken apart. False: a heading, or nothing that can be read. */
bool nettab_parse(char *line, struct sock_row *out);

/* The order of tuples here: addresses and ports, not the namespace. */
int tuple_compare(const struct rsk_tuple *a, const struct rsk_tuple *b);

#endif /* RSK_TOOLS_NETTAB_H */
